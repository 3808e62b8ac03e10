"""Importance sampling around the modes of a fit: evidence, and the Pareto k of the Laplace approximation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.support.threads import one_blas_thread

# Above this, importance sampling cannot correct an approximation (Vehtari et al. 2024).
PARETO_LIMIT = 0.7
# Below this ratio of the largest weight to the mean, weights have no tail to fit.
_NO_TAIL = 10.0
# Draws for Pareto k. With more data an evaluation takes longer, and the posterior is closer to a Gaussian.
_DRAWS, _FEWER_DRAWS, _LARGE = 4000, 1000, 100


class ImportanceEvidence(NamedTuple):
    """An estimate of log p(y) and its standard error in nats, with (sum w)² / sum w² and the Pareto k of the weights.

    Above k = 0.7 a few draws dominate, and the standard error is too small.
    """

    log_evidence: float
    standard_error: float
    effective_sample_size: float
    pareto_k: float


def importance_evidence(
    fit: LaplaceFit, draws: int = 2000, random_seed: int | np.random.Generator | None = None
) -> ImportanceEvidence:
    """Log evidence from at least 100 weighted draws around the modes of a fit, in nats.

    Each draw is one evaluation of the posterior; a ValueError if it is not finite at any of them. The proposals are not
    adapted to the weights: adapting them to few draws loses the tails, and the estimate is too low in spite of a large
    effective sample size. Sources: Owen & Zhou (2000); Vehtari et al. (2024), Pareto smoothed importance sampling.
    """
    if not isinstance(fit, LaplaceFit):
        raise TypeError(f"importance_evidence takes a LaplaceFit (see fit_laplace); got {type(fit).__name__}")
    if draws < 100:
        raise ValueError(f"draws must be at least 100; got {draws}")
    weighted = fit.weighted_draws(draws, random_seed)
    log_weights = weighted.log_weights
    if not np.isfinite(log_weights).any():
        raise ValueError(
            "the log posterior is not finite at any draw, because K + noise is never positive definite there. Give "
            "log_noise a prior that keeps it away from zero."
        )
    size, n = weighted.effective_sample_size, len(log_weights)
    # To first order, the error of a logarithm is the relative error.
    error = float(np.sqrt(max(1 / size - 1 / n, 0.0)))
    return ImportanceEvidence(float(logsumexp(log_weights) - np.log(n)), error, size, pareto_shape(log_weights))


def pareto_shape(log_weights: np.ndarray) -> float:
    """Shape of the tail of importance weights (S,); 0 if the largest is below ten times the mean."""
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


def pareto_k(fit: LaplaceFit, draws: int | None = None, random_seed: int | np.random.Generator | None = None) -> float:
    """Shape of the tail of the importance weights from the Laplace approximation to the posterior.

    Draws do not move along an embedding's rotations; densities include the volume of the orbit. The default is 4,000
    draws for fewer than 100 points, otherwise 1,000; the standard error of k is then about 0.1 or 0.2.
    """
    # In the row space of an embedding; outside it the approximation is exact.
    best = fit.best
    if draws is None:
        draws = _DRAWS if len(fit.y) < _LARGE else _FEWER_DRAWS
    z = best.draw(draws, np.random.default_rng(random_seed))
    t = (z - best.z) @ best.inverse_root.T
    with one_blas_thread():
        values = best.log_densities(z)
    return pareto_shape(values + 0.5 * np.square(t).sum(1))
