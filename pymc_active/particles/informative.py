"""Fit to some of the data: the rows that tell most about the function, where all would take too long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.base import MANY
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.support.data import Data
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring


@contextmanager
def holding(gpm: GPModel, data: Data) -> Iterator[None]:
    """Context in which a model holds other data."""
    held = gpm.data.copy()
    gpm.set_data(*data)
    try:
        yield
    finally:
        gpm.set_data(*held)


def informative_rows(gpm: GPModel, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """The ``n_rows`` rows of a model's data that :func:`by_variance` chooses, at the mode of a few random ones."""
    data, posterior = gpm.data.copy(), gpm.posterior().of_each
    some = rng.choice(len(data.y), min(n_rows, MANY), replace=False)
    with holding(gpm, data.rows(some)), ignoring(DoubtfulFitWarning):
        mode = fit_laplace(gpm, optimize=bool(gpm.shapes), random_seed=rng, progressbar=False)
    gp = ConditionedGP(mode.best.full_posterior, mode.theta)
    return by_variance(gp, posterior.X, n_rows, posterior.known_variance)


def by_variance(gp: ConditionedGP, X: np.ndarray, n_rows: int, known_variance: np.ndarray | float = 0.0) -> np.ndarray:
    """Rows of X (n, D), in the kernel's units: one after another that of the largest latent variance given the others.

    This is greedy maximisation of the information about the function, by a Cholesky factorisation of K + noise with
    pivots: n * n_rows² operations and n * n_rows numbers. The hyperparameters are those of ``gp``; to its noise the
    ``known_variance`` (n,) of each row is added.
    """
    noise, variance = gp.noise_variance(X) + known_variance, gp.prior_variance(X).copy()
    factor, rows = np.empty((n_rows, len(X))), np.empty(n_rows, int)
    left = np.ones(len(X), bool)
    for k in range(n_rows):
        rows[k] = row = int(np.argmax(np.where(left, variance, -np.inf)))
        left[row] = False
        covariance = gp.covariance(X[row : row + 1], X)[0] - factor[:k, row] @ factor[:k]
        factor[k] = covariance / np.sqrt(variance[row] + noise[row])
        variance -= factor[k] ** 2
    return rows
