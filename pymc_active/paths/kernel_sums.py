"""Sums of a kernel at many points, Σ_i weight_i k(x, z_i), with gradient and Hessian in x."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from pymc_active.kernels.node import Lines
from pymc_active.kernels.stationary import RadialLines
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.graph import GraphPosterior

# Numbers in the largest array of one block, so that it stays in the cache: sums are several times faster there.
_BLOCK = 32_768

Derivatives = tuple[np.ndarray, np.ndarray, np.ndarray]


class Functions(Protocol):
    """S functions of the inputs."""

    def value(self, X: np.ndarray) -> np.ndarray:
        """All functions at all points, (S, m)."""

    def derivatives(self, X: np.ndarray, which: np.ndarray) -> Derivatives:
        """Value (m,), gradient (m, D) and Hessian (m, D, D) of function ``which[i]`` at row i."""


def cache_blocks(n_points: int, width: int) -> Iterator[slice]:
    """Slices of points whose arrays, of ``width`` numbers per point, stay in the cache."""
    step = max(8, _BLOCK // max(width, 1))
    for start in range(0, n_points, step):
        yield slice(start, start + step)


@dataclass(frozen=True, eq=False)
class KernelSums:
    """S functions Σ_i weight_i k(x, z_i) with the kernel of ``gp``, the rows of Z (n, D), and weights (S, n)."""

    gp: ConditionedGP
    Z: np.ndarray
    weights: np.ndarray

    def value(self, X: np.ndarray) -> np.ndarray:
        out = np.empty((len(self.weights), len(X)))
        for rows in cache_blocks(len(X), self.Z.size // 8):
            out[:, rows] = self.weights @ self.gp.covariance(X[rows], self.Z).T
        return out

    def derivatives(self, X: np.ndarray, which: np.ndarray) -> Derivatives:
        m, D = X.shape
        out = np.empty(m), np.empty((m, D)), np.empty((m, D, D))
        if isinstance(self.gp.posterior, GraphPosterior):
            return self._by_graph(X, self.weights[which].T)
        for rows in cache_blocks(m, self.Z.size):
            between, weights = self.gp.lines(X[rows][:, None], self.Z), self.weights[which[rows]]
            if isinstance(between, RadialLines):
                parts = _radial_sums(between, weights, D)
            else:
                parts = _sums_along_axes(between, weights, D)
            for whole, part in zip(out, parts, strict=True):
                whole[rows] = part
        return out

    def _by_graph(self, X: np.ndarray, weights: np.ndarray) -> Derivatives:
        """With gradients from a graph, and Hessians from differences of these; weights are (n, m)."""
        m = len(X)
        at_X: list[np.ndarray] = []

        def gradient(points: np.ndarray) -> np.ndarray:
            # Of copies of X, and X, by one call.
            copies = np.tile(weights, 1 + len(points) // m)
            values, slopes = self.gp.sums(np.concatenate([X, points]), copies, self.Z)
            at_X[:] = values[:m], slopes[:m]
            return slopes[m:]

        hessian = self.gp.central_differences(gradient, X)
        value, slope = at_X
        return value, slope, 0.5 * (hessian + hessian.swapaxes(1, 2))


# Both return value (m,), gradient (m, D) and Hessian (m, D, D), in the points, of sums over n with weights (m, n).
def _radial_sums(between: RadialLines, weights: np.ndarray, D: int) -> Derivatives:
    """Of g(|turn x - z|²): the chain rule."""
    g, first, second = between.derivatives(2)
    difference, turn = between.difference, between.turn(np.eye(D))
    first, second = weights * (2 * first), weights * (4 * second)
    gradient = (first[:, None] @ difference)[:, 0]
    hessian = difference.swapaxes(1, 2) @ (second[..., None] * difference)
    d = turn.shape[1]
    hessian[:, range(d), range(d)] += first.sum(1)[:, None]
    return np.einsum("ij,ij->i", weights, g), gradient @ turn.T, turn @ hessian @ turn.T


def _sums_along_axes(between: Lines, weights: np.ndarray, D: int) -> Derivatives:
    """Of any kernel, expanded along the axes and the diagonals between two axes."""
    m, axes = len(weights), np.eye(D)
    gradient, hessian = np.empty((m, D)), np.empty((m, D, D))
    K = between.along(None, None, (0, 0))[0, 0]

    def coefficients(direction: np.ndarray) -> list[np.ndarray]:
        p = between.along(direction, None, (2, 0))
        return [(weights * p.get((k, 0), 0.0)).sum(1) for k in (1, 2)]

    for i in range(D):
        gradient[:, i], half = coefficients(axes[i])
        hessian[:, i, i] = 2 * half
    for i, j in combinations(range(D), 2):
        _, half = coefficients(axes[i] + axes[j])
        hessian[:, i, j] = hessian[:, j, i] = half - 0.5 * (hessian[:, i, i] + hessian[:, j, j])
    return np.einsum("ij,ij->i", weights, K), gradient, hessian
