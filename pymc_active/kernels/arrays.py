"""Kernels as NumPy arrays, with exact first and second derivatives in their few log-parameters.

A *node* is a kernel whose parameters sit at given positions of one flat vector ``theta``. ``node.at(theta, X, Z)``
evaluates it once, and the result has

* ``K``, the (n, m) matrix,
* ``pullback(W)``: the gradient of <W, K>,
* ``tangents()``: the derivatives dK/dtheta[a] that are not zero, as pairs (a, matrix),
* ``curvature(W)``: the Hessian of <W, K>, and
* ``input_pullback(W)``: the gradient of <W, K> in the rows of Z, (m, D).

Sums and products combine these by the sum and product rules. ``K`` and ``input_pullback`` are analytic and accept a
complex theta: a complex step gives their derivatives in theta to the last digit. For many thetas at once see
:mod:`pymc_active.kernels.batches`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ive

from pymc_active.kernels.radial import PROFILES

Tangents = list[tuple[int, np.ndarray]]


class Node:
    """A kernel with parameters at fixed positions of ``theta``."""

    # Terms of a sum, factors of a product; none for a base kernel.
    parts: Sequence[Node] = ()
    # Of a base kernel: its parameters, such as "log_period", and their positions; what else identifies it.
    roles: dict[str, int]
    structure: tuple
    # The input columns on which a base kernel acts.
    columns: np.ndarray

    @property
    def leaves(self) -> list[Node]:
        """The base kernels, from left to right."""
        return [leaf for part in self.parts for leaf in part.leaves] if self.parts else [self]

    def at(self, theta: np.ndarray, X: np.ndarray, Z: np.ndarray | None = None) -> Any:
        """Evaluate between the rows of ``X`` and of ``Z`` (default: ``X`` itself)."""
        raise NotImplementedError

    def diagonal(self, theta: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, Tangents]:
        """k(x, x) for every row of ``X``, shape (n,), and its derivatives."""
        raise NotImplementedError


def _roles(name: str, indices: Sequence[int], log_outputscale: int) -> dict[str, int]:
    """Roles of parameters with one name, numbered if they are several, and of the output scale."""
    names = [name] if len(indices) == 1 else [f"{name}[{number}]" for number in range(len(indices))]
    return dict(zip([*names, "log_outputscale"], [*indices, log_outputscale], strict=True))


def squared_distance(A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
    """Squared Euclidean distances between rows, as PyMC computes them (clipped at zero)."""
    a = np.einsum("ij,ij->i", A, A)
    b = a if B is None else np.einsum("ij,ij->i", B, B)
    s = A @ (A if B is None else B).T
    s *= -2.0
    s += a[:, None]
    s += b
    return np.maximum(s, 0.0, out=s)


class Stationary(Node):
    """outputscale² g(s) with s = Σ_g |x_g - x'_g|² / lengthscale_g².

    ``groups`` pairs the position of each log lengthscale with the input columns it scales; ARD has a group per input.
    """

    def __init__(self, profile: str, groups: Sequence[tuple[int, np.ndarray]], log_outputscale: int):
        self.profile = PROFILES[profile]
        self.groups = [(index, np.asarray(columns)) for index, columns in groups]
        self.log_outputscale = log_outputscale
        indices = [index for index, _ in self.groups]
        self.roles = _roles("log_lengthscale", indices, log_outputscale)
        self.structure = (self.profile.__name__, *(tuple(columns.tolist()) for _, columns in self.groups))
        # Each column, and the position of its log lengthscale.
        self.columns = np.concatenate([columns for _, columns in self.groups])
        self.column_indices = np.repeat(indices, [len(columns) for _, columns in self.groups])

    def at(self, theta, X, Z=None):
        return _StationaryAt(self, theta, X, Z)

    def diagonal(self, theta, X):
        value = np.full(len(X), np.exp(2 * theta[self.log_outputscale]))
        return value, [(self.log_outputscale, 2 * value)]


class _StationaryAt:
    def __init__(self, node, theta, X, Z):
        self.node, self.theta, self.X, self.Z = node, theta, X, Z
        columns, weights = node.columns, np.exp(-theta[node.column_indices])
        self.scaled = X[:, columns] * weights
        self.s = squared_distance(self.scaled, None if Z is None else Z[:, columns] * weights)
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
            if len(columns) == 1:
                part = np.subtract.outer(self.X[:, columns[0]] * w, Z[:, columns[0]] * w)
                part *= part
            else:
                part = squared_distance(self.X[:, columns] * w, Z[:, columns] * w)
            yield index, part

    def pullback(self, W):
        gradient = np.zeros(len(self.theta))
        gradient[self.node.log_outputscale] = 2 * np.vdot(W, self.K)
        Wk1 = W * self.k1
        indices = self.node.column_indices
        if self.Z is None and len(self.node.groups) == len(indices) > 1:
            # Σ_ij Z_ij (x_i - x_j)² for all columns at once by two matrix products.
            x = self.scaled
            gradient[indices] = -2 * ((Wk1.sum(0) + Wk1.sum(1)) @ (x * x) - 2 * np.einsum("ij,ij->j", x, Wk1 @ x))
            return gradient
        for index, part in self.parts():
            gradient[index] = -2 * np.vdot(Wk1, part)
        return gradient

    def input_pullback(self, W):
        return _pull_through_distance(self, W * self.k1)

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


def _pull_through_distance(at: Any, Wk1: np.ndarray) -> np.ndarray:
    """Gradient in Z of a kernel of s = Σ (x - z)² / lengthscale², from W dK/ds."""
    Z = at.X if at.Z is None else at.Z
    gradient = np.zeros(Z.shape, Wk1.dtype)
    for index, columns in at.node.groups:
        w2 = np.exp(-2 * at.theta[index])
        gradient[:, columns] = -2 * w2 * (Wk1.T @ at.X[:, columns] - Wk1.sum(0)[:, None] * Z[:, columns])
    return gradient


class RationalQuadratic(Stationary):
    """outputscale² (1 + s / (2 alpha))^(-alpha) on one group of inputs."""

    def __init__(self, log_lengthscale: int, columns: np.ndarray, log_alpha: int, log_outputscale: int):
        super().__init__("ExpQuad", [(log_lengthscale, columns)], log_outputscale)
        self.log_lengthscale, self.log_alpha = log_lengthscale, log_alpha
        self.roles = {"log_lengthscale": log_lengthscale, "log_alpha": log_alpha, "log_outputscale": log_outputscale}
        self.structure = ("rational_quadratic", tuple(self.columns.tolist()))

    def at(self, theta, X, Z=None):
        return _RationalQuadraticAt(self, theta, X, Z)


class _ExponentialAt:
    """outputscale² exp(...) with two more parameters, by the derivatives of its logarithm."""

    node: RationalQuadratic | Periodic
    theta: np.ndarray
    K: np.ndarray

    def slopes(self) -> list[tuple[int, np.ndarray]]:
        """Derivatives of log K in both parameters."""
        raise NotImplementedError

    def second_derivatives(self, WK: np.ndarray) -> tuple[float, float, float]:
        """Those of <W, K> in the first, in both, and in the second, from W * K."""
        raise NotImplementedError

    def pullback(self, W):
        WK = W * self.K
        gradient = np.zeros(len(self.theta))
        for index, slope in self.slopes():
            gradient[index] = np.vdot(WK, slope)
        gradient[self.node.log_outputscale] = 2 * WK.sum()
        return gradient

    def tangents(self):
        return [*((index, self.K * slope) for index, slope in self.slopes()), (self.node.log_outputscale, 2 * self.K)]

    def curvature(self, W):
        i, j, o = self.node.roles.values()
        H = np.zeros((len(self.theta), len(self.theta)))
        H[o, :] = H[:, o] = 2 * self.pullback(W)
        H[i, i], H[i, j], H[j, j] = self.second_derivatives(W * self.K)
        H[j, i] = H[i, j]
        return H


class _RationalQuadraticAt(_ExponentialAt):
    def __init__(self, node, theta, X, Z):
        self.node, self.theta, self.X, self.Z = node, theta, X, Z
        [(index, columns)] = node.groups
        w = np.exp(-theta[index])
        self.s = squared_distance(X[:, columns] * w, None if Z is None else Z[:, columns] * w)
        self.alpha = np.exp(theta[node.log_alpha])
        self.t = 1 + self.s / (2 * self.alpha)
        self.log_t = np.log(self.t)
        self.K = np.exp(2 * theta[node.log_outputscale] - self.alpha * self.log_t)

    def input_pullback(self, W):
        return _pull_through_distance(self, -0.5 * W * self.K / self.t)

    def slopes(self):
        half = self.s / (2 * self.t)
        return [(self.node.log_lengthscale, 2 * half), (self.node.log_alpha, half - self.alpha * self.log_t)]

    def second_derivatives(self, WK):
        (_, lengthscale), (_, alpha) = self.slopes()
        half = lengthscale / 2
        # dlog lengthscale of s/t is -2 (s/t) / t; dlog alpha of it is (s/t)² / (2 alpha).
        return (
            np.vdot(WK, lengthscale * (lengthscale - 2 / self.t)),
            np.vdot(WK, lengthscale * alpha + 2 * half * half / self.alpha),
            np.vdot(WK, alpha * alpha + alpha + half * half / self.alpha),
        )


class Periodic(Node):
    """outputscale² exp(-2 Σ sin²(π r / period) / lengthscale²)."""

    def __init__(self, log_lengthscale: int, log_period: int, columns: np.ndarray, log_outputscale: int):
        self.log_lengthscale, self.log_period = log_lengthscale, log_period
        self.columns, self.log_outputscale = np.asarray(columns), log_outputscale
        self.roles = {"log_lengthscale": log_lengthscale, "log_period": log_period, "log_outputscale": log_outputscale}
        self.structure = ("periodic", tuple(self.columns.tolist()))

    def at(self, theta, X, Z=None):
        return _PeriodicAt(self, theta, X, Z)

    diagonal = Stationary.diagonal


class _PeriodicAt(_ExponentialAt):
    def __init__(self, node, theta, X, Z):
        self.node, self.theta = node, theta
        Z = X if Z is None else Z
        self.shape = Z.shape
        self.w = np.exp(-2 * theta[node.log_lengthscale])
        self.scale = scale = np.pi * np.exp(-theta[node.log_period])
        self.X, self.Z = X, Z
        # One (n, m) matrix of sines for each column, nearly always one; by the addition theorem from n + m sines and
        # cosines.
        self.waves = [
            (np.sin(scale * X[:, c]), np.cos(scale * X[:, c]), np.sin(scale * Z[:, c]), np.cos(scale * Z[:, c]))
            for c in node.columns
        ]
        self.sines = [np.multiply.outer(s, c_) - np.multiply.outer(c, s_) for s, c, s_, c_ in self.waves]
        self.s = 4 * self.w * sum(np.square(sine) for sine in self.sines)
        self.K = np.exp(2 * theta[node.log_outputscale] - 0.5 * self.s)

    def angles(self):
        """π (x - z) / period for each input column, with sin and cos of twice that."""
        for column, sine, (s, c, s_, c_) in zip(self.node.columns, self.sines, self.waves, strict=True):
            cosine = np.multiply.outer(c, c_) + np.multiply.outer(s, s_)
            angle = self.scale * np.subtract.outer(self.X[:, column], self.Z[:, column])
            yield angle, 2 * sine * cosine, 1 - 2 * sine * sine

    def input_pullback(self, W):
        WK = W * self.K
        gradient = np.zeros(self.shape, WK.dtype)
        for column, (_, sine, _) in zip(self.node.columns, self.angles(), strict=True):
            gradient[:, column] = 2 * self.w * self.scale * (WK * sine).sum(0)
        return gradient

    def period_slope(self):
        """ds/dlog period."""
        return sum(-4 * self.w * a * sine for a, sine, _ in self.angles())

    def slopes(self):
        return [(self.node.log_lengthscale, self.s), (self.node.log_period, -0.5 * self.period_slope())]

    def second_derivatives(self, WK):
        first = self.period_slope()
        second = sum(4 * self.w * a * (sine + 2 * a * cosine) for a, sine, cosine in self.angles())
        return (
            np.vdot(WK, self.s * (self.s - 2)),
            np.vdot(WK, first * (1 - 0.5 * self.s)),
            np.vdot(WK, 0.25 * first * first - 0.5 * second),
        )


class ZeroMeanPeriodic(Periodic):
    """The periodic kernel without the constant in it, outputscale² (p - m) / (1 - m); m is the average of p.

    Its functions have mean zero over a period. Lloyd et al. (2014), Automatic construction and natural-language
    description of nonparametric regression models, section 2.
    """

    def __init__(self, log_lengthscale: int, log_period: int, columns: np.ndarray, log_outputscale: int):
        super().__init__(log_lengthscale, log_period, columns, log_outputscale)
        self.structure = ("zero-mean periodic", tuple(self.columns.tolist()))

    def stretch(self, log_lengthscale: Any) -> tuple[Any, Any, Any]:
        """1 / (1 - m) and its first two derivatives, with m = (exp(-w) I₀(w))^D and w = 1 / lengthscale²."""
        # Below this, 1 - m is but rounding error, and the kernel has long been a cosine.
        D, w = len(self.columns), np.maximum(np.exp(-2 * log_lengthscale), 1e-8)
        # SciPy scales by exp(-|real part|).
        i0, i1, i2 = (ive(order, w) * np.exp(-1j * np.imag(w) if np.iscomplexobj(w) else 0.0) for order in range(3))
        slope, bend = i1 - i0, 1.5 * i0 - 2 * i1 + 0.5 * i2
        m1 = D * i0 ** (D - 1) * slope
        m2 = D * (D - 1) * i0 ** (D - 2) * slope**2 + D * i0 ** (D - 1) * bend
        value = 1 / (1 - i0**D)
        first, second = m1 * value**2, m2 * value**2 + 2 * m1**2 * value**3
        return value, -2 * w * first, 4 * w * w * second + 4 * w * first

    def at(self, theta, X, Z=None):
        return _ZeroMeanPeriodicAt(self, theta, X, Z)


class _ZeroMeanPeriodicAt:
    """v + stretch (K - v), with the periodic kernel K and its variance v."""

    def __init__(self, node, theta, X, Z):
        self.node, self.periodic = node, _PeriodicAt(node, theta, X, Z)
        self.stretch = node.stretch(theta[node.log_lengthscale])
        variance = np.exp(2 * theta[node.log_outputscale])
        self.below = variance * np.expm1(-0.5 * self.periodic.s)
        self.K = variance + self.stretch[0] * self.below

    def input_pullback(self, W):
        return self.stretch[0] * self.periodic.input_pullback(W)

    def pullback(self, W):
        gradient = self.stretch[0] * self.periodic.pullback(W)
        gradient[self.node.log_lengthscale] += self.stretch[1] * np.vdot(W, self.below)
        gradient[self.node.log_outputscale] = 2 * np.vdot(W, self.K)
        return gradient

    def tangents(self):
        tangents = {index: self.stretch[0] * tangent for index, tangent in self.periodic.tangents()}
        tangents[self.node.log_lengthscale] += self.stretch[1] * self.below
        tangents[self.node.log_outputscale] = 2 * self.K
        return list(tangents.items())

    def curvature(self, W):
        value, first, second = self.stretch
        H, slopes = value * self.periodic.curvature(W), self.periodic.pullback(W)
        length, period, o = self.node.roles.values()
        H[length, length] += 2 * first * slopes[length] + second * np.vdot(W, self.below)
        H[length, period] += first * slopes[period]
        H[period, length] = H[length, period]
        H[o, :] = H[:, o] = 2 * self.pullback(W)
        return H


class Constant(Node):
    """outputscale² everywhere."""

    def __init__(self, log_outputscale: int):
        self.log_outputscale, self.columns = log_outputscale, np.arange(0)
        self.roles = {"log_outputscale": log_outputscale}
        self.structure = ("constant",)

    def at(self, theta, X, Z=None):
        return _ConstantAt(self, theta, X, X if Z is None else Z)

    diagonal = Stationary.diagonal


class _ConstantAt:
    def __init__(self, node, theta, X, Z):
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


class Linear(Node):
    """outputscale² Σ_d (x_d - c_d)(x'_d - c_d); ``location`` None puts c at zero."""

    def __init__(self, columns: np.ndarray, location: np.ndarray | None, log_outputscale: int):
        self.columns, self.log_outputscale = np.asarray(columns), log_outputscale
        self.location = None if location is None else np.asarray(location)
        self.roles = _roles("location", [] if self.location is None else self.location.tolist(), log_outputscale)
        self.structure = ("rooted linear" if location is None else "linear", tuple(self.columns.tolist()))

    def centred(self, theta, X):
        return X[..., self.columns] - (0.0 if self.location is None else theta[self.location])

    def at(self, theta, X, Z=None):
        return _LinearAt(self, theta, X, Z)

    def diagonal(self, theta, X):
        A = self.centred(theta, X)
        variance = np.exp(2 * theta[self.log_outputscale])
        value = variance * np.einsum("ij,ij->i", A, A)
        tangents = [(self.log_outputscale, 2 * value)]
        if self.location is not None:
            tangents += [(int(i), -2 * variance * A[:, d]) for d, i in enumerate(self.location)]
        return value, tangents


class _LinearAt:
    def __init__(self, node, theta, X, Z):
        self.node, self.theta = node, theta
        self.A = node.centred(theta, X)
        self.B = self.A if Z is None else node.centred(theta, Z)
        self.shape = X.shape if Z is None else Z.shape
        self.variance = np.exp(2 * theta[node.log_outputscale])
        self.K = self.variance * (self.A @ self.B.T)

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


class Add(Node):
    """A sum of nodes."""

    def __init__(self, parts: Sequence[Node]):
        self.parts = list(parts)

    def at(self, theta, X, Z=None):
        return _AddAt([part.at(theta, X, Z) for part in self.parts])

    def diagonal(self, theta, X):
        parts = [part.diagonal(theta, X) for part in self.parts]
        return sum(value for value, _ in parts), [t for _, tangents in parts for t in tangents]


class _AddAt:
    def __init__(self, children):
        self.children = children
        self.K = sum(child.K for child in children)

    def input_pullback(self, W):
        return sum(child.input_pullback(W) for child in self.children)

    def pullback(self, W):
        return sum(child.pullback(W) for child in self.children)

    def tangents(self):
        return [t for child in self.children for t in child.tangents()]

    def curvature(self, W):
        return sum(child.curvature(W) for child in self.children)


class Multiply(Node):
    """A product of two nodes."""

    def __init__(self, left: Node, right: Node):
        self.left, self.right = left, right
        # A product of products is one product.
        self.parts = [f for side in (left, right) for f in (side.parts if isinstance(side, Multiply) else (side,))]

    def at(self, theta, X, Z=None):
        return _MultiplyAt(self, self.left.at(theta, X, Z), self.right.at(theta, X, Z))

    def diagonal(self, theta, X):
        a, da = self.left.diagonal(theta, X)
        b, db = self.right.diagonal(theta, X)
        return a * b, [(i, t * b) for i, t in da] + [(i, a * t) for i, t in db]


class _MultiplyAt:
    def __init__(self, node, left, right):
        self.node, self.left, self.right = node, left, right
        self.K = left.K * right.K

    def input_pullback(self, W):
        return self.left.input_pullback(W * self.right.K) + self.right.input_pullback(W * self.left.K)

    def pullback(self, W):
        return self.left.pullback(W * self.right.K) + self.right.pullback(W * self.left.K)

    def tangents(self):
        return [(i, t * self.right.K) for i, t in self.left.tangents()] + [
            (i, self.left.K * t) for i, t in self.right.tangents()
        ]

    def curvature(self, W):
        H = self.left.curvature(W * self.right.K) + self.right.curvature(W * self.left.K)
        for i, a in self.left.tangents():
            Wa = W * a
            for j, b in self.right.tangents():
                value = np.vdot(Wa, b)
                H[i, j] += value
                H[j, i] += value
        return H
