"""Real numbers with a monotone map that is normal: f plus ``exp(log_noise)`` times a standard normal variable.

Sites are exact, so that the posterior is the one of a Gaussian process of the mapped outcomes.
"""

from __future__ import annotations

from typing import Any, override

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import ndtri

from pymc_active.likelihoods.base import LOG_2PI, Likelihood, Phi, Tilted
from pymc_active.support.scaling import scale_about_median

# Equally probable values of a standard normal, over which moments of outcomes are taken. They leave out the ends, since
# far from data the mean of an exponential has nothing to do with what is probable.
_NODES = ndtri((np.arange(40) + 0.5) / 40)
# Outcomes in a sum over them, and sds to either side of the function given its parameters (guesses).
_VALUES, _FAR = 64, 4.5
# Logarithms of outcomes beyond which these overflow once they are squared.
_MOST = 300.0
# Products of exponents and logarithms below which a series has more digits.
_SMALL = 1e-2


class Mapped(Likelihood):
    """A likelihood whose outcomes are normal once mapped, or as they are; ``rate`` is the outcome without noise."""

    name, is_real, has_no_end = "normal", True, True

    def map(self, y: Any, phi: Phi) -> tuple[np.ndarray, np.ndarray]:
        """Mapped outcomes, and the log of the slope of the map."""
        return y, 0 * y

    @override
    def log_density(self, f, y, size, phi):
        z, log_slope = self.map(y, phi)
        return log_slope - phi[0] - 0.5 * (LOG_2PI + np.square((z - f) * np.exp(-phi[0])))

    @override
    def tilted(self, mean, variance, y, size, phi, near=None, power=1.0):
        z, log_slope = self.map(y, phi)
        noise = np.exp(2 * phi[0]) / power
        v = variance + noise
        away, log_unit = z - mean, LOG_2PI + 2 * phi[0]
        slope, in_noise = away / v, noise * (np.square(away / v) - 1 / v)
        normal = -0.5 * (LOG_2PI + np.log(v) + slope * away)
        log_z = power * log_slope + 0.5 * ((1 - power) * log_unit - np.log(power)) + normal
        in_phi = (1 - power + in_noise, *(power * b - slope * a for a, b in self.slopes(y, phi)))
        in_power = log_slope - 0.5 * (log_unit + (1 + in_noise) / power)
        return Tilted(log_z, slope, 1 / v + 0 * slope, in_phi, in_power)

    def slopes(self, y: Any, phi: Phi) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Derivatives of both parts of :meth:`map` in each parameter but the noise."""
        return ()

    @override
    def guess(self, y, size, phi):
        return self.map(y, phi)[0], self.noise(0.0, 0.0, size, phi)

    @override
    def link(self, rate, phi):
        z, log_slope = self.map(rate, phi)
        return np.where(log_slope > -np.inf, z, -np.inf)

    @override
    def rate_moments(self, mean, variance, phi):
        if type(self) is Mapped:
            return mean, variance
        # One value after another, since all together would need forty times the memory of a mixture.
        sd, rate, square = np.sqrt(variance), np.zeros_like(mean), np.zeros_like(mean)
        for k, node in enumerate(_NODES, 1):
            y = self.rate(mean + sd * node, phi)
            away = y - rate
            rate = rate + away / k
            square = square + away * (y - rate)
        return rate, square / len(_NODES)

    @override
    def moments(self, mean, variance, size, phi):
        return self.rate_moments(mean, variance + self.noise(mean, variance, size, phi), phi)

    @override
    def noise(self, mean, variance, size, phi):
        return np.exp(2 * phi[0]) + 0 * mean

    @override
    def draw(self, f, size, phi, rng):
        return self.rate(f + np.exp(phi[0]) * rng.standard_normal(np.shape(f)), phi)

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.Normal(name, mu=f, sigma=variables["noise"], **keywords)

    @override
    def values(self, mean, variance, size, phi):
        spread = _FAR * np.sqrt(variance + np.exp(2 * phi[0]))
        # Even steps of the map of the particle in the middle.
        middle = [np.sort(part, axis=0)[len(part) // 2] for part in phi]
        low, high = (self.map(self.rate(mean + side * spread, phi), middle)[0] for side in (-1, 1))
        low, high = low.min(0), high.max(0)
        y = self.rate(low + np.linspace(0, 1, _VALUES)[:, None] * (high - low), middle)
        return y, np.log((high - low) / (_VALUES - 1)) - self.map(y, middle)[1]


class LogNormal(Mapped):
    """Positive outcomes with a normal logarithm."""

    name, has_unit = "lognormal", False
    parameters = (("log_noise", float(np.log(0.1)), 1.0),)

    @override
    def read(self, y, size):
        if (np.asarray(y, float) <= 0).any():
            raise ValueError(
                f"outcomes of likelihood='lognormal' are positive; got {np.nanmin(y):g}. likelihood='warped' takes all"
            )

    @override
    def as_function(self, y):
        return np.log(y)

    @override
    def map(self, y, phi):
        # Of what is not positive the density is zero.
        z = np.log(np.where(np.asarray(y) > 0, y, 1.0))
        return z, np.where(np.asarray(y) > 0, -z, -np.inf)

    @override
    def rate(self, f, phi):
        return np.exp(np.minimum(f, _MOST))

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.LogNormal(name, mu=f, sigma=variables["noise"], **keywords)


class Warped(Mapped):
    """The power of Yeo & Johnson of the outcomes, which no outcome is too large or too small for.

    ``warp`` is power / (2 - power): 1 changes nothing, towards 0 large outcomes are as under a logarithm, and for large
    ones small outcomes. The map is of (y - median) / width of the data, and divided by the geometric mean of its slopes
    at these (Box & Cox 1964, eq. 8), so that densities of different powers compare and noise has the units of y.
    """

    name = "warped"
    # Powers from 0 to 2 are about equally probable.
    parameters = (("log_noise", float(np.log(0.1)), 1.0), ("log_warp", 0.0, 1.5))

    @override
    def of_data(self, y):
        level, scale = scale_about_median(y)
        side, length = _sides((y - level) / scale)
        return level, scale, float(np.mean(side * length))

    @override
    def given(self, phi, of_data):
        level, scale, in_height = (np.full_like(phi[1], value) for value in of_data)
        # Log of the slopes' geometric mean, and its derivative in the power.
        return [*phi, level, scale, (_power(phi[1]) - 1) * in_height, in_height]

    @override
    def map(self, y, phi):
        _, warp, level, scale, log_height, _ = phi
        power = _power(warp)
        side, length = _sides((y - level) / scale)
        z = side * _grown(length, np.where(side > 0, power, 2 - power))
        return level + scale * np.exp(-log_height) * z, (power - 1) * side * length - log_height

    @override
    def slopes(self, y, phi):
        _, warp, level, scale, log_height, in_height = phi
        power = _power(warp)
        side, length = _sides((y - level) / scale)
        exponent = np.where(side > 0, power, 2 - power)
        in_power = _growth_slope(length, exponent) - side * _grown(length, exponent) * in_height
        in_warp = power * (2 - power) / 2
        return ((in_warp * scale * np.exp(-log_height) * in_power, in_warp * (side * length - in_height)),)

    @override
    def rate(self, f, phi):
        _, warp, level, scale, log_height, _ = phi
        z = (f - level) / scale * np.exp(log_height)
        power = _power(warp)
        exponent = np.where(z > 0, power, 2 - power)
        is_small = exponent < 1e-12
        safe = np.where(is_small, 1.0, exponent)
        length = np.where(is_small, np.abs(z), np.log1p(safe * np.abs(z)) / safe)
        return level + scale * np.sign(z) * np.expm1(np.minimum(length, _MOST))

    @override
    def pymc(self, name, f, size, variables, observed, **keywords):
        level, scale, in_height = self.of_data(observed.get_value())

        def logp(value: Any, mu: Any, sigma: Any, power: Any) -> Any:
            u, log_height = (value - level) / scale, (power - 1) * in_height
            grown = pt.log1p(pt.abs(u))
            exponent = pt.switch(u > 0, power, 2 - power)
            z = level + scale * pt.exp(-log_height) * pt.sign(u) * pt.expm1(exponent * grown) / exponent
            return pm.logp(pm.Normal.dist(mu, sigma), z) + (power - 1) * pt.sign(u) * grown - log_height

        def random(mu: Any, sigma: Any, power: Any, rng: Any = None, size: Any = None) -> Any:
            z = rng.normal(mu, sigma, size)
            log_warp = np.log(power / (2 - power))
            return self.rate(z, [None, log_warp, level, scale, (power - 1) * in_height, in_height])

        power = 2 * variables["warp"] / (1 + variables["warp"])
        return pm.CustomDist(
            name, f, variables["noise"], power, logp=logp, random=random, observed=observed, **keywords
        )


def _power(log_warp: Any) -> np.ndarray:
    return 2 / (1 + np.exp(-np.clip(log_warp, -_MOST, _MOST)))


def _sides(u: Any) -> tuple[np.ndarray, np.ndarray]:
    """Signs, and log(1 + |u|)."""
    return np.sign(u), np.log1p(np.abs(u))


def _grown(length: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """(exp(exponent length) - 1) / exponent, to its limit at zero."""
    x = exponent * length
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x < 1e-12, length, np.expm1(x) / exponent)


def _growth_slope(length: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """The derivative of :func:`_grown` in the exponent."""
    x = exponent * length
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (x * np.exp(x) - np.expm1(x)) / np.square(x)
    series = 1 / 2 + x / 3 + np.square(x) / 8 + x**3 / 30
    return np.square(length) * np.where(x < _SMALL, series, ratio)
