"""The distribution of one outcome of a PyMC model, at draws of its variables and at new inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorType
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_active.information.outcome_divergences import OUTCOMES, Outcome
from pymc_active.models.pymc_model import data_value
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.support.tables import in_order_of, read_inputs

# Draws that test whether the distribution of a candidate depends on the other inputs.
_PROBES = 3
# A compiled function has a single workspace, and Dask calls it from several threads.
_ONE_CALL = Lock()

_MARGINAL = (
    "{name!r} is a multivariate normal, as in pm.gp.Marginal, so its outcomes are not independent given the "
    "parameters: use active.bald with pma.from_marginal and pma.fit, or with a builder such as pma.ard_gp"
)
_LATENT = (
    "{name!r} cannot be evaluated at new inputs, because {what} has one value per observation. Make such data "
    "pm.Data, and pass their values for the candidates as well (X_pool as a dict). For a GP use pm.gp.Marginal with "
    "active.bald, pma.probit_gp, or basis functions (pm.gp.HSGP)."
)


class Likelihood:
    """Parameters of the distribution of an observed variable, given values of the model's random variables.

    The model is not changed: its graph is cloned, with its ``pm.Data`` and random variables as inputs. Candidates
    replace the ``pm.Data`` named in ``replaced``, by default the only one with a row per observation, kept by name in
    ``inputs``; the distribution depends on the random variables named in ``variables``. Compiled without JIT, unless
    ``compile_kwargs`` say otherwise. Raises as :func:`pymc_active.active.bald_from_trace` does.
    """

    def __init__(
        self,
        model: pm.Model,
        observed: str | None = None,
        replaced: Collection[str] | None = None,
        compile_kwargs: dict | None = None,
    ):
        if not isinstance(model, pm.Model):
            raise TypeError(f"model must be the pm.Model that the draws came from; got {type(model).__name__}")
        variable = _observed_variable(model, observed)
        self.name = str(variable.name)
        self.outcome = _known_outcome(variable)
        if variable.type.ndim > 1:
            n = variable.type.ndim
            raise ValueError(f"{self.name!r} must have one outcome per observation, a vector; it has {n} dimensions")
        self._parameters = list(variable.owner.op.dist_params(variable.owner))
        above = set(ancestors(self._parameters, blockers=model.basic_RVs))
        self.coords = {dim: values for dim, values in model.coords.items() if values is not None}
        self._dims = {name: model.named_vars_to_dims.get(name, ()) for name in (data.name for data in model.data_vars)}
        self._rvs = [rv for rv in model.free_RVs if rv in above]
        self.variables = [str(rv.name) for rv in self._rvs]
        _check_random_variables(self.name, model, above)
        self._n = np.size(data_value(model.rvs_to_values[variable]))
        used = {data.name: data for data in model.data_vars if data in above}
        self._rows = {name: data for name, data in used.items() if np.shape(data_value(data))[:1] == (self._n,)}
        self.inputs = self._replaced(used, replaced)
        self._check_dims(model, variable)
        for name, data in self.inputs.items():
            if data.type.ndim not in (1, 2):
                raise ValueError(f"pm.Data {name!r} must be a vector or a matrix; it has {data.type.ndim} dimensions")
        self._function = self._compile(compile_kwargs or {"mode": vm_mode()})

    def read_candidates(self, X_pool: Any) -> dict[str, np.ndarray]:
        """Arrays by the names of :attr:`inputs`, all of the same length."""
        if isinstance(X_pool, Mapping):
            tables = {name: self._read(X_pool[name], f"X_pool[{name!r}]", name) for name in self.inputs}
        else:
            [name] = self.inputs
            tables = {name: self._read(X_pool, "X_pool", name)}
        lengths = {name: len(table) for name, table in tables.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the arrays of X_pool must have one row per candidate; got lengths {lengths}")
        return tables

    def _read(self, X: Any, what: str, name: str) -> np.ndarray:
        """Candidates in the order of the coordinates of a ``pm.Data``, if it has some, and in its shape and type."""
        dims = self._dims[name]
        if len(dims) == 2 and dims[1] in self.coords:
            X = in_order_of(self.coords[dims[1]], X, what)
        return _read(X, what, self.inputs[name])

    def parameters(self, draws: dict[str, np.ndarray], tables: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Parameters of the outcome, finite and valid, (S, m) each, at S draws of the variables and m candidates."""
        S, m = len(next(iter(draws.values()))), len(next(iter(tables.values())))
        try:
            values = self._evaluate(draws, tables)
        except IndexError as error:
            raise ValueError(f"a candidate has an index outside the range of the model's data: {error}") from error
        wide = [np.broadcast_to(value, (S, m)).astype(float) for value in values]
        with np.errstate(invalid="ignore"):
            good = self.outcome.is_valid(*wide) & np.isfinite(wide).all(0)
        if not good.all():
            s, row = np.argwhere(~good)[0]
            found = ", ".join(f"{n}={v[s, row]:.6g}" for n, v in zip(self.outcome.parameters, wide, strict=True))
            expected = f"{self.name!r}, a {self.outcome.name}, needs finite parameters with {self.outcome.requirement}"
            raise ValueError(f"{expected}; at candidate {row} a draw has {found}. Leave out such candidates.")
        return wide

    def check_rows(self, draws: dict[str, np.ndarray]) -> None:
        """Refuse models that are only defined at the observations, or whose inputs depend on each other."""
        if not self._n:
            return
        first = {name: values[:_PROBES] for name, values in draws.items()}
        n_draws = len(next(iter(first.values())))
        current = {name: data_value(data) for name, data in self.inputs.items()}
        more = {name: value[np.arange(self._n + 1) % len(value)] for name, value in current.items()}
        try:
            longer = [np.broadcast_to(value, (n_draws, self._n + 1)) for value in self._evaluate(first, more)]
        except (ValueError, TypeError, IndexError) as error:
            others = [name for name in self._rows if name not in self.inputs]
            latent = [name for name, values in first.items() if self._n in values.shape[1:]]
            what = ", ".join([*others, *latent]) or "something in its graph"
            raise ValueError(_LATENT.format(name=self.name, what=what)) from error
        for parameter, a, b in zip(self.outcome.parameters, self._evaluate(first, current), longer, strict=True):
            if not np.allclose(a, b[:, :-1], rtol=1e-8, atol=1e-12, equal_nan=True):
                problem = f"the {parameter} of {self.name!r} at one input changes with the other inputs"
                reason = "perhaps because the model centres or scales X by its own values; use fixed numbers"
                raise ValueError(f"{problem}, {reason}")

    def _replaced(self, used: dict[str, SharedVariable], names: Collection[str] | None) -> dict[str, SharedVariable]:
        if not used:
            advice = "use X = pm.Data('X', X) in the model, so that candidates can replace it"
            raise ValueError(f"the distribution of {self.name!r} does not depend on any pm.Data: {advice}")
        if names is not None:
            unknown = sorted(set(names) - set(used))
            if unknown or not names:
                found = ", ".join(unknown) or "none"
                raise ValueError(f"{self.name!r} depends on the pm.Data {', '.join(sorted(used))}; got {found}")
            return {name: used[name] for name in sorted(names)}
        if len(self._rows) == 1:
            return self._rows
        if not self._rows:
            problem = f"no pm.Data of {self.name!r} ({', '.join(sorted(used))}) has a row per observation ({self._n})"
            raise ValueError(f"{problem}; name the one that candidates replace: data=...")
        several = f"several pm.Data with one row per observation, {', '.join(sorted(self._rows))}"
        raise ValueError(f"{self.name!r} depends on {several}. Pass X_pool as a dict with an array for each.")

    def _check_dims(self, model: pm.Model, variable: TensorVariable) -> None:
        """Refuse random variables along the dims of the observations."""
        row_dims = [model.named_vars_to_dims.get(name) or (None,) for name in [*self.inputs, variable.name]]
        dims = {names[0] for names in row_dims} - {None}
        latent = [name for name in self.variables if dims & set(model.named_vars_to_dims.get(name) or ())]
        if latent:
            raise ValueError(_LATENT.format(name=self.name, what=", ".join(latent)))

    def _compile(self, keywords: dict[str, Any]) -> Any:
        tables = {data: data.type(name) for name, data in self.inputs.items()}
        single = {rv: rv.type(rv.name) for rv in self._rvs}
        graph = clone_replace(self._parameters, {**tables, **single}, rebuild_strict=False)
        # One draw per row. PyTensor calls operations that it cannot vectorise draw by draw.
        batches = {x: TensorType(x.type.dtype, shape=(None, *x.type.shape))(x.name) for x in single.values()}
        keywords = {"on_unused_input": "ignore"} | keywords
        return pytensor.function([*tables.values(), *batches.values()], vectorize_graph(graph, batches), **keywords)

    def _evaluate(self, draws: dict[str, np.ndarray], tables: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Parameters, each (S, m) or of a shape that broadcasts to it."""
        X = [tables[name] for name in self.inputs]
        values = [draws[name].astype(rv.type.dtype) for name, rv in zip(self.variables, self._rvs, strict=True)]
        with _ONE_CALL, np.errstate(all="ignore"):
            return [
                found[:, None] if parameter.type.ndim == 0 and np.ndim(found) == 1 else np.asarray(found)
                for found, parameter in zip(self._function(*X, *values), self._parameters, strict=True)
            ]


def _observed_variable(model: pm.Model, name: str | None) -> TensorVariable:
    observed = {variable.name: variable for variable in model.observed_RVs}
    if not observed:
        raise ValueError("the model has no observed variable: pass observed=... to its likelihood")
    if name is None and len(observed) > 1:
        raise ValueError(f"the model observes {', '.join(sorted(observed))}; name the one to measure: observed=...")
    name = next(iter(observed)) if name is None else name
    if name not in observed:
        raise ValueError(f"observed must be one of {', '.join(sorted(observed))}; got {name!r}")
    return observed[name]


# What can be measured all the same, by the name of the distribution.
_INSTEAD = {
    "LogNormal": ": model the logarithm of the outcome as Normal",
    "AR": ": make the values before it a pm.Data, and the outcome a Normal",
    "Categorical": " (OrderedLogistic and OrderedProbit are such): ask for one of its events, as Bernoulli",
    "Mixture": " (zero-inflated outcomes are such): ask for one of its events, as Bernoulli",
}


def _known_outcome(variable: TensorVariable) -> Outcome:
    op = variable.owner.op
    if isinstance(op, MvNormalRV):
        raise TypeError(_MARGINAL.format(name=variable.name))
    outcome = OUTCOMES.get(type(op).__name__)
    if outcome is None or not isinstance(op, RandomVariable):
        known = ", ".join(sorted(outcome.name for outcome in OUTCOMES.values()))
        kind = (getattr(op, "_print_name", None) or [type(op).__name__.removesuffix("RV")])[0]
        raise TypeError(
            f"the distribution of an outcome must be one of {known}; {variable.name!r} is of type {kind}"
            + _INSTEAD.get(kind, "")
        )
    return outcome


def _check_random_variables(name: str, model: pm.Model, above: set) -> None:
    if not any(rv in above for rv in model.free_RVs):
        raise ValueError(f"the distribution of {name!r} depends on no free variable, so there is nothing to learn")
    others = [rv.name for rv in model.observed_RVs if rv in above]
    if others:
        raise ValueError(f"{name!r} depends on observed variables, unknown at candidates: {', '.join(others)}")
    known = set(model.basic_RVs)
    unnamed = [v for v in above - known if v.owner is not None and isinstance(v.owner.op, RandomVariable)]
    if unnamed:
        found = ", ".join(sorted(map(str, unnamed)))
        raise ValueError(f"{name!r} depends on random variables that are not named, thus not in the trace: {found}")


def _read(X: Any, what: str, data: SharedVariable) -> np.ndarray:
    """Candidates in the shape and type of a ``pm.Data``."""
    shape, dtype = np.shape(data_value(data)), np.dtype(data.type.dtype)
    if len(shape) == 1 and np.ndim(X) == 1:
        X = X.to_frame() if isinstance(X, pd.Series) else np.asanyarray(X)[:, None]
    values = read_inputs(X, what, width=1 if len(shape) == 1 else shape[1])
    cast = values.astype(dtype)
    if dtype.kind in "biu" and not (cast == values).all():
        raise ValueError(f"{what} replaces {data.name!r}, whose type is {dtype}, so it must hold whole numbers")
    return cast[:, 0] if len(shape) == 1 else cast
