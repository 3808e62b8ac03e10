"""Condition a Gaussian process on the place of its maximum: constraints C1 and C2 of predictive entropy search.

C1: at a maximum x* inside the box the slopes are zero and the curvatures negative; on a face of the box the slope
points outwards and the curvature across the face is unknown. C2: f(x*) exceeds the largest observation in the box.
All x* are treated at once, each with constraints of its own.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Literal

import numpy as np

from pymc_active.criteria.maximum.truncated import propagate, truncated_moments
from pymc_active.paths import PathMaxima
from pymc_active.posterior.conditioned import ConditionedGP

Mixed = Literal["free", "zero", "path"]
Boundary = Literal["outward", "stationary"]
MomentMethod = Literal["sampled", "ep"]

# Variances of constraints below this fraction of the prior's are rounding errors.
_ROUNDING = 1e-12
# Fewest effective draws, and most coordinates, for sampled moments: more coordinates are less correlated, so that
# expectation propagation is more accurate.
_FEWEST, _MOST_SAMPLED = 50, 5
# A slope with a smaller share of independent variance is determined by those of other inputs.
_DEPENDENT = 1e-8


class GPGivenMaxima:
    """A GP given each of S places x* of its maximum, approximated by a Gaussian.

    Let w = [constraints, sites] at x*, in units of their prior sds, and m, V and B the mean and variance of f(x) and
    its covariances with w, given the data. Then f(x) given x* has mean ``m + B g``, variance ``V - B P Bᵀ`` and
    covariance ``B l`` with f(x*), which has ``height_mean`` and ``height_variance`` (S,). ``P`` is (S, k, k), ``g`` and
    ``l`` are (S, k); ``converged`` is (S, number of sites), and ``ok`` (S,) says whether expectation propagation
    converged to proper moments.

    Constraints to which the data leave no variance are dropped. Where f depends on fewer directions than inputs, as in
    an embedding, signs of curvatures and slopes are imposed along only as many inputs as there are directions, since
    expectation propagation would count repeated signs several times.

    ``mixed``, ``boundary`` and ``moments`` are as in :func:`pes`; expectation propagation also serves where too few
    draws are effective. ``derivatives`` impose C1, not over a pool; f(x*) exceeds the observation ``best``, up to its
    noise (C2), in the kernel's units, -inf for none. ``mixed_values`` (S, D (D - 1) / 2) are the mixed second
    derivatives of the paths for ``mixed="path"``, above the diagonal, row by row; ``directions`` (D, S, D) orthonormal
    ones in which each maximum is free or not, by default the inputs. A slope of zero in a direction that is not free
    means that nothing is known of it.
    """

    def __init__(
        self, gp: ConditionedGP, maxima: PathMaxima, *, derivatives: bool = True, best: float = -np.inf,
        mixed: Mixed = "free", boundary: Boundary = "outward", mixed_values: np.ndarray | None = None,
        moments: MomentMethod = "sampled", directions: np.ndarray | None = None,
    ):  # fmt: skip
        self.gp, self.X = gp, maxima.X
        S, D = self.X.shape
        free = np.ones((S, D), bool) if boundary == "stationary" else maxima.free
        axes = np.broadcast_to(np.eye(D)[:, None], (D, S, D)) if directions is None else directions
        pairs = list(combinations(range(D), 2)) if derivatives and mixed != "free" else []
        self.slopes = axes = axes if derivatives else axes[:0]
        # The second derivative along e_i + e_j holds the mixed one.
        self.seconds = np.concatenate([axes, *([axes[i] + axes[j]] for i, j in pairs)])

        mean, prior = self._prior()
        cross = self.cross(gp.X)
        n, _, q = cross.shape
        half = gp.factor.half_solve(cross.reshape(n, -1)).reshape(cross.shape)
        self.solved = gp.factor.solve(cross.reshape(n, -1)).reshape(cross.shape)
        mean = mean + np.einsum("n,nsq->sq", gp.alpha, cross)
        covariance = prior - np.einsum("nsp,nsq->spq", half, half)

        T = _constraints(free, np.sign(maxima.slopes), pairs, q)
        self.moments = moments
        used = np.ones((S, 1 + len(axes)), bool)
        if derivatives:
            known = free | (maxima.slopes != 0)
            used[:, 1:] = known & _independent(prior[:, 1 : 1 + D, 1 : 1 + D], free)
        sd = np.sqrt(np.einsum("skp,spq,skq->sk", T, prior, T))
        unit = np.where(sd > 0, sd, 1.0)
        self.T = T / unit[:, :, None]
        self.n_known = T.shape[1] - 1 - len(axes)
        target = np.zeros((S, self.n_known))
        if mixed == "path" and mixed_values is not None:
            target[:, D:] = mixed_values / unit[:, D : self.n_known]
        # The noise may depend on the input: take that of the best observation.
        noise, height = gp.data_noise[[np.abs(gp.y - best).argmin()]], sd[:, self.n_known]
        mean, covariance = np.einsum("skq,sq->sk", self.T, mean), self.T @ covariance @ self.T.transpose(0, 2, 1)
        self._condition(mean, covariance, target, best / height, noise / np.square(height), used, height)

    def _prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Prior mean (S, q) and covariance (S, q, q) of [f, slopes, second derivatives] at each x*."""
        X, slopes, seconds = self.X, self.slopes, self.seconds
        S, a, b = len(X), len(slopes), len(seconds)
        mean = np.zeros((S, 1 + a + b))
        mean[:, 0], gradient = self.gp.prior_mean(X)
        mean[:, 1 : 1 + a] = np.einsum("asi,si->sa", slopes, gradient)
        if a:
            mean[:, 1 + a :] = np.einsum("bsi,sij,bsj->sb", seconds, self.gp.prior_mean_hessian(X), seconds)
        J = np.zeros((S, 1 + a + b, 1 + a + b))
        J[:, 0, 0] = self.gp.prior_variance(X)
        if b:
            p = self.gp.lines(X, X).along(seconds[:, None], seconds, (2, 2))

            def derivatives(order: tuple[int, int]) -> np.ndarray:
                scale = math.factorial(order[0]) * math.factorial(order[1])
                return scale * np.moveaxis(np.broadcast_to(p.get(order, 0.0), (b, b, S)), 2, 0)

            # Slopes are along the first directions; terms of order zero in one argument do not depend on its direction.
            J[:, 1 + a :, 1 + a :] = derivatives((2, 2))
            J[:, 1 : 1 + a, 1 : 1 + a] = derivatives((1, 1))[:, :a, :a]
            J[:, 1 : 1 + a, 1 + a :] = derivatives((1, 2))[:, :a]
            J[:, 1 + a :, 1 : 1 + a] = J[:, 1 : 1 + a, 1 + a :].swapaxes(1, 2)
            J[:, 0, 1 + a :] = J[:, 1 + a :, 0] = derivatives((2, 0))[:, :, 0]
            J[:, 0, 1 : 1 + a] = J[:, 1 : 1 + a, 0] = derivatives((1, 0))[:, :a, 0]
        return mean, J

    def cross(self, X: np.ndarray) -> np.ndarray:
        """Prior covariances of f at the rows of X with [f, slopes, second derivatives] at each x*, (m, S, q)."""
        m, a, b = len(X), len(self.slopes), len(self.seconds)
        B = np.empty((m, len(self.X), 1 + a + b))
        B[..., 0] = self.gp.covariance(X, self.X)
        for i, v in enumerate(self.seconds):
            p = self.gp.lines(X[:, None], self.X).along(None, v, (0, 2))
            if i < a:
                B[..., 1 + i] = p.get((0, 1), 0.0)
            B[..., 1 + a + i] = 2 * p.get((0, 2), 0.0)
        return B

    def cross_gradient(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Gradient in X (m, D) of the sum of ``cross(X) * weights`` over its last two axes."""
        (m, D), S, a, b = X.shape, len(self.X), len(self.slopes), len(self.seconds)
        if not b:
            return self.gp.pull(X, weights[..., 0].T, self.X)
        # With few points, many small calls would cost more than their arithmetic.
        axes = np.eye(D)[:, None, None, None]
        B = np.empty((1 + a + b, D, m, S))
        p = self.gp.lines(X[:, None], self.X).along(axes, self.seconds[:, None], (1, 2))
        slopes, seconds = (np.broadcast_to(p.get((1, j), 0.0), (D, b, m, S)) for j in (1, 2))
        B[0] = np.broadcast_to(p.get((1, 0), 0.0), (D, b, m, S))[:, 0]
        B[1 : 1 + a] = slopes[:, :a].swapaxes(0, 1)
        B[1 + a :] = 2 * seconds.swapaxes(0, 1)
        return np.einsum("msq,qdms->md", weights, B)

    def _condition(
        self, mean: np.ndarray, V: np.ndarray, target: np.ndarray, best: np.ndarray, noise: np.ndarray,
        used: np.ndarray, height: np.ndarray,
    ) -> None:  # fmt: skip
        """Impose the equality constraints, then the sites that are used; ``height`` is the unit of f at each x*."""
        c = self.n_known
        values, vectors = np.linalg.eigh(V[:, :c, :c])
        resolved = values > _ROUNDING
        root = vectors * np.where(resolved, 1 / np.sqrt(np.where(resolved, values, 1.0)), 0.0)[:, None, :]
        # V_cc⁺, and the regression of sites on constraints.
        inverse = root @ root.transpose(0, 2, 1)
        regression = inverse @ V[:, :c, c:]
        surprise = np.einsum("sij,sj->si", inverse, target - mean[:, :c])
        m0 = mean[:, c:] + np.einsum("sij,si->sj", regression, target - mean[:, :c])
        V0 = V[:, c:, c:] - V[:, c:, :c] @ regression
        k = V0.shape[1]
        used = used & (np.diagonal(V0, axis1=1, axis2=2) > _ROUNDING)
        V0 = V0 * used[:, :, None] * used[:, None]

        bound, softness = np.zeros(m0.shape), np.zeros(m0.shape)
        bound[:, 0], softness[:, 0] = best, noise
        bound[~used] = -np.inf
        sites = propagate(m0, V0, bound, softness)
        self.converged, self.n_sweeps = sites.converged, sites.n_sweeps
        # (V0 + 1 / precision)⁻¹, also for sites of zero precision.
        weight = np.sqrt(np.maximum(sites.precision, 0.0))
        inner = np.eye(k) + weight[:, :, None] * V0 * weight[:, None, :]
        proper = np.isfinite(inner).all((1, 2)) & np.isfinite(sites.shift).all(1)
        inner[~proper] = np.eye(k)
        M = weight[:, :, None] * np.linalg.solve(inner, weight[:, :, None] * np.eye(k))
        h = sites.shift - np.einsum("sij,sj->si", M, np.einsum("sij,sj->si", V0, sites.shift) + m0)
        self.ok = proper & sites.converged.all(1)
        # For one coordinate, expectation propagation is exact.
        if self.moments == "sampled" and 1 < k <= _MOST_SAMPLED and self.ok.any():
            rows = np.flatnonzero(self.ok)
            sampled_M, sampled_h, effective = truncated_moments(m0[rows], V0[rows], bound[rows], softness[rows])
            enough = effective >= _FEWEST
            rows = rows[enough]
            M[rows] = sampled_M[enough] * used[rows, :, None] * used[rows, None]
            h[rows] = sampled_h[enough] * used[rows]
        spread = np.eye(k)[0] - np.einsum("sij,sj->si", M, V0[:, :, 0])

        GM = regression @ M
        self.P = np.block([[inverse + GM @ regression.transpose(0, 2, 1), -GM], [-GM.transpose(0, 2, 1), M]])
        self.g = np.concatenate([surprise - np.einsum("sij,sj->si", regression, h), h], axis=1)
        self.l = height[:, None] * np.concatenate([-np.einsum("sij,sj->si", regression, spread), spread], axis=1)
        self.height_mean = height * (m0[:, 0] + np.einsum("sj,sj->s", V0[:, 0], h))
        self.height_variance = np.square(height) * np.einsum("sj,sj->s", V0[:, 0], spread)
        self.ok &= (self.height_variance >= 0) & np.isfinite(self.P).all((1, 2)) & np.isfinite(self.g).all(1)


def _constraints(free: np.ndarray, outward: np.ndarray, pairs: list[tuple[int, int]], q: int) -> np.ndarray:
    """Equality constraints, then sites, as rows over [f, slopes, second derivatives], (S, k, q); zero rows for none."""
    S, D = free.shape
    if q == 1:
        return np.ones((S, 1, 1))
    known = np.zeros((S, D + len(pairs), q))
    sites = np.zeros((S, 1 + D, q))
    sites[:, 0, 0] = 1.0
    for i in range(D):
        known[:, i, 1 + i] = free[:, i]
        sites[:, 1 + i, 1 + D + i] = -1.0 * free[:, i]
        sites[:, 1 + i, 1 + i] = np.where(free[:, i], 0.0, np.where(outward[:, i] < 0, -1.0, 1.0))
    for row, (i, j) in enumerate(pairs, start=D):
        both = free[:, i] & free[:, j]
        known[:, row, 1 + D + row] = 0.5 * both
        known[:, row, 1 + D + i] = known[:, row, 1 + D + j] = -0.5 * both
    return np.concatenate([known, sites], axis=1)


def _independent(slopes: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Inputs whose slope, with prior covariances ``slopes`` (S, D, D), is not fixed by earlier ones, free first."""
    sd = np.sqrt(np.diagonal(slopes, axis1=1, axis2=2))
    sd = np.where(sd > 0, sd, 1.0)
    left = slopes / sd[:, :, None] / sd[:, None]
    chosen = np.zeros(sd.shape, bool)
    for among in (free, ~free):
        for i in range(sd.shape[1]):
            own = left[:, i, i]
            chosen[:, i] |= among[:, i] & (own > _DEPENDENT)
            known = left[:, i] * np.where(among[:, i] & chosen[:, i], own, np.inf)[:, None] ** -0.5
            left = left - known[:, :, None] * known[:, None]
    return chosen
