"""Kernels between points that move along straight lines: k(a + s u, b + t v) as a polynomial in s and t.

Polynomials up to s² t² give all covariances of a Gaussian process and its first two derivatives, exactly, also where
both points are the same.
"""

from __future__ import annotations

from functools import partial, reduce, singledispatch
from itertools import product
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
from pymc_active.kernels.radial import MEAN_SQUARE_DERIVATIVES, Profile

# Coefficients of s^i t^j; missing ones are zero.
Polynomial = dict[tuple[int, int], np.ndarray]


class Lines(Protocol):
    """A kernel between points a and b (..., D), which broadcast against each other."""

    def along(self, u: np.ndarray | None, v: np.ndarray | None, order: tuple[int, int]) -> Polynomial:
        """Coefficients of k(a + s u, b + t v) up to s^order[0] t^order[1].

        Directions broadcast like the points, and may have further axes in front. None stands for a point that stays.
        """


@singledispatch
def lines(node: Node, theta: np.ndarray, a: np.ndarray, b: np.ndarray) -> Lines:
    """Evaluate a kernel between points a and b (..., D) for derivatives along any lines through them."""
    raise NotImplementedError(type(node).__name__)


def check_twice_differentiable(node: Node) -> None:
    """Raise a ValueError unless functions with this kernel have second derivatives."""
    for leaf in node.leaves:
        profile = getattr(leaf, "profile", None)
        if profile in MEAN_SQUARE_DERIVATIVES:
            check_profile(profile)


def check_profile(profile: Profile) -> None:
    """As :func:`check_twice_differentiable`, for one stationary kernel."""
    if MEAN_SQUARE_DERIVATIVES[profile] < 2:
        raise ValueError(
            f"functions with the kernel {profile.__name__} have no second derivative: use "
            '"ExpQuad", "Matern52" or a rational quadratic kernel, or a criterion that needs no curvature of maxima '
            '("max_value_entropy", "expected_improvement")'
        )


def multiply(p: Polynomial, q: Polynomial, order: tuple[int, int]) -> Polynomial:
    """Product of polynomials, truncated at ``order``."""
    out: Polynomial = {}
    for ((i, j), a), ((k, m), b) in product(p.items(), q.items()):
        if i + k <= order[0] and j + m <= order[1]:
            term = a * b
            out[i + k, j + m] = out[i + k, j + m] + term if (i + k, j + m) in out else term
    return out


def add(p: Polynomial, q: Polynomial) -> Polynomial:
    """Sum of polynomials."""
    return {**p, **{key: p[key] + value if key in p else value for key, value in q.items()}}


def combine(parts: list[Polynomial], is_sum: bool, order: tuple[int, int]) -> Polynomial:
    """Sum or truncated product of polynomials."""
    return reduce(add if is_sum else partial(multiply, order=order), parts)


def compose(derivatives: tuple[np.ndarray, ...], inner: Polynomial, order: tuple[int, int]) -> Polynomial:
    """g(inner), from g and its derivatives at the constant term of ``inner``."""
    change = {key: value for key, value in inner.items() if key != (0, 0)}
    out: Polynomial = {(0, 0): derivatives[0]}
    power: Polynomial = {(0, 0): np.ones(())}
    factorial = 1.0
    for k in range(1, sum(order) + 1):
        power = multiply(power, change, order)
        factorial *= k
        if not power:
            break
        out = add(out, {key: derivatives[k] / factorial * value for key, value in power.items()})
    return out


def _line(constant: np.ndarray, in_s: np.ndarray | None, in_t: np.ndarray | None, order: tuple[int, int]) -> Polynomial:
    """The line constant + s in_s + t in_t."""
    p = {(0, 0): constant}
    if order[0] and in_s is not None:
        p[1, 0] = in_s
    if order[1] and in_t is not None:
        p[0, 1] = in_t
    return p


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


def _radial_lines(node: Stationary, profile: Profile, theta, a, b) -> RadialLines:
    w, columns = np.exp(-theta[node.column_indices]), node.columns

    def turn(direction):
        return direction[..., columns] * w

    return RadialLines(profile, np.exp(2 * theta[node.log_outputscale]), turn(a) - turn(b), turn)


@lines.register
def _(node: Stationary, theta, a, b):
    return _radial_lines(node, node.profile, theta, a, b)


@lines.register
def _(node: RationalQuadratic, theta, a, b):
    alpha = np.exp(theta[node.log_alpha])

    def profile(s, order):
        t = 1 + s / (2 * alpha)
        g = [t**-alpha]
        for k in range(order):
            g.append(-(alpha + k) / (2 * alpha) * g[-1] / t)
        return tuple(g)

    return _radial_lines(node, profile, theta, a, b)


@lines.register(Periodic)
class _PeriodicLines:
    def __init__(self, node, theta, a, b):
        self.columns = node.columns
        self.scale = np.pi * np.exp(-theta[node.log_period])
        self.factor = 4 * np.exp(-2 * theta[node.log_lengthscale])
        self.variance = np.exp(2 * theta[node.log_outputscale])
        self.angles = self.scale * (a[..., self.columns] - b[..., self.columns])

    def along(self, u, v, order):
        total: Polynomial = {}
        for k, column in enumerate(self.columns):
            angle = self.angles[..., k]
            sine, cosine = np.sin(2 * angle), np.cos(2 * angle)
            # sin² and its derivatives.
            outer = (np.sin(angle) ** 2, sine, 2 * cosine, -4 * sine, -8 * cosine)
            in_s = None if u is None else self.scale * u[..., column]
            in_t = None if v is None else -self.scale * v[..., column]
            total = add(total, compose(outer, _line(angle, in_s, in_t, order), order))
        s = {key: self.factor * value for key, value in total.items()}
        K = self.variance * np.exp(-0.5 * s[0, 0])
        return compose(tuple((-0.5) ** k * K for k in range(sum(order) + 1)), s, order)


@lines.register(ZeroMeanPeriodic)
class _ZeroMeanPeriodicLines(_PeriodicLines):
    def __init__(self, node, theta, a, b):
        super().__init__(node, theta, a, b)
        self.stretch, _, _ = node.stretch(theta[node.log_lengthscale])

    def along(self, u, v, order):
        K = {key: self.stretch * value for key, value in super().along(u, v, order).items()}
        return add(K, {(0, 0): (1 - self.stretch) * self.variance})


@lines.register(Constant)
class _ConstantLines:
    def __init__(self, node, theta, a, b):
        shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
        self.K = np.full(shape, np.exp(2 * theta[node.log_outputscale]))

    def along(self, u, v, order):
        return {(0, 0): self.K}


@lines.register(Linear)
class _LinearLines:
    def __init__(self, node, theta, a, b):
        self.columns = node.columns
        self.a, self.b = node.centred(theta, a), node.centred(theta, b)
        self.variance = np.exp(2 * theta[node.log_outputscale])

    def along(self, u, v, order):
        total: Polynomial = {}
        for k, column in enumerate(self.columns):
            in_s = None if u is None else self.variance * u[..., column]
            left = _line(self.variance * self.a[..., k], in_s, None, order)
            right = _line(self.b[..., k], None, None if v is None else v[..., column], order)
            total = add(total, multiply(left, right, order))
        return total


@lines.register(Add)
@lines.register(Multiply)
class _CombinedLines:
    def __init__(self, node, theta, a, b):
        self.parts, self.is_sum = [lines(part, theta, a, b) for part in node.parts], isinstance(node, Add)

    def along(self, u, v, order):
        return combine([part.along(u, v, order) for part in self.parts], self.is_sum, order)
