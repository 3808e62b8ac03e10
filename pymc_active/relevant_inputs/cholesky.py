"""The Cholesky factor of the covariance of noisy observations, or an error that names the scales."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

# Covariances of less noise are singular to rounding.
_LEAST_NOISE = 1e-10


def least_noise(signal_variance: float, noise_variance: float) -> float:
    """The noise variance, at least 1e-10 of the signal variance: that of f without noise is 0."""
    return max(noise_variance, _LEAST_NOISE * signal_variance)


def cholesky(K: np.ndarray, signal_variance: float, noise_variance: float) -> np.ndarray:
    """L of K = L Lᵀ, noise included, (n, n).

    Raises
    ------
    LinAlgError
        If K is not numerically positive definite.
    """
    L, info = lapack.dpotrf(K, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(
            f"the covariance of {len(K)} observations is not positive definite: noise_variance={noise_variance:g} is "
            f"too small beside signal_variance={signal_variance:g}"
        )
    return L
