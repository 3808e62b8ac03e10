"""Particles from the modes of a Laplace approximation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from pymc_active.laplace.draws.annealed import annealed_draws
from pymc_active.laplace.draws.weighted import CONFIRMING
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.particles.particle_fit import LOW_ACCEPTANCE, ParticleFit, Swarm
from pymc_active.posterior.prior import GaussianPrior
from pymc_active.support.threads import one_blas_thread

# Importance-weighted draws by default; up to how many points there are all that are asked for, and the least.
_WEIGHTED, _UP_TO, _FEWEST_WEIGHTED = 2000, 100, 64
# The effective number of weighted draws that represents the posterior, and that, relative to the particles, with which
# these need not be moved.
_FEW_WEIGHTED, _ENOUGH = 20, 0.25
# Effective weighted draws to which SMC has nothing to add. Of 28 posteriors of sums and products of kernels and 20 to
# 60 points with 150 to 500, the evidence of 27 was within 0.4 nats of that of a longer mixture of both, and that of the
# other one 1.3 away, with SMC and without.
SURE = 150
# Trajectories that turn repeats of a draw into different particles, and the step size they start with.
_MOVES, _MORE_MOVES, _STEP = 2, 8, 0.1


def from_modes(
    fit: LaplaceFit,
    n_particles: int,
    rng: np.random.Generator,
    reason: str,
    renew: Callable[..., ParticleFit],
    n_annealed: int | None = None,
    n_weighted: int | None = None,
) -> ParticleFit:
    """Particles resampled from weighted draws around the modes of a fit, and moved, unless there are many points.

    Where hardly any draw has weight, they, or ``n_annealed``, are annealed from around the modes. Of embeddings, and
    with many points, they are resampled by truncated weights and moved more often, the evidence is Laplace's and its
    error unknown, infinity. With a given number of weighted draws, as for one kernel of many, nothing is annealed, and
    particles are moved only if there are more than effective draws.
    """
    is_quick = n_weighted is not None
    if n_weighted is None:
        more = max(1.0, n_particles / fit.gpm.n_particles(len(fit.y)))
        affordable = int(more * _WEIGHTED * min(1.0, _UP_TO / len(fit.y)) ** 2)
        n_weighted = max(affordable, min(2 * n_particles, _WEIGHTED), _FEWEST_WEIGHTED)
    weighted = fit.weighted_draws(n_weighted, rng)
    size, n = weighted.effective_sample_size, len(weighted.log_weights)
    confirmed, moved = bool(size >= (_FEW_WEIGHTED if is_quick else min(CONFIRMING * n, SURE))), {}
    prior = getattr(fit.best.posterior, "prior", None)
    if confirmed or size >= _FEW_WEIGHTED or (is_quick and size > 0):
        z = weighted.resample(n_particles, rng)
        estimate = weighted.evidence
        evidence, error = estimate.value, estimate.error
    else:
        is_cheap = not is_quick and fit.gpm.embedding is None and len(fit.y) <= _UP_TO
        if is_cheap and isinstance(prior, GaussianPrior):
            annealed = anneal_around(fit, n_annealed or n_particles, rng, reason, renew)
            if np.isfinite(annealed.log_evidence_error):
                return replace(annealed, made={**annealed.made, "n_weighted": size, "confirmed": False})
        # Truncated, so that no single draw takes everything (Ionides 2008).
        logs = weighted.log_weights
        even = weighted._replace(log_weights=np.minimum(logs, logsumexp(logs) - 0.5 * np.log(n)))
        z = even.resample(n_particles, rng) if size else np.tile(fit.best.z, (n_particles, 1))
        evidence, error = fit.evidence.value, np.inf
    # With many points moves cost more than the draws.
    enough = 1.0 if is_quick else _ENOUGH if len(fit.y) > _UP_TO else np.inf
    stays = confirmed and size >= enough * n_particles
    space = fit.best.space
    with one_blas_thread():
        value = space.posterior.likelihood_values(z)
        families = np.unique(z, axis=0, return_inverse=True)[1] if stays else np.arange(len(z))
        swarm = Swarm(space, z, np.zeros(len(z)), value, families, evidence, error, _STEP)
        if not stays:
            swarm, moved["acceptance"] = swarm.moved(rng, _MOVES if np.isfinite(error) else _MORE_MOVES)
    diagnostics = {
        "method": "importance",
        "reason": reason,
        **moved,
        "n_weighted": size,
        "confirmed": confirmed,
        "n_evaluations": fit.diagnostics["n_evaluations"] + n,
    }
    return ParticleFit(fit.gpm, fit.data, swarm, diagnostics, renew)


def anneal_around(
    fit: LaplaceFit, n_particles: int, rng: np.random.Generator, reason: str, renew: Callable[..., ParticleFit]
) -> ParticleFit:
    """Particles annealed from around the modes of a fit; those that hardly move do not know what they have missed."""
    space = fit.best.space
    with one_blas_thread():
        annealed = annealed_draws(fit.expansions, n_particles, rng)
        # In random order, so that the first few represent all.
        some = annealed.particles.take(rng.permutation(n_particles))
        values = space.posterior.likelihood_values(some.z)
    evidence = annealed.log_evidence, annealed.log_evidence_error if annealed.acceptance >= LOW_ACCEPTANCE else np.inf
    swarm = Swarm(space, some.z, np.zeros(n_particles), values, some.ancestors, *evidence, annealed.step)
    diagnostics = {
        "method": "importance",
        "reason": reason,
        "n_levels": annealed.n_levels,
        "acceptance": annealed.acceptance,
        "n_evaluations": fit.diagnostics["n_evaluations"] + annealed.n_evaluations,
    }
    return ParticleFit(fit.gpm, fit.data, swarm, diagnostics, renew)
