"""Designs that use no data: random points, Latin hypercubes, and steps that show gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_active.spaces.space import Space
from pymc_active.support.options import count
from pymc_active.support.tables import Bounds, box_or_pool, read_bounds, read_inputs


def random_design(
    bounds_or_pool: Any = None,
    n: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    *,
    bounds: Bounds | None = None,
    pool: Any = None,
) -> Any:
    """Random points of a box or a space, or random rows of a pool without repetition.

    Parameters
    ----------
    bounds_or_pool : list of tuples (low, high), Space, or ndarray, DataFrame of shape (m, D)
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
    if isinstance(bounds_or_pool, Space):
        return bounds_or_pool.sample(count("n", n), random_seed)
    bounds, pool = box_or_pool(bounds_or_pool, bounds, pool)
    rng, n = np.random.default_rng(random_seed), count("n", n)
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
    unit = qmc.LatinHypercube(len(low), rng=np.random.default_rng(random_seed)).random(count("n", n))
    return qmc.scale(unit, low, high)


def gradient_design(
    bounds: Bounds,
    n_centers: int = 1,
    radius: float = 0.7,
    random_seed: int | np.random.Generator | None = None,
) -> np.ndarray:
    """Centres with a step along each of D orthogonal directions, which together show the gradient at each centre.

    The centres are a Latin hypercube. The directions are random, anew for each centre, and orthogonal after each input
    is divided by half the width of its interval. Of the two signs of a direction, the one that leads towards the middle
    of the box is taken. Where a step would leave the box all the same, its centre is moved inwards.

    Begin with it if the hyperparameters of many inputs are wanted, such as the embedding of :func:`embedding_gp`. For
    predictions of the function, :func:`latin_hypercube` is as good or better.

    Parameters
    ----------
    bounds : list of (low, high)
        The box of the D inputs, in your units.
    n_centers : int
        The gradients at as many centres as an embedding has components span its subspace.
    radius : float
        Length of the steps, above 0 and at most 1, in half-widths of the box. Long steps stand out from the noise, but
        the function bends on the way.

    Returns
    -------
    ndarray, shape (n_centers * (D + 1), D)
        Each centre is followed by its D steps, in your units.

    Raises
    ------
    ValueError
        For malformed bounds, a number of centres that is not whole and positive, and another radius.

    Examples
    --------
    >>> X = gradient_design([(0, 10), (-1, 1)], random_seed=1)
    >>> steps = (X[1:] - X[0]) / [5, 1]
    >>> (steps @ steps.T).round(2) + 0.0
    array([[0.49, 0.  ],
           [0.  , 0.49]])
    """
    low, high = read_bounds(bounds)
    n_centers, D = count("n_centers", n_centers), len(low)
    if not 0 < radius <= 1:
        raise ValueError(f"radius must be above 0 and at most 1, in half-widths of the box; got {radius!r}")
    rng = np.random.default_rng(random_seed)
    parts = []
    for center in latin_hypercube([(-1.0, 1.0)] * D, n_centers, rng):
        # Q of normal numbers is a random rotation, up to signs.
        steps = radius * np.linalg.qr(rng.normal(size=(D, D)))[0]
        steps *= np.where(steps @ center > 0, -1.0, 1.0)[:, None]
        # No entry of a step is longer than the radius, so that the limits leave room.
        ends = np.vstack([np.zeros(D), steps])
        parts.append(np.clip(center, -1 - ends.min(0), 1 - ends.max(0)) + ends)
    # Rounding may put a step a hair outside.
    return np.clip((low + high) / 2 + (high - low) / 2 * np.concatenate(parts), low, high)
