"""The probability that an experiment gives a result, learned from those that did and those that failed."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pymc as pm
from scipy.special import log_ndtr, logsumexp, softmax

from pymc_active.classification.fit import fit_probit
from pymc_active.classification.model import probit_gp
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.support.scaling import Affine
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

# Most experiments fail for a reason, so that the boundary is sharper than under the usual prior: Normal(mean, sd).
_LOG_OUTPUTSCALE = 2.0, 1.0
# With more inputs the few failures of a run say nothing about single lengthscales, which keep their prior medians.
_MOST_INPUTS = 20
# Expectation propagation is more accurate than Laplace's method; with more points it takes seconds.
_MOST_POINTS = 100
# One restart alone may end at a mode at which points that failed are likelier to work than those that did.
_RESTARTS = 4
# Smallest log probability, and that of one half.
_SMALLEST, _EVEN_ODDS = -100.0, np.log(0.5)


class Success:
    """Log of P(an experiment at x gives a result), by a GP classifier averaged over its hyperparameters.

    It is fitted to points X (n, D), of which some ``failed`` (n,). Inputs are scaled from the box between
    ``low`` and ``high`` (D,) to [-1, 1].
    """

    def __init__(self, X: np.ndarray, failed: np.ndarray, low: np.ndarray, high: np.ndarray, random_seed: int):
        self._points, half = (X.tobytes(), failed.tobytes()), (high - low) / 2
        self.worked, self._failed = X[~failed], X[failed]
        self._x_map = Affine((low + high) / 2, np.where(half > 0, half, 1.0))
        priors = {"log_outputscale": pm.Normal.dist(*_LOG_OUTPUTSCALE)}
        if len(low) > _MOST_INPUTS:
            priors["log_lengthscale"] = 0.5 * np.log(len(low))
        gp = probit_gp(self._x_map(X), ~failed, mean="constant", priors=priors)
        approximation: Literal["ep", "laplace"] = "ep" if len(X) <= _MOST_POINTS else "laplace"
        # It weighs a criterion, and its values are probabilities however doubtful it is.
        with ignoring(DoubtfulFitWarning):
            self._fit = fit_probit(
                gp, approximation=approximation, n_restarts=_RESTARTS, random_seed=random_seed, progressbar=False
            )
        self._members, self._log_weights = self._fit.members, np.log(self._fit.weights)[:, None]

    def is_of(self, X: np.ndarray, failed: np.ndarray) -> bool:
        """Whether it is fitted to these points."""
        return self._points == (X.tobytes(), failed.tobytes())

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """At points (m, D) in the user's units, (m,)."""
        means, variances = self._fit.latent(self._x_map(X), self._members)
        return self._mean(log_ndtr(means / np.sqrt(1 + variances)))

    def is_likely(self, X: np.ndarray) -> np.ndarray:
        """Whether success is at least as likely as failure at points (m, D), or known of them, (m,)."""
        worked, failed = (_are_among(X, points) for points in (self.worked, self._failed))
        return worked | ~failed & (self(X) >= _EVEN_ODDS)

    def gradient(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and its derivatives in the inputs (m, D)."""
        scaled = self._x_map(X)
        m, v = self._fit.latent(scaled, self._members)
        in_X, in_X_of_v = np.stack(self._fit.latent_gradients(scaled, self._members), axis=1)
        z = m / np.sqrt(1 + v)
        logs = log_ndtr(z)
        hazard = np.exp(-0.5 * (z * z + LOG_2PI) - logs)
        in_m, in_v = hazard / np.sqrt(1 + v), -0.5 * hazard * z / (1 + v)
        slopes = in_m[:, :, None] * in_X + in_v[:, :, None] * in_X_of_v
        value = self._mean(logs)
        slope = np.einsum("sm,smd->md", softmax(logs + self._log_weights, axis=0) * (value > _SMALLEST), slopes)
        return value, self._x_map.pullback(X, slope)

    def _mean(self, logs: np.ndarray) -> np.ndarray:
        """Log of the mean probability, from logs (S, m)."""
        return np.maximum(logsumexp(logs + self._log_weights, axis=0), _SMALLEST)


def _are_among(X: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which rows of X (m, D) are points (k, D), (m,)."""
    found = np.zeros(len(X), bool)
    for point in points:
        found |= (X == point).all(1)
    return found
