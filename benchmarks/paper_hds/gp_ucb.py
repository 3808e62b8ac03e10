"""GP-UCB with known scales on some inputs, with which the paper continues after HDS (section 4); and its regret."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

# Prior variance of the mean of f, in signal variances.
VAGUE = 100.0
# Random places at which the bound is compared, and how many of the best are polished.
CANDIDATES, POLISHED = 2000, 5


class Surrogate:
    """A GP of unknown mean and given scales on the unit box; the covariance is exp(-r² / b²)."""

    def __init__(self, U: np.ndarray, y: np.ndarray, bandwidth: float, signal_variance: float, noise_variance: float):
        self.U, self.bandwidth, self.signal_variance = U, bandwidth, signal_variance
        self.shift = float(y.mean())
        self.L = cholesky(self._kernel(U) + noise_variance * np.eye(len(y)), lower=True)
        self.alpha = cho_solve((self.L, True), y - self.shift)

    def _kernel(self, U: np.ndarray) -> np.ndarray:
        a, b = U / self.bandwidth, self.U / self.bandwidth
        square = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
        return self.signal_variance * (VAGUE + np.exp(-np.maximum(square, 0)))

    def bound(self, U: np.ndarray, width: float) -> np.ndarray:
        """Mean plus ``width`` sds, (m,)."""
        k = self._kernel(U)
        half = solve_triangular(self.L, k.T, lower=True)
        variance = self.signal_variance * (1 + VAGUE) - np.square(half).sum(0)
        return self.shift + k @ self.alpha + width * np.sqrt(np.maximum(variance, 0))

    def value_and_gradient(self, u: np.ndarray, width: float) -> tuple[float, np.ndarray]:
        """The negative bound and its gradient at one point."""
        k = self._kernel(u[None])[0]
        weights = cho_solve((self.L, True), k)
        sd = np.sqrt(max(self.signal_variance * (1 + VAGUE) - k @ weights, 1e-12 * self.signal_variance))
        dk = (-2 * (u - self.U) / self.bandwidth**2) * (k - VAGUE * self.signal_variance)[:, None]
        gradient = dk.T @ (self.alpha - width / sd * weights)
        return -float(self.shift + k @ self.alpha + width * sd), -gradient

    def maximum(self, width: float, rng: np.random.Generator) -> np.ndarray:
        """Where the bound is largest in the unit box."""
        d = self.U.shape[1]
        best = self.U[np.argsort(-self.bound(self.U, 0.0))[:20]]
        near = np.clip(best + rng.normal(0, 0.3, best.shape) * self.bandwidth, 0, 1)
        places = np.concatenate([rng.random((CANDIDATES, d)), best, near])
        starts = places[np.argsort(-self.bound(places, width), kind="stable")[:POLISHED]]
        keywords = {"args": (width,), "jac": True, "method": "L-BFGS-B", "bounds": [(0, 1)] * d}
        found = [minimize(self.value_and_gradient, u, **keywords) for u in starts]
        return np.clip(min(found, key=lambda result: result.fun).x, 0, 1)


def gp_ucb(
    f: Callable[[np.ndarray], np.ndarray],
    n_dims: int,
    n: int,
    inputs: list[int],
    *,
    X: np.ndarray,
    y: np.ndarray,
    beta: float,
    bandwidth: float,
    signal_variance: float,
    noise_variance: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """The n points (n, n_dims) of [-1, 1] evaluated after the data X (m, d) of the ``inputs`` and y (m,)."""
    U, points = (X + 1) / 2, np.zeros((n, n_dims))
    for point in points:
        if len(U):
            u = Surrogate(U, y, bandwidth / 2, signal_variance, noise_variance).maximum(np.sqrt(beta), rng)
        else:
            u = rng.random(len(inputs))
        point[inputs] = 2 * u - 1
        U, y = np.vstack([U, u]), np.append(y, f(point[None]))
    return points


class Regret(NamedTuple):
    """After each evaluation, in units of y: the average so far, R_T / T, and the smallest so far."""

    average: np.ndarray
    minimum: np.ndarray


def regret(values: np.ndarray, optimum: float) -> Regret:
    """Regret of evaluations, given f without noise and its largest value."""
    step = optimum - values
    return Regret(step.cumsum() / np.arange(1, len(step) + 1), np.minimum.accumulate(step))
