"""Maximise a criterion over a box: score seeds, then climb from the best of them by L-BFGS-B.

Garnett, Osborne & Hennig (2014, section 4.1) search U = {R x} and map each u back to its surest x, which is seldom the
most informative one. Here U only provides seeds: its vertices are the images of the corners x = sign(Rᵀw).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from pymc_active.criteria.base import Scorer
from pymc_active.criteria.screening import screened
from pymc_active.inference.ensemble import Ensemble
from pymc_active.predictions.kept_states import most_kept

# Seeds scored, and starts among them; twice as many starts where a sum over draws makes the criterion rugged.
_SEEDS, _STARTS = 800, 5
_MAXITER = 16
# Draws used while climbing, or as many as are kept, and the fewest of each of several models; maxima then polished with
# all draws, and iterations of that.
CLIMB, _FEWEST, _POLISHED, _POLISH = 32, 8, 2, 4
# Starts closer than this, as a fraction of the box's diagonal, are merged.
_APART = 0.02
# Maxima closer than this, as a fraction of their range, are merged.
_SAME = 1e-3
# Central differences for criteria without a gradient, as a fraction of the box.
_STEP = 1e-5


class LocalMaxima(NamedTuple):
    """Local maxima found, best first: inputs (k, D) and the criterion there (k,)."""

    X: np.ndarray
    values: np.ndarray


def finite(values: np.ndarray) -> np.ndarray:
    """Scores, of which those that are none are the smallest."""
    return np.nan_to_num(values, nan=-np.inf, posinf=-np.inf)


def best_first(X: np.ndarray, values: np.ndarray) -> LocalMaxima:
    """Points (k, D) in the order of their values (k,)."""
    order = np.argsort(-values, kind="stable")
    return LocalMaxima(X[order], values[order])


def maximize(scorer: Scorer, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> LocalMaxima:
    """Local maxima of a criterion in the box from ``low`` to ``high``, (D,) each; inputs of equal ends are fixed."""
    width, is_fixed = high - low, high == low
    # Of several models fewer draws each.
    n_rough = max(2 * CLIMB // (len(scorer.ensemble.parts) + 1), _FEWEST)
    rough = scorer.coarse(min(n_rough, most_kept(len(scorer.ensemble.y))))

    def score(Z: np.ndarray) -> np.ndarray:
        return screened(scorer, low + width * Z)

    def gradient(Z: np.ndarray, all_draws: bool) -> tuple[np.ndarray, np.ndarray]:
        which = scorer if all_draws or rough is None else rough
        found = which.gradient(low + width * Z)
        if found is None:
            return _differences(lambda Z: which.score(low + width * Z), Z)
        return found[0], found[1] * width

    def climb(starts: np.ndarray, max_iterations: int, all_draws: bool = False) -> LocalMaxima:
        """The starts and the maxima they lead to, best first, in the unit cube."""
        # The terms of the sum have separate variables, so that one run climbs from all starts at once.

        def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = gradient(z.reshape(starts.shape), all_draws)
            return -float(value.sum()), -slope.ravel()

        result = minimize(
            objective,
            starts.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * starts.size,
            options={"maxiter": max_iterations, "maxcor": 20},
        )
        found = np.concatenate([np.clip(result.x.reshape(starts.shape), 0.0, 1.0), starts])
        return best_first(found, finite(score(found)))

    seeds = _seeds(scorer.ensemble, low, high, rng)
    seeds = np.concatenate([seeds, np.clip((scorer.seeds - low) / np.where(is_fixed, 1.0, width), 0.0, 1.0)])
    # Else points that are the same would seem to lie apart.
    seeds[:, is_fixed] = 0.0
    values = finite(score(seeds))
    if not np.isfinite(values).any():
        raise ValueError("the criterion is not finite at any point of the box")
    n_starts = _STARTS if rough is None else 2 * _STARTS
    starts = best_first(seeds, values).X
    rows = distinct_rows(starts, lambda a, b: np.sqrt(np.mean((a - b) ** 2)) > _APART, n_starts)
    maxima = climb(starts[rows], _MAXITER)
    # Only the best maxima are polished: with draws from the posterior all draws count here, which is expensive.
    better = climb(maxima.X[:_POLISHED], 2 * _MAXITER if rough is None else _POLISH, all_draws=True)
    maxima = best_first(*(np.concatenate(parts) for parts in zip(better, maxima, strict=True)))
    return LocalMaxima(np.clip(low + width * maxima.X, low, high), maxima.values)


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


def _seeds(ensemble: Ensemble, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points of the unit cube: random points, corners, points near the data, and preimages of U's boundary."""
    D = len(low)
    inside = rng.uniform(size=(_SEEDS // 2, D))
    # A box of few inputs has few corners.
    corners = np.unique(rng.integers(2, size=(_SEEDS // 4, D)).astype(float), axis=0)
    measured = ensemble.X if len(ensemble.X) else low[None]
    data = (measured[rng.integers(len(measured), size=_SEEDS // 10)] - low) / np.where(high > low, high - low, 1.0)
    data += 0.05 * rng.normal(size=data.shape)
    parts = [inside, corners, data]
    gpm, where = ensemble.gpm, ensemble.gpm.embedding_slice
    if where is not None:
        R = ensemble.center[where[0]].reshape(where[1]) / np.asarray(gpm.x_map.scale) * (high - low)
        vertices = extreme_corners(R, _SEEDS // 4, rng)
        # Preimages of vertices of U, and points on the way to them.
        parts += [vertices, 0.5 + (vertices - 0.5) * rng.uniform(0.3, 1.0, (len(vertices), 1))]
    return np.clip(np.concatenate(parts), 0.0, 1.0)


def extreme_corners(R: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Corners (k, D) of the unit cube that map to vertices of U = {R x}, for random w.

    The linear function wᵀu is largest over U at the image of x = (1 + sign(Rᵀw)) / 2 (Garnett et al. 2014).
    """
    w = rng.normal(size=(n, len(R)))
    return np.unique((w @ R > 0).astype(float), axis=0)


def _differences(score: Callable[[np.ndarray], np.ndarray], Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and central differences, one-sided at the faces of the unit cube, from one call."""
    m, D = Z.shape
    up, down = np.minimum(Z + _STEP, 1.0), np.maximum(Z - _STEP, 0.0)
    eye = np.eye(D, dtype=bool)
    plus = np.where(eye, up[:, None], Z[:, None]).reshape(-1, D)
    minus = np.where(eye, down[:, None], Z[:, None]).reshape(-1, D)
    values = score(np.concatenate([Z, plus, minus]))
    difference = (values[m : m + m * D] - values[m + m * D :]).reshape(m, D)
    return values[:m], difference / (up - down)
