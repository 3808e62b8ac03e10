"""The periodic kernel, and the one whose functions have mean zero over a period."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from scipy.special import ive

from pymc_active.kernels.exponential import ExponentialAt
from pymc_active.kernels.node import Node, Pairs, outer_differences, two_outer, variances
from pymc_active.kernels.polynomials import Polynomial, add, compose, line
from pymc_active.kernels.program import PERIODIC, Leaf
from pymc_active.kernels.radial import correlation
from pymc_active.kernels.spectra import Spectrum, Term

# Power of the spectral window from which on waves of two frequencies count as the same: a few points, or small errors,
# beside a lattice tell little. Frequencies that are looked at, at most, and numbers of a block.
_ALIAS, _FREQUENCIES, _BLOCK = 0.85, 20_000, 500_000
# Frequencies of a scan per reciprocal length of the data: neighbours differ by a third of a cycle over all data.
_PER_RECIPROCAL_LENGTH = 3
# A scan spans this many prior sds, more towards short periods, as data tell a period so well that a prior far from it
# matters little, and has these multiples of the data's length: such long periods model a trend.
_PRIOR_SDS, _SHORT_SDS = 2.5, 5.0
_TRENDS = np.geomspace(4.0, 0.7, 8)
_LARGEST_GRID = 400
# Part of a step by which points on a lattice may be off, and the smallest ratio of a period to its longer alias.
_UNEVEN, _LONGEST = 0.02, 1e-3


def highest_frequency(x: np.ndarray, highest: float) -> float:
    """The frequency, ``highest`` at most, beyond which points x (n,) hardly tell a wave from one of lower frequency."""
    length = float(np.ptp(x))
    if not length > 1e-12 * np.abs(x).max(initial=0.0):
        return 0.0
    n, has_fallen = min(int(8 * highest * length), _FREQUENCIES), False
    # The spectral window, which is one at the reciprocal step of a lattice, once it has fallen from its peak at zero.
    for first in range(0, n, block := max(1, _BLOCK // len(x))):
        frequencies = 0.25 / length * (1 + np.arange(first, min(first + block, n)))
        window = np.square(np.abs(np.exp(2j * np.pi * np.multiply.outer(frequencies, x)).mean(1)))
        fell = np.maximum.accumulate(window < _ALIAS) | has_fallen
        if (is_alias := fell & (window > _ALIAS)).any():
            return float(min(0.5 * frequencies[np.argmax(is_alias)], highest))
        has_fallen = bool(fell[-1])
    return highest


def lattice_step(x: np.ndarray) -> float:
    """The distance of points (n,) that are equally far apart, up to gaps; 0 if they are not."""
    points = np.unique(x)
    if len(points) < 2:
        return 0.0
    span = points[-1] - points[0]
    steps = np.round(span / np.diff(points).min())
    places = (points - points[0]) / span * steps
    return float(span / steps) if np.abs(places - np.round(places)).max() < _UNEVEN else 0.0


class _PeriodicAt(ExponentialAt):
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
        self.sines = [two_outer(s, c_, -c, s_) for s, c, s_, c_ in self.waves]
        self.s = reduce(np.add, map(np.square, self.sines))
        self.s *= 4 * self.w
        self.K = correlation(-0.5 * self.s)
        self.K *= np.exp(2 * theta[node.log_outputscale])

    def angles(self):
        """π (x - z) / period for each input column, with sin and cos of twice that."""
        for column, sine, (s, c, s_, c_) in zip(self.node.columns, self.sines, self.waves, strict=True):
            cosine = two_outer(c, c_, s, s_)
            angle = self.scale * outer_differences(self.X[:, column], self.Z[:, column])
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

    def log_gradient(self, WK):
        # With angles a and b, Σ M (a - b) sin 2(a - b) from sines and cosines of 2a and 2b, without a matrix more.
        period = 0.0
        for column, (s, c, s_, c_) in zip(self.node.columns, self.waves, strict=True):
            x, z = self.X[:, column], self.Z[:, column]
            a, b = self.scale * (x - x[0]), self.scale * (z - x[0])
            sine, cosine, sine_, cosine_ = 2 * s * c, 1 - 2 * s * s, 2 * s_ * c_, 1 - 2 * s_ * s_
            to_sine, to_cosine, by_sine, by_cosine = (WK @ np.stack([sine_, cosine_, b * sine_, b * cosine_], 1)).T
            period += (a * sine) @ to_cosine - (a * cosine) @ to_sine - sine @ by_cosine + cosine @ by_sine
        return np.vdot(WK, self.s), 2 * self.w * period

    def second_derivatives(self, WK):
        first = self.period_slope()
        second = sum(4 * self.w * a * (sine + 2 * a * cosine) for a, sine, cosine in self.angles())
        return (
            np.vdot(WK, self.s * (self.s - 2)),
            np.vdot(WK, first * (1 - 0.5 * self.s)),
            np.vdot(WK, 0.25 * first * first - 0.5 * second),
        )


class _PeriodicBatch:
    def __init__(self, node: Periodic, thetas: np.ndarray, pairs: Pairs):
        self.node, self.P = node, thetas.shape[1]
        scale = np.pi * np.exp(-thetas[:, node.log_period])
        self.weight = 4 * np.exp(-2 * thetas[:, node.log_lengthscale])[:, None]
        self.angles = [np.multiply.outer(scale, difference) for difference in pairs.differences(node.columns)]
        self.sines = [np.sin(angle) for angle in self.angles]
        self.s = reduce(np.add, map(np.square, self.sines))
        self.s *= self.weight
        self.K = variances(thetas, node.log_outputscale) * correlation(-0.5 * self.s)

    def pullback(self, W):
        gradient, WK = np.zeros((len(W), self.P)), W * self.K
        gradient[:, self.node.log_outputscale] = 2 * WK.sum(1)
        gradient[:, self.node.log_lengthscale] = np.einsum("sq,sq->s", WK, self.s)
        slope = sum(a * sine * np.cos(a) for a, sine in zip(self.angles, self.sines, strict=True))
        gradient[:, self.node.log_period] = np.einsum("sq,sq->s", WK, self.weight * slope)
        return gradient


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
            total = add(total, compose(outer, line(angle, in_s, in_t, order), order))
        s = {key: self.factor * value for key, value in total.items()}
        K = self.variance * np.exp(-0.5 * s[0, 0])
        return compose(tuple((-0.5) ** k * K for k in range(sum(order) + 1)), s, order)


class Periodic(Node):
    """outputscale² exp(-2 Σ sin²(π r / period) / lengthscale²)."""

    evaluation: type[Any] = _PeriodicAt
    batch_evaluation: type[Any] = _PeriodicBatch
    line_evaluation = _PeriodicLines

    def __init__(self, log_lengthscale: int, log_period: int, columns: np.ndarray, log_outputscale: int):
        self.log_lengthscale, self.log_period = log_lengthscale, log_period
        self.columns, self.log_outputscale = np.asarray(columns), log_outputscale
        self.roles = {"log_lengthscale": log_lengthscale, "log_period": log_period, "log_outputscale": log_outputscale}
        self.structure = ("PER", tuple(self.columns.tolist()))
        self.hidden = log_period

    @property
    def loop(self):
        return Leaf(
            PERIODIC, self.columns, [self.log_period] * len(self.columns), self.log_lengthscale, self.log_outputscale
        )

    def terms(self, theta, n_inputs):
        # exp(-2 w sin²(r/2)) = Σ_j exp(-w) I_j(w) cos(j r) over all whole j.
        w = np.exp(-2 * theta[self.log_lengthscale])
        largest = int(20 + 9 * np.sqrt(w))
        orders = np.arange(-largest, largest + 1)
        below = np.cumsum(ive(np.abs(orders), w))[:-1]
        angle = 2 * np.pi * np.exp(-theta[self.log_period])

        def frequencies(U):
            out = np.zeros((len(U), n_inputs))
            out[:, self.columns] = angle * orders[np.searchsorted(below, U)]
            return out

        return [Term(np.exp(2 * theta[self.log_outputscale]), (), (Spectrum(len(self.columns), frequencies),))]

    def hidden_grid(self, X, mean, sd):
        """Log periods, and trends, longest first."""
        # Points on a lattice cannot tell a period below two of its steps from longer ones; uneven points can. Periods
        # down to the mean distance of the points are scanned all the same, since the prior may prefer them.
        X = X[:, self.columns]
        length = float(np.ptp(X, axis=0).max())
        if length > 0:
            step = 1 / (_PER_RECIPROCAL_LENGTH * length)
            lowest = max(np.exp(-mean - _PRIOR_SDS * sd), 0.5 / length)
            shortest = np.exp(mean - _SHORT_SDS * sd)
            # No further than the grid stays fine enough.
            highest = min(1 / shortest, lowest + _LARGEST_GRID * step)
            highest = min(highest, max(len(X) / length, *(highest_frequency(column, highest) for column in X.T)))
            if highest - lowest > 4 * step:
                n = min(int((highest - lowest) / step) + 1, _LARGEST_GRID)
                trends = _TRENDS * length
                return np.log(np.concatenate([trends[trends * lowest > 1], 1 / np.linspace(lowest, highest, n)]))
        return mean + sd * np.linspace(_PRIOR_SDS, -_PRIOR_SDS, 50)

    def longest_alias(self, theta, X):
        """The log period; of points on a lattice."""
        if len(self.columns) > 1:
            return None
        step = lattice_step(X[:, self.columns[0]])
        cycles = step * np.exp(-theta[self.log_period])
        folded = abs(cycles - np.round(cycles))
        return float(np.log(step / folded)) if cycles > 0.5 and folded > _LONGEST * cycles else None


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


class _ZeroMeanPeriodicBatch:
    def __init__(self, node: ZeroMeanPeriodic, thetas: np.ndarray, pairs: Pairs):
        self.node, self.periodic = node, _PeriodicBatch(node, thetas, pairs)
        value, slope, _ = node.stretch(thetas[:, node.log_lengthscale])
        variance = variances(thetas, node.log_outputscale)
        self.value, self.slope = value[:, None], slope
        self.below = variance * np.expm1(-0.5 * self.periodic.s)
        self.K = variance + self.value * self.below

    def pullback(self, W):
        gradient = self.value * self.periodic.pullback(W)
        gradient[:, self.node.log_lengthscale] += self.slope * np.einsum("sq,sq->s", W, self.below)
        gradient[:, self.node.log_outputscale] = 2 * np.einsum("sq,sq->s", W, self.K)
        return gradient


class _ZeroMeanPeriodicLines(_PeriodicLines):
    def __init__(self, node, theta, a, b):
        super().__init__(node, theta, a, b)
        self.stretch, _, _ = node.stretch(theta[node.log_lengthscale])

    def along(self, u, v, order):
        K = {key: self.stretch * value for key, value in super().along(u, v, order).items()}
        return add(K, {(0, 0): (1 - self.stretch) * self.variance})


class ZeroMeanPeriodic(Periodic):
    """The periodic kernel without the constant in it, outputscale² (p - m) / (1 - m); m is the average of p.

    Its functions have mean zero over a period. Lloyd et al. (2014), Automatic construction and natural-language
    description of nonparametric regression models, section 2.
    """

    evaluation = _ZeroMeanPeriodicAt
    batch_evaluation = _ZeroMeanPeriodicBatch
    line_evaluation = _ZeroMeanPeriodicLines

    def __init__(self, log_lengthscale: int, log_period: int, columns: np.ndarray, log_outputscale: int):
        super().__init__(log_lengthscale, log_period, columns, log_outputscale)
        self.structure = ("PER0", tuple(self.columns.tolist()))

    @property
    def loop(self):
        return None

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

    def terms(self, theta, n_inputs):
        # As of the periodic kernel, given that not all orders are zero.
        w = np.exp(-2 * theta[self.log_lengthscale])
        largest, D = int(20 + 9 * np.sqrt(w)), len(self.columns)
        orders = np.arange(-largest, largest + 1)
        weights = ive(np.abs(orders), w)
        others, zero = orders[orders != 0], weights[largest]
        below, below_others = np.cumsum(weights)[:-1], np.cumsum(weights[orders != 0])[:-1] / (1 - zero)
        angle = 2 * np.pi * np.exp(-theta[self.log_period])

        def frequencies(U):
            out = np.zeros((len(U), n_inputs))
            is_zero = np.ones(len(U), bool)
            for d, column in enumerate(self.columns):
                u, left = U[:, d], D - d - 1
                stays = zero * (1 - zero**left) / (1 - zero ** (left + 1))
                after = others[np.searchsorted(below_others, (u - stays) / (1 - stays))]
                drawn = np.where(is_zero, np.where(u < stays, 0, after), orders[np.searchsorted(below, u)])
                out[:, column] = angle * drawn
                is_zero &= drawn == 0
            return out

        return [Term(np.exp(2 * theta[self.log_outputscale]), (), (Spectrum(D, frequencies),))]
