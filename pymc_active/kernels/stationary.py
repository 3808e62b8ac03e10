"""Stationary kernels of the squared scaled distance; on all inputs, on groups of these, or on an embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pymc_active.kernels.node import Node, Pairs, roles, squared_distance, variances
from pymc_active.kernels.polynomials import Polynomial, compose
from pymc_active.kernels.program import Leaf
from pymc_active.kernels.radial import MEAN_SQUARE_DERIVATIVES, NAMES, PROFILES, Profile, number_of
from pymc_active.kernels.spectra import Term, radial_spectrum


class _StationaryAt:
    def __init__(self, node, theta, X, Z):
        self.node, self.theta, self.X, self.Z = node, theta, X, Z
        columns, weights = node.columns, np.exp(-theta[node.column_indices])
        self.scaled = X[:, columns] * weights
        self.other = self.scaled if Z is None else Z[:, columns] * weights
        self.s = squared_distance(self.scaled, None if Z is None else self.other)
        self.variance = np.exp(2 * theta[node.log_outputscale])
        # Among the data the gradient is nearly always needed next; elsewhere seldom.
        values = node.profile(self.s, int(Z is None))
        self.K = self.variance * values[0]
        if Z is None:
            self.k1 = self.variance * values[1]

    @cached_property
    def k1(self):
        """First derivative of K in s."""
        return self.variance * self.node.profile(self.s, 1)[1]

    @cached_property
    def derivatives(self):
        """First and second derivative of K in s."""
        return [self.variance * g for g in self.node.profile(self.s, 2)[1:]]

    def parts(self) -> Iterator[tuple[int, np.ndarray]]:
        """-1/2 ds/dlog lengthscale_g = s_g for every group, one (n, m) matrix at a time."""
        if len(self.node.groups) == 1:
            yield self.node.groups[0][0], self.s
            return
        for index, columns in self.node.groups:
            w = np.exp(-self.theta[index])
            Z = self.X if self.Z is None else self.Z
            yield index, squared_distance(self.X[:, columns] * w, Z[:, columns] * w)

    def pullback(self, W):
        gradient = np.zeros(len(self.theta))
        gradient[self.node.log_outputscale] = 2 * np.vdot(W, self.K)
        Wk1 = W * self.k1
        indices = self.node.column_indices
        if len(self.node.groups) == len(indices) > 1:
            # Σ_ij W_ij (x_i - z_j)² for all columns at once by matrix products.
            x, z = self.scaled, self.other
            cross = np.einsum("ij,ij->j", x, Wk1 @ z)
            gradient[indices] = -2 * (Wk1.sum(1) @ (x * x) + Wk1.sum(0) @ (z * z) - 2 * cross)
            return gradient
        for index, part in self.parts():
            gradient[index] = -2 * np.vdot(Wk1, part)
        return gradient

    def input_pullback(self, W):
        return pull_through_distance(self, W * self.k1)

    def tangents(self):
        k1 = self.derivatives[0]
        return [*((i, -2 * k1 * part) for i, part in self.parts()), (self.node.log_outputscale, 2 * self.K)]

    def curvature(self, W):
        k1, k2 = self.derivatives
        gradient = self.pullback(W)
        H = np.zeros((len(self.theta), len(self.theta)))
        o = self.node.log_outputscale
        H[o, :] = H[:, o] = 2 * gradient
        indices = [i for i, _ in self.node.groups]
        parts = np.stack([part.ravel() for _, part in self.parts()])
        H[np.ix_(indices, indices)] = 4 * (parts * (W * k2).ravel()) @ parts.T
        H[indices, indices] += 4 * parts @ (W * k1).ravel()
        return H


def pull_through_distance(at: Any, Wk1: np.ndarray) -> np.ndarray:
    """Gradient in Z of a kernel of s = Σ (x - z)² / lengthscale², from W dK/ds."""
    Z = at.X if at.Z is None else at.Z
    gradient, columns = np.zeros(Z.shape, Wk1.dtype), at.node.columns
    pulled = Wk1.T @ at.X[:, columns] - Wk1.sum(0)[:, None] * Z[:, columns]
    gradient[:, columns] = -2 * np.exp(-2 * at.theta[at.node.column_indices]) * pulled
    return gradient


class StationaryBatch:
    """A stationary kernel among the data for many hyperparameters; see :meth:`Node.batch`."""

    def __init__(self, node: Stationary, thetas: np.ndarray, pairs: Pairs):
        self.node, self.P = node, thetas.shape[1]
        self.squares = pairs.squared_differences(node.columns)
        self.weights = np.exp(-2 * thetas[:, node.column_indices])
        self.s = self.weights @ self.squares
        self._evaluate(thetas)

    def _evaluate(self, thetas: np.ndarray) -> None:
        self.variance = variances(thetas, self.node.log_outputscale)
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


class RadialLines:
    """variance g(|x - z|²) at differences (..., d) in units of the lengthscale, to which ``turn`` takes directions."""

    def __init__(self, profile: Profile, variance: float, difference: np.ndarray, turn):
        self.profile, self.variance, self.difference, self.turn = profile, variance, difference, turn
        self.s = np.einsum("...i,...i->...", difference, difference)
        self._derivatives: tuple[np.ndarray, ...] = ()

    def derivatives(self, order: int) -> tuple[np.ndarray, ...]:
        """The profile and its derivatives in the squared distance."""
        if len(self._derivatives) <= order:
            self._derivatives = tuple(self.variance * g for g in self.profile(self.s, order))
        return self._derivatives[: order + 1]

    def along(self, u, v, order):
        inner: Polynomial = {(0, 0): self.s}
        u = None if u is None or not order[0] else self.turn(u)
        v = None if v is None or not order[1] else self.turn(v)
        if u is not None:
            inner[1, 0] = 2 * _dot(self.difference, u)
            inner[2, 0] = _dot(u, u)
        if v is not None:
            inner[0, 1] = -2 * _dot(self.difference, v)
            inner[0, 2] = _dot(v, v)
        if u is not None and v is not None:
            inner[1, 1] = -2 * _dot(u, v)
        inner = {key: value for key, value in inner.items() if key[0] <= order[0] and key[1] <= order[1]}
        return compose(self.derivatives(sum(order)), inner, order)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.shape[-1] > 3:
        return np.einsum("...i,...i->...", a, b)
    # If differences broadcast against directions, einsum over two or three numbers takes up to twice as long.
    return sum(a[..., i] * b[..., i] for i in range(a.shape[-1]))


def check_profile(profile: Profile) -> None:
    """Raise a ValueError unless functions with this kernel have second derivatives."""
    if MEAN_SQUARE_DERIVATIVES[profile] < 2:
        raise ValueError(
            f"functions with the kernel {profile.__name__} have no second derivative: use "
            '"ExpQuad", "Matern52" or a rational quadratic kernel, or a criterion that needs no curvature of maxima '
            '("max_value_entropy", "expected_improvement")'
        )


class Stationary(Node):
    """outputscale² g(s) with s = Σ_g |x_g - x'_g|² / lengthscale_g².

    ``groups`` pairs the position of each log lengthscale with the input columns it scales; ARD has a group per input.
    """

    evaluation: type[Any] = _StationaryAt
    batch_evaluation = StationaryBatch

    def __init__(self, profile: str, groups: Sequence[tuple[int, np.ndarray]], log_outputscale: int):
        self.profile = PROFILES[profile]
        self.groups = [(index, np.asarray(columns)) for index, columns in groups]
        self.log_outputscale = log_outputscale
        indices = [index for index, _ in self.groups]
        self.roles = roles("log_lengthscale", indices, log_outputscale)
        self.structure = (NAMES.get(self.profile, profile), *(tuple(columns.tolist()) for _, columns in self.groups))
        # Each column, and the position of its log lengthscale.
        self.columns = np.concatenate([columns for _, columns in self.groups])
        self.column_indices = np.repeat(indices, [len(columns) for _, columns in self.groups])

    @property
    def loop(self):
        number = number_of(self.profile)
        return number if number is None else Leaf(number, self.columns, self.column_indices, -1, self.log_outputscale)

    def lines(self, theta, a, b):
        return self.radial_lines(self.profile, theta, a, b)

    def radial_lines(self, profile: Profile, theta: np.ndarray, a: np.ndarray, b: np.ndarray) -> RadialLines:
        """With another profile of the squared scaled distance."""
        w, columns = np.exp(-theta[self.column_indices]), self.columns

        def turn(direction):
            return direction[..., columns] * w

        return RadialLines(profile, np.exp(2 * theta[self.log_outputscale]), turn(a) - turn(b), turn)

    def terms(self, theta, n_inputs):
        turn = np.zeros((len(self.columns), n_inputs))
        turn[np.arange(len(self.columns)), self.columns] = np.exp(-theta[self.column_indices])
        return [Term(np.exp(2 * theta[self.log_outputscale]), (), (radial_spectrum(self.profile, turn),))]

    def check_twice_differentiable(self):
        check_profile(self.profile)
