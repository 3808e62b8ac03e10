"""The constant and the linear kernel."""

from __future__ import annotations

import numpy as np

from pymc_active.kernels.node import Node, Pairs, roles, variances
from pymc_active.kernels.polynomials import Polynomial, add, line, multiply
from pymc_active.kernels.program import CONSTANT, LINEAR, Leaf
from pymc_active.kernels.spectra import Factor, Term


class _ConstantAt:
    def __init__(self, node, theta, X, Z):
        Z = X if Z is None else Z
        self.index, self.n_parameters, self.shape = node.log_outputscale, len(theta), Z.shape
        self.K = np.full((len(X), len(Z)), np.exp(2 * theta[node.log_outputscale]))

    def input_pullback(self, W):
        return np.zeros(self.shape, self.K.dtype)

    def pullback(self, W):
        gradient = np.zeros(self.n_parameters)
        gradient[self.index] = 2 * np.vdot(W, self.K)
        return gradient

    def tangents(self):
        return [(self.index, 2 * self.K)]

    def curvature(self, W):
        return np.diag(2 * self.pullback(W))


class _ConstantBatch:
    def __init__(self, node: Constant, thetas: np.ndarray, pairs: Pairs):
        self.index, self.P = node.log_outputscale, thetas.shape[1]
        self.K = np.repeat(variances(thetas, self.index), len(pairs.rows), axis=1)

    def pullback(self, W):
        gradient = np.zeros((len(W), self.P))
        gradient[:, self.index] = 2 * np.einsum("sq,sq->s", W, self.K)
        return gradient


class _ConstantLines:
    def __init__(self, node, theta, a, b):
        shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
        self.K = np.full(shape, np.exp(2 * theta[node.log_outputscale]))

    def along(self, u, v, order):
        return {(0, 0): self.K}


class Constant(Node):
    """outputscale² everywhere."""

    evaluation = _ConstantAt
    batch_evaluation = _ConstantBatch
    line_evaluation = _ConstantLines

    def __init__(self, log_outputscale: int):
        self.log_outputscale, self.columns = log_outputscale, np.arange(0)
        self.roles = {"log_outputscale": log_outputscale}
        self.structure = ("C",)

    @property
    def loop(self):
        return Leaf(CONSTANT, self.columns, [], -1, self.log_outputscale)

    def terms(self, theta, n_inputs):
        return [Term(np.exp(2 * theta[self.log_outputscale]))]


class _LinearAt:
    def __init__(self, node, theta, X, Z):
        self.node, self.theta = node, theta
        self.A = node.centred(theta, X)
        self.B = self.A if Z is None else node.centred(theta, Z)
        self.shape = X.shape if Z is None else Z.shape
        self.variance = np.exp(2 * theta[node.log_outputscale])
        self.K = (self.variance * self.A) @ self.B.T

    def input_pullback(self, W):
        gradient = np.zeros(self.shape, self.K.dtype)
        gradient[:, self.node.columns] = self.variance * (W.T @ self.A)
        return gradient

    def pullback(self, W):
        gradient = np.zeros(len(self.theta))
        gradient[self.node.log_outputscale] = 2 * np.vdot(W, self.K)
        if self.node.location is not None:
            gradient[self.node.location] = -self.variance * (W.sum(1) @ self.A + W.sum(0) @ self.B)
        return gradient

    def tangents(self):
        tangents = [(self.node.log_outputscale, 2 * self.K)]
        if self.node.location is not None:
            columns = zip(self.node.location.tolist(), self.A.T, self.B.T, strict=True)
            tangents += [(index, -self.variance * np.add.outer(a, b)) for index, a, b in columns]
        return tangents

    def curvature(self, W):
        H = np.zeros((len(self.theta), len(self.theta)))
        o, location = self.node.log_outputscale, self.node.location
        H[o, :] = H[:, o] = 2 * self.pullback(W)
        if location is not None:
            H[location, location] = 2 * self.variance * W.sum()
        return H


class _LinearBatch:
    def __init__(self, node: Linear, thetas: np.ndarray, pairs: Pairs):
        self.node, self.P = node, thetas.shape[1]
        some = pairs.X[:, node.columns].T
        left, right = some[:, pairs.rows], some[:, pairs.columns]
        if node.location is None:
            self.left, self.right = left[None], right[None]
        else:
            c = thetas[:, node.location, None]
            self.left, self.right = left - c, right - c
        self.variance = variances(thetas, node.log_outputscale)
        self.K = self.variance * (self.left * self.right).sum(1)

    def pullback(self, W):
        gradient = np.zeros((len(W), self.P))
        gradient[:, self.node.log_outputscale] = 2 * np.einsum("sq,sq->s", W, self.K)
        if self.node.location is not None:
            gradient[:, self.node.location] = -np.einsum("sq,scq->sc", W * self.variance, self.left + self.right)
        return gradient


class _LinearLines:
    def __init__(self, node, theta, a, b):
        self.columns = node.columns
        self.a, self.b = node.centred(theta, a), node.centred(theta, b)
        self.variance = np.exp(2 * theta[node.log_outputscale])

    def along(self, u, v, order):
        total: Polynomial = {}
        for k, column in enumerate(self.columns):
            in_s = None if u is None else self.variance * u[..., column]
            left = line(self.variance * self.a[..., k], in_s, None, order)
            right = line(self.b[..., k], None, None if v is None else v[..., column], order)
            total = add(total, multiply(left, right, order))
        return total


class Linear(Node):
    """outputscale² Σ_d (x_d - c_d)(x'_d - c_d); ``location`` None puts c at zero."""

    evaluation = _LinearAt
    batch_evaluation = _LinearBatch
    line_evaluation = _LinearLines

    def __init__(self, columns: np.ndarray, location: np.ndarray | None, log_outputscale: int):
        self.columns, self.log_outputscale = np.asarray(columns), log_outputscale
        self.location = None if location is None else np.asarray(location)
        self.roles = roles("location", [] if self.location is None else self.location.tolist(), log_outputscale)
        self.structure = ("LIN0" if location is None else "LIN", tuple(self.columns.tolist()))

    def centred(self, theta, X):
        return X[..., self.columns] - (0.0 if self.location is None else theta[self.location])

    @property
    def loop(self):
        location = [-1] * len(self.columns) if self.location is None else self.location
        return Leaf(LINEAR, self.columns, location, -1, self.log_outputscale)

    def diagonal(self, theta, X):
        A = self.centred(theta, X)
        variance = np.exp(2 * theta[self.log_outputscale])
        value = variance * np.einsum("ij,ij->i", A, A)
        tangents = [(self.log_outputscale, 2 * value)]
        if self.location is not None:
            tangents += [(int(i), -2 * variance * A[:, d]) for d, i in enumerate(self.location)]
        return value, tangents

    def terms(self, theta, n_inputs):
        variance = np.exp(2 * theta[self.log_outputscale])
        centres = -self.centred(theta, np.zeros(n_inputs))
        factors = [Factor(int(column), float(c)) for column, c in zip(self.columns, centres, strict=True)]
        return [Term(variance, (factor,)) for factor in factors]
