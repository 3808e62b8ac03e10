"""``fit``: choose how to represent the posterior of a GP model."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.free_variables import check_prior
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.modes import SURE, anneal_around, from_modes
from pymc_active.particles.particle_fit import ParticleFit
from pymc_active.particles.smc import run_smc
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

METHODS = ("auto", "smc", "laplace")
# Evaluations of a log density with its gradient, in units of one with few points: what SMC costs without asking, what
# it may cost beside a search of modes, and what it may cost at most.
_CHEAP, _BESIDE, _MOST = 0.15e6, 0.5e6, 12e6
# A search by a compiled graph, which takes one set of hyperparameters at a time, costs so many times as much.
_GRAPH = 10
# What annealing may cost in a longer run; fewer particles than this would not show much; particles beside draws around
# modes, in units of the default number, and of those draws one for so many, if that is more (guesses).
_BUDGET, _FEWEST_ANNEALED, _BESIDE_MODES, _PART = 6e6, 200, 2, 8
# Points for each parameter of an embedding from which its posterior is narrow enough for annealing from around modes.
_NARROW = 2
# Nats by which annealed particles may be behind, and the error of their log evidence, until a search of modes, which is
# cheap then, is asked.
_LAG, _UNSURE = 0.05, 0.5
# Embeddings with many points lag a little, and are right.
_LAG_OF_EMBEDDINGS = 1.0


def choose(
    gpm: GPModel,
    n_particles: int,
    rng: np.random.Generator,
    progressbar: bool = False,
    *,
    executor: Executor | None = None,
    compile_kwargs: dict | None = None,
    method: str = "auto",
    n_annealed: int | None = None,
) -> ParticleFit:
    """``fit(method="auto")`` or ``"smc"`` without warnings; SMC may take fewer particles, ``n_annealed``."""
    renew = partial(choose, compile_kwargs=compile_kwargs, method=method)
    n_annealed = n_particles if n_annealed is None else n_annealed
    if method == "smc":
        return run_smc(gpm, n_particles, rng, progressbar, compile_kwargs=compile_kwargs, renew=renew)
    posterior = gpm.posterior(compile_kwargs)
    is_embedding = gpm.embedding is not None
    # Outcomes that are not normal say less, so that modes are wide and levels few; and each step of a search, where
    # sites have to converge, costs as much as all particles.
    is_latent = isinstance(posterior, LatentPosterior)
    hides = posterior.hides_modes and not is_embedding and not is_latent
    cheap = _MOST if is_latent else _CHEAP * (1 if posterior.is_array else _GRAPH)
    # The way does not depend on how many particles are asked for.
    cost = _cost(gpm, posterior, gpm.n_particles(len(posterior.y)))

    def smc(reason: str) -> ParticleFit:
        return run_smc(gpm, n_annealed, rng, progressbar, compile_kwargs=compile_kwargs, reason=reason, renew=renew)

    def search(start: LaplaceFit | None = None) -> LaplaceFit:
        with ignoring(DoubtfulFitWarning):
            return fit_laplace(
                gpm,
                start=start,
                random_seed=rng,
                progressbar=progressbar,
                executor=executor,
                compile_kwargs=compile_kwargs,
            )

    def around_modes(reason: str) -> ParticleFit:
        return from_modes(search(), n_particles, rng, reason, renew, n_annealed)

    if not hides and cost <= (_MOST if is_embedding else cheap):
        annealed = smc("SMC is cheap for so few data")
        d, is_unsure = annealed.diagnostics, annealed.log_evidence_error > _UNSURE
        # With fewer points than parameters no mode is narrow.
        may_miss = is_embedding and not is_latent and len(posterior.y) >= posterior.n_parameters
        is_behind = d["lag"] > (_LAG_OF_EMBEDDINGS if is_embedding else _LAG)
        is_behind = is_behind or (may_miss and annealed.has_missed_a_mode)
        if not (is_behind or (annealed.has_lost_families if is_embedding else d["warnings"] or is_unsure)):
            return annealed
        if is_embedding and len(posterior.y) < _NARROW * posterior.n_parameters and not is_behind:
            reason = "SMC was uncertain, so a second run was mixed in by evidence"
            return annealed.mixed(smc(reason), rng, reason, is_repeated=True)
        reason = "SMC was uncertain, so draws around searched modes were mixed in by evidence"
        if not is_embedding:
            return annealed.mixed(around_modes(reason), rng, reason)
        # The search may miss what the particles have found.
        other = anneal_around(search(annealed.modes_found), n_particles, rng, reason, renew)
        return annealed.mixed(other, rng, reason)
    modes = around_modes("importance sampling confirms the modes, so SMC would only cost more")
    trusted = modes.diagnostics["confirmed"]
    if trusted and (not hides or cost > _BESIDE or modes.diagnostics["n_weighted"] >= SURE):
        return modes
    if cost <= (_BESIDE if hides and trusted else _MOST):
        reason = "modes may hide from SMC, and mass away from the modes from a search: mixed by evidence"
        return smc(reason).mixed(modes, rng, reason)
    why = "SMC would be too expensive" if np.isfinite(cost) else "the prior cannot be drawn from"
    return replace(modes, made={**modes.made, "reason": why})


def longer_run(gpm: GPModel, n_particles: int, rng: np.random.Generator, progressbar: bool = False) -> ParticleFit:
    """What :func:`choose` makes of more particles, with annealed ones mixed in where it relies on searched modes."""
    # Draws around modes do not show what their search has missed. With many points too few particles would be
    # affordable: then a new search, with more draws, is all.
    posterior = gpm.posterior()
    cost = _cost(gpm, posterior, 1) * (1 if posterior.is_array else _GRAPH)
    affordable, usual = min(n_particles, int(_BUDGET / cost)), gpm.n_particles(len(posterior.y))
    if posterior.hides_modes and gpm.embedding is None:
        # Weighted draws around modes are the reference; annealed ones only show what these have missed.
        affordable = min(affordable, max(_BESIDE_MODES * usual, n_particles // _PART))
    # Where particles for an embedding are affordable at all, they are what the fit is made of.
    n_annealed = n_particles if gpm.embedding is not None else max(affordable, min(usual, n_particles))
    longer = choose(gpm, n_particles, rng, progressbar, n_annealed=n_annealed)
    if longer.diagnostics["method"] != "importance" or affordable < min(_FEWEST_ANNEALED, n_particles):
        return longer
    reason = "draws around modes cannot show what a search has missed: mixed with annealed particles by evidence"
    annealed = run_smc(gpm, affordable, rng, progressbar, reason=reason, renew=longer.renew)
    return annealed.mixed(longer, rng, reason)


def _cost(gpm: GPModel, posterior: Posterior, n_particles: int) -> float:
    """Evaluations that SMC takes, in units of one with few points; infinity where the prior cannot be drawn from."""
    try:
        check_prior(gpm)
    except ValueError:
        return np.inf
    n = len(posterior.y)
    one = 1 + n**2 / 300 if posterior.is_array else 20 + n**2 / 300
    return n_particles * 9 * (4 + 0.65 * n) * one
