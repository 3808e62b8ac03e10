"""Maximise a criterion over a space: climbs along real numbers, in turn with changes of one other input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize

from pymc_active.criteria.base import Scorer
from pymc_active.criteria.maximize_in_box import CLIMB, LocalMaxima, best_first, distinct_rows, finite
from pymc_active.criteria.screening import screened
from pymc_active.predictions.kept_states import most_kept
from pymc_active.spaces.space import Space

# Random points scored, steps away from measured points, the best points from which to go on, and how often.
_SEEDS, _NEAR, _STARTS, _ROUNDS = 1_000, 100, 6, 6
# Iterations of a climb, and numbers of an input that are tried, the nearest ones.
_MAXITER, _LEVELS = 16, 24
# Starts closer than this in all inputs, as a part of the space, are merged.
_APART = 0.02
# Parts of the space that optimisers leave between a point and an end.
_ROUNDING = 1e-9
# Steps of differences where a criterion has no gradient.
_STEP = 1e-5


def maximize_in_space(
    scorer: Scorer, space: Space, fixed: Mapping[int, float], rng: np.random.Generator
) -> LocalMaxima:
    """Local maxima of a criterion in a space, best first, with values of some columns ``fixed``."""
    low, high = space.limits
    width = high - low
    rough = scorer.coarse(min(CLIMB, most_kept(len(scorer.ensemble.y)))) or scorer
    real = np.flatnonzero(space.is_real & ~np.isin(np.arange(len(low)), list(fixed)))
    others = [(space.columns[v.name], v.levels) for v in space.variables]
    moves = [(columns, L) for columns, L in others if L is not None and not set(columns) & set(fixed)]

    def gradient(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = rough.gradient(Z)
        if found is not None:
            return found[0], found[1][:, real] * width[real]
        steps = _STEP * np.diag(width)[real]
        up, down = (rough.score((Z[:, None] + sign * steps).reshape(-1, len(low))) for sign in (0.5, -0.5))
        return rough.score(Z), ((up - down) / _STEP).reshape(len(Z), -1)

    def climb(Z: np.ndarray) -> np.ndarray:
        """Points (k, D) climbed from all at once: the terms of the sum have separate variables."""
        k, d = len(Z), len(real)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            at = Z.copy()
            at[:, real] = low[real] + width[real] * flat.reshape(k, d)
            value, slope = gradient(at)
            return -float(value.sum()), -slope.ravel()

        rows = [one for one in space.polytope_rows if one[0][real].any()]
        constraints: list[Any] = [_for_all(Z, real, low, width, rows, is_equality) for is_equality in (False, True)]
        constraints = [one for one in constraints if one is not None]
        start = ((Z[:, real] - low[real]) / width[real]).ravel()
        result = minimize(
            objective,
            start,
            jac=True,
            method="SLSQP" if constraints else "L-BFGS-B",
            bounds=[(0.0, 1.0)] * len(start),
            constraints=constraints,
            options={"maxiter": _MAXITER},
        )
        found = Z.copy()
        # What is all but at an end is there.
        part = result.x.reshape(k, d)
        part = np.where(part < _ROUNDING, 0.0, np.where(part > 1 - _ROUNDING, 1.0, part))
        found[:, real] = np.where(np.isfinite(part), low[real] + width[real] * part, Z[:, real])
        return np.where(space.can_be(found)[:, None], found, Z)

    def changed(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points with one input changed to another level, and whose they are."""
        found, owners = [np.empty((0, len(low)))], [np.empty(0, int)]
        for owner, z in enumerate(Z):
            for columns, values in moves:
                away = np.square(values - z[columns]).sum(1)
                # All labels are equally near.
                near = np.argsort(away, kind="stable")[: _LEVELS if len(columns) == 1 else None]
                new = np.tile(z, (len(near), 1))
                new[:, columns] = values[near]
                found.append(new[away[near] > 0])
                owners.append(np.full(len(found[-1]), owner))
        points, of = np.concatenate(found), np.concatenate(owners)
        keep = space.can_be(points) if len(points) else np.empty(0, bool)
        return points[keep], of[keep]

    X = scorer.ensemble.X
    measured = X[rng.integers(len(X), size=_NEAR)] if len(X) else X
    known = space.snap(np.concatenate([measured, scorer.seeds]), fixed)
    known = space.near(known[space.can_be(known)], 0.05, rng, fixed)
    seeds = np.concatenate([space.draw(_SEEDS, rng, fixed), known])
    maxima = best_first(seeds, finite(screened(scorer, seeds)))
    if not np.isfinite(maxima.values).any():
        raise ValueError("the criterion is not finite at any point of the space")
    Z = maxima.X[distinct_rows(maxima.X / width, lambda a, b: np.abs(a - b).max() > _APART, _STARTS)]
    best, seen = finite(rough.score(Z)), [Z.copy()]
    for _ in range(_ROUNDS):
        before = best.copy()
        if len(real):
            climbed = climb(Z)
            values = finite(rough.score(climbed))
            Z, best = np.where((values > best)[:, None], climbed, Z), np.maximum(values, best)
        points, owners = changed(Z)
        if len(points):
            values = finite(rough.score(points))
            for owner in range(len(Z)):
                own = np.flatnonzero(owners == owner)
                if len(own) and values[own].max() > best[owner]:
                    row = own[values[own].argmax()]
                    Z[owner], best[owner] = points[row], values[row]
        seen.append(Z.copy())
        if not moves or (best <= before + 1e-6 * np.ptp(best)).all():
            break
    # Starts count as well, since fewer draws have led the way.
    points = np.concatenate([*seen, maxima.X[: 4 * _STARTS]])
    return best_first(points, finite(scorer.score(points)))


def _for_all(
    Z: np.ndarray, real: np.ndarray, low: np.ndarray, width: np.ndarray, rows: list, is_equality: bool
) -> dict[str, Any] | None:
    """Linear constraints of the real columns of all points (k, D), in parts of the space, for SciPy."""
    chosen = [(row, limit) for row, limit, of_equality in rows if of_equality == is_equality]
    if not chosen:
        return None
    A, limits = np.array([row for row, _ in chosen]), np.array([limit for _, limit in chosen])
    rest = np.ones(len(low), bool)
    rest[real] = False
    bound = limits - Z[:, rest] @ A[:, rest].T - A[:, real] @ low[real]
    slope = np.kron(np.eye(len(Z)), -A[:, real] * width[real])
    return {
        "type": "eq" if is_equality else "ineq",
        "fun": lambda flat: bound.ravel() + slope @ flat,
        "jac": lambda flat: slope,
    }
