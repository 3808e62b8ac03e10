"""The distribution of the maximum of the expected outcome of any PyMC model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_active.criteria.epig import targets_in
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.learner.success import Success
from pymc_active.learner.working_region import rows_that_work
from pymc_active.process.members import Members

# Points of a box that are screened, and rounds of points around the best one of each particle: how many, and how far
# away as a part of the box.
_SCREEN, _NEAR, _STEPS = 512, 16, (0.05, 0.015, 0.005)


class Maxima(NamedTuple):
    """For each particle: the maximiser (S, D), the value there, and by how much x falls short of it, (S,)."""

    places: np.ndarray
    heights: np.ndarray
    short: np.ndarray


def find_maxima(
    members: Members, domain: Domain, x: np.ndarray, minimize: bool, success: Success | None, rng: np.random.Generator
) -> Maxima:
    """The maxima of each particle's expected outcome, where experiments are likely to work, compared with x (D,)."""
    sign = -1.0 if minimize else 1.0
    if domain.pool is not None:
        best = _best(members, domain.pool if success is None else _working_rows(domain, success, x), sign)
    else:
        low, high = domain.low, domain.high

        def possible(X: np.ndarray) -> np.ndarray:
            X = np.concatenate([x[None], np.clip(X, low, high)])
            return X if success is None else X[(success(X) > np.log(0.5)) | (X == x).all(1)]

        best = _best(members, possible(np.concatenate([targets_in(low, high, _SCREEN), members.ensemble.X])), sign)
        for step in _STEPS:
            near = np.repeat(np.unique(best[0], axis=0), _NEAR, axis=0)
            near = near + step * (high - low) * rng.normal(size=near.shape)
            new = _best(members, possible(near), sign)
            is_better = new[1] > best[1]
            best = np.where(is_better[:, None], new[0], best[0]), np.maximum(new[1], best[1])
    places, heights = best
    at_x = sign * members.means(x[None])[:, 0]
    return Maxima(places, sign * heights, np.maximum(heights - at_x, 0.0))


def _working_rows(domain: Domain, success: Success, x: np.ndarray) -> np.ndarray:
    working = rows_that_work(domain, success, x).pool
    assert working is not None
    return working


def _best(members: Members, X: np.ndarray, sign: float) -> tuple[np.ndarray, np.ndarray]:
    values = sign * members.means(X)
    best = values.argmax(1)
    return X[best], values[np.arange(len(values)), best]
