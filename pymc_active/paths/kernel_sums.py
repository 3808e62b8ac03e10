"""Sums of a kernel at many points, Σ_i weight_i k(x, z_i), with gradient and Hessian in x."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from itertools import combinations
from typing import Protocol

import numpy as np

from pymc_active.kernels.arrays import Add, Constant, Linear, Multiply, Node, Periodic, Stationary, ZeroMeanPeriodic
from pymc_active.kernels.taylor import Lines, RadialLines, lines
from pymc_active.posterior.array import ArrayPosterior, KernelPosterior
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
        posterior, D = self.gp.posterior, X.shape[1]
        if isinstance(posterior, KernelPosterior):
            return near(posterior.kernel, np.concatenate([self.gp.theta, posterior.constants]), X[:, None], self.Z)
        between = self.gp.lines(X[:, None], self.Z)
        return _Radial(between, D) if isinstance(between, RadialLines) else _AlongAxes(between, D)


class Near(Protocol):
    """A kernel K (m, n) between m points and n rows, with its derivatives in the points."""

    K: np.ndarray

    def slopes(self) -> np.ndarray:
        """Gradients of all entries, (m, n, D)."""

    def sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (m, D) and Hessian (m, D, D) of the sum over n with weights (m, n)."""


@singledispatch
def near(node: Node, theta: np.ndarray, x: np.ndarray, Z: np.ndarray) -> Near:
    """A kernel between points (m, 1, D) and rows (n, D)."""
    raise NotImplementedError(type(node).__name__)


class _Radial:
    """g(|turn x - z|²): the chain rule."""

    def __init__(self, between: RadialLines, n_inputs: int):
        g, first, second = between.derivatives(2)
        self.K, self.first, self.second = g, 2 * first, 4 * second
        self.difference, self.turn = between.difference, between.turn(np.eye(n_inputs))

    def slopes(self):
        return (self.first[..., None] * self.difference) @ self.turn.T

    def sums(self, weights):
        first, second = weights * self.first, weights * self.second
        gradient = (first[:, None] @ self.difference)[:, 0]
        hessian = self.difference.swapaxes(1, 2) @ (second[..., None] * self.difference)
        d = self.turn.shape[1]
        hessian[:, range(d), range(d)] += first.sum(1)[:, None]
        return gradient @ self.turn.T, self.turn @ hessian @ self.turn.T


@near.register
def _(node: Stationary, theta, x, Z):
    between = lines(node, theta, x, Z)
    assert isinstance(between, RadialLines)
    return _Radial(between, Z.shape[1])


@near.register(Periodic)
class _Periodic:
    """exp(-s / 2) with s = factor Σ_c sin²(angle_c)."""

    def __init__(self, node: Periodic, theta, x, Z):
        self.columns, self.D = node.columns, Z.shape[1]
        self.scale = np.pi * np.exp(-theta[node.log_period])
        self.angles = self.scale * (x - Z)[..., self.columns]
        self.factor = 4 * np.exp(-2 * theta[node.log_lengthscale])
        s = self.factor * np.square(np.sin(self.angles)).sum(-1)
        self.K = np.exp(2 * theta[node.log_outputscale] - 0.5 * s)
        # Derivative of -s / 2.
        self.first = -0.5 * self.factor * self.scale * np.sin(2 * self.angles)

    def slopes(self):
        out = np.zeros((*self.K.shape, self.D))
        out[..., self.columns] = self.K[..., None] * self.first
        return out

    def sums(self, weights):
        m = len(weights)
        weights = (weights * self.K)[..., None]
        gradient, hessian = np.zeros((m, self.D)), np.zeros((m, self.D, self.D))
        gradient[:, self.columns] = (weights * self.first).sum(1)
        second = -self.factor * self.scale**2 * np.cos(2 * self.angles)
        hessian[:, self.columns, self.columns] = (weights * second).sum(1)
        hessian[:, self.columns[:, None], self.columns] += self.first.swapaxes(1, 2) @ (weights * self.first)
        return gradient, hessian


@near.register(ZeroMeanPeriodic)
class _ZeroMeanPeriodic:
    def __init__(self, node: ZeroMeanPeriodic, theta, x, Z):
        self.periodic = _Periodic(node, theta, x, Z)
        self.stretch, _, _ = node.stretch(theta[node.log_lengthscale])
        self.K = self.stretch * self.periodic.K + (1 - self.stretch) * np.exp(2 * theta[node.log_outputscale])

    def slopes(self):
        return self.stretch * self.periodic.slopes()

    def sums(self, weights):
        return self.periodic.sums(self.stretch * weights)


@near.register(Constant)
class _Constant:
    def __init__(self, node: Constant, theta, x, Z):
        self.D = Z.shape[1]
        self.K = np.full((len(x), len(Z)), np.exp(2 * theta[node.log_outputscale]))

    def slopes(self):
        return np.zeros((*self.K.shape, self.D))

    def sums(self, weights):
        return np.zeros((len(weights), self.D)), np.zeros((len(weights), self.D, self.D))


@near.register(Linear)
class _Linear:
    def __init__(self, node: Linear, theta, x, Z):
        self.slope = np.zeros(Z.shape)
        self.slope[:, node.columns] = np.exp(2 * theta[node.log_outputscale]) * node.centred(theta, Z)
        self.K = node.centred(theta, x[:, 0]) @ self.slope[:, node.columns].T

    def slopes(self):
        return np.broadcast_to(self.slope, (*self.K.shape, self.slope.shape[1]))

    def sums(self, weights):
        gradient = weights @ self.slope
        return gradient, np.zeros((*gradient.shape, gradient.shape[1]))


@near.register(Add)
class _Sum:
    def __init__(self, node: Add, theta, x, Z):
        self.parts = [near(part, theta, x, Z) for part in node.parts]
        self.K = np.sum([part.K for part in self.parts], axis=0)

    def slopes(self):
        return np.sum([part.slopes() for part in self.parts], axis=0)

    def sums(self, weights):
        gradients, hessians = zip(*(part.sums(weights) for part in self.parts), strict=True)
        return sum(gradients), sum(hessians)


@near.register(Multiply)
class _Product:
    def __init__(self, node: Multiply, theta, x, Z):
        self.parts = [near(part, theta, x, Z) for part in node.parts]
        self.K = self._without()

    def _without(self, *left_out: int) -> np.ndarray:
        """Product of the other factors."""
        out = np.ones(())
        for i, part in enumerate(self.parts):
            if i not in left_out:
                out = out * part.K
        return out

    def slopes(self):
        return np.sum([self._without(i)[..., None] * part.slopes() for i, part in enumerate(self.parts)], axis=0)

    def sums(self, weights):
        each = [part.sums(weights * self._without(i)) for i, part in enumerate(self.parts)]
        gradient, hessian = (np.sum(arrays, axis=0) for arrays in zip(*each, strict=True))
        slopes = [part.slopes() for part in self.parts]
        for i, j in combinations(range(len(self.parts)), 2):
            cross = slopes[i].swapaxes(1, 2) @ ((weights * self._without(i, j))[..., None] * slopes[j])
            hessian += cross + cross.swapaxes(1, 2)
        return gradient, hessian


class _AlongAxes:
    """Any kernel, expanded along the axes and the diagonals between two axes."""

    def __init__(self, between: Lines, n_inputs: int):
        self.between, self.axes = between, np.eye(n_inputs)
        self.K = between.along(None, None, (0, 0))[0, 0]

    def slopes(self):
        slopes = [self.between.along(axis, None, (1, 0)).get((1, 0), 0.0) for axis in self.axes]
        return np.stack([np.broadcast_to(slope, self.K.shape) for slope in slopes], axis=-1)

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
