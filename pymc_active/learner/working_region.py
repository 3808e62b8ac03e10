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


def maxima_where_possible(
    optima: Sequence[OptimizedPaths], domain: Domain, success: Success | None, x: np.ndarray, rng: np.random.Generator
) -> list[OptimizedPaths]:
    """The same paths, with maxima moved to where experiments are possible and likely to work, at worst to x (D,).

    Of a box these are the maxima where success is unlikely; of a space all, from points that stand for it.
    """
    low, high, space = domain.low, domain.high, domain.space
    works = (lambda X: np.ones(len(X), bool)) if success is None else success.is_likely
    heights = np.concatenate([o.maxima.values for o in optima])
    own = np.split(np.arange(len(heights)), np.cumsum([len(o.maxima.values) for o in optima])[:-1])
    places = np.concatenate([o.gp.to_user(o.maxima.X) for o in optima])
    places = places if space is None else space.snap(places, domain.fixed)
    is_moved = ~works(places)
    places[is_moved] = x
    is_moved |= space is not None
    if not is_moved.any():
        return list(optima)
    at_places = [np.diagonal(o.paths.value(o.gp.x_map(places[rows]))) for o, rows in zip(optima, own, strict=True)]
    heights = np.where(is_moved, np.concatenate(at_places), heights)

    def climb(tried: Sequence[np.ndarray]) -> None:
        """Move maxima to the highest points that work, of those tried on the paths of each GP."""
        values = [o.paths.value(o.gp.x_map(X)) for o, X in zip(optima, tried, strict=True)]
        for rows, each in zip(own, values, strict=True):
            each[~is_moved[rows]] = -np.inf
        higher = [(each > heights[rows, None]).any(0) for rows, each in zip(own, values, strict=True)]
        # At once, since a classifier has many members.
        good = works(np.concatenate([X[some] for X, some in zip(tried, higher, strict=True)]))
        of_each = np.split(good, np.cumsum([some.sum() for some in higher])[:-1])
        for rows, X, each, some, at in zip(own, tried, values, higher, of_each, strict=True):
            if at.any():
                X, each = X[some][at], each[:, some][:, at]
                best, top = each.argmax(1), each.max(1)
                places[rows] = np.where((top > heights[rows])[:, None], X[best], places[rows])
                heights[rows] = np.maximum(top, heights[rows])

    if space is None:
        assert success is not None
        inside = ((low <= success.worked) & (success.worked <= high)).all(1)
        screen = targets_in(low, high, _SCREEN)
        climb([np.concatenate([success.worked[inside], screen[works(screen)]])] * len(optima))
    else:
        climb([x[None]] * len(optima))
    for step in _STEPS:
        near = np.repeat(places[is_moved], _NEAR, axis=0)
        if space is None:
            near = np.clip(near + step * (high - low) * rng.normal(size=near.shape), low, high)
        else:
            # At once, since a constraint may be a function of a table.
            near = space.near(near, step, rng, domain.fixed)
        climb(np.split(near, _NEAR * np.cumsum([is_moved[rows].sum() for rows in own])[:-1]))
    return [
        o._replace(maxima=o.maxima._replace(X=o.gp.x_map(places[rows]), values=heights[rows]))
        for o, rows in zip(optima, own, strict=True)
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
