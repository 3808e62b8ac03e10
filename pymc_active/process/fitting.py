"""Fit any PyMC model: annealed particles, or NUTS where these cannot follow."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.exceptions import SamplingError
from pytensor.graph.replace import graph_replace

import pymc_active.process.datatree  # noqa: F401  registers the groups of a DataTree
from pymc_active.inference.resampling import systematic
from pymc_active.particles.particle_fit import ParticleFit, Swarm
from pymc_active.particles.smc import annealed
from pymc_active.posterior.base import NoFiniteStartError
from pymc_active.posterior.row_space import FullSpace
from pymc_active.process.process import Process
from pymc_active.process.target import AnnealedModel

METHODS = ("auto", "anneal", "nuts")
# With more parameters than this particles would be too few (guess).
_MANY_PARAMETERS = 200
# Error of the log evidence (nats) from which on so many times as many particles are annealed: as for GPs, and a guess.
_UNSURE, _MORE = 0.5, 4
# Times that as many draws of the prior as particles are made, until enough are within its constraints.
_ROUNDS = 20
# Chains of NUTS, draws of each, at least, and before them, and the acceptance to aim at: PyMC's own, but fewer draws,
# since few are kept, and shorter steps, since what annealing fails at has narrow places.
_CHAINS, _DRAWS, _TUNE, _ACCEPT = 4, 500, 1000, 0.9


def fit_process(
    process: Process, n_particles: int, rng: np.random.Generator, progressbar: bool = False, *,
    method: str = "auto", executor: Any = None, compile_kwargs: dict | None = None,
) -> ParticleFit:  # fmt: skip
    """Draws from the posterior of a model given its data, and its evidence, without warnings."""
    renew = partial(fit_process, method=method)
    improper = process.improper
    if (rows := process.impossible(process.data)).size:
        shown = ", ".join(f"{value:g}" for value in process.y[rows[:3]])
        raise ValueError(
            f"{process.name!r} is {shown} in row {', '.join(map(str, rows[:3]))}, which no draw from the prior makes "
            "possible: check these values, and the priors"
        )
    if method == "anneal" and improper:
        raise ValueError(
            f"{', '.join(improper)}: an improper prior cannot be drawn from, nor a logp; give another, or use NUTS"
        )
    if method == "nuts" or improper or process.n_parameters > _MANY_PARAMETERS:
        why = f"the prior of {improper[0]} cannot be drawn from" if improper else "many parameters"
        why = "as asked" if method == "nuts" else why
        return _by_nuts(process, n_particles, rng, progressbar, why, renew)
    try:
        fitted = _annealed(process, n_particles, rng, progressbar, "annealed particles", renew)
        if _is_unsure(fitted):
            why = f"{n_particles} particles were uncertain, so {_MORE} times as many were annealed"
            fitted = _annealed(process, _MORE * n_particles, rng, progressbar, why, renew)
            fitted = fitted.thinned(n_particles, rng)
    except NoFiniteStartError:
        if method == "anneal":
            raise
        why = "annealing cannot start, since no draw from the prior has a likelihood"
        return _by_nuts(process, n_particles, rng, progressbar, why, renew, is_replaced=True)
    if method == "anneal" or not fitted.diagnostics["warnings"]:
        return fitted
    doubts = "; ".join(text.partition(" (")[0] for text in fitted.diagnostics["warnings"])
    why = f"annealing was doubtful: {doubts}"
    return _by_nuts(process, n_particles, rng, progressbar, why, renew, is_replaced=True)


def _is_unsure(fit: ParticleFit) -> bool:
    return bool(fit.diagnostics["warnings"]) or not fit.log_evidence_error <= _UNSURE


def _annealed(
    process: Process, n_particles: int, rng: np.random.Generator, progressbar: bool, reason: str, renew: Any
) -> ParticleFit:
    space = FullSpace(process.posterior())
    start = _prior_draws(process, n_particles, rng)
    return annealed(process, space, start, rng, progressbar, reason, renew)


def _prior_draws(process: Process, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (n, P) of the prior on the unconstrained space, without those that a transform excludes, such as order."""
    kept = np.empty((0, process.n_parameters))
    for _ in range(_ROUNDS):
        with np.errstate(invalid="ignore"):
            z = process.unconstrain(process.draw_prior(n, int(rng.integers(2**31))))
        kept = np.concatenate([kept, z[np.isfinite(z).all(1)]])
        if len(kept) >= n:
            return kept[:n]
    raise NoFiniteStartError(f"only {len(kept)} of {_ROUNDS * n} draws from the prior are within its constraints")


def _by_nuts(
    process: Process, n_particles: int, rng: np.random.Generator, progressbar: bool, reason: str, renew: Any,
    *, is_replaced: bool = False,
) -> ParticleFit:  # fmt: skip
    """Draws by ``pm.sample``, or nutpie if it is installed, thinned; their evidence is not known."""
    from arviz_stats import ess, rhat

    logging.getLogger("pymc_active").info("%s: pm.sample, since %s", process.description, reason)
    target = process.posterior()
    trace = _sampled(process, target, max(_DRAWS, -(-n_particles // _CHAINS)), rng, progressbar)
    chains = trace.posterior["z"].transpose("chain", "draw", ...).to_numpy()
    worst = float(np.max(rhat(trace.posterior, var_names="z")["z"].to_numpy()))
    made = {
        "method": "nuts", "reason": reason, "rhat": worst, "ess": float(np.min(ess(trace.posterior)["z"].to_numpy())),
        "divergences": int(trace.sample_stats["diverging"].sum()), "n_evaluations": 0, "is_replaced": is_replaced,
    }  # fmt: skip
    z = chains.reshape(-1, chains.shape[-1])
    z = z[rng.permutation(systematic(np.full(len(z), 1 / len(z)), n_particles))]
    zero, families = np.zeros(n_particles), np.arange(n_particles)
    swarm = Swarm(FullSpace(target), z, zero, target.likelihood_values(z), families, np.nan, np.nan, 0.3)
    return ParticleFit(process, process.data, swarm, made, renew)


def _sampled(process: Process, target: AnnealedModel, draws: int, rng: np.random.Generator, progressbar: bool) -> Any:
    """A trace of z, by a model of nothing but the log density of the data at hand."""
    graphs = process.graphs
    start = process.flatten({k: np.where(np.isfinite(z), z, 0) for k, z in process.model.initial_point().items()})
    with pm.Model() as flat:
        z = pm.Flat("z", shape=target.n_parameters)
        data: dict[Any, Any] = {graphs.z: z, **dict(zip(graphs.tables, map(pt.as_tensor, target.tables), strict=True))}
        log: Any = graphs.log_densities(pt.as_tensor(graphs.as_outcome(target.y)))
        pm.Potential("log_density", pt.add(*graph_replace(log, data, strict=False)))
    sample = partial(
        pm.sample, draws, tune=_TUNE, chains=_CHAINS, cores=1, random_seed=int(rng.integers(2**31)),
        progressbar=progressbar, quiet=not progressbar, initvals={"z": start}, compute_convergence_checks=False,
        target_accept=_ACCEPT, model=flat,
    )  # fmt: skip
    failed = None
    # Around the initial point nothing may be possible, but at it.
    for init in ("jitter+adapt_diag", "adapt_diag"):
        try:
            return sample(init=init)
        except SamplingError as error:
            failed = error
    raise ValueError(
        "NUTS cannot start, since at the initial point and around it the data are impossible: check the data and the "
        "priors, or give the variables an initval"
    ) from failed
