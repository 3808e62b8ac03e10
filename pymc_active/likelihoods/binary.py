"""Yes or no, and how often yes in a number of trials, with the probability Φ(f)."""

from __future__ import annotations

from typing import override

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import gammaln, log_ndtr, ndtr, ndtri, owens_t

from pymc_active.likelihoods.base import LOG_2PI, LogConcave, Tilted, counts_between


def _hazard(z: np.ndarray) -> np.ndarray:
    """φ(z) / Φ(z)."""
    return np.exp(-0.5 * (z * z + LOG_2PI) - log_ndtr(z))


class Binomial(LogConcave):
    """So many successes in ``size`` trials."""

    name = "binomial"
    size_name: str | None = "y_trials"

    @override
    def read(self, y, size):
        super().read(y, size)
        if size is None:
            raise ValueError("y_trials must say how many trials each row has, as in y_trials=12 beside x and y")
        if (wrong := np.asarray(y) > size).any():
            y, size = np.asarray(y)[wrong][0], np.asarray(size)[wrong][0]
            raise ValueError(f"y_trials must not be smaller than the successes y; got {y:g} of {size:g}")

    @override
    def terms(self, f, y, size, phi):
        log_yes, log_no, log_density = log_ndtr(f), log_ndtr(-f), -0.5 * (f * f + LOG_2PI)
        yes, no = np.exp(log_density - log_yes), np.exp(log_density - log_no)
        log = y * log_yes + (size - y) * log_no + (gammaln(size + 1) - gammaln(y + 1) - gammaln(size - y + 1))
        return log, y * yes - (size - y) * no, y * yes * (f + yes) + (size - y) * no * (no - f)

    @override
    def guess(self, y, size, phi):
        p = (y + 0.5) / (size + 1)
        # Of a logit, which is 1.7 times a probit.
        return np.log(p / (1 - p)) / 1.7, 1 / ((size + 1) * p * (1 - p)) / 1.7**2

    @override
    def rate(self, f):
        return ndtr(f)

    @override
    def link(self, rate):
        return ndtri(rate)

    @override
    def moments(self, mean, variance, size, phi):
        z = mean / np.sqrt(1 + variance)
        p = ndtr(z)
        # E Φ(f)² = Φ(z) - 2 T(z, (1 + 2 v)^-½) (Owen 1980).
        square = p - 2 * owens_t(z, 1 / np.sqrt(1 + 2 * variance))
        return size * p, size * (p - square) + np.square(size) * np.maximum(square - p * p, 0.0)

    @override
    def noise(self, mean, variance, size, phi):
        """As a size of Bernoulli outcomes; many of them together say a little less."""
        z = mean / np.sqrt(1 + variance)
        bend = np.exp(-z * z - LOG_2PI - log_ndtr(z) - log_ndtr(-z)) / (1 + variance)
        return (1 / bend - variance) / size

    @override
    def draw(self, f, size, phi, rng):
        return rng.binomial(np.broadcast_to(size, f.shape).astype(int), ndtr(f)).astype(float)

    @override
    def values(self, mean, variance, size, phi):
        most = np.broadcast_to(np.asarray(size, float), mean.shape[-1:])
        return counts_between(np.zeros(len(most)), most)

    @override
    def pymc(self, name, f, size, variables, **keywords):
        # 1/2 erfc(-f / √2) does not overflow, and does not round to zero early.
        return pm.Binomial(name, n=size, p=0.5 * pt.erfc(-f / np.sqrt(2)), **keywords)


class Bernoulli(Binomial):
    """Yes or no."""

    name, size_name = "bernoulli", None

    @override
    def read(self, y, size):
        strange = np.unique(np.asarray(y, float)[~np.isin(y, [0, 1])])
        if strange.size:
            shown = ", ".join(f"{value:g}" for value in strange[:5])
            raise ValueError(f"outcomes of likelihood='bernoulli' are 0 and 1, or False and True; got also {shown}")

    @override
    def tilted(self, mean, variance, y, size, phi, near=None, power=1.0):
        if power != 1:
            return super().tilted(mean, variance, y, size, phi, near, power)
        sign, root = 2 * y - 1, np.sqrt(1 + variance)
        z = sign * mean / root
        hazard = _hazard(z)
        return Tilted(log_ndtr(z), sign * hazard / root, hazard * (z + hazard) / (1 + variance))

    @override
    def log_marginal(self, y, mean, variance, size, phi):
        return self.tilted(mean, variance, y, size, phi).log_z

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.Bernoulli(name, p=0.5 * pt.erfc(-f / np.sqrt(2)), **keywords)
