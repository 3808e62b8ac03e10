"""Evidence by importance sampling around the modes of a fit.

Laplace's approximation is the first term of an expansion; on small data it is nats off, and differently for each model.
Weighted draws from heavy-tailed versions of the modes' Gaussians (:mod:`pymc_active.laplace.draws.weighted`) correct
it, as long as the modes found are those that matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.support.threads import one_blas_thread

# Above this not even importance sampling repairs an approximation (Vehtari et al. 2024).
PARETO_LIMIT = 0.7
# Weights, over their mean, that have no tail to speak of.
_NO_TAIL = 10.0


class ImportanceEvidence(NamedTuple):
    """An estimate of log p(y) in nats, its standard error, and how far it can be trusted.

    ``effective_sample_size`` is (sum w)² / sum w² of the importance weights; above 0.7, ``pareto_k``, the shape of
    their tail, says that a few draws dominate and the standard error is too small.
    """

    log_evidence: float
    standard_error: float
    effective_sample_size: float
    pareto_k: float


def importance_evidence(
    fit: LaplaceFit, draws: int = 2000, random_seed: int | np.random.Generator | None = 0
) -> ImportanceEvidence:
    """Log evidence from weighted draws around the modes of a fit, in nats.

    Parameters
    ----------
    fit : LaplaceFit
    draws : int
        Weighted draws, each one evaluation of the posterior, at least 100; twice as many more for fewer than 30 points.
    random_seed : int, optional

    Returns
    -------
    ImportanceEvidence

    Raises
    ------
    TypeError, ValueError
        For anything but a fit, fewer than 100 draws, or a posterior that is not finite at any of them.

    Notes
    -----
    Half of the draws are from Student-t with 4 degrees of freedom, as wide as each mode's Gaussian or twice as wide, by
    the square roots of the modes' Laplace evidences; the others are from narrower ones around 64 draws by MCMC
    from the same modes. They are not adapted to the weights: proposals that learn from few draws forget the
    tails, with a large effective sample size, and the estimate is too low.

    For fewer than 30 points twice as many more are from the prior, if it is normal and there is no embedding with more
    than ten parameters: with few data much of the evidence of a model with periods, or of an embedding whose mode has
    a lower rank, lies where no mode is.

    References
    ----------
    .. [1] Owen & Zhou (2000), Safe and effective importance sampling. Vehtari et al. (2024), Pareto smoothed
       importance sampling.
    """
    if not isinstance(fit, LaplaceFit):
        raise TypeError(f"importance_evidence takes a LaplaceFit (see fit_laplace); got {type(fit).__name__}")
    if draws < 100:
        raise ValueError(f"draws must be at least 100; got {draws}")
    weighted = fit.weighted_draws(draws, random_seed)
    log_weights = weighted.log_weights
    if not np.isfinite(log_weights).any():
        raise ValueError(
            "the log posterior is not finite at any draw: K + noise is never positive definite there. Give log_noise a "
            "prior that keeps it away from zero."
        )
    size, n = weighted.effective_sample_size, len(log_weights)
    # To first order the error of a logarithm is relative.
    relative_variance = max(1 / size - 1 / n, 0.0)
    return ImportanceEvidence(
        float(logsumexp(log_weights) - np.log(n)), float(np.sqrt(relative_variance)), size, pareto_shape(log_weights)
    )


def pareto_shape(log_weights: np.ndarray) -> float:
    """Shape of the tail of importance weights, (S,); 0 if the largest is below ten times their mean."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_stats.base import array_stats

    finite = np.isfinite(log_weights)
    log_weights = np.where(finite, log_weights, log_weights[finite].min() - 1e3)
    # Of a thousand weights with k = 0.5 the largest would be about thirty times their mean. A generalised Pareto
    # distribution fitted to weights that end so early may have any shape.
    if log_weights.max() - logsumexp(log_weights) + np.log(len(log_weights)) < np.log(_NO_TAIL):
        return 0.0
    # ArviZ takes log likelihoods, whose inverses are its weights.
    _, k = array_stats.psislw(logsumexp(log_weights) - log_weights)
    return float(k)


# Draws behind Pareto k; of larger data an evaluation takes longer, and the posterior is closer to a Gaussian.
_DRAWS, _FEWER_DRAWS, _LARGE = 4000, 1000, 100


def pareto_k(fit: LaplaceFit, draws: int | None = None, random_seed: int | None = 0) -> float:
    """Shape of the tail of the importance weights from the Laplace approximation to the posterior.

    Draws do not move along an embedding's rotations; the density is that of orbits, volume included. By default there
    are 4,000 of them for fewer than 100 points, else 1,000: the standard error of k is then about 0.1 or 0.2.
    """
    # In the row space of an embedding: outside, the approximation is exact.
    best = fit.best
    if draws is None:
        draws = _DRAWS if len(fit.y) < _LARGE else _FEWER_DRAWS
    thetas = best.draw(draws, np.random.default_rng(random_seed))
    z = (thetas - best.z) @ best.inverse_root.T
    with one_blas_thread():
        values = np.array([best.log_density(theta) for theta in thetas])
    return pareto_shape(values + 0.5 * np.square(z).sum(1))
