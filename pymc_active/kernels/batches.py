"""Kernels for many hyperparameters at once, with gradients: what particles are moved by.

Only the lower triangle of a covariance is computed, as one row of ``n (n + 1) / 2`` numbers for each particle. A batch
has these rows as ``K`` (S, q), and ``pullback(W)``, the gradients (S, P) of the sums of W * K along the rows. The
differences of inputs are those of the data, so lengthscales and embeddings act by matrix products alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pymc_active.kernels.arrays import (
    Add,
    Constant,
    Linear,
    Multiply,
    Node,
    Periodic,
    RationalQuadratic,
    Stationary,
    ZeroMeanPeriodic,
)
from pymc_active.kernels.radial import Profile


class Pairs:
    """The lower triangle of the n x n pairs of rows of ``X``, diagonal included."""

    def __init__(self, X: np.ndarray):
        self.X = X
        self.rows, self.columns = np.tril_indices(len(X))
        self._differences: dict[bytes, np.ndarray] = {}

    def differences(self, columns: np.ndarray) -> np.ndarray:
        """x_i - x_j for these input columns, (C, q)."""
        key = columns.tobytes()
        if key not in self._differences:
            some = self.X[:, columns].T
            self._differences[key] = some[:, self.rows] - some[:, self.columns]
        return self._differences[key]

    def squared_differences(self, columns: np.ndarray) -> np.ndarray:
        """(x_i - x_j)² for these input columns, (C, q)."""
        key = b"squared" + columns.tobytes()
        if key not in self._differences:
            self._differences[key] = np.square(self.differences(columns))
        return self._differences[key]


class Batch(Protocol):
    """A kernel among the data for S particles."""

    K: np.ndarray

    def pullback(self, W: np.ndarray) -> np.ndarray:
        """Gradients (S, P) of (W * K).sum(1)."""


def batch(kernel: Node, thetas: np.ndarray, pairs: Pairs) -> Batch:
    """A kernel at every row of thetas (S, P)."""
    return _BATCHES[type(kernel)](kernel, thetas, pairs)


def _variance(thetas: np.ndarray, log_outputscale: int) -> np.ndarray:
    return np.exp(2 * thetas[:, log_outputscale])[:, None]


class _Stationary:
    def __init__(self, node: Stationary, thetas: np.ndarray, pairs: Pairs):
        self.node, self.P = node, thetas.shape[1]
        self.squares = pairs.squared_differences(node.columns)
        self.weights = np.exp(-2 * thetas[:, node.column_indices])
        self.s = self.weights @ self.squares
        self._evaluate(thetas)

    def _evaluate(self, thetas: np.ndarray) -> None:
        self.variance = _variance(thetas, self.node.log_outputscale)
        value, self.slope = self.node.profile(self.s, 1)
        self.K = value * self.variance

    def pullback(self, W):
        gradient = np.zeros((len(W), self.P))
        gradient[:, self.node.log_outputscale] = 2 * np.einsum("sq,sq->s", W, self.K)
        self._add_lengthscales(gradient, W * self.slope * self.variance)
        return gradient

    def _add_lengthscales(self, gradient: np.ndarray, Wk1: np.ndarray) -> None:
        each = -2 * self.weights * (Wk1 @ self.squares.T)
        # Columns of one group share a lengthscale.
        for number, index in enumerate(self.node.column_indices):
            gradient[:, index] += each[:, number]


class _RationalQuadratic(_Stationary):
    node: RationalQuadratic

    def _evaluate(self, thetas):
        self.alpha = np.exp(thetas[:, self.node.log_alpha])[:, None]
        self.t = 1 + self.s / (2 * self.alpha)
        self.log_t = np.log(self.t)
        self.K = _variance(thetas, self.node.log_outputscale) * np.exp(-self.alpha * self.log_t)

    def pullback(self, W):
        gradient, WK = np.zeros((len(W), self.P)), W * self.K
        gradient[:, self.node.log_outputscale] = 2 * WK.sum(1)
        gradient[:, self.node.log_alpha] = np.einsum("sq,sq->s", WK, self.s / (2 * self.t) - self.alpha * self.log_t)
        self._add_lengthscales(gradient, -0.5 * WK / self.t)
        return gradient


class _Periodic:
    def __init__(self, node: Periodic, thetas: np.ndarray, pairs: Pairs):
        self.node, self.P = node, thetas.shape[1]
        scale = np.pi * np.exp(-thetas[:, node.log_period])
        self.weight = 4 * np.exp(-2 * thetas[:, node.log_lengthscale])[:, None]
        self.angles = [np.multiply.outer(scale, difference) for difference in pairs.differences(node.columns)]
        self.sines = [np.sin(angle) for angle in self.angles]
        self.s = self.weight * sum(np.square(sine) for sine in self.sines)
        self.K = _variance(thetas, node.log_outputscale) * np.exp(-0.5 * self.s)

    def pullback(self, W):
        gradient, WK = np.zeros((len(W), self.P)), W * self.K
        gradient[:, self.node.log_outputscale] = 2 * WK.sum(1)
        gradient[:, self.node.log_lengthscale] = np.einsum("sq,sq->s", WK, self.s)
        slope = sum(a * sine * np.cos(a) for a, sine in zip(self.angles, self.sines, strict=True))
        gradient[:, self.node.log_period] = np.einsum("sq,sq->s", WK, self.weight * slope)
        return gradient


class _ZeroMeanPeriodic:
    def __init__(self, node: ZeroMeanPeriodic, thetas: np.ndarray, pairs: Pairs):
        self.node, self.periodic = node, _Periodic(node, thetas, pairs)
        value, slope, _ = node.stretch(thetas[:, node.log_lengthscale])
        variance = _variance(thetas, node.log_outputscale)
        self.value, self.slope = value[:, None], slope
        self.below = variance * np.expm1(-0.5 * self.periodic.s)
        self.K = variance + self.value * self.below

    def pullback(self, W):
        gradient = self.value * self.periodic.pullback(W)
        gradient[:, self.node.log_lengthscale] += self.slope * np.einsum("sq,sq->s", W, self.below)
        gradient[:, self.node.log_outputscale] = 2 * np.einsum("sq,sq->s", W, self.K)
        return gradient


class _Constant:
    def __init__(self, node: Constant, thetas: np.ndarray, pairs: Pairs):
        self.index, self.P = node.log_outputscale, thetas.shape[1]
        self.K = np.repeat(_variance(thetas, self.index), len(pairs.rows), axis=1)

    def pullback(self, W):
        gradient = np.zeros((len(W), self.P))
        gradient[:, self.index] = 2 * np.einsum("sq,sq->s", W, self.K)
        return gradient


class _Linear:
    def __init__(self, node: Linear, thetas: np.ndarray, pairs: Pairs):
        self.node, self.P = node, thetas.shape[1]
        some = pairs.X[:, node.columns].T
        left, right = some[:, pairs.rows], some[:, pairs.columns]
        if node.location is None:
            self.left, self.right = left[None], right[None]
        else:
            c = thetas[:, node.location, None]
            self.left, self.right = left - c, right - c
        self.variance = _variance(thetas, node.log_outputscale)
        self.K = self.variance * (self.left * self.right).sum(1)

    def pullback(self, W):
        gradient = np.zeros((len(W), self.P))
        gradient[:, self.node.log_outputscale] = 2 * np.einsum("sq,sq->s", W, self.K)
        if self.node.location is not None:
            gradient[:, self.node.location] = -np.einsum("sq,scq->sc", W * self.variance, self.left + self.right)
        return gradient


class _Add:
    def __init__(self, node: Add, thetas: np.ndarray, pairs: Pairs):
        self.parts = [batch(part, thetas, pairs) for part in node.parts]
        self.K = sum(part.K for part in self.parts[1:]) + self.parts[0].K

    def pullback(self, W):
        return sum(part.pullback(W) for part in self.parts)


class _Multiply:
    def __init__(self, node: Multiply, thetas: np.ndarray, pairs: Pairs):
        self.left, self.right = batch(node.left, thetas, pairs), batch(node.right, thetas, pairs)
        self.K = self.left.K * self.right.K

    def pullback(self, W):
        return self.left.pullback(W * self.right.K) + self.right.pullback(W * self.left.K)


_BATCHES: dict[type[Node], Callable[..., Batch]] = {
    Stationary: _Stationary,
    RationalQuadratic: _RationalQuadratic,
    Periodic: _Periodic,
    ZeroMeanPeriodic: _ZeroMeanPeriodic,
    Constant: _Constant,
    Linear: _Linear,
    Add: _Add,
    Multiply: _Multiply,
}


class EmbeddedBatch:
    """outputscale² g(|R x - R x'|²) for embeddings R (S, d, D), without its own place for the gradient in R."""

    def __init__(self, profile: Profile, R: np.ndarray, log_outputscales: np.ndarray, pairs: Pairs):
        S, d, D = R.shape
        self.differences = pairs.differences(np.arange(D))
        self.moved = (R.reshape(S * d, D) @ self.differences).reshape(S, d, -1)
        self.variance = np.exp(2 * log_outputscales)[:, None]
        value, self.slope = profile(np.einsum("skq,skq->sq", self.moved, self.moved), 1)
        self.K = value * self.variance

    def pullback(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of (W * K).sum(1) in R (S, d, D) and in the log output scales (S,)."""
        S, d, q = self.moved.shape
        weighted = self.moved * (2 * W * self.slope * self.variance)[:, None]
        in_R = (weighted.reshape(S * d, q) @ self.differences.T).reshape(S, d, -1)
        return in_R, 2 * np.einsum("sq,sq->s", W, self.K)
