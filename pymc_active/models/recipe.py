"""How a builder was called, as JSON, and back: everything that makes a model again except its data."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold

from pymc_active.spaces.space import Space
from pymc_active.support.labels import read_label
from pymc_active.support.scaling import Affine

# The distributions that a recipe can name. PyMC writes others as more than one random variable.
_FAMILIES: dict[str, Any] = {
    family.__name__: family
    for family in (
        *(pm.Beta, pm.Cauchy, pm.Exponential, pm.Gamma, pm.Gumbel, pm.HalfNormal, pm.InverseGamma, pm.Laplace),
        *(pm.LogNormal, pm.Logistic, pm.Moyal, pm.Normal, pm.Pareto, pm.SkewNormal, pm.StudentT, pm.Triangular),
        *(pm.TruncatedNormal, pm.Uniform, pm.Wald),
    )
}
_NAMES = {type(family.rv_op): name for name, family in _FAMILIES.items()}


def read_recipe(recipe: dict[str, Any]) -> tuple[pd.Index, dict[str, Any]]:
    """Names of the inputs, and keyword arguments of the builder; TypeError, ValueError or KeyError if malformed."""
    options, priors = dict(recipe["options"]), recipe["priors"]
    if isinstance(priors, dict):
        priors = {name: _read_prior(prior) for name, prior in priors.items()}
    columns = pd.Index([read_label(label) for label in recipe["inputs"]], dtype=object, tupleize_cols=False)
    y_scale = recipe["y_scale"]
    if recipe["is_renewed"] and y_scale is not None:
        shift, width = map(np.asarray, y_scale)
        y_scale = Affine(shift, width, is_renewed=True)
    return columns, {
        "mean": recipe["mean"],
        "priors": priors,
        "likelihood": recipe.get("likelihood", "normal"),
        "space": Space.from_json(recipe["space"]) if recipe.get("space") else None,
        "x_scale": recipe["x_scale"],
        "y_scale": y_scale,
        **options,
    }


def write_scale(scale: Affine) -> list | None:
    """Shift and scale as JSON; None for the identity."""
    return None if scale.is_identity else [scale.shift.tolist(), scale.scale.tolist()]


def write_prior(name: str, prior: Any) -> dict[str, Any]:
    """A number, or a distribution of numbers by its name, as JSON; a ValueError for any other."""
    if isinstance(prior, Real | np.ndarray):
        return {"value": np.asarray(prior, float).tolist()}
    node = prior.owner
    family = _NAMES.get(type(node.op))
    reason = f"the prior of {name} is more than a plain distribution with numbers as parameters"
    if family is None or None in prior.type.shape:
        raise ValueError(reason)
    try:
        folded = [np.asarray(value) for value in constant_fold(node.op.dist_params(node))]
    except NotConstantValueError:
        raise ValueError(reason) from None
    # The density depends on the dtypes: PyMC keeps small whole numbers as int8, and their reciprocals as float32.
    parameters = [{"value": value.tolist(), "dtype": str(value.dtype)} for value in folded]
    return {"distribution": family, "parameters": parameters, "shape": list(prior.type.shape)}


def _read_prior(value: dict[str, Any]) -> Any:
    """A number that fixes a parameter, or a distribution."""
    if "value" in value:
        fixed = np.asarray(value["value"], float)
        return fixed if fixed.ndim else float(fixed)
    name = value["distribution"]
    if name not in _FAMILIES:
        raise ValueError(f"unknown distribution {name!r}; the known ones are {', '.join(sorted(_FAMILIES))}")
    family = _FAMILIES[name]
    parameters = [np.asarray(one["value"], dtype=one["dtype"]) for one in value["parameters"]]
    # dist of the base class takes the parameters as the graph has them, e.g. a scale where the family takes a rate.
    return super(family, family).dist(parameters, shape=[int(n) for n in value["shape"]] or None)
