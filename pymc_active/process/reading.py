"""Read a user's ``pm.Model``: a copy that observes an outcome, and the data that hold its inputs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pymc as pm
from pymc.model.fgraph import clone_model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_active.models.pymc_model import data_value


class Table(NamedTuple):
    """A ``pm.Data`` of inputs: its name, dtype, columns of X, and number of dimensions."""

    name: str
    dtype: np.dtype
    columns: tuple[int, ...]
    ndim: int


def observing(model: pm.Model, name: str | None) -> tuple[pm.Model, str]:
    """A copy of a model that observes an outcome, and the outcome's name."""
    observed, free = ([rv.name for rv in rvs] for rvs in (model.observed_RVs, model.free_RVs))
    if name is None:
        if not observed:
            raise ValueError(
                "the model observes nothing: pass the name of the variable that will be measured, observed=..."
            )
        name = observed[0]
    name = f"{name}_observed" if f"{name}_observed" in observed else name
    if name not in (*observed, *free):
        choices = ", ".join([*observed, *free])
        raise ValueError(f"observed must be a random variable of the model, one of {choices}; got {name!r}")
    # Starting values of the user's, and dimensions without a name, would keep PyMC from copying.
    light = object.__new__(pm.Model)
    light.__dict__.update(vars(model))
    light.rvs_to_initial_values = dict.fromkeys(model.rvs_to_initial_values)
    light.named_vars_to_dims = {
        owner: tuple(dim or f"{owner}_dim_{k}" for k, dim in enumerate(dims))
        for owner, dims in model.named_vars_to_dims.items()
    }
    light._coords = dict.fromkeys(chain(*light.named_vars_to_dims.values())) | model._coords
    with warnings.catch_warnings():
        # Nobody goes on with the GP objects of the copy.
        warnings.filterwarnings("ignore", "Detected variables likely created by GP objects", UserWarning)
        if name in observed:
            made = clone_model(light)
        else:
            if below := [str(v) for v in (*model.observed_RVs, *model.potentials) if model[name] in ancestors([v])]:
                raise ValueError(
                    f"{', '.join(below)} depends on {name!r}, which is not observed: leave one of them out"
                )
            # Placeholders: the run starts without outcomes.
            shape = tuple(int(size) for size in model[name].shape.eval())
            made = pm.observe(light, {name: np.zeros(shape, dtype=model[name].dtype)})
    # A copy has its variables in another order.
    order = {variable.name: k for k, variable in enumerate([*model.free_RVs, *model.deterministics])}
    for variables in (made.free_RVs, made.deterministics):
        variables.sort(key=lambda variable: order[variable.name])
    initial = {rv.name: value for rv, value in model.rvs_to_initial_values.items() if not isinstance(value, Variable)}
    made.rvs_to_initial_values.update({rv: initial.get(rv.name) for rv in made.free_RVs})
    return made, name


def rows_of_data(model: pm.Model, outcome: TensorVariable, data_names: Sequence[str], n: int) -> list[SharedVariable]:
    """The ``pm.Data`` that the outcome depends on, with a row for each observation, in the model's order."""
    others = [rv for rv in model.basic_RVs if rv is not outcome]
    above = set(ancestors(outcome.owner.inputs, blockers=others))
    # The observed values give the outcome its shape.
    above -= set(ancestors([model.rvs_to_values[outcome]]))
    dims = model.named_vars_to_dims
    first = {name: own[0] for name, own in dims.items() if own and own[0] != f"{name}_dim_0"}
    own = first.get(outcome.name)
    levels = {dim for rv in model.free_RVs for dim in dims.get(rv.name) or ()} - {own}

    def is_of_levels(name: str) -> bool:
        """Whether a pm.Data has a value for each level of a variable, such as a group."""
        return name in first and (first[name] in levels or (own is not None and first[name] != own))

    held = [model[name] for name in data_names if not is_of_levels(name)]
    among = [data for data in held if data in above and isinstance(data, SharedVariable)]
    return [data for data in among if data.type.ndim in (1, 2) and len(data_value(data)) == n]


def tables_of(model: pm.Model, shared: Sequence[SharedVariable]) -> tuple[list[Table], list]:
    """The inputs of a model, and the names of the columns of X."""
    tables: list[Table] = []
    names: list = []
    for data in shared:
        values, name = data_value(data), str(data.name)
        width = 1 if values.ndim == 1 else values.shape[1]
        own: list = [name]
        if values.ndim == 2:
            dims = model.named_vars_to_dims.get(name) or (None, None)
            coords = model.coords.get(dims[1])
            own = [f"{name}[{k}]" for k in range(width)] if coords is None else [str(one) for one in coords]
        tables.append(Table(name, values.dtype, tuple(range(len(names), len(names) + width)), values.ndim))
        names += own
    if len(set(names)) < len(names):
        raise ValueError(f"the columns of the model's pm.Data must have different names; they are {names}")
    return tables, names
