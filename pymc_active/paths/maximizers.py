"""Global maximisers of sample paths: a screen of many points, then Newton's method from the best, all paths at once.

Starts are the peaks of a path on the screen, points higher than all their nearest neighbours. A step solves a quadratic
model with curvatures made negative, limited along each principal axis by a radius that follows how well the model has
predicted. Inputs that would leave the box are put on its bound, and the others are solved for again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_active.paths.kernel_sums import Functions
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.support.threads import one_blas_thread

# Points of the box to screen besides the data: for up to three inputs, and at most.
_SCREEN, _MOST_SCREENED = 1024, 4096
# Starts of a path: this many plus two for each input, and at most.
_STARTS, _MOST_STARTS = 6, 24
# Neighbours that a peak must exceed: for each input, and at most.
_NEIGHBOURS, _MOST_NEIGHBOURS = 3, 25
# Best data, and perturbed copies of each.
_BEST_DATA, _COPIES = 8, 8
# First steps of all starts; the number of best starts of a path that go on; their steps.
_FIRST_STEPS, _LAST, _STEPS = 2, 3, 60
# As fractions of the box: the first and the smallest radius, and the distance below which maxima are one.
_RADIUS, _SMALLEST_RADIUS, _SAME = 0.2, 1e-13, 1e-3
# In sds of the path on the screen: the slope of a maximum, per width of the box, and gains that may be rounding errors,
# since weights of the data are large if the noise is small.
_SLOPE, _ROUNDING = 1e-9, 1e-9
# Share of paths whose climbs converge, below which they are not smooth; random points of a round of the search that
# follows, and how far these are from the best ones so far.
_SMOOTH, _RANDOM, _RADII = 0.5, 2048, (1.0, 1.0, 1.0, 0.3, 0.3, 0.1, 0.1, 0.03, 0.03, 0.01, 0.01, 0.003)
# Curvatures below this share of the largest count as zero.
_FLAT = 1e-12


class Climbable(Functions, Protocol):
    """S functions with derivatives; see :class:`pymc_active.paths.Paths`."""

    gp: ConditionedGP
    n_paths: int
    embedding: np.ndarray | None


class PathMaxima(NamedTuple):
    """Global maxima X (S, D) of S paths in a box, their values (S,), and gradients (S, D), nearly zero where free."""

    X: np.ndarray
    values: np.ndarray
    # (S, D): False where the maximum lies on a bound (exactly) and the path still rises across it.
    free: np.ndarray
    slopes: np.ndarray
    # ``converged`` (S,), whether the free slopes vanish.
    diagnostics: dict[str, Any]


def maximize_paths(paths: Climbable, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> PathMaxima:
    """Find the global maximum of every path in a box from ``low`` to ``high`` (D,), in the kernel's units."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    D, width = len(low), high - low

    def place(Z: np.ndarray) -> np.ndarray:
        return np.where(Z == 1, high, low + width * Z)

    # With an embedding, only the image of a point matters.
    R = None if paths.embedding is None else paths.embedding * width
    screen = _screen(paths, low, width, R, rng)
    with one_blas_thread():
        values = paths.value(place(screen))
        scale = values.std(1) + np.finfo(float).tiny
        which, rows = _peaks(screen if R is None else screen @ R.T, values, min(_STARTS + 2 * D, _MOST_STARTS))
        climb = _Climb(paths, place, width, scale, screen[rows], which)
        climb.run(_FIRST_STEPS)
        climb.keep(_best_distinct(climb.Z, climb.value, climb.which, _LAST))
        climb.run(_STEPS)
        order = np.lexsort((-climb.value, climb.which))
        best = order[np.searchsorted(climb.which[order], np.arange(paths.n_paths))]
        climb.keep(best)
        converged = climb.converged()
        if np.mean(converged) < _SMOOTH:
            climb.search(rng)
    free = ~_outward(climb.Z, climb.gradient)
    slopes = climb.gradient / np.where(width > 0, width, 1.0)
    return PathMaxima(place(climb.Z), climb.value, free, slopes, {"converged": converged})


def maximize_over_pool(paths: Climbable, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a pool (m, D) where the paths are largest, (S,), and their values there, (S,)."""
    values = paths.value(pool)
    rows = values.argmax(1)
    return rows, values[np.arange(len(values)), rows]


def _screen(
    paths: Climbable, low: np.ndarray, width: np.ndarray, R: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Points of the unit cube: evenly spread, on its faces and corners, at the data, and near the best data."""
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    D = len(low)
    n = int(np.clip(_SCREEN * (D - 2), _SCREEN, _MOST_SCREENED))
    even = qmc.Sobol(D, rng=rng).random_base2((n - 1).bit_length())[:n]
    # Many maxima lie on faces, few of the points do.
    on_faces = even[rng.permutation(n)[: n // 4]]
    on_faces = np.where(rng.uniform(size=on_faces.shape) < 0.5, np.rint(on_faces), on_faces)
    is_fixed = width == 0
    data = np.where(is_fixed, 0.0, paths.gp.X - low) / np.where(is_fixed, 1.0, width)
    inside = ((data >= 0) & (data <= 1)).all(1)
    data, y = data[inside], paths.gp.y[inside]
    best = data[np.argsort(-y, kind="stable")[:_BEST_DATA]]
    near = np.repeat(best, _COPIES, axis=0)
    near = np.clip(near + rng.normal(size=near.shape) * 0.3 * rng.uniform(size=(len(near), 1)) / np.sqrt(D), 0.0, 1.0)
    points = [even, on_faces, data, near]
    if R is not None:
        # Corners that map to the boundary of the image {R x}, and points between those and the centre.
        corners = (rng.normal(size=(n // 2, len(R))) @ R > 0).astype(float)
        points += [corners, 0.5 + (corners - 0.5) * rng.uniform(size=(n // 2, 1))]
    return np.unique(np.where(is_fixed, 0.0, np.concatenate(points)), axis=0)


def _peaks(Z: np.ndarray, values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``n`` highest peaks among the values (S, m) of every path: paths and rows, by path."""
    S, m = values.shape
    k = min(_NEIGHBOURS * Z.shape[1] + 1, _MOST_NEIGHBOURS, m)
    from scipy.spatial import cKDTree  # takes long to load

    neighbours = cKDTree(Z).query(Z, k=k)[1].reshape(m, k)
    is_peak = np.ones((S, m), bool)
    for column in neighbours.T[1:]:
        is_peak &= values >= values[:, column]
    heights = np.where(is_peak, values, -np.inf)
    n = min(n, m)
    top = np.argpartition(-heights, n - 1, axis=1)[:, :n]
    which = np.repeat(np.arange(S), n)
    rows = top.ravel()
    chosen = np.isfinite(heights[which, rows])
    return which[chosen], rows[chosen]


def _best_distinct(Z: np.ndarray, value: np.ndarray, which: np.ndarray, n: int) -> np.ndarray:
    """Indices of the ``n`` highest distinct places of every path."""
    order = np.lexsort((-value, which))
    chosen: list[int] = []
    for rows in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
        mine: list[int] = []
        for row in rows:
            if all(np.abs(Z[row] - Z[other]).max() > _SAME for other in mine):
                mine.append(row)
                if len(mine) == n:
                    break
        chosen += mine
    return np.array(chosen)


class _Climb:
    """Places Z (P, D) in the unit cube, each on its own path, that climb together."""

    def __init__(self, paths, place, width, scale, Z, which):
        self.paths, self.place, self.width = paths, place, width
        self.Z, self.which = Z.copy(), which
        self.scale = scale[which]
        self.radius = np.full(len(Z), _RADIUS)
        self.value, self.gradient, self.hessian = self._evaluate(self.Z, which)

    def _evaluate(self, Z, which):
        value, gradient, hessian = self.paths.derivatives(self.place(Z), which)
        return value, gradient * self.width, hessian * np.multiply.outer(self.width, self.width)

    def keep(self, rows: np.ndarray) -> None:
        """Keep these places only."""
        for name in ("Z", "which", "scale", "radius", "value", "gradient", "hessian"):
            setattr(self, name, getattr(self, name)[rows])

    def search(self, rng: np.random.Generator) -> None:
        """Take the best of random points nearer and nearer to the places, one of each path, in the order of paths."""
        # Where paths are nowhere smooth, a climb ends at the nearest ripple.
        each = max(_RANDOM // len(self.Z), 1)
        for radius in _RADII:
            near = np.repeat(self.Z, each, axis=0)
            near = np.clip(near + radius * rng.uniform(-1, 1, near.shape), 0.0, 1.0)
            values = self.paths.value(self.place(near))
            best = values.argmax(1)
            is_better = values[self.which, best] > self.value
            self.Z[is_better] = near[best[is_better]]
            self.value[is_better] = values[self.which, best][is_better]
        self.value, self.gradient, self.hessian = self._evaluate(self.Z, self.which)

    def converged(self) -> np.ndarray:
        """Whether slopes vanish where the place can move, (P,)."""
        return _free_slope(self.Z, self.gradient) <= _SLOPE * self.scale

    def run(self, n_steps: int) -> None:
        """Climb for some steps, or until all are at a maximum."""
        for _ in range(n_steps):
            rows = np.flatnonzero(~self.converged() & (self.radius > _SMALLEST_RADIUS))
            if not len(rows):
                return
            self._step(rows)

    def _step(self, rows: np.ndarray) -> None:
        Z, gradient, hessian, radius = self.Z[rows], self.gradient[rows], self.hessian[rows], self.radius[rows]
        step = newton_step(Z, gradient, hessian, radius)
        there = np.clip(Z + step, 0.0, 1.0)
        step = there - Z
        new = self._evaluate(there, self.which[rows])
        predicted = np.einsum("pi,pi->p", gradient, step) + 0.5 * np.einsum("pi,pij,pj->p", step, hessian, step)
        gain = new[0] - self.value[rows]
        # Near the top, gains are rounding errors, and slopes decide.
        lost = np.maximum(np.abs(gain), np.abs(predicted)) <= _ROUNDING * self.scale[rows]
        is_flatter = _free_slope(there, new[1]) < _free_slope(Z, gradient)
        better = np.where(lost, is_flatter, gain > 0) & np.isfinite(new[0])
        length = np.abs(step).max(1)
        poor = ~better | (~lost & (gain < 0.25 * predicted))
        good = better & (gain > 0.75 * predicted) & (length > 0.5 * radius)
        self.radius[rows] = np.where(poor, 0.25 * np.minimum(length, radius), np.where(good, 2 * radius, radius))
        taken = rows[better]
        self.Z[taken] = there[better]
        self.value[taken], self.gradient[taken], self.hessian[taken] = (array[better] for array in new)


def _outward(Z: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Inputs on a bound across which the path rises, (P, D)."""
    return ((Z == 0) & (gradient < 0)) | ((Z == 1) & (gradient > 0))


def _free_slope(Z: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The largest slope along which a place can move, (P,)."""
    return np.where(_outward(Z, gradient), 0.0, np.abs(gradient)).max(1)


def newton_step(Z: np.ndarray, gradient: np.ndarray, hessian: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Steps (P, D) in the unit cube: on each axis of the curvature, slope over |curvature|, at most the radius."""
    P, D = Z.shape
    step = np.zeros((P, D))
    fixed = _outward(Z, gradient)
    left = np.arange(P)
    for _ in range(D):
        held = fixed[left]
        free = ~held
        slope = (gradient[left] + np.einsum("pij,pj->pi", hessian[left], step[left] * held)) * free
        curvature = hessian[left] * (free[:, :, None] & free[:, None])
        values, axes = np.linalg.eigh(curvature)
        along = np.einsum("pij,pi->pj", axes, slope)
        # In flat directions the slope is a rounding error.
        size = np.maximum(np.abs(values), _FLAT * np.abs(values).max(1, keepdims=True))
        size = np.maximum(size, np.abs(along) / radius[left, None])
        moved = np.einsum("pij,pj->pi", axes, along / np.maximum(size, np.finfo(float).tiny))
        step[left] = np.where(held, step[left], moved)
        there = Z[left] + step[left]
        leaves = free & ((there < 0) | (there > 1))
        hit = leaves.any(1)
        if not hit.any():
            break
        left, leaves, there = left[hit], leaves[hit], there[hit]
        fixed[left] |= leaves
        # The other inputs are solved for again, given these.
        step[left] = np.where(leaves, np.clip(there, 0.0, 1.0) - Z[left], step[left])
    return step
