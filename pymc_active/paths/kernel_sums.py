"""Sums of a kernel at many points, Σ_i weight_i k(x, z_i), with gradient and Hessian in x."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from pymc_active.kernels.node import Lines
from pymc_active.kernels.stationary import RadialLines
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.conditioned import ConditionedGP

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
        # Arrays stay in the cache; a compiled graph is called as seldom as possible.
        known = isinstance(self.gp.posterior, ArrayPosterior)
        for rows in cache_blocks(m, self.Z.size if known else self.Z.size // 16):
            near, weights = self._near(X[rows]), self.weights[which[rows]]
            for whole, part in zip(out, (np.einsum("ij,ij->i", weights, near.K), *near.sums(weights)), strict=True):
                whole[rows] = part
        return out

    def _near(self, X: np.ndarray) -> Near:
        between, D = self.gp.lines(X[:, None], self.Z), X.shape[1]
        return _Radial(between, D) if isinstance(between, RadialLines) else _AlongAxes(between, D)


class Near(Protocol):
    """A kernel K (m, n) between m points and n rows, with its derivatives in the points."""

    K: np.ndarray

    def sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (m, D) and Hessian (m, D, D) of the sum over n with weights (m, n)."""


class _Radial:
    """g(|turn x - z|²): the chain rule."""

    def __init__(self, between: RadialLines, n_inputs: int):
        g, first, second = between.derivatives(2)
        self.K, self.first, self.second = g, 2 * first, 4 * second
        self.difference, self.turn = between.difference, between.turn(np.eye(n_inputs))

    def sums(self, weights):
        first, second = weights * self.first, weights * self.second
        gradient = (first[:, None] @ self.difference)[:, 0]
        hessian = self.difference.swapaxes(1, 2) @ (second[..., None] * self.difference)
        d = self.turn.shape[1]
        hessian[:, range(d), range(d)] += first.sum(1)[:, None]
        return gradient @ self.turn.T, self.turn @ hessian @ self.turn.T


class _AlongAxes:
    """Any kernel, expanded along the axes and the diagonals between two axes."""

    def __init__(self, between: Lines, n_inputs: int):
        self.between, self.axes = between, np.eye(n_inputs)
        self.K = between.along(None, None, (0, 0))[0, 0]

    def sums(self, weights):
        m, D = len(weights), len(self.axes)
        gradient, hessian = np.empty((m, D)), np.empty((m, D, D))

        def coefficients(direction: np.ndarray) -> list[np.ndarray]:
            p = self.between.along(direction, None, (2, 0))
            return [(weights * p.get((k, 0), 0.0)).sum(1) for k in (1, 2)]

        for i in range(D):
            gradient[:, i], half = coefficients(self.axes[i])
            hessian[:, i, i] = 2 * half
        for i, j in combinations(range(D), 2):
            _, half = coefficients(self.axes[i] + self.axes[j])
            hessian[:, i, j] = hessian[:, j, i] = half - 0.5 * (hessian[:, i, i] + hessian[:, j, j])
        return gradient, hessian
