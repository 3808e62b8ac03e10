"""Maxima of sample paths where experiments are at least as likely to give a result as to fail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_active.criteria.maximum.base import OptimizedPaths
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.learner.success import Success
from pymc_active.paths import Paths
from pymc_active.posterior.conditioned import ConditionedGP

# Points of a box that are tried on all paths; then so many near each path's best, at these distances in box sides.
_SCREEN, _NEAR, _STEPS = 2048, 128, (0.1, 0.03, 0.01, 0.003)


def rows_that_work(domain: Domain, success: Success, x: np.ndarray) -> Domain:
    """The rows of a pool where success is likely, and x (D,)."""
    assert domain.pool is not None
    assert domain.labels is not None
    works = success.is_likely(domain.pool) | (domain.pool == x).all(1)
    return domain._replace(pool=domain.pool[works], labels=domain.labels[works])


def maxima_where_it_works(
    optima: Sequence[OptimizedPaths], domain: Domain, success: Success, x: np.ndarray, rng: np.random.Generator
) -> list[OptimizedPaths]:
    """The same paths, with maxima in a box moved from where success is unlikely, at worst to x (D,)."""
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    low, high = domain.low, domain.high
    screen = low + (high - low) * qmc.Sobol(len(low), rng=rng).random(_SCREEN)
    inside = ((low <= success.worked) & (success.worked <= high)).all(1)
    screen = np.concatenate([x[None], success.worked[inside], screen[success.is_likely(screen)]])
    moved = []
    for gp, paths, maxima in optima:
        places, values = gp.to_user(maxima.X), maxima.values.copy()
        which = np.flatnonzero(~success.is_likely(places))
        if len(which):
            places[which], values[which] = _highest(gp, paths, which, screen)
            for step in _STEPS:
                shape = len(which) * _NEAR, len(low)
                near = np.repeat(places[which], _NEAR, axis=0) + step * (high - low) * rng.normal(size=shape)
                near = np.clip(near, low, high)
                near = np.concatenate([places[which], near[success.is_likely(near)]])
                places[which], values[which] = _highest(gp, paths, which, near)
        moved.append(OptimizedPaths(gp, paths, maxima._replace(X=gp.x_map(places), values=values)))
    return moved


def maxima_in_space(
    optima: Sequence[OptimizedPaths], domain: Domain, success: Success | None, x: np.ndarray, rng: np.random.Generator
) -> list[OptimizedPaths]:
    """The same paths, with maxima moved from points that stand for a space to higher ones beside them, or x (D,)."""
    space, fixed = domain.space, domain.fixed
    assert space is not None
    places = [space.snap(o.gp.to_user(o.maxima.X), fixed) for o in optima]
    heights = [o.maxima.values for o in optima]
    ends = np.cumsum([len(values) for values in heights])[:-1]
    for step in _STEPS:
        # At once, since a constraint may be a function of a table.
        near = np.split(space.near(np.repeat(np.concatenate(places), _NEAR, axis=0), step, rng, fixed), _NEAR * ends)
        maxima = [
            _highest(o.gp, o.paths, np.arange(len(at)), np.concatenate([at, x[None], beside]))
            for o, at, beside in zip(optima, places, near, strict=True)
        ]
        higher, values = (np.concatenate(parts) for parts in zip(*maxima, strict=True))
        works = np.ones(len(values), bool) if success is None else success.is_likely(higher)
        places = np.split(np.where(works[:, None], higher, np.concatenate(places)), ends)
        heights = np.split(np.where(works, values, np.concatenate(heights)), ends)
    return [
        OptimizedPaths(o.gp, o.paths, o.maxima._replace(X=o.gp.x_map(at), values=values))
        for o, at, values in zip(optima, places, heights, strict=True)
    ]


def _highest(gp: ConditionedGP, paths: Paths, which: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of points X (m, D) the highest on each of k paths, (k, D), and the heights (k,)."""
    heights = paths.value(gp.x_map(X))[which]
    return X[heights.argmax(1)], heights.max(1)
