"""The covariances of a PyMC model, as graphs: with exact distances, and whether they are smooth."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial

import pymc as pm
import pytensor.tensor as pt

from pymc_active.kernels.cov import Embedding, ErrorBars, Rescaled

cov = pm.gp.cov

# Others have periods, or functions of the user's that may.
_PLAIN = {
    *(cov.ExpQuad, cov.RatQuad, cov.Matern52, cov.Matern32, cov.Matern12, cov.Exponential, cov.Linear, cov.Polynomial),
    *(cov.Constant, cov.WhiteNoise, cov.Coregion, cov.Add, cov.Prod, cov.Exponentiated, cov.Kron),
    *(Embedding, Rescaled, ErrorBars),
}
PLAIN_MEANS = {pm.gp.mean.Zero, pm.gp.mean.Constant, pm.gp.mean.Linear}


def with_exact_distances(value):
    """A copy of a covariance, or of a list that holds some, with squared distances from differences."""
    # PyMC takes them from squares of the points, which cancel for inputs far from zero.
    if isinstance(value, list | tuple) and any(isinstance(part, cov.BaseCovariance) for part in value):
        return type(value)([with_exact_distances(part) for part in value])
    if not isinstance(value, cov.BaseCovariance):
        return value
    new = copy(value)
    for name, part in vars(value).items():
        setattr(new, name, with_exact_distances(part))
    if getattr(type(value), "square_dist", None) is cov.Stationary.square_dist:
        new.square_dist = partial(_square_distance, new.ls)
    return new


def _square_distance(lengthscale, X, Xs=None):
    Xs = X if Xs is None else Xs
    difference = _inputs_in_front(X)[:, :, None] - _inputs_in_front(Xs)[:, None, :]
    return pt.sum(pt.square(difference / pt.atleast_1d(lengthscale)[:, None, None]), 0)


def _inputs_in_front(X):
    """X transposed, in memory too: NumPy takes ten times as long for loops over a few inputs, and for their sum."""
    D = X.type.shape[1]
    return X.T if D is None else pt.stack([X[:, i] for i in range(D)])


def _covariances(value) -> Iterator:
    """A covariance and all covariances in it."""
    if isinstance(value, cov.BaseCovariance):
        yield value
        value = list(vars(value).values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _covariances(part)


def is_smooth(gp) -> bool:
    """Whether covariance, noise and mean of a GP are of kinds that can have neither a period nor a step."""
    parts = [*_covariances(gp.cov_func), *_covariances(getattr(gp, "sigma", None))]
    return type(gp.mean_func) in PLAIN_MEANS and all(type(part) in _PLAIN for part in parts)
