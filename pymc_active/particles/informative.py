"""Fit to some of the data: the rows that tell most about the function, where all would take too long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.base import MANY
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring


@contextmanager
def holding(gpm: GPModel, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
    """Context in which a model holds other data (user's units)."""
    held = gpm.X.copy(), gpm.y.copy()
    gpm.set_data(X, y)
    try:
        yield
    finally:
        gpm.set_data(*held)


def informative_rows(gpm: GPModel, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """The ``n_rows`` rows of a model's data that :func:`by_variance` chooses, at the mode of a few random ones."""
    X, y, posterior = gpm.X.copy(), gpm.y.copy(), gpm.posterior()
    some = rng.choice(len(y), min(n_rows, MANY), replace=False)
    with holding(gpm, X[some], y[some]), ignoring(DoubtfulFitWarning):
        mode = fit_laplace(gpm, optimize=bool(gpm.shapes), random_seed=rng, progressbar=False)
    return by_variance(ConditionedGP(mode.best.full_posterior, mode.theta), posterior.X, n_rows)


def by_variance(gp: ConditionedGP, X: np.ndarray, n_rows: int) -> np.ndarray:
    """Rows of X (n, D), in the kernel's units: one after another that of the largest latent variance given the others.

    This is greedy maximisation of the information about the function, by a Cholesky factorisation of K + noise with
    pivots: n * n_rows² operations and n * n_rows numbers. The hyperparameters are those of ``gp``.
    """
    noise, variance = gp.noise_variance(X), gp.prior_variance(X).copy()
    factor, rows = np.empty((n_rows, len(X))), np.empty(n_rows, int)
    left = np.ones(len(X), bool)
    for k in range(n_rows):
        rows[k] = row = int(np.argmax(np.where(left, variance, -np.inf)))
        left[row] = False
        covariance = gp.covariance(X[row : row + 1], X)[0] - factor[:k, row] @ factor[:k]
        factor[k] = covariance / np.sqrt(variance[row] + noise[row])
        variance -= factor[k] ** 2
    return rows
