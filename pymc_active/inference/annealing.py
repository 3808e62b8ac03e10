"""Draw from the posterior over hyperparameters by annealing particles in the noise (sequential Monte Carlo).

Particles start as draws from the prior. Additional noise, at first much larger than the data, is taken away in levels.
At each level particles are reweighted, resampled, and moved by one trajectory of Hamiltonian Monte Carlo, all of them
together. Large noise makes the posterior wide and smooth, so particles find all modes before these become narrow. The
product of the mean weights estimates the evidence. Source: Del Moral, Doucet & Jasra (2006), Sequential Monte Carlo
samplers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pymc_active.inference.ensemble import systematic
from pymc_active.inference.hmc import Halves, Places, trajectories, where
from pymc_active.posterior.base import Likelihoods, NoFiniteStartError

# Additional noise at the start, in variances of y, and the factor by which it grows until the prior has weight there.
_FIRST, _GROWTH = 10.0, 10.0
# Each level aims at this effective share of the particles, is redone with less of a change below the second one, and
# divides the additional noise by at most this factor.
_SHARE, _TOO_FEW, _LARGEST_FACTOR = 0.85, 0.65, 5.0
# Steps of a trajectory at most (``benchmarks/answered.md``: evidences scatter less with six than they did with eight by
# the particles' sds), its length in sds of the particles, the acceptance to aim at, and the jitter of steps.
_LEAPFROG, _LENGTH, _ACCEPTANCE, _JITTER = 6, 1.6, 0.8, 0.3
# Standard errors that are taken off what a trajectory adds to the mean log density.
_SURE = 3.0
# Trajectories at each level, and at the end, without additional noise; more, where a path wants them, while particles
# are so correlated with what they were in any coordinate (``benchmarks/answered.md``).
_MOVES, _CORRELATED = (1, 2), 0.7
# Levels after which annealing gives up; K + noise is then numerically singular nearly everywhere.
MOST_LEVELS = 500


class Path(Protocol):
    """Densities that lead to a posterior as additional noise is taken away; a posterior itself, or anything like it."""

    # Whether the density is one to the power 1 / (1 + noise).
    is_tempered: bool
    # Trajectories at each level and at the end, at most.
    most_moves: tuple[int, int]

    @property
    def noise_unit(self) -> float:
        """Scale of the additional noise, a sd."""

    def log_priors(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the path begins: log densities (S,) at z (S, P) and their gradients (S, P)."""

    def log_likelihoods(self, z: np.ndarray, extra_noise: float = 0.0, start: np.ndarray | None = None) -> Likelihoods:
        """Log ratios of the densities on the path and where it begins; zero with infinite noise."""


@dataclass(frozen=True)
class Particles:
    """S particles z (S, P) with their log priors, log likelihoods, gradients, and the first ancestor of each (S,)."""

    z: np.ndarray
    log_prior: np.ndarray
    prior_gradient: np.ndarray
    likelihoods: Likelihoods
    ancestors: np.ndarray

    @classmethod
    def at(
        cls, posterior: Path, z: np.ndarray, extra_noise: float = 0.0, ancestors: np.ndarray | None = None,
        start: np.ndarray | None = None,
    ) -> Particles:  # fmt: skip
        """Evaluate a posterior at z, from the sites ``start`` of particles nearby."""
        ancestors = np.arange(len(z)) if ancestors is None else ancestors
        return cls(z, *posterior.log_priors(z), posterior.log_likelihoods(z, extra_noise, start), ancestors)

    def __len__(self) -> int:
        return len(self.z)

    @property
    def log_density(self) -> np.ndarray:
        """Log posterior densities up to the evidence, (S,)."""
        return self.log_prior + self.likelihoods.value

    @property
    def gradient(self) -> np.ndarray:
        """Gradients of the log densities, (S, P)."""
        return self.prior_gradient + self.likelihoods.gradient

    def take(self, rows: np.ndarray) -> Particles:
        """Some of the particles, with repeats."""
        own = self.z[rows], self.log_prior[rows], self.prior_gradient[rows]
        return Particles(*own, self.likelihoods.take(rows), self.ancestors[rows])

    def where(self, accepted: np.ndarray, other: Particles) -> Particles:
        """``other`` where accepted (S,), else these."""
        new, old = ((one.z, one.log_prior, one.prior_gradient, *one.likelihoods) for one in (other, self))
        z, log_prior, prior_gradient, *likelihoods = where(accepted, new, old)
        return Particles(z, log_prior, prior_gradient, Likelihoods(*likelihoods), self.ancestors)


class Mover:
    """Moves particles by Hamiltonian Monte Carlo; the step size adapts from one trajectory to the next."""

    def __init__(self, posterior: Path, rng: np.random.Generator, step: float = 0.3):
        self.posterior, self.rng, self.step = posterior, rng, step
        self.acceptance = np.nan
        # By how much the last trajectory raised the mean log density, for certain: not at all in equilibrium.
        self.rise = 0.0
        self.n_evaluations = 0

    def move(self, particles: Particles, extra_noise: float = 0.0) -> Particles:
        """One trajectory of every particle, with the covariance of half of the particles as the inverse masses."""
        S, root = len(particles), Halves(particles.z, self.rng)
        n_steps = int(np.clip(np.ceil(_LENGTH / self.step), 1, _LEAPFROG))
        steps = self.step * np.exp(_JITTER * self.rng.normal(size=(S, 1)))
        end = particles

        def evaluate(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal end
            end = Particles.at(self.posterior, z, extra_noise, particles.ancestors, end.likelihoods.sites)
            return end.log_density, end.gradient

        start = Places(particles.z, particles.log_density, particles.gradient)
        _, probability, accepted = trajectories(evaluate, start, root, steps, n_steps, self.rng)
        self.n_evaluations += n_steps * S
        self.acceptance = float(probability.mean())
        self.step = float(np.clip(self.step * np.exp(self.acceptance - _ACCEPTANCE), 1e-6, _LENGTH))
        moved = particles.where(accepted, end)
        with np.errstate(invalid="ignore"):
            gains = moved.log_density - particles.log_density
        gains = np.where(np.isfinite(gains), gains, 0.0)
        self.rise = float(gains.mean() - _SURE * gains.std() / np.sqrt(S))
        return moved


@dataclass(frozen=True)
class Annealed:
    """Equally weighted particles of a posterior, its log evidence with a standard error (nats), and what it took.

    ``lag`` (nats) is the most by which a trajectory raised the mean log density. Particles that were not in equilibrium
    had not followed the posterior, as where it is far out in the prior: then the evidence is too small, and its error,
    which is for particles in equilibrium, too.
    """

    particles: Particles
    log_evidence: float
    log_evidence_error: float
    n_levels: int
    acceptance: float
    n_evaluations: int
    step: float
    lag: float


def effective(log_weights: np.ndarray) -> float:
    """Effective number of weights, (sum w)² / sum w²; 0 if none is finite."""
    if not np.isfinite(log_weights).any():
        return 0.0
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.square(weights).sum())


def anneal(
    posterior: Path,
    start: np.ndarray,
    rng: np.random.Generator,
    advance: Callable[..., None] = lambda *args: None,
) -> Annealed:
    """Anneal draws of the prior, ``start`` (S, P), to the posterior; NoFiniteStartError if it is finite nowhere."""
    S = len(start)
    noise, mover = _FIRST * posterior.noise_unit**2, Mover(posterior, rng)
    while True:
        particles = Particles.at(posterior, start, noise)
        mover.n_evaluations += S
        weights = particles.likelihoods.value
        if effective(weights) >= _SHARE * S or noise >= 1e12 * posterior.noise_unit**2:
            break
        noise *= _GROWTH
    if not np.isfinite(weights).any():
        raise NoFiniteStartError("the likelihood is not finite at any draw from the prior: check the scale of X and y")
    log_evidence, n_levels, accepted, lag = 0.0, 1, [], 0.0
    while True:
        total = float(np.logaddexp.reduce(weights))
        log_evidence += total - np.log(S)
        weights = np.exp(weights - total)
        particles = particles.take(systematic(weights, S, rng))
        before, is_last = particles.z, not noise
        for done in range(posterior.most_moves[is_last]):
            if done >= _MOVES[is_last] and _correlation(before, particles.z) < _CORRELATED:
                break
            particles = mover.move(particles, noise)
            lag = max(lag, mover.rise)
        accepted.append(mover.acceptance)
        advance()
        if not noise or n_levels == MOST_LEVELS:
            break
        noise, particles, weights = _next_level(posterior, particles, noise, mover)
        n_levels += 1
        if not np.isfinite(weights).any():
            raise NoFiniteStartError(
                "the likelihood is finite only with more noise than the model has: K + noise is numerically singular. "
                "Rows of X may repeat, or X or y be far from zero compared with how they vary (pass bounds); or give "
                "log_noise a prior that keeps it away from zero"
            )
    error = _evidence_error(particles.ancestors)
    acceptance = float(np.mean(accepted))
    return Annealed(particles, log_evidence, error, n_levels, acceptance, mover.n_evaluations, mover.step, lag)


def _next_level(
    posterior: Path, particles: Particles, noise: float, mover: Mover
) -> tuple[float, Particles, np.ndarray]:
    """The particles with less additional noise, and their log weights (S,)."""
    S, before = len(particles), particles.likelihoods
    factor = _choose_factor(before.in_noise, noise, posterior.is_tempered)
    while True:
        new = noise / factor if np.isfinite(factor) else 0.0
        likelihoods = posterior.log_likelihoods(particles.z, new, before.sites)
        mover.n_evaluations += S
        with np.errstate(invalid="ignore"):
            log_weights = likelihoods.value - before.value
        log_weights[~np.isfinite(log_weights)] = -np.inf
        if effective(log_weights) >= _TOO_FEW * S or factor < 1.0 + 1e-3:
            return new, replace(particles, likelihoods=likelihoods), log_weights
        # The derivative promised too much.
        factor = min(factor, 2 * _LARGEST_FACTOR) ** 0.5


def _choose_factor(in_noise: np.ndarray, noise: float, is_tempered: bool) -> float:
    """By how much to divide the additional noise for the effective share, by derivatives; infinite for none."""
    S = len(in_noise)

    def share(log_factor: float) -> float:
        if is_tempered:
            # The log likelihood, times by how much its power grows.
            grows = 1 / (1 + noise * np.exp(-log_factor)) - 1 / (1 + noise)
            return effective(-((1 + noise) ** 2) * grows * in_noise) / S
        # To first order in the noise, for all of it, or in its logarithm.
        return effective(-(1.0 if log_factor == np.inf else log_factor) * noise * in_noise) / S

    if share(np.inf) >= _SHARE:
        return np.inf
    low, high = 0.0, np.log(_LARGEST_FACTOR)
    if share(high) >= _SHARE:
        return _LARGEST_FACTOR
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= _SHARE else (low, middle)
    return float(np.exp(low))


def _correlation(before: np.ndarray, after: np.ndarray) -> float:
    """The largest correlation of a coordinate of particles (S, P) with itself."""
    a, b = (z - z.mean(0) for z in (before, after))
    return float(np.max(np.abs((a * b).sum(0)) / np.maximum(len(a) * a.std(0) * b.std(0), np.finfo(float).tiny)))


def _evidence_error(ancestors: np.ndarray) -> float:
    """Standard error of a log evidence from the families of the particles (after Lee & Whiteley 2018)."""
    # Systematic resampling adds next to no variance of its own, so unlike theirs the estimate is not reduced for the
    # number of resamplings. Few families say little about their own spread: the error grows beyond bounds with one.
    S = len(ancestors)
    _, counts = np.unique(ancestors, return_counts=True)
    variance = max(1 - S / (S - 1) * (1 - np.square(counts / S).sum()), 0.0)
    return float(np.sqrt(variance / (1 - variance))) if variance < 1 else np.inf
