"""Fit to some of the data: the rows that tell most about the function, where all would take too long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pymc_active.inference.ensemble import Seed
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel, check_model
from pymc_active.posterior.base import MANY
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.support.data import Data
from pymc_active.support.options import count
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


def informative_rows(gpm: GPModel, n_rows: int, *, random_seed: Seed = None) -> np.ndarray:
    """Rows of a model's data that tell most about the function: to fit to some of many points.

    One after another, the point at which the function is least known given those taken before, with hyperparameters
    from a first fit to a few random points. A model of these rows, ``ard_gp(X[rows], y[rows], bounds=bounds)``, is an
    exact fit to less data: its intervals are wider than with all.

    Parameters
    ----------
    gpm : GPModel
        Its data stay as they are.
    n_rows : int
        How many rows.
    random_seed : int or Generator, optional
        For the first fit.

    Returns
    -------
    ndarray of int, shape (n_rows,)
        In the order in which they were taken; the first few tell most.

    Raises
    ------
    TypeError, ValueError
        For anything but a GPModel, and for fewer than two rows or more than there are.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.sort(np.random.default_rng(0).uniform(0, 1, 200))
    >>> rows = pma.informative_rows(pma.ard_gp(x[:, None], np.sin(9 * x), bounds=[(0, 1)]), 20, random_seed=1)
    >>> len(np.unique(rows))
    20
    """
    check_model(gpm, "informative_rows")
    posterior, rng = gpm.posterior().of_each, np.random.default_rng(random_seed)
    if not 2 <= count("n_rows", n_rows) <= len(posterior.y):
        raise ValueError(f"n_rows must be from 2 to the number of points, {len(posterior.y)}; got {n_rows}")
    some = rng.choice(len(posterior.y), min(n_rows, MANY), replace=False)
    with holding(gpm, gpm.data.rows(some)), ignoring(DoubtfulFitWarning):
        mode = fit_laplace(gpm, optimize=bool(gpm.shapes), random_seed=rng, progressbar=False)
    gp = ConditionedGP(mode.best.full_posterior, mode.theta)
    return by_variance(gp, posterior.X, n_rows, posterior.known_variance)


def by_variance(gp: ConditionedGP, X: np.ndarray, n_rows: int, known_variance: np.ndarray | float = 0.0) -> np.ndarray:
    """Rows of X (n, D), in the kernel's units: one after another the one of largest latent variance given the others.

    This is greedy maximisation of the information about the function, by a Cholesky factorisation of K + noise with
    pivots: n * n_rows² operations and n * n_rows numbers. The hyperparameters are from ``gp``; to its noise the
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
