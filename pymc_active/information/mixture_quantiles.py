"""Quantiles, cumulative probabilities and densities of many Gaussian mixtures in one dimension."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from pymc_active.posterior.factor import LOG_2PI

# How far beyond the quantiles of the components, in sds, a quantile of their mixture is looked for.
_SLACK = 0.01


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
    # A component may know its value, which leaves no interval.
    sd = np.maximum(np.sqrt(variances), 400 * np.spacing(np.abs(means)))
    probabilities = np.asarray(probabilities, float)[:, None]
    # Between the least and the largest quantile of the components.
    ends = [
        np.stack([extreme(means + (z + slack) * sd, axis=0) for z in ndtri(probabilities[:, 0])])
        for extreme, slack in ((np.min, -_SLACK), (np.max, _SLACK))
    ]
    columns = np.arange(means.shape[1])

    def excess(values: np.ndarray, column: np.ndarray, probability: np.ndarray) -> np.ndarray:
        return np.tensordot(weights, ndtr((values - means[:, column]) / sd[:, column]), 1) - probability

    from scipy.optimize.elementwise import find_root  # takes long to load

    return find_root(excess, tuple(ends), args=(columns, probabilities)).x
