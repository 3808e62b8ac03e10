"""Maximise a criterion over a box or a space: score seeds, then climb from the best of them.

Real numbers climb along the gradient, in turn with changes of one other input where there are others. Garnett, Osborne
& Hennig (2014, section 4.1) search U = {R x} and map each u back to its surest x, which is seldom the most informative
one. Here U only provides seeds: its vertices are the images of the corners x = sign(Rᵀw).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from pymc_active.criteria.base import Scorer
from pymc_active.criteria.screening import screened
from pymc_active.predictions.mixtures import most_kept
from pymc_active.spaces.space import Space

# Seeds scored, and starts among them; twice as many starts where a sum over draws makes the criterion rugged, unless
# changes of an input lead on.
_SEEDS, _STARTS = 800, 5
_MAXITER = 16
# Draws used while climbing, or as many as are kept, and the fewest of each of several models; maxima then polished with
# all draws, and iterations of that.
_CLIMB, _FEWEST, _POLISHED, _POLISH = 32, 8, 2, 4
# Starts closer than this, as a fraction of the box's diagonal, are merged.
_APART = 0.02
# Maxima closer than this, as a fraction of their range, are merged.
_SAME = 1e-3
# Central differences for criteria without a gradient, as a fraction of the box, and the fraction that optimisers leave
# between a point and an end.
_STEP, _ROUNDING = 1e-5, 1e-9
# Of a space: steps away from measured points, rounds of climbs and changes, numbers of an input that are tried in a
# change, the nearest ones, and bisections of a way that leads out of it (guesses).
_NEAR, _ROUNDS, _LEVELS, _BISECTIONS = 0.05, 6, 24, 12


class LocalMaxima(NamedTuple):
    """Local maxima found, best first: inputs (k, D) and the criterion there (k,)."""

    X: np.ndarray
    values: np.ndarray


def finite(values: np.ndarray) -> np.ndarray:
    """Scores; missing ones count as the smallest."""
    return np.nan_to_num(values, nan=-np.inf, posinf=-np.inf)


def best_first(X: np.ndarray, values: np.ndarray) -> LocalMaxima:
    """Points (k, D) in the order of their values (k,)."""
    order = np.argsort(-values, kind="stable")
    return LocalMaxima(X[order], values[order])


def maximize(
    scorer: Scorer, low: np.ndarray, high: np.ndarray, rng: np.random.Generator, space: Space | None = None,
    fixed: Mapping[int, float] = MappingProxyType({}),
) -> LocalMaxima:  # fmt: skip
    """Local maxima of a criterion from ``low`` to ``high``, (D,) each, or in a space, with some columns ``fixed``."""
    low, high = low.astype(float), high.astype(float)
    low[list(fixed)] = high[list(fixed)] = list(fixed.values())
    width, is_free = high - low, high > low
    # Of several models fewer draws each.
    n_rough = max(2 * _CLIMB // (len(scorer.ensemble.parts) + 1), _FEWEST)
    rough = scorer.coarse(min(n_rough, most_kept(len(scorer.ensemble.y))))
    real = np.flatnonzero(is_free if space is None else is_free & space.is_real)
    moves = [] if space is None else space.moves(fixed)

    def climb(starts: np.ndarray, max_iterations: int, all_draws: bool = False) -> LocalMaxima:
        """The starts and the maxima they lead to, best first."""
        which = scorer if all_draws or rough is None else rough
        Z, seen = starts, [starts]
        for _ in range(_ROUNDS if moves else 1):
            before, Z = Z, _ascended(which, Z, real, low, high, max_iterations, space)
            if space is not None and moves:
                Z = _best_of_each(which, before, Z, *_changes(space, moves, Z))
            seen.append(Z)
            if np.array_equal(np.delete(before, real, axis=1), np.delete(Z, real, axis=1)):
                break
        points = np.concatenate(seen[::-1])
        return best_first(points, finite(screened(scorer, points)))

    seeds = _seeds_of_box(scorer, low, high, rng) if space is None else _seeds_of_space(scorer, space, fixed, rng)
    values = finite(screened(scorer, seeds))
    if not np.isfinite(values).any():
        raise ValueError(f"the criterion is not finite at any point of the {'box' if space is None else 'space'}")
    starts = best_first(seeds, values).X
    scaled = starts / np.where(is_free, width, 1.0)
    n_starts = _STARTS if rough is None or moves else 2 * _STARTS
    rows = distinct_rows(scaled, lambda a, b: np.sqrt(np.mean((a - b) ** 2)) > _APART, n_starts)
    maxima = climb(starts[rows], _MAXITER)
    # Only the best maxima are polished: with draws from the posterior all draws count here, which is expensive.
    better = climb(maxima.X[:_POLISHED], 2 * _MAXITER if rough is None else _POLISH, all_draws=True)
    return best_first(*(np.concatenate(parts) for parts in zip(better, maxima, strict=True)))


def _ascended(
    scorer: Scorer, X: np.ndarray, real: np.ndarray, low: np.ndarray, high: np.ndarray, max_iterations: int,
    space: Space | None,
) -> np.ndarray:  # fmt: skip
    """Points (k, D) climbed along real columns, all at once, since the terms of their sum have separate variables."""
    if not len(real):
        return X
    width = high - low

    def at(flat: np.ndarray) -> np.ndarray:
        Z = X.copy()
        Z[:, real] = low[real] + width[real] * flat.reshape(len(X), -1)
        # Sums may round to points beyond an end.
        return np.clip(Z, low, high)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        Z = at(flat)
        gradients = scorer.gradient(Z)
        value, slope = _differences(scorer.score, Z, low, high, real) if gradients is None else gradients
        return -float(value.sum()), -(slope[:, real] * width[real]).ravel()

    def relative(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Less what it is at the start, in the unit of the slope there, because tolerances are absolute."""
        value, slope = at_start if np.array_equal(flat, start) else objective(flat)
        return (value - at_start[0]) / unit, slope / unit

    options, constraints = {"maxiter": max_iterations}, [] if space is None else _constraints(space, X, real)
    start = np.clip((X[:, real] - low[real]) / width[real], 0.0, 1.0).ravel()
    at_start = objective(start)
    steepest = float(np.abs(at_start[1]).max())
    unit = steepest if 0 < steepest < np.inf else 1.0
    from scipy.optimize import minimize  # takes long to load

    result = minimize(
        relative,
        start,
        jac=True,
        method="SLSQP" if constraints else "L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(start),
        constraints=constraints,
        options=options if constraints else options | {"maxcor": 20},
    )
    # What is all but at an end is there.
    part = np.where(result.x < _ROUNDING, 0.0, np.where(result.x > 1 - _ROUNDING, 1.0, result.x))
    ends = at(np.where(np.isfinite(part), part, start))
    return ends if space is None else _last_that_can_be(space, X, ends)


def _last_that_can_be(space: Space, X: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """On the ways from points X (k, D), which can be made, to others the last that can, by bisection."""
    low, high = np.zeros((len(X), 1)), np.ones((len(X), 1))
    can_be = space.can_be(ends)
    if not space.functions or can_be.all():
        return np.where(can_be[:, None], ends, X)
    for _ in range(_BISECTIONS):
        part = 0.5 * (low + high)
        inside = space.can_be(X + part * (ends - X))[:, None]
        low, high = np.where(inside, part, low), np.where(inside, high, part)
    return np.where(can_be[:, None], ends, X + low * (ends - X))


def _constraints(space: Space, X: np.ndarray, real: np.ndarray) -> list[dict[str, Any]]:
    """Linear constraints of the real columns of all points (k, D), in parts of the space, for SciPy."""
    (low, high), constraints = space.limits, []
    for is_equality in (False, True):
        rows = [(row, limit) for row, limit, kind in space.polytope_rows if kind == is_equality and row[real].any()]
        if not rows:
            continue
        A, limits = (np.array(part) for part in zip(*rows, strict=True))
        rest = np.setdiff1d(np.arange(len(low)), real)
        bound = (limits - X[:, rest] @ A[:, rest].T - A[:, real] @ low[real]).ravel()
        slope = np.kron(np.eye(len(X)), -A[:, real] * (high - low)[real])
        constraints.append(
            {
                "type": "eq" if is_equality else "ineq",
                "fun": lambda flat, bound=bound, slope=slope: bound + slope @ flat,
                "jac": lambda flat, slope=slope: slope,
            }
        )
    return constraints


def _differences(
    score: Callable[[np.ndarray], np.ndarray], X: np.ndarray, low: np.ndarray, high: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values, and central differences along some columns, one-sided at the ends, (m, D), from one call."""
    up, down = np.repeat(X, len(columns), axis=0), np.repeat(X, len(columns), axis=0)
    rows, which = np.arange(len(up)), np.tile(columns, len(X))
    step = _STEP * (high - low)[which]
    up[rows, which] = np.minimum(up[rows, which] + step, high[which])
    down[rows, which] = np.maximum(down[rows, which] - step, low[which])
    values = score(np.concatenate([X, up, down]))
    value, above, below = np.split(values, [len(X), len(X) + len(up)])
    slope = np.zeros(X.shape)
    slope[:, columns] = ((above - below) / (up - down)[rows, which]).reshape(len(X), -1)
    return value, slope


def _changes(
    space: Space, moves: Sequence[tuple[np.ndarray, np.ndarray]], Z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points that differ from one of Z (k, D) in the level of one input, and which (m,)."""
    changed, owners = [np.empty((0, Z.shape[1]))], [np.empty(0, int)]
    for owner, z in enumerate(Z):
        for columns, values in moves:
            away = np.square(values - z[columns]).sum(1)
            # All labels are equally near.
            near = np.argsort(away, kind="stable")[: _LEVELS if len(columns) == 1 else None]
            new = np.tile(z, (len(near), 1))
            new[:, columns] = values[near]
            changed.append(new[away[near] > 0])
            owners.append(np.full(len(changed[-1]), owner))
    points, of = np.concatenate(changed), np.concatenate(owners)
    keep = space.can_be(points) if len(points) else np.empty(0, bool)
    return points[keep], of[keep]


def _best_of_each(scorer: Scorer, *choices: np.ndarray) -> np.ndarray:
    """Of each point the best: before and after a climb, (k, D) each, or of more points, and whose they are."""
    *same, more, owners = choices
    points = np.concatenate([*same, more])
    of = np.concatenate([np.arange(len(one)) for one in same] + [owners])
    order = np.lexsort((-finite(scorer.score(points)), of))
    return points[order[np.searchsorted(of[order], np.arange(len(same[0])))]]


def distinct_maxima(maxima: LocalMaxima) -> LocalMaxima:
    """The maxima without repetitions, best first."""
    width = np.ptp(maxima.X, axis=0)
    rows = distinct_rows(
        maxima.X / np.where(width > 0, width, 1.0), lambda a, b: np.abs(a - b).max() > _SAME, len(maxima.X)
    )
    return LocalMaxima(maxima.X[rows], maxima.values[rows])


def distinct_rows(Z: np.ndarray, are_apart: Callable[[np.ndarray, np.ndarray], np.bool_], n: int) -> list[int]:
    """The first n rows that lie apart from each other."""
    rows: list[int] = []
    for i, z in enumerate(Z):
        if len(rows) < n and all(are_apart(z, Z[j]) for j in rows):
            rows.append(i)
    return rows


def _seeds_of_space(scorer: Scorer, space: Space, fixed: Mapping[int, float], rng: np.random.Generator) -> np.ndarray:
    """Random points, and points near measured ones and the criterion's own."""
    X = scorer.ensemble.X
    measured = X[rng.integers(len(X), size=_SEEDS // 10)] if len(X) else X
    old = space.snap(np.concatenate([measured, scorer.seeds]), fixed)
    return np.concatenate([space.draw(_SEEDS, rng, fixed), space.near(old[space.can_be(old)], _NEAR, rng, fixed)])


def _seeds_of_box(scorer: Scorer, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random points, corners, points near the data, preimages of U's boundary, and the criterion's own."""
    (D,), width, ensemble = low.shape, high - low, scorer.ensemble
    inside = rng.uniform(size=(_SEEDS // 2, D))
    # A box of few inputs has few corners.
    corners = np.unique(rng.integers(2, size=(_SEEDS // 4, D)).astype(float), axis=0)
    span = np.where(width > 0, width, 1.0)
    measured = ensemble.X if len(ensemble.X) else low[None]
    data = (measured[rng.integers(len(measured), size=_SEEDS // 10)] - low) / span
    data += 0.05 * rng.normal(size=data.shape)
    parts = [inside, corners, data, (scorer.seeds - low) / span]
    gpm, where = ensemble.gpm, ensemble.gpm.embedding_slice
    if where is not None:
        R = ensemble.center[where[0]].reshape(where[1]) / np.asarray(gpm.x_map.scale) * width
        vertices = extreme_corners(R, _SEEDS // 4, rng)
        # Preimages of vertices of U, and points on the way to them.
        parts += [vertices, 0.5 + (vertices - 0.5) * rng.uniform(0.3, 1.0, (len(vertices), 1))]
    return np.clip(low + width * np.concatenate(parts), low, high)


def extreme_corners(R: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Corners (k, D) of the unit cube that map to vertices of U = {R x}, for random w.

    The linear function wᵀu is largest over U at the image of x = (1 + sign(Rᵀw)) / 2 (Garnett et al. 2014).
    """
    w = rng.normal(size=(n, len(R)))
    return np.unique((w @ R > 0).astype(float), axis=0)
