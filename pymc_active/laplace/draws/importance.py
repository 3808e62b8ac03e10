"""Importance sampling around the modes of a fit: evidence, and the Pareto k of the weights."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pymc_active.inference.annealing import effective
from pymc_active.inference.evidence import Evidence

# Below this ratio of the largest weight to the mean, weights have no tail to fit.
_NO_TAIL = 10.0


def sampled_evidence(log_weights: np.ndarray) -> Evidence:
    """Log evidence from weights of draws around the modes of a fit (S,), in nats.

    A ValueError if the posterior is finite at none. The proposals are not adapted to the weights: adapting them to few
    draws loses the tails, and the estimate is too low in spite of a large effective sample size (Owen & Zhou 2000).
    """
    if not np.isfinite(log_weights).any():
        raise ValueError(
            "the log posterior is not finite at any draw, because K + noise is never positive definite there. Give "
            "log_noise a prior that keeps it away from zero."
        )
    n = len(log_weights)
    # To first order, the error of a logarithm is the relative error.
    error = float(np.sqrt(max(1 / effective(log_weights) - 1 / n, 0.0)))
    return Evidence(float(logsumexp(log_weights) - np.log(n)), error, "importance")


def pareto_shape(log_weights: np.ndarray) -> float:
    """Shape of the tail of importance weights (S,); 0 if the largest is below ten times the mean.

    Above 0.7 they cannot correct an approximation (Vehtari et al. 2024, Pareto smoothed importance sampling).
    """
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_stats.base import array_stats

    finite = np.isfinite(log_weights)
    log_weights = np.where(finite, log_weights, log_weights[finite].min() - 1e3)
    # With k = 0.5 the largest of a thousand weights would be about thirty times the mean. A generalised Pareto
    # distribution fitted to weights that end earlier may have any shape.
    if log_weights.max() - logsumexp(log_weights) + np.log(len(log_weights)) < np.log(_NO_TAIL):
        return 0.0
    # ArviZ takes log likelihoods, and weighs by their inverses.
    _, k = array_stats.psislw(logsumexp(log_weights) - log_weights)
    return float(k)
