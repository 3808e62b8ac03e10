"""Maxima where experiments are at least as likely to give a result as to fail: of sample paths, of any PyMC model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_active.criteria.epig import targets_in
from pymc_active.criteria.maximum.base import OptimizedPaths
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.learner.success import Success
from pymc_active.process.members import Members

# Points of a box that are tried on all paths; then so many near each path's best, at these distances in box sides.
_SCREEN, _NEAR, _STEPS = 2048, 128, (0.1, 0.03, 0.01, 0.003)
# The same for the expected outcomes of a PyMC model, which cost more.
_SCREEN_OF_PROCESS, _NEAR_OF_PROCESS, _STEPS_OF_PROCESS = 512, 16, (0.05, 0.015, 0.005)


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
            places[which], values[which] = _highest(screen, paths.value(gp.x_map(screen))[which])
            for step in _STEPS:
                shape = len(which) * _NEAR, len(low)
                near = np.repeat(places[which], _NEAR, axis=0) + step * (high - low) * rng.normal(size=shape)
                near = np.clip(near, low, high)
                near = np.concatenate([places[which], near[success.is_likely(near)]])
                places[which], values[which] = _highest(near, paths.value(gp.x_map(near))[which])
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
        tried = [np.concatenate([at, x[None], beside]) for at, beside in zip(places, near, strict=True)]
        maxima = [_highest(X, o.paths.value(o.gp.x_map(X))) for o, X in zip(optima, tried, strict=True)]
        higher, values = (np.concatenate(parts) for parts in zip(*maxima, strict=True))
        works = np.ones(len(values), bool) if success is None else success.is_likely(higher)
        places = np.split(np.where(works[:, None], higher, np.concatenate(places)), ends)
        heights = np.split(np.where(works, values, np.concatenate(heights)), ends)
    return [
        OptimizedPaths(o.gp, o.paths, o.maxima._replace(X=o.gp.x_map(at), values=values))
        for o, at, values in zip(optima, places, heights, strict=True)
    ]


class Maxima(NamedTuple):
    """For each particle: the maximiser (S, D), the value there, and by how much x falls short of it, (S,)."""

    places: np.ndarray
    heights: np.ndarray
    short: np.ndarray


def maxima_of_process(
    members: Members, domain: Domain, x: np.ndarray, minimize: bool, success: Success | None, rng: np.random.Generator
) -> Maxima:
    """The maxima of each particle's expected outcome, where experiments are likely to work, compared with x (D,)."""
    sign = -1.0 if minimize else 1.0

    def best(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _highest(X, sign * members.means(X))

    if domain.is_pool and success is not None:
        domain = rows_that_work(domain, success, x)
    if domain.pool is not None:
        places, heights = best(domain.pool)
    else:
        low, high = domain.low, domain.high

        def possible(X: np.ndarray) -> np.ndarray:
            X = np.concatenate([x[None], np.clip(X, low, high)])
            return X if success is None else X[(success(X) > np.log(0.5)) | (X == x).all(1)]

        screen = np.concatenate([targets_in(low, high, _SCREEN_OF_PROCESS), members.ensemble.X])
        places, heights = best(possible(screen))
        for step in _STEPS_OF_PROCESS:
            near = np.repeat(np.unique(places, axis=0), _NEAR_OF_PROCESS, axis=0)
            near = near + step * (high - low) * rng.normal(size=near.shape)
            new, values = best(possible(near))
            places, heights = np.where((values > heights)[:, None], new, places), np.maximum(values, heights)
    at_x = sign * members.means(x[None])[:, 0]
    return Maxima(places, sign * heights, np.maximum(heights - at_x, 0.0))


def _highest(X: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of points X (m, D) the highest on each of k paths, (k, D), and its height (k,), by the ``heights`` (k, m)."""
    return X[heights.argmax(1)], heights.max(1)
