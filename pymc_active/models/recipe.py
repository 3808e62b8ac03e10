"""What a builder made a model of, as JSON values: everything that makes it again but the data."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pymc as pm
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold

from pymc_active.support.labels import write_label
from pymc_active.support.scaling import Affine

# The distributions that a file may name; what has another form in PyMC's graphs is left to the user.
_FAMILIES: dict[str, Any] = {
    family.__name__: family
    for family in (
        *(pm.Beta, pm.Cauchy, pm.Exponential, pm.Gamma, pm.Gumbel, pm.HalfNormal, pm.InverseGamma, pm.Laplace),
        *(pm.LogNormal, pm.Logistic, pm.Moyal, pm.Normal, pm.Pareto, pm.SkewNormal, pm.StudentT, pm.Triangular),
        *(pm.TruncatedNormal, pm.Uniform, pm.Wald),
    )
}
_NAMES = {type(family.rv_op): name for name, family in _FAMILIES.items()}


@dataclass(frozen=True)
class Recipe:
    """How a builder was called, the scales as they were frozen.

    Attributes
    ----------
    builder : str
        Its name.
    options : dict
        Its own arguments, as JSON values.
    mean : str or pm.gp.mean.Mean
    priors : dict, str or None
        As the user gave them.
    inputs : list
        Names of the D inputs.
    x_map, y_map : Affine
    """

    builder: str
    options: dict[str, Any]
    mean: Any
    priors: Any
    inputs: list
    x_map: Affine
    y_map: Affine

    def to_json(self) -> dict[str, Any]:
        """For :func:`pymc_active.models.rebuilding.rebuild`.

        Raises
        ------
        ValueError
            For a mean function or a prior of the user's that is more than a name with numbers.
        """
        if not isinstance(self.mean, str):
            raise ValueError(f"its mean is a {type(self.mean).__name__} of its own")
        priors = self.priors
        if isinstance(priors, dict):
            priors = {name: _write_prior(name, prior) for name, prior in priors.items()}
        return {
            "builder": self.builder,
            "options": self.options,
            "mean": self.mean,
            "priors": priors,
            "inputs": [write_label(label) for label in self.inputs],
            "x_scale": _write_scale(self.x_map),
            "y_scale": _write_scale(self.y_map),
        }


def _write_scale(scale: Affine) -> list | None:
    return None if scale.is_identity else [scale.shift.tolist(), scale.scale.tolist()]


def _write_prior(name: str, prior: Any) -> dict[str, Any]:
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
    # The density depends on how they are stored: PyMC keeps small whole numbers as int8, their reciprocals as float32.
    parameters = [{"value": value.tolist(), "dtype": str(value.dtype)} for value in folded]
    return {"distribution": family, "parameters": parameters, "shape": list(prior.type.shape)}


def read_prior(value: dict[str, Any]) -> Any:
    """A number that fixes a parameter, or a distribution.

    Raises
    ------
    ValueError
        For an unknown distribution; the known ones are listed.
    """
    if "value" in value:
        fixed = np.asarray(value["value"], float)
        return fixed if fixed.ndim else float(fixed)
    name = value["distribution"]
    if name not in _FAMILIES:
        raise ValueError(f"unknown distribution {name!r}; the known ones are {', '.join(sorted(_FAMILIES))}")
    family = _FAMILIES[name]
    parameters = [np.asarray(one["value"], dtype=one["dtype"]) for one in value["parameters"]]
    # That of the base class takes the parameters of the graph, where a rate, say, is a scale already.
    return super(family, family).dist(parameters, shape=[int(n) for n in value["shape"]] or None)
