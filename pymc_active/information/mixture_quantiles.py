"""Quantiles, cumulative probabilities and densities of many Gaussian mixtures in one dimension."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr

from pymc_active.posterior.factor import LOG_2PI

# Bisections: an interval that holds every component shrinks to the last digit of its midpoint.
_BISECTIONS = 60
# Half the width of that interval, in sds: beyond it a normal distribution has 1e-23 of its mass.
_REACH = 10.0


def mixture_log_density(
    values: np.ndarray, means: np.ndarray, variances: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Log densities at ``values`` (m,) of mixtures of S components with means and variances (S, m), weights (S,)."""
    each = -0.5 * (np.square(values - means) / variances + np.log(variances) + LOG_2PI)
    with np.errstate(divide="ignore"):
        return logsumexp(each + np.log(weights)[:, None], axis=0)


def mixture_cdf(values: np.ndarray, means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Cumulative probabilities at ``values`` (m,); arguments as for :func:`mixture_log_density`."""
    return weights @ ndtr((values - means) / np.sqrt(variances))


def mixture_quantiles(
    probabilities: np.ndarray, means: np.ndarray, variances: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Quantiles (k, m) at probabilities (k,) between 0 and 1; other arguments as for :func:`mixture_log_density`."""
    sd = np.sqrt(variances)
    found = []
    for probability in probabilities:
        low, high = (means - _REACH * sd).min(0), (means + _REACH * sd).max(0)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = mixture_cdf(middle, means, variances, weights) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        found.append(0.5 * (low + high))
    return np.stack(found)
