"""A PyMC model with a marginal GP as a GPModel."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, override

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_active.models.free_variables import FreeVariables, function
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.graph import GPGraphs, GraphPosterior, check_levels, in_rows, levels_of
from pymc_active.posterior.recognised import by_arrays
from pymc_active.support.data import Data
from pymc_active.support.scaling import fit_scale


def data_value(variable: Any) -> np.ndarray:
    """Value of a model's data: an array, a shared variable, a constant, or an expression of these. Not writeable."""
    if isinstance(variable, SharedVariable | np.ndarray):
        values = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable
        # X may be large: a view, read-only because it is the model's own memory.
        view = np.asarray(values).view()
        view.flags.writeable = False
        return view
    if isinstance(variable, Constant):
        return variable.data
    return variable.eval(mode=vm_mode()) if hasattr(variable, "eval") else np.asarray(variable)


def wrong_mean(reason: str) -> ValueError:
    """The error for a mean function that is none of X."""
    return ValueError(
        "the mean function must return a vector with a value for each row of any X, also of new ones, such as "
        f"self.a + self.b * X[:, 0]; got {reason}"
    )


class PyMCModel(FreeVariables, GPModel):
    """A PyMC model, its GP, its likelihood's name, its data (shared if replaceable), and the name of an embedding R."""

    embedding: str | None = None

    def __init__(
        self, model: pm.Model, gp: pm.gp.Marginal, name: str, X_data: Any, y_data: Any, inputs: list,
        embedding: str | None = None, y_sd_data: Any = None,
    ):  # fmt: skip
        self._model, self._gp, self.name, self.inputs, self.embedding = model, gp, name, inputs, embedding
        self.X_data, self.y_data, self.y_sd_data = X_data, y_data, y_sd_data
        X, y, _ = self.data
        self.x_map, self.y_map = fit_scale(None, X, "x_scale"), fit_scale(None, y, "y_scale")
        self._posteriors: dict[Any, GraphPosterior] = {}
        self.levels = levels_of(gp.cov_func, getattr(gp, "sigma", None))
        check_levels(X, self.levels)

    def __deepcopy__(self, memo):
        # PyMC's own copies keep the shared variables of the original.
        return cloudpickle.loads(cloudpickle.dumps(self))

    @property
    def model(self):
        return self._model

    @property
    def gp(self):
        return self._gp

    @property
    def description(self):
        return self.name

    def make(self):
        return self

    @property
    def data(self):
        held = [self.X_data, self.y_data, *([] if self.y_sd_data is None else [self.y_sd_data])]
        return Data(*(np.asarray(data_value(variable), float) for variable in held))

    def check_replaceable(self):
        for what, variable in (("X", self.X_data), ("y", self.y_data)):
            if not isinstance(variable, SharedVariable):
                has_data = any(isinstance(root, SharedVariable) for root in ancestors([pt.as_tensor(variable)]))
                state = "computed from other data" if has_data else "a constant"
                raise ValueError(
                    "a Learner and set_data replace the data of a model, so they need X and y as pm.Data inside it, "
                    f"such as X = pm.Data('X', X); {what} is {state} here. Fits, predictions and criteria work without."
                )
        data = {self.X_data, self.y_data}
        for other in self.model.observed_RVs:
            own = set(ancestors([self.model.rvs_to_values[other]]))
            if other.name != self.name and data & set(ancestors([other])) and not data & own:
                raise ValueError(
                    f"X or y cannot be replaced, because {other.name} uses the same pm.Data, and its own observations "
                    "would no longer have as many rows. Give each likelihood a pm.Data of its own, e.g. "
                    f"X_{self.name} = pm.Data('X_{self.name}', X). Fits and predictions work as it is."
                )

    def _set_data(self, X, y, y_sd):
        self.check_replaceable()
        check_levels(X, self.levels)
        if y_sd is not None and self.y_sd_data is None:
            raise ValueError("this PyMC model has no place for y_sd: pass it to a builder, or take pma.cov.ErrorBars")
        stored, coords = {}, {}
        new = [(self.X_data, X), (self.y_data, y), (self.y_sd_data, Data(X, y, y_sd).errors)]
        for variable, array in new[: 2 if self.y_sd_data is None else 3]:
            name, values = variable.name, array.astype(variable.type.dtype)
            if values.dtype.kind in "iu" and not np.array_equal(values, array):
                raise ValueError(f"{name} is stored as whole numbers ({values.dtype}): write values.astype(float)")
            stored[name] = values
            dim = (self.model.named_vars_to_dims.get(name) or (None,))[0]
            if dim is not None and self.model.coords.get(dim) is not None:
                coords[dim] = np.arange(len(y))
        pm.set_data(stored, model=self.model, coords=coords or None)

    def constrain(self, thetas):
        names = [variable.name for variable in self._unobserved]
        return dict(zip(names, map(np.asarray, self._constrain(thetas)), strict=True))

    @cached_property
    @override
    def free_variables(self):
        """Without what the data do not depend on, but other variables tell, as predictions by ``gp.conditional``."""
        model = self.model
        told = set(ancestors([*model.observed_RVs, *model.potentials]))
        free = set(model.free_RVs)
        predicted = {rv for rv in free - told if free & set(ancestors(rv.owner.inputs))}
        return [rv for rv in model.free_RVs if rv.name not in self.integrated and rv not in predicted]

    @cached_property
    def _unobserved(self) -> list:
        """Parameters and Deterministics of these."""
        others = set(self.model.free_RVs) - set(self.free_variables)
        return [variable for variable in self.model.unobserved_RVs if not others & set(ancestors([variable]))]

    @cached_property
    def _constrain(self) -> Callable:
        values = self.model.replace_rvs_by_values(self._unobserved)
        point = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        outputs, theta = join_nonshared_inputs(point=point, outputs=values, inputs=self.value_variables)
        thetas = pt.matrix("thetas", shape=(None, sum(map(math.prod, self.shapes.values()))))
        vectorized = in_rows(outputs, {theta: thetas})
        return function([thetas], vectorized)

    def value_of(self, expression: Any) -> np.ndarray:
        """The value of an expression of the model's variables where their unconstrained values are random."""
        [value] = self.model.replace_rvs_by_values([pt.as_tensor_variable(expression)])
        rng = np.random.default_rng(0)
        point = {v: rng.normal(size=self.shapes[v.name]).astype(v.type.dtype) for v in self.value_variables}
        return np.asarray(value.eval(point, mode=vm_mode(), on_unused_input="ignore"))

    def shape_at_new_rows(self, function: Callable) -> tuple[tuple[int, ...] | None, Exception | None]:
        """Shape of a function of X at one row more than the data; or None, and why it cannot be evaluated there."""
        X = self.data[0]
        try:
            return self.value_of(function(pt.as_tensor_variable(X[np.arange(len(X) + 1) % len(X)]))).shape, None
        except Exception as error:  # PyTensor raises many kinds for a shape it cannot fit
            return None, error

    def check_mean(self) -> None:
        """Refuse a mean function that has no value for each row of any X."""
        n, (shape, cause) = len(self.data.y), self.shape_at_new_rows(self.gp.mean_func)
        if shape not in ((), (n + 1,)):
            raise wrong_mean(
                "none" if shape is None else f"shape {shape} for {n + 1} rows, with data of {n}"
            ) from cause

    def posterior(self, compile_kwargs=None):
        # repr only where needed: that of a Mode changes as it is used.
        key = frozenset((k, v if isinstance(v, Hashable) else repr(v)) for k, v in (compile_kwargs or {}).items())
        if key in self._posteriors:
            return self._posteriors[key].with_data(*self.data)
        variables = (self.X_data, self.y_data, self.y_sd_data)
        holders = [v if isinstance(v, SharedVariable) else None for v in variables]
        self._posteriors[key] = self._posterior(holders, compile_kwargs)
        return self._posteriors[key]

    def _posterior(self, holders: list, compile_kwargs: dict | None) -> GraphPosterior:
        graphs = GPGraphs(self.model, self.gp, self.name, self.shapes)
        X, y, y_sd = self.data
        posterior = GraphPosterior(X, y, y_sd, graphs, holders, compile_kwargs)
        # Who says how to compile wants the graphs.
        return by_arrays(posterior) if compile_kwargs is None else posterior
