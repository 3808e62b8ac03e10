"""Any PyMC model with observed data: what may be measured next, and its posterior given data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, override

import numpy as np
import pandas as pd
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_active.models.free_variables import FreeVariables, is_drawn
from pymc_active.models.model import Model
from pymc_active.models.pymc_model import data_value
from pymc_active.process.checks import check_levels, check_replaceable, check_rows
from pymc_active.process.graphs import ModelGraphs
from pymc_active.process.reading import observing, rows_of_data, tables_of
from pymc_active.process.target import AnnealedModel
from pymc_active.support.arguments import kind_of
from pymc_active.support.data import Data
from pymc_active.support.summaries import Summary
from pymc_active.support.tables import in_order_of, read_inputs, read_outputs

# Particles by default.
_PARTICLES = 512
# Draws from the prior under which an outcome must be possible.
_PRIOR = 200


class Process(FreeVariables, Model):
    """A ``pm.Model`` whose outcome is to be measured at new values of its ``pm.Data``.

    The model is a copy, so that nothing of the user's is changed. X (n, D) has a column for each vector, and for each
    column of a matrix, among the ``pm.Data`` that hold a value for each observation of the outcome. Its ``inputs`` are
    called as the vectors, and as the coordinates of the columns or else ``name[k]``. The outcome is ``observed``, by
    default the first; other observed variables keep the values they have.
    """

    if_behind = "compare pm.sample_prior_predictive with the data and mend the priors, or pass method='nuts'"
    if_stuck = "the posterior is hard to explore: write the model non-centred, or pass method='nuts'"

    def __init__(self, model: pm.Model, observed: str | None = None, *, data_names: Sequence[str] | None = None):
        if not isinstance(model, pm.Model):
            raise TypeError(f"expected a pm.Model; got {kind_of(model)}")
        if model.parent is not None:
            model = model.root
        self._model, self.name = observing(model, observed)
        self.possible_outcomes = [] if observed else [rv.name for rv in model.observed_RVs]
        # Of a copy they have another order.
        self._data_names = [data.name for data in model.data_vars] if data_names is None else list(data_names)
        if discrete := [rv.name for rv in self._model.free_RVs if np.dtype(rv.dtype).kind in "biu"]:
            raise ValueError(
                f"{', '.join(discrete)}: a free variable must be continuous. Sum over its values (marginalise it), as "
                "pm.Mixture and pm.ZeroInflatedPoisson do"
            )
        self.outcome: TensorVariable = self._model[self.name]
        if not hasattr(self.outcome.owner.op, "ndim_supp"):
            raise ValueError(f"{self.name!r} is a {self.distribution}, of a part of the data: leave out total_size=")
        if not self._model.free_RVs:
            raise ValueError("the model has no free variables, so there is nothing to learn")
        y = np.atleast_1d(data_value(self._model.rvs_to_values[self.outcome]))
        shared = rows_of_data(self._model, self.outcome, self._data_names, len(y))
        self.first_rows = np.empty((0, 0))
        self.tables, self.inputs = tables_of(self._model, shared)
        self.graphs = ModelGraphs(self._model, self.outcome, shared, self.shapes)
        X = [np.atleast_2d(np.asarray(data_value(one), float).T).T for one in shared]
        self._data = Data(np.concatenate([np.empty((len(y), 0)), *X], axis=1), y)
        # The rows that the model was written with; an outcome that is not observed yet has only these.
        self.first_rows = self._data.X
        if observed is not None and observed in {rv.name for rv in model.free_RVs}:
            self._data = self._data.rows(slice(0))

    def __reduce__(self):
        # What is compiled is compiled again.
        return _made_again, (self._model, self.name, self._data_names, self.inputs, self.first_rows, self._data)

    def __deepcopy__(self, memo: Any) -> Process:
        # Everything compiled is shared, and nothing changes it.
        return copy(self)

    @property
    @override
    def model(self):
        return self._model

    @property
    @override
    def description(self):
        return f"pm.Model of {self.name}"

    def _summary(self):
        sizes = {name: " × ".join(map(str, shape)) for name, shape in self.shapes.items()}
        facts = {
            "outcome": f"{self.name}, {self.distribution}",
            "data": f"{len(self.y)} points, {len(self.inputs)} input(s): {', '.join(map(str, self.inputs))}",
            "free parameters": ", ".join(f"{name} ({size})" if size else name for name, size in sizes.items()),
        }
        return Summary("Process", facts)

    @property
    def distribution(self) -> str:
        """The kind of the outcome's distribution."""
        op = self.outcome.owner.op
        return (getattr(op, "_print_name", None) or [type(op).__name__.removesuffix("RV")])[0]

    @property
    def is_whole(self) -> bool:
        """Whether outcomes are whole numbers."""
        return np.dtype(self.outcome.type.dtype).kind in "biu"

    @property
    @override
    def data(self):
        return self._data

    def set_data(self, X: Any, y: Any, y_sd: Any = None) -> None:
        """Replace the data by X (n, D) and outcomes y (n,). Nothing is recompiled."""
        points = read_inputs(X, inputs=self.inputs) if len(np.asarray(y)) else np.empty((0, len(self.inputs)))
        self._set_data(points, read_outputs(y, len(points), X) if len(points) else np.empty(0), y_sd)

    def _set_data(self, X, y, y_sd):
        if y_sd is not None and np.any(y_sd):
            raise ValueError("error bars are for GP models: make them a pm.Data of the model, and a column of x")
        check_levels(self, X)
        if self.is_whole and not np.array_equal(y, np.round(y)):
            raise ValueError(f"{self.name!r} is a whole number; got {y[y != np.round(y)][0]:g}")
        if (impossible := self.impossible(Data(X, y))).size:
            k = impossible[0]
            at = ", ".join(f"{name} = {value:g}" for name, value in zip(self.inputs, X[k], strict=True))
            raise ValueError(
                f"{self.name!r} = {y[k]:g} at {at} is impossible under the model, whatever its parameters: correct the "
                "value, or tell NaN for an experiment that failed"
            )
        self._data = Data(X, y)

    def impossible(self, data: Data) -> np.ndarray:
        """Rows of data that have no density under any draw from the prior; none where the prior has no draws."""
        if self.improper or not len(data.y) or self.outcome.type.ndim != 1 or self.outcome.owner.op.ndim_supp:
            return np.empty(0, int)
        log = self.log_densities(self._prior_draws, data.y[None, None], data.X)[0]
        return np.flatnonzero(~np.isfinite(log).any(0))

    @cached_property
    def _prior_draws(self) -> np.ndarray:
        z = self.unconstrain(self.draw_prior(_PRIOR, 0))
        return z[np.isfinite(z).all(1)]

    def read_tables(self, X: np.ndarray) -> list[np.ndarray]:
        """The values of each ``pm.Data`` of inputs at points X (m, D)."""
        tables = [] if self.tables else [np.zeros(len(X))]
        for name, dtype, columns, ndim in self.tables:
            values = X[:, columns].astype(dtype)
            if dtype.kind in "biu" and not np.array_equal(values, X[:, columns]):
                raise ValueError(
                    f"pm.Data {name!r} holds {dtype} numbers, so new values must be whole: if they need not be, write "
                    f"pm.Data({name!r}, values.astype(float)) in the model"
                )
            lowest = self.first_rows[:, columns].min(initial=0) if len(self.first_rows) else -np.inf
            if dtype.kind in "biu" and values.min(initial=0) < lowest:
                raise ValueError(f"{name} = {values.min()} is negative, unlike the whole numbers of the model")
            tables.append(values[:, 0] if ndim == 1 else values)
        return tables

    def spanning(self, inputs: list, X: np.ndarray) -> Process:
        """The same model with more inputs, which tell it nothing; X (n, D) are the rows that it was written with."""
        other = copy(self)
        where = {name: k for k, name in enumerate(inputs)}
        other.tables = [t._replace(columns=tuple(where[self.inputs[k]] for k in t.columns)) for t in self.tables]
        other.inputs, other.first_rows, other._data = inputs, X, Data(X[: len(self.y)], self.y)
        return other

    def read_pool(self, pool: Any) -> Any:
        """Candidates as an array (m, D) or a data frame, from these, a vector, or a dict by name of ``pm.Data``.

        A single number in a dict is of all rows.
        """
        if isinstance(pool, Mapping):
            columns = dict(part for key, values in pool.items() for part in self._columns(key, values))
            n = max((len(values) for values in columns.values() if np.ndim(values)), default=1)
            pool = pd.DataFrame({name: v if np.ndim(v) else [v] * n for name, v in columns.items()})
        elif isinstance(pool, pd.Series):
            pool = pool.to_frame()
        elif np.ndim(pool) == 1 and len(self.inputs) == 1:
            pool = np.asanyarray(pool)[:, None]
        return pool

    def _columns(self, name: Any, values: Any) -> list[tuple[Any, Any]]:
        matches = [table for table in self.tables if table.name == name and table.ndim == 2]
        if not matches or np.ndim(values) < 2:
            return [(name, values)]
        names = [self.inputs[column] for column in matches[0].columns]
        matrix = np.asarray(in_order_of(names, values, str(name)))
        if matrix.shape[1] != len(names):
            raise ValueError(f"{name} must have {len(names)} columns; got {matrix.shape[1]}")
        return list(zip(names, matrix.T, strict=True))

    @override
    def recipe(self):
        raise ValueError("it is your own")

    @override
    def check_replaceable(self):
        check_replaceable(self)

    def check_rows(self, X: np.ndarray) -> None:
        """Refuse outcomes that have no distribution at new rows, or one that depends on other rows; X (m, D)."""
        check_rows(self, X)

    @property
    def needed(self) -> list[str]:
        """The free variables that the outcome depends on, given these."""
        above = set(ancestors(self.outcome.owner.inputs, blockers=self._model.free_RVs))
        return [rv.name for rv in self._model.free_RVs if rv in above]

    @property
    def improper(self) -> list[str]:
        """Free variables whose prior cannot be drawn from."""
        return [rv.name for rv in self._model.free_RVs if not is_drawn(rv)]

    @property
    @override
    def of_rows(self):
        inputs = set(self.graphs.shared)
        return frozenset(d.name for d in self._model.deterministics if inputs & set(ancestors([d])))

    @cached_property
    def _of_first_rows(self) -> set[str]:
        """Deterministics of the outcomes that the model was written with, such as residuals."""
        n, inputs = len(self.first_rows), set(self.graphs.shared)

        def is_fixed(v: Any) -> bool:
            return isinstance(v, Constant | SharedVariable) and v not in inputs and n in np.shape(data_value(v))

        return {d.name for d in self._model.deterministics if any(map(is_fixed, ancestors([d])))} & self.of_rows

    @override
    def constrain(self, thetas, tables=None):
        tables = self.read_tables(self._data.X) if tables is None else tables
        left_out = self._of_first_rows if tables and len(tables[0]) != len(self.first_rows) else ()
        names = tuple(v.name for v in self._model.unobserved_RVs if v.name not in left_out)
        return dict(zip(names, map(np.asarray, self.graphs.constrain(names)(thetas, *tables)), strict=True))

    @override
    def posterior(self, compile_kwargs=None):
        return AnnealedModel(self.graphs, self._data, self.read_tables(self._data.X), self.read_tables)

    @override
    def n_particles(self, n):
        return _PARTICLES

    @property
    def whole_inputs(self) -> list:
        """Inputs that are whole numbers, such as the index of a group."""
        return [self.inputs[k] for table in self.tables if table.dtype.kind in "biu" for k in table.columns]

    def check_targets(self, names: Sequence[str]) -> None:
        """Raise a ValueError unless all names are variables of the model without a value for each observation."""
        there = [v.name for v in self._model.unobserved_RVs if v.name not in self.of_rows]
        if rows := self.of_rows & set(names):
            raise ValueError(
                f"targets must not have a value for each observation, as {', '.join(sorted(rows))}: for predictions at "
                "rows use the goal 'function' with X_target="
            )
        if not names or not set(names) <= set(there):
            raise ValueError(f"targets must name variables of the model, some of {', '.join(there)}; got {list(names)}")

    @property
    def has_mean(self) -> bool:
        """Whether the outcome has an expected value, unlike a category or a Cauchy variable."""
        return self.graphs.has_mean

    def check_mean(self) -> None:
        """Refuse outcomes without an expected value."""
        if not self.has_mean:
            raise ValueError(f"{self.name!r} is {self.distribution}, which has no expected value to maximise")

    def draw(self, Z: np.ndarray, X: np.ndarray, is_common: bool = True) -> np.ndarray:
        """An outcome (S, m) of each particle Z (S, P) at each row of X (m, D); the same at every call.

        By default with common random numbers at all rows, so that it is a smooth function of the row where it can be.
        """
        with np.errstate(all="ignore"):
            return np.asarray(self.graphs.draws(Z, *self.read_tables(X), is_common=is_common), float)

    def log_densities(self, Z: np.ndarray, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Log densities (K, S, m) of outcomes Y (K, 1, m) under each particle Z (S, P) at each row of X (m, D)."""
        Y = self.graphs.as_outcome(np.asarray(Y))
        with np.errstate(all="ignore"):
            densities = self.graphs.rows(Z, Y, *self.read_tables(X))
        if densities.ndim == 3:
            return np.broadcast_to(densities, (len(Y), len(Z), len(X)))
        # Observations that depend on each other have one density together, those of several numbers a sum.
        return densities[..., None] if densities.ndim < 3 else densities.reshape(*densities.shape[:3], -1).sum(3)


def _made_again(
    model: pm.Model, name: str, data_names: Sequence[str], inputs: list, first_rows: np.ndarray, data: Data
) -> Process:
    process = Process(model, name, data_names=data_names)
    if process.inputs != inputs:
        process = process.spanning(inputs, first_rows)
    process._data = data
    return process
