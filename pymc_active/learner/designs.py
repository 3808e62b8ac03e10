"""Designs that look at no data: random points and Latin hypercubes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_active.support.tables import Bounds, read_bounds, read_inputs


def _check_n(n: Any) -> int:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be a positive whole number; got {n!r}")
    return int(n)


def random_design(bounds_or_pool: Any, n: int, random_seed: int | np.random.Generator | None = None) -> Any:
    """Points drawn at random: from a box, or rows of a pool without repetition.

    Parameters
    ----------
    bounds_or_pool : list of (low, high), or ndarray, DataFrame of shape (m, D)
        A *list* is read as bounds, anything else as a pool.
    n : int
    random_seed : int or Generator, optional

    Returns
    -------
    ndarray or DataFrame, shape (n, D)
        Rows of a data frame keep their labels.

    Raises
    ------
    ValueError
        For malformed bounds, or more points than the pool has.

    Examples
    --------
    >>> random_design([(0, 1), (10, 20)], 3, random_seed=1).shape
    (3, 2)
    """
    rng, n = np.random.default_rng(random_seed), _check_n(n)
    if isinstance(bounds_or_pool, list | tuple):
        low, high = read_bounds(bounds_or_pool)
        return rng.uniform(low, high, size=(n, len(low)))
    X = read_inputs(bounds_or_pool, "pool")
    if n > len(X):
        raise ValueError(f"the pool has {len(X)} points; cannot draw {n} without repetition")
    rows = rng.choice(len(X), n, replace=False)
    return bounds_or_pool.iloc[rows] if isinstance(bounds_or_pool, pd.DataFrame) else X[rows]


def latin_hypercube(bounds: Bounds, n: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
    """A Latin hypercube: n points of which each lies in a row of its own of every input's n equal intervals.

    Parameters
    ----------
    bounds : list of (low, high)
    n : int
    random_seed : int or Generator, optional

    Returns
    -------
    ndarray, shape (n, D)

    Examples
    --------
    >>> np.sort(np.floor(latin_hypercube([(0, 4)], 4, random_seed=1)[:, 0]))
    array([0., 1., 2., 3.])
    """
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    low, high = read_bounds(bounds)
    return qmc.scale(
        qmc.LatinHypercube(len(low), rng=np.random.default_rng(random_seed)).random(_check_n(n)), low, high
    )
