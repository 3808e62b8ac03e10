"""Yes or no, and how often yes in a number of trials, with the probability Φ(f), or of a logit f."""

from __future__ import annotations

from typing import override

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit, gammaln, log_expit, log_ndtr, logit, ndtr, ndtri, owens_t

from pymc_active.likelihoods.base import LOG_2PI, Likelihood, LogConcave, Tilted, counts_between

# A logit is so many times a probit.
_LOGITS = 1.7
# Equally spaced places of a standard normal, over which the trapezoidal rule converges faster than Gauss-Hermite where
# f is much wider than a logistic function. Farther than the last f no rate is told from 0 or 1.
_PLACES, _LAST = np.linspace(-6, 6, 49), 200.0
_SHARES = np.exp(-0.5 * np.square(_PLACES))
_SHARES /= _SHARES.sum()


def _log_ways(y: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Log of in how many ways there are y successes."""
    return gammaln(size + 1) - gammaln(y + 1) - gammaln(size - y + 1)


class Binomial(LogConcave):
    """So many successes in ``size`` trials."""

    name = "binomial"
    size_name: str | None = "y_trials"
    # The f whose rate is about Φ(1).
    per_probit = 1.0

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
        log = y * log_yes + (size - y) * log_no + _log_ways(y, size)
        return log, y * yes - (size - y) * no, y * yes * (f + yes) + (size - y) * no * (no - f)

    @override
    def guess(self, y, size, phi):
        p = (y + 0.5) / (size + 1)
        unit = self.per_probit / _LOGITS
        return unit * np.log(p / (1 - p)), unit**2 / ((size + 1) * p * (1 - p))

    @override
    def rate(self, f, phi):
        return ndtr(f)

    @override
    def link(self, rate, phi):
        return ndtri(rate)

    @override
    def rate_moments(self, mean, variance, phi):
        p, spread = self._rates(mean, variance)
        return p, np.maximum(p - spread - p * p, 0.0)

    @override
    def moments(self, mean, variance, size, phi):
        p, between = self.rate_moments(mean, variance, phi)
        return size * p, size * (p - p * p - between) + np.square(size) * between

    @override
    def noise(self, mean, variance, size, phi):
        """As a size of Bernoulli outcomes; many of them together say a little less."""
        return (1 / self._bend(mean, variance) - variance) / size

    def _rates(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expected rate p, and expected p (1 - p)."""
        z = mean / np.sqrt(1 + variance)
        # E Φ(f)² = Φ(z) - 2 T(z, (1 + 2 v)^-½) (Owen 1980).
        return ndtr(z), 2 * owens_t(z, 1 / np.sqrt(1 + 2 * variance))

    def _bend(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """How much a Bernoulli outcome is expected to bend the log density of ``mean``."""
        z = mean / np.sqrt(1 + variance)
        return np.exp(-z * z - LOG_2PI - log_ndtr(z) - log_ndtr(-z)) / (1 + variance)

    @override
    def draw(self, f, size, phi, rng):
        return rng.binomial(np.broadcast_to(size, f.shape).astype(int), self.rate(f, phi)).astype(float)

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
    # In closed form.
    log_marginal = Likelihood.log_marginal

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
        # φ(z) / Φ(z).
        hazard = np.exp(-0.5 * (z * z + LOG_2PI) - log_ndtr(z))
        return Tilted(log_ndtr(z), sign * hazard / root, hazard * (z + hazard) / (1 + variance))

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.Bernoulli(name, p=0.5 * pt.erfc(-f / np.sqrt(2)), **keywords)


class LogitBinomial(Binomial):
    """With the probability 1 / (1 + exp(-f)), by quadrature where f is Gaussian."""

    per_probit = _LOGITS

    @override
    def terms(self, f, y, size, phi):
        p, log = expit(f), y * log_expit(f) + (size - y) * log_expit(-f) + _log_ways(y, size)
        return log, y - size * p, size * p * expit(-f)

    @override
    def rate(self, f, phi):
        return expit(f)

    @override
    def link(self, rate, phi):
        return logit(rate)

    @override
    def _rates(self, mean, variance):
        yes, _, both = self._sums(mean, variance)
        return yes, both

    @override
    def _bend(self, mean, variance):
        yes, no, both = self._sums(mean, variance)
        # The slope of the expected rate is the expected p (1 - p).
        return np.square(both) / (yes * no)

    @staticmethod
    def _sums(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, ...]:
        """Expected p, 1 - p and p (1 - p)."""
        f = np.asarray(mean)[..., None] + np.sqrt(variance)[..., None] * _PLACES
        yes, no = expit(np.clip(f, -_LAST, _LAST)), expit(np.clip(-f, -_LAST, _LAST))
        return yes @ _SHARES, no @ _SHARES, (yes * no) @ _SHARES

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.Binomial(name, n=size, logit_p=f, **keywords)


class LogitBernoulli(LogitBinomial, Bernoulli):
    """Yes or no, with the probability 1 / (1 + exp(-f))."""

    tilted = LogConcave.tilted

    @override
    def log_marginal(self, y, mean, variance, size, phi):
        yes, no, _ = self._sums(mean, variance)
        return np.log(np.where(np.asarray(y) > 0, yes, no))

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.Bernoulli(name, logit_p=f, **keywords)
