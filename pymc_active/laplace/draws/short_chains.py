"""Draw a few dozen times from the posterior by short MCMC chains that start from its Laplace approximation.

Independent draws from heavy-tailed versions of the modes' Gaussians are importance-weighted, resampled, and moved by
Hamiltonian Monte Carlo in coordinates in which their mode is a unit Gaussian, where a few steps give a new draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from pymc_active.inference.hmc import Places, density, jittered, trajectories
from pymc_active.inference.resampling import systematic
from pymc_active.laplace.expansion import Expansion
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import SamplingWarning, warn_user

# Degrees of freedom of the proposals, and their number for each chain.
_DF, _OVERSAMPLING = 4.0, 8
# Trajectories of each chain before its first draw, draws kept, and leapfrog steps per trajectory.
_BURN_IN, _KEPT, _STEPS = 4, 4, 4
# Multiples of the golden ratio, modulo 1, are spread evenly however many there are.
GOLDEN = 0.5 * (np.sqrt(5) - 1)
# Burn-in lasts up to this many trajectories until the step size suits.
_LONGEST_BURN_IN = 12


def particles(expansions: Sequence[Expansion], n_particles: int, rng: np.random.Generator) -> np.ndarray:
    """Equally weighted draws z (n_particles, P') around modes of one posterior, which share them by evidence."""
    if not len(expansions[0].z):
        return np.empty((n_particles, 0))
    with one_blas_thread():
        z, mode = _resample(expansions, -(-n_particles // _KEPT), rng)
        # Any first few of them come from different chains.
        return np.concatenate(_move(expansions, z, mode, rng))[:n_particles]


def _resample(
    expansions: Sequence[Expansion], n_chains: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Resample Student-t proposals by importance; returns the starts and the number of each start's mode."""
    evidence = np.array([e.log_evidence for e in expansions])
    share = np.exp(evidence - logsumexp(evidence))
    counts = np.maximum(rng.multinomial(_OVERSAMPLING * n_chains, share), 2 * (share > 0.01))
    z, log_weights, mode = [], [], []
    for k, (e, count) in enumerate(zip(expansions, counts, strict=True)):
        if not count:
            continue
        t = rng.normal(size=(count, e.root.shape[1])) * np.sqrt(_DF / rng.chisquare(_DF, size=(count, 1)))
        proposals = e.z + t @ e.root.T
        log_ratio = e.log_densities(proposals)
        if not np.isfinite(log_ratio).any():
            # Beside a mode where K + noise is nearly singular nothing may be possible: its chains start at the mode.
            proposals, t, log_ratio = np.tile(e.z, (count, 1)), np.zeros_like(t), np.zeros(count)
        log_ratio += 0.5 * (_DF + t.shape[1]) * np.log1p(np.square(t).sum(1) / _DF)
        # Truncated, so that no single proposal takes everything (Ionides 2008).
        log_ratio = np.minimum(log_ratio, logsumexp(log_ratio) - 0.5 * np.log(count))
        z.append(proposals)
        log_weights.append(log_ratio - logsumexp(log_ratio) + np.log(share[k]))
        mode.append(np.full(count, k))
    weight = np.exp(np.concatenate(log_weights))
    chosen = systematic(weight / weight.sum(), n_chains, rng)
    # Rows come in the order of the modes; golden steps through them make the first few represent all.
    chosen = chosen[np.argsort(np.argsort(np.arange(n_chains) * GOLDEN % 1))]
    return np.concatenate(z)[chosen], np.concatenate(mode)[chosen]


def _move(
    expansions: Sequence[Expansion], z: np.ndarray, mode: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Hamiltonian Monte Carlo, each chain in the metric of its mode; the places of all chains after each trajectory."""
    posterior = expansions[0].posterior
    # Chains move along directions of symmetry too: only the whole space has the right density.
    roots = [
        np.column_stack([e.curvature.root, np.median(np.linalg.norm(e.curvature.root, axis=0)) * null.T])
        if len(null := e.symmetry.directions.reshape(-1, len(e.z)))
        else e.curvature.root
        for e in expansions
    ]
    evaluate, step = density(posterior), 0.4
    groups = {int(k): np.flatnonzero(mode == k) for k in np.unique(mode)}
    places = {k: Places(z[rows], *evaluate(z[rows])) for k, rows in groups.items()}

    def sweep() -> float:
        total = 0.0
        for k in groups:
            steps = jittered(step, len(groups[k]), rng)
            places[k], probability, _ = trajectories(evaluate, places[k], roots[k], steps, _STEPS, rng)
            total += probability.sum()
        return total / len(mode)

    for done in range(1, _LONGEST_BURN_IN + 1):
        accepted = sweep()
        step = min(step * np.exp(accepted - 0.75), 0.8)
        if done >= _BURN_IN and accepted > 0.4:
            break
    kept = []
    for _ in range(_KEPT):
        accepted = sweep()
        now = np.empty_like(z)
        for k, rows in groups.items():
            now[rows] = places[k].z
        kept.append(now)
    if accepted < 0.1:
        warn_user(
            "the short MCMC chains accept fewer than 10 % of their proposals, so the draws are poorly mixed. K + noise "
            "is probably near-singular at this mode: raise n_restarts, or keep log_noise away from zero by its prior",
            SamplingWarning,
        )
    return kept
