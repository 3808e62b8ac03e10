"""Additional noise of an outcome, from which annealing begins.

A temperature alone would lead into a funnel: where an unknown scale is small, all else is known within it, and
particles do not get there. With noise of a known size, all smaller scales are alike until it is taken away.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.continuous import SkewNormalRV, TruncatedNormalRV, WeibullBetaRV
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.mixture import MixtureRV
from pytensor.tensor.random import basic
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

# Noise, in units, that is as good as none (guess).
GONE = 1e-6


def _wider(k: int) -> Callable:
    """A variance on top of the square of parameter k, a scale."""
    return lambda v, *p: [*p[:k], pt.sqrt(pt.square(p[k]) + v), *p[k + 1 :]]


# New parameters, from a variance and the parameters; of entries that depend on each other the covariance.
_ABSOLUTE: dict[type, Callable] = {
    **dict.fromkeys([basic.NormalRV, basic.LaplaceRV, basic.CauchyRV, basic.LogisticRV, basic.GumbelRV], _wider(1)),
    **{TruncatedNormalRV: _wider(1), SkewNormalRV: _wider(1), basic.StudentTRV: _wider(2)},
    basic.MvNormalRV: lambda v, mean, covariance: [mean, covariance + v * pt.eye(covariance.shape[-1])],
}
# The means of gamma and beta stay; the squared scale is the inverse of the shape, of the sum of shapes, of its square.
_RELATIVE: dict[type, Callable] = {
    basic.LogNormalRV: _wider(1),
    basic.GammaRV: lambda v, shape, scale: [shape / (1 + shape * v), scale * (1 + shape * v)],
    basic.BetaRV: lambda v, a, b: [a / (1 + (a + b) * v), b / (1 + (a + b) * v)],
    WeibullBetaRV: lambda v, shape, scale: [shape / pt.sqrt(1 + pt.square(shape) * v), scale],
}


def _inner(rv: TensorVariable) -> list[TensorVariable]:
    """What is censored or mixed."""
    parts = rv.owner.inputs if isinstance(rv.owner.op, CensoredRV | MixtureRV) else []
    return [one for one in parts if isinstance(getattr(one.owner, "op", None), RandomVariable | SymbolicRandomVariable)]


def noisier(rv: TensorVariable, variance: TensorVariable) -> TensorVariable | None:
    """An outcome with a variance on top, relative where its scale is; None if it has no scale of its own."""
    op, inner, change = rv.owner.op, _inner(rv), (_ABSOLUTE | _RELATIVE).get(type(rv.owner.op))
    # Slopes of their probabilities in the shape, which censoring takes, are loops in Python.
    is_slow = isinstance(op, CensoredRV) and any(isinstance(v.owner.op, basic.GammaRV | basic.BetaRV) for v in inner)
    if is_slow or (not inner and change is None):
        return None
    params = op.dist_params(rv.owner)
    params = change(variance, *params) if change else [noisier(v, variance) if v in inner else v for v in params]
    if None in params:
        return None
    if isinstance(op, SymbolicRandomVariable):
        return op.rebuild_rv(*params)
    return op.make_node(*rv.owner.inputs[:2], *params).outputs[1]


def noise_unit(rv: TensorVariable, y: np.ndarray) -> float:
    """The variance with which noise begins: of y, or what may stand for it; 1 if it is relative."""
    while inner := _inner(rv):
        rv = inner[0]
    if type(rv.owner.op) not in _ABSOLUTE or not y.size:
        return 1.0
    return next((float(v) for v in (np.var(y), np.mean(np.square(y))) if v > 0), 1.0)
