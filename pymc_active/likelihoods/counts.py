"""Counts whose expectation is ``size`` times exp(f)."""

from __future__ import annotations

from typing import override

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import digamma, gammaln, ndtri

from pymc_active.likelihoods.base import LogConcave, counts_between

# Counts beyond these probabilities are left out of sums over them: at the ends of f, and of a count given f.
_TAIL = -float(ndtri(1e-5))
# Exponents above these overflow.
_MOST = 600.0


class Poisson(LogConcave):
    """Independent events."""

    name, size_name, has_no_end = "poisson", "exposure", True

    @override
    def terms(self, f, y, size, phi):
        mu = size * np.exp(np.minimum(f, _MOST))
        return y * (np.log(size) + f) - mu - gammaln(y + 1), y - mu, mu

    @override
    def guess(self, y, size, phi):
        return np.log((y + 0.5) / size), 1 / (y + 0.5)

    @override
    def rate(self, f, phi):
        return np.exp(np.minimum(f, _MOST))

    @override
    def link(self, rate, phi):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(rate)

    @override
    def rate_moments(self, mean, variance, phi):
        mu = np.exp(np.minimum(mean + variance / 2, _MOST / 2))
        return mu, np.square(mu) * np.expm1(np.minimum(variance, _MOST / 4))

    @override
    def moments(self, mean, variance, size, phi):
        mu, squares = self.rate_moments(mean, variance, phi)
        mu, squares = size * mu, np.square(size) * squares
        return mu, squares + self._given(mu, mu * mu + squares, phi)

    def _given(self, mean: np.ndarray, square: np.ndarray, phi) -> np.ndarray:
        """The mean variance of an outcome given f, from the first two moments of its expectation."""
        return mean

    @override
    def noise(self, mean, variance, size, phi):
        """By the Fisher information at the median."""
        mu = size * np.exp(np.minimum(mean, _MOST))
        return self._given(mu, mu * mu, phi) / np.square(mu)

    @override
    def draw(self, f, size, phi, rng):
        return rng.poisson(size * np.exp(np.minimum(f, 40.0))).astype(float)

    @override
    def values(self, mean, variance, size, phi):
        ends = []
        for sign in (-1, 1):
            mu = size * np.exp(np.minimum(mean + sign * _TAIL * np.sqrt(variance), 30.0))
            ends.append(mu + sign * _TAIL * np.sqrt(self._given(mu, mu * mu, phi)))
        return counts_between(np.maximum(ends[0].min(0), 0.0), ends[1].max(0) + 5)

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.Poisson(name, mu=size * pt.exp(f), **keywords)


class NegativeBinomial(Poisson):
    """Counts that vary more: of variance mu + mu² / alpha."""

    name = "negative_binomial"
    parameters = (("log_alpha", float(np.log(5.0)), 1.0),)

    @override
    def terms(self, f, y, size, phi):
        alpha = np.exp(phi[0])
        # log mu and log(alpha + mu), without overflow.
        eta = np.log(size) + f
        total = np.logaddexp(phi[0], eta)
        share = np.exp(eta - total)
        log = gammaln(y + alpha) - gammaln(alpha) - gammaln(y + 1) + alpha * (phi[0] - total) + y * (eta - total)
        return log, y - (y + alpha) * share, (y + alpha) * share * (1 - share)

    @override
    def slopes(self, f, y, size, phi):
        alpha, eta = np.exp(phi[0]), np.log(size) + f
        total = np.logaddexp(phi[0], eta)
        rest = digamma(y + alpha) - digamma(alpha) + phi[0] - total + 1 - (y + alpha) * np.exp(-total)
        return (alpha * rest,)

    @override
    def guess(self, y, size, phi):
        return np.log((y + 0.5) / size), 1 / (y + 0.5) + np.exp(-phi[0])

    @override
    def _given(self, mean, square, phi):
        return mean + square * np.exp(-phi[0])

    @override
    def draw(self, f, size, phi, rng):
        alpha = np.broadcast_to(np.exp(phi[0]), f.shape)
        return rng.poisson(rng.gamma(alpha, size * np.exp(np.minimum(f, 40.0)) / alpha)).astype(float)

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.NegativeBinomial(name, mu=size * pt.exp(f), alpha=variables["alpha"], **keywords)
