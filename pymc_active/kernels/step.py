"""The kernel of a step: what holds from some place on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_active.kernels.node import Node, Pairs, roles, variances
from pymc_active.kernels.polynomials import compose, line, multiply
from pymc_active.kernels.program import STEP, Leaf
from pymc_active.kernels.spectra import Factor, Term, sigmoid

# Prior sds in which a step may be, and its places at most, in a scan.
_PRIOR_SDS, _PLACES = 2.5, 200


class _StepAt:
    def __init__(self, node: Step, theta: np.ndarray, X: np.ndarray, Z: np.ndarray | None):
        self.node, self.theta, self.X, self.Z = node, theta, X, X if Z is None else Z
        self.variance = np.exp(2 * theta[node.log_outputscale])
        self.a, self.da = node.shape(theta, X)
        self.b, self.db = (self.a, self.da) if Z is None else node.shape(theta, Z)
        self.K = self.variance * np.multiply.outer(self.a, self.b)

    def input_pullback(self, W):
        gradient = np.zeros(self.Z.shape, self.K.dtype)
        _, slope, _ = self.node.factor(self.theta).derivatives(self.Z)
        gradient[:, self.node.columns[0]] = self.variance * (self.a @ W) * slope
        return gradient

    def pullback(self, W):
        gradient = np.zeros(len(self.theta))
        gradient[self.node.log_outputscale] = 2 * np.vdot(W, self.K)
        left, right = self.variance * (W @ self.b), self.variance * (self.a @ W)
        for index, a, b in zip(self.node._free, self.da, self.db, strict=True):
            gradient[index] = a @ left + right @ b
        return gradient

    def tangents(self):
        parts = zip(self.node._free, self.da, self.db, strict=True)
        outer = np.multiply.outer
        tangents = [(index, self.variance * (outer(a, self.b) + outer(self.a, b))) for index, a, b in parts]
        return [(self.node.log_outputscale, 2 * self.K), *tangents]

    def curvature(self, W):
        H = np.zeros((len(self.theta), len(self.theta)))
        o, (c, w) = self.node.log_outputscale, self.node._free
        H[o, :] = H[:, o] = 2 * self.pullback(W)
        left, right = self.node.bends(self.theta, self.X), self.node.bends(self.theta, self.Z)
        for k, (i, j) in enumerate([(c, c), (c, w), (w, w)]):
            p, q = self.node._free.index(i), self.node._free.index(j)
            second = left[k] @ W @ self.b + self.a @ W @ right[k]
            H[i, j] = H[j, i] = self.variance * (second + self.da[p] @ W @ self.db[q] + self.da[q] @ W @ self.db[p])
        return H


class _StepBatch:
    def __init__(self, node: Step, thetas: np.ndarray, pairs: Pairs):
        self.node, self.P, self.pairs = node, thetas.shape[1], pairs
        x = pairs.X[:, node.columns[0]]
        self.width = np.exp(thetas[:, node.log_width, None])
        self.t = (x - thetas[:, node.location, None]) / self.width
        self.s, self.first, _ = sigmoid(self.t)
        self.variance = variances(thetas, node.log_outputscale)
        self.K = self.variance * self.s[:, pairs.rows] * self.s[:, pairs.columns]

    def pullback(self, W):
        rows, columns = self.pairs.rows, self.pairs.columns
        gradient = np.zeros((len(W), self.P))
        gradient[:, self.node.log_outputscale] = 2 * np.einsum("sq,sq->s", W, self.K)
        W = W * self.variance
        for index, d in ((self.node.location, -self.first / self.width), (self.node.log_width, -self.t * self.first)):
            change = d[:, rows] * self.s[:, columns]
            change += self.s[:, rows] * d[:, columns]
            gradient[:, index] = np.einsum("sq,sq->s", W, change)
        return gradient


class _StepLines:
    def __init__(self, node: Step, theta: np.ndarray, a: np.ndarray, b: np.ndarray):
        factor, self.variance = node.factor(theta), np.exp(2 * theta[node.log_outputscale])
        self.column = factor.column
        self.a, self.b = factor.derivatives(a), factor.derivatives(b)

    def along(self, u, v, order):
        zero = np.zeros(())
        in_s, in_t = (None if direction is None else direction[..., self.column] for direction in (u, v))
        # Each depends on one of s and t, so that its powers end with the order of that one.
        left = compose((*self.a, zero, zero), line(zero, in_s, None, order), order)
        right = compose((*self.b, zero, zero), line(zero, None, in_t, order), order)
        left = {power: self.variance * value for power, value in left.items()}
        return multiply(left, right, order)


class Step(Node):
    """outputscale² s(x) s(x') with the sigmoid s(x) = 1 / (1 + exp(-(x - location) / width)) of one input.

    Alone it is a change of level. A product with it begins where it rises, which makes change points.
    """

    evaluation = _StepAt
    batch_evaluation = _StepBatch
    line_evaluation = _StepLines

    def __init__(self, column: int, location: int, log_width: int, log_outputscale: int):
        self.columns, self.location, self.log_width = np.array([column]), location, log_width
        self.log_outputscale = log_outputscale
        self.roles = {"log_width": log_width} | roles("location", [location], log_outputscale)
        self.structure = ("STEP", (int(column),))
        self.hidden = location

    def factor(self, theta: np.ndarray) -> Factor:
        """The sigmoid."""
        return Factor(int(self.columns[0]), theta[self.location], np.exp(theta[self.log_width]))

    @property
    def loop(self):
        return Leaf(STEP, self.columns, [self.location], self.log_width, self.log_outputscale)

    def diagonal(self, theta, X):
        s, derivatives = self.shape(theta, X)
        variance = np.exp(2 * theta[self.log_outputscale])
        value = variance * s * s
        tangents = [(index, 2 * variance * s * d) for index, d in zip(self._free, derivatives, strict=True)]
        return value, [(self.log_outputscale, 2 * value), *tangents]

    def terms(self, theta, n_inputs):
        return [Term(np.exp(2 * theta[self.log_outputscale]), (self.factor(theta),))]

    def hidden_grid(self, X, mean, sd):
        """Places between neighbours among the data."""
        x = np.unique(X[:, self.columns[0]])
        between = (x[1:] + x[:-1]) / 2
        between = between[np.abs(between - mean) < _PRIOR_SDS * sd]
        if not len(between):
            return np.array([mean])
        return between[np.unique(np.linspace(0, len(between) - 1, _PLACES).round().astype(int))]

    @property
    def _free(self) -> tuple[int, int]:
        return self.location, self.log_width

    def shape(self, theta: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, Sequence[np.ndarray]]:
        """The sigmoid at the rows of X (m,), and its derivatives in location and log width."""
        _, centre, width = self.factor(theta)
        t = (X[:, self.columns[0]] - centre) / width
        s, first, _ = sigmoid(t)
        return s, (-first / width, -t * first)

    def bends(self, theta: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Second derivatives of the sigmoid in location, in location and log width, and in log width, (m,) each."""
        _, centre, width = self.factor(theta)
        t = (X[:, self.columns[0]] - centre) / width
        _, first, second = sigmoid(t)
        return second / width**2, (first + t * second) / width, t * (first + t * second)
