"""The probability that an experiment gives a result, learned from those that did and those that failed."""

from __future__ import annotations

from copy import copy

import numpy as np
import pymc as pm
from scipy.special import log_ndtr, logsumexp, softmax

from pymc_active.models.builders import ard_gp
from pymc_active.particles.particle_fit import FEWEST
from pymc_active.particles.smc import run_smc
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.predictions.mixtures import Mixture, mixture, mixture_gradients
from pymc_active.spaces.space import Space

# Most experiments fail for a reason, so that the boundary is sharper than under the usual prior: Normal(mean, sd).
_LOG_OUTPUTSCALE = 2.0, 1.0
# With more inputs the few failures of a run say nothing about single lengthscales, which keep their prior medians.
_MOST_INPUTS = 20
# Particles, up to so many points, and with more of these.
_MANY, _UP_TO = 96, 60
# Smallest log probability, and that of one half.
_SMALLEST, _EVEN_ODDS = -100.0, np.log(0.5)


class Success:
    """Log of P(an experiment at x gives a result), by a model of yes and no averaged over its hyperparameters.

    It is fitted to points X (n, D), some of which ``failed`` (n,). Inputs are scaled from the box between
    ``low`` and ``high`` (D,) to [-1, 1].
    """

    def __init__(
        self, X: np.ndarray, failed: np.ndarray, low: np.ndarray, high: np.ndarray, random_seed: int,
        space: Space | None = None,
    ):  # fmt: skip
        self.worked, self._failed, half = X[~failed], X[failed], (high - low) / 2
        scale = (low + high) / 2, np.where(half > 0, half, 1.0)
        priors = {"log_outputscale": pm.Normal.dist(*_LOG_OUTPUTSCALE)}
        if len(low) > _MOST_INPUTS:
            priors["log_lengthscale"] = 0.5 * np.log(len(low))
        where = {"x_scale": scale} if space is None else {"space": space}
        gpm = ard_gp(X, ~failed, likelihood="bernoulli", mean="constant", priors=priors, **where)
        # It weighs a criterion, and its values are probabilities however doubtful it is.
        n_particles = _MANY if len(X) <= _UP_TO else FEWEST
        self._ensemble = run_smc(gpm, n_particles, np.random.default_rng(random_seed)).ensemble
        self._log_weights = np.log(self._ensemble.weights)[:, None]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """At points (m, D) in the user's units, (m,)."""
        return self._mean(log_ndtr(_standardised(mixture(self._ensemble, X))))

    def coarse(self, n: int) -> Success:
        """By n of its particles."""
        other = copy(self)
        other._ensemble = self._ensemble.first(n)
        other._log_weights = np.log(other._ensemble.weights)[:, None]
        return other

    def is_likely(self, X: np.ndarray) -> np.ndarray:
        """Whether success is at least as likely as failure at points (m, D), or known of them, (m,)."""
        worked, failed = (_are_among(X, points) for points in (self.worked, self._failed))
        return worked | ~failed & (self(X) >= _EVEN_ODDS)

    def gradient(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and its derivatives in the inputs (m, D)."""
        gradients = mixture_gradients(self._ensemble, X)
        assert gradients is not None, "the kernel has derivatives"
        p, slopes = gradients
        z, v = _standardised(p), p.variances
        logs = log_ndtr(z)
        hazard = np.exp(-0.5 * (z * z + LOG_2PI) - logs)
        in_mean, in_variance = hazard / np.sqrt(1 + v), -0.5 * hazard * z / (1 + v)
        each = in_mean[..., None] * slopes.mean + in_variance[..., None] * slopes.variance
        value = self._mean(logs)
        share = softmax(logs + self._log_weights, axis=0) * (value > _SMALLEST)
        return value, np.einsum("sm,smd->md", share, each)

    def _mean(self, logs: np.ndarray) -> np.ndarray:
        """Log of the mean probability, from logs (S, m)."""
        return np.maximum(logsumexp(logs + self._log_weights, axis=0), _SMALLEST)


def _standardised(p: Mixture) -> np.ndarray:
    """Of which Φ is the probability of each member, (S, m)."""
    return p.means / np.sqrt(1 + p.variances)


def _are_among(X: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which rows of X (m, D) are points (k, D), (m,)."""
    is_among = np.zeros(len(X), bool)
    for point in points:
        is_among |= (X == point).all(1)
    return is_among
