"""The squared exponential covariance in the paper's parametrisation, and the least noise that keeps it regular."""

from __future__ import annotations

import numpy as np

from pymc_active.kernels.radial import exp_quad

# Prior variance of the mean of f, in signal variances: nothing is known about the mean.
VAGUE = 100.0
# With less noise, in signal variances, the covariance of the observations is singular to rounding.
_LEAST_NOISE = 1e-10


def squared_exponential(square: np.ndarray) -> np.ndarray:
    """exp(-r² / b²) from r² / b², squared distances in units of the bandwidth b = √2 ``ls``."""
    return exp_quad(2.0 * square, 0)[0]


def with_noise(K: np.ndarray, noise_variance: float) -> np.ndarray:
    """K, its diagonal raised in place."""
    K.flat[:: len(K) + 1] += noise_variance
    return K


def least_noise(signal_variance: float, noise_variance: float) -> float:
    """The noise variance, at least 1e-10 of the signal variance."""
    return max(noise_variance, _LEAST_NOISE * signal_variance)
