"""Designs that use no data: random points and Latin hypercubes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_active.support.tables import Bounds, box_or_pool, read_bounds, read_inputs


def _check_n(n: Any) -> int:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be a positive whole number; got {n!r}")
    return int(n)


def random_design(
    bounds_or_pool: Any = None,
    n: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    *,
    bounds: Bounds | None = None,
    pool: Any = None,
) -> Any:
    """Random points of a box, or random rows of a pool without repetition.

    Parameters
    ----------
    bounds_or_pool : list of tuples (low, high), or ndarray, DataFrame of shape (m, D)
        A list of *tuples* is read as bounds, an array or data frame as a pool. A list of lists is ambiguous and
        refused: pass it as ``bounds=`` or ``pool=``.
    bounds, pool
        One of these in place of ``bounds_or_pool``.

    Returns
    -------
    ndarray or DataFrame, shape (n, D)
        Rows of a data frame keep their labels.

    Raises
    ------
    TypeError, ValueError
        Unless exactly one source is given; for malformed bounds, or more points than the pool has.

    Examples
    --------
    >>> random_design([(0, 1), (10, 20)], 3, random_seed=1).shape
    (3, 2)
    """
    bounds, pool = box_or_pool(bounds_or_pool, bounds, pool)
    rng, n = np.random.default_rng(random_seed), _check_n(n)
    if bounds is not None:
        low, high = read_bounds(bounds)
        return rng.uniform(low, high, size=(n, len(low)))
    X = read_inputs(pool, "pool")
    if n > len(X):
        raise ValueError(f"the pool has {len(X)} points; cannot draw {n} without repetition")
    rows = rng.choice(len(X), n, replace=False)
    return pool.iloc[rows] if isinstance(pool, pd.DataFrame) else X[rows]


def latin_hypercube(bounds: Bounds, n: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
    """A Latin hypercube (n, D): each of n equal intervals of every input holds one point.

    Examples
    --------
    >>> import numpy as np
    >>> np.sort(np.floor(latin_hypercube([(0, 4)], 4, random_seed=1)[:, 0]))
    array([0., 1., 2., 3.])
    """
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    low, high = read_bounds(bounds)
    unit = qmc.LatinHypercube(len(low), rng=np.random.default_rng(random_seed)).random(_check_n(n))
    return qmc.scale(unit, low, high)
