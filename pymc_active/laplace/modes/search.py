"""Search any :class:`~pymc_active.posterior.base.Posterior` for its highest modes by annealing additional noise.

With much noise the surface is smooth, and good regions stay good as the noise is taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_active.inference.ensemble import systematic
from pymc_active.inference.hmc import Places, density, jittered, trajectories
from pymc_active.posterior.base import Limits, Posterior
from pymc_active.posterior.factor import NotPositiveDefiniteError
from pymc_active.posterior.row_space import EmbeddingSlice
from pymc_active.support.threads import in_threads

# Additional noise of the ladder, as fractions of the sd of y.
LADDER = (0.7, 0.5, 0.35, 0.25, 0.17, 0.1)
# The population starts where its particles move freely and ends where families no longer mix.
HIGHEST, LOWEST, N_LEVELS = 0.6, 0.12, 90
LEAPFROG_STEPS = 8
# Spread of its particles at the start, in prior sds, and the number of families whose best particle is polished.
_SPREAD, _FAMILIES = 0.5, 8
# Up to this many parameters plain climbs from all over the prior pay.
FEW_PARAMETERS = 25
# Starts that must reach the best mode if no mode can hide.
ENOUGH = 3
# Modes this far below the best (nats) carry no weight.
NEGLIGIBLE = 10.0
# Polished modes whose log densities agree to this (nats) are one, or copies under a symmetry.
SAME = 1e-3
# The most modes to keep.
MOST_MODES = 8
# Where climbs to a mode end, rough ones, and from the mode of other data: Newton steps polish the modes that matter.
_THOROUGH, _ROUGH, _FOLLOWED = Limits(400, 1e-5, 1e-13), Limits(200, 1e-2, 1e-9), Limits(100, 1e-3, 1e-15)


class Found(NamedTuple):
    """A local maximum."""

    z: np.ndarray
    log_posterior: float
    converged: bool
    n_evaluations: int = 0


class SearchResult(NamedTuple):
    """Distinct modes, best first, and how they were found."""

    modes: list[Found]
    n_starts: int = 0
    n_evaluations: int = 0
    n_best: int = 0
    used_population: bool = False


# Called after each step of a search.
type Advance = Callable[..., None]


def several(
    posterior: Posterior, climb: Callable[..., Found], *columns: Sequence | np.ndarray, advance: Advance = lambda: None
) -> list[Found]:
    """``map(climb, *columns)``, a few at a time if the posterior allows it; calls ``advance`` after each."""

    def one(*arguments: Any) -> Found:
        mode = climb(*arguments)
        advance()
        return mode

    return list((in_threads if posterior.climbs_apart else map)(one, *columns))


# Of a fit that was not searched for.
NO_SEARCH = SearchResult([])


class SearchTask(NamedTuple):
    """What to search, from warm starts (P,) and as in ``fit_laplace``. It can be pickled if its posterior can."""

    posterior: Posterior
    embedding: EmbeddingSlice | None
    starts: list[np.ndarray]
    n_restarts: int
    population: int | None
    random_seed: int | np.random.Generator

    @property
    def n_steps(self) -> int:
        """The most calls of ``advance``."""
        return self.n_restarts + (0 if self.population == 0 else N_LEVELS)


class Searcher[P: Posterior]:
    """A posterior with location and scale (P,) of its prior, and the unit of the additional noise."""

    def __init__(self, posterior: P):
        self.posterior, self.y_sd = posterior, posterior.noise_unit
        self.center, self.sd = posterior.prior_scale()

    def climb(self, z: np.ndarray, level: float = 0.0, *, rough: bool = False, iterations: int | None = None) -> Found:
        """Climb by L-BFGS in units of the prior's sd; ``iterations`` limits their number."""
        limits = _ROUGH if rough else _THOROUGH
        if iterations is not None:
            limits = Limits(iterations, 1e-2, 1e-7)
        climbed = self.posterior.climb(z, self.sd, limits, (level * self.y_sd) ** 2)
        return Found(climbed.z, climbed.value, climbed.is_converged, climbed.n_evaluations)

    def draw(self, rng: np.random.Generator, spread: float) -> np.ndarray:
        """A start drawn with ``spread`` prior sds around the prior's centre."""
        return self.center + spread * self.sd * rng.normal(size=len(self.center))

    def ladder(
        self, z: np.ndarray, levels: Sequence[float] = LADDER, rung: int | None = None, last: int | None = None
    ) -> Found:
        """Anneal the noise; each rung starts from the mode of the one before.

        ``rung`` and ``last`` limit the iterations of each rung, by default a rough climb, and of the last climb.
        """
        n_evaluations = 0
        for level in levels:
            step = self.climb(z, level, rough=True, iterations=rung)
            z, n_evaluations = step.z, n_evaluations + step.n_evaluations
        mode = self.climb(z, iterations=last)
        return mode._replace(n_evaluations=mode.n_evaluations + n_evaluations)


def population(
    searcher: Searcher, rng: np.random.Generator, n_particles: int = 64, advance: Advance = lambda *args: None
) -> tuple[np.ndarray, list[int]]:
    """Population annealing in the noise level.

    At each level the particles are reweighted, resampled if the effective sample size is below half, and moved by one
    trajectory of Hamiltonian Monte Carlo, whose step size adapts to 70 % acceptance. Returns the particles
    (n_particles, P) at the lowest level of noise, and the best one of each surviving family, best first.
    """
    z = np.stack([searcher.draw(rng, _SPREAD) for _ in range(n_particles)])
    family, log_weight = np.arange(n_particles), np.zeros(n_particles)
    previous: np.ndarray | None = None
    step = 0.1
    for level in np.geomspace(HIGHEST, LOWEST, N_LEVELS):
        evaluate = density(searcher.posterior, (level * searcher.y_sd) ** 2)
        places = Places(z, *evaluate(z))
        if previous is not None:
            with np.errstate(invalid="ignore"):
                log_weight += np.where(np.isfinite(places.value), places.value - previous, -np.inf)
                weight = np.exp(log_weight - log_weight.max())
            weight /= weight.sum()
            if 1 / np.square(weight).sum() < n_particles / 2:
                chosen = systematic(weight, n_particles, rng)
                places, family = places.take(chosen), family[chosen]
                log_weight[:] = 0.0
        steps = jittered(step, n_particles, rng)
        places, probability, _ = trajectories(evaluate, places, searcher.sd, steps, LEAPFROG_STEPS, rng)
        z, previous = places.z, places.value
        step *= np.exp(0.5 * (probability.mean() - 0.7))
        advance()
    particles, value = z, places.value
    order = np.argsort(-value)
    _, first = np.unique(family[order], return_index=True)
    return particles, [int(k) for k in order[np.sort(first)]]


def search(searcher: Searcher, rng: np.random.Generator, task: SearchTask, advance: Advance) -> SearchResult:
    """Search by warm starts, a noise ladder and plain climbs, then by a population if these disagree.

    Of the ladder starts, every fourth begins at a full prior draw, the others at 0.3 prior sds. Plain climbs begin on a
    Latin hypercube over the prior, for models in which the ladder can hide small modes: not for embeddings or many
    parameters, where they seldom end well. By default a population runs unless two thirds of the ladder starts, or
    three starts of any kind if the posterior hides no modes, reached the best mode.
    """
    posterior, n_restarts = searcher.posterior, task.n_restarts
    is_embedding = task.embedding is not None
    n_climbs = 2 * n_restarts if posterior.hides_modes else n_restarts
    if is_embedding or posterior.n_parameters > FEW_PARAMETERS:
        n_climbs = 0
    # Most ladder starts may agree on a wrong mode of an embedding. Only the population can tell, unless all of them
    # reach the mode of an earlier search.
    agreement = 2 / 3 if not is_embedding else 1.0 if task.starts else np.inf
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    draws = [searcher.draw(rng, 1.0 if i % 4 == 3 else 0.3) for i in range(n_restarts)]
    P = len(searcher.center)
    uniform = qmc.LatinHypercube(P, rng=rng).random(n_climbs) if n_climbs else np.empty((0, P))
    climbed = several(posterior, searcher.ladder, draws, advance=advance)
    starts = [*task.starts, *(searcher.center + searcher.sd * ndtri(uniform))]
    climbed += several(posterior, searcher.climb, starts)

    def count_best(modes: list[Found]) -> int:
        best = max((mode.log_posterior for mode in climbed), default=-np.inf)
        return sum(mode.log_posterior > best - 0.1 for mode in modes)

    wanted = posterior.population_size() if task.population is None else task.population
    agree = n_restarts > 0 and count_best(climbed[:n_restarts]) >= agreement * n_restarts
    if not posterior.hides_modes:
        agree = agree or count_best(climbed) >= ENOUGH
    used_population = wanted > 0 and (task.population is not None or not agree)
    n_evaluations = 0
    if used_population:
        particles, families = population(searcher, rng, n_particles=wanted, advance=advance)
        n_evaluations = wanted * N_LEVELS * (LEAPFROG_STEPS + 1)
        for k in families[:_FAMILIES]:
            rough = searcher.climb(particles[k], LOWEST, rough=True)
            n_evaluations += rough.n_evaluations
            climbed.append(searcher.climb(rough.z))
        # The best particle at the lowest level need not lead to the best mode.
        climbed += several(posterior, searcher.climb, particles[: 3 * _FAMILIES])
    if not climbed:
        raise ValueError("nothing to search from: give a start, n_restarts or a population")
    n_evaluations += sum(mode.n_evaluations for mode in climbed)
    modes = weighty(distinct(climbed, SAME))
    return SearchResult(modes, len(climbed), n_evaluations, count_best(climbed), used_population)


def follow(posterior: Posterior, z: np.ndarray, root: np.ndarray, slope: float = _FOLLOWED.slope) -> Found:
    """Climb by L-BFGS in coordinates in which a Gaussian, whose covariance has this root (P, r), is a unit one.

    A dozen evaluations where the posterior resembles this Gaussian. It ends where no derivative in these coordinates
    exceeds ``slope``; the gain still possible is below 1e-6 nats.
    """
    climbed = posterior.climb(z, root, _FOLLOWED._replace(slope=slope))
    is_there = bool(np.abs(climbed.slope).max(initial=0.0) < _FOLLOWED.slope)
    return Found(climbed.z, climbed.value, is_there, climbed.n_evaluations)


def anywhere(a: np.ndarray, b: np.ndarray) -> bool:
    """True: under symmetries two points anywhere may be one mode, and only densities tell them apart."""
    return True


def distinct(
    maxima: list[Found], apart: float, is_near: Callable[[np.ndarray, np.ndarray], bool] = anywhere
) -> list[Found]:
    """Finite maxima, best first, without those near a better one and within ``apart`` nats of it."""
    kept: list[Found] = []
    for mode in sorted(maxima, key=lambda mode: -mode.log_posterior):
        if np.isfinite(mode.log_posterior) and not any(
            other.log_posterior - mode.log_posterior <= apart and is_near(other.z, mode.z) for other in kept
        ):
            kept.append(mode)
    return kept


def weighty(modes: list[Found]) -> list[Found]:
    """The modes that carry weight, at most :data:`MOST_MODES`; ``modes`` are ordered, best first."""
    return [mode for mode in modes[:MOST_MODES] if mode.log_posterior >= modes[0].log_posterior - NEGLIGIBLE]


def newton(posterior: Posterior, z: np.ndarray, sd: np.ndarray) -> Found:
    """Polish a mode by a trust-region Newton method; it leaves saddles, and does not move along symmetries."""

    def objective(u):
        value, gradient = posterior.value_and_gradient(z + sd * u)
        return (-value, -gradient * sd) if np.isfinite(value) else (1e25, np.zeros_like(u))

    def hessian(u):
        try:
            return posterior.hessian(posterior.state(z + sd * u)) * np.outer(sd, sd)
        except NotPositiveDefiniteError:
            return np.eye(len(u))

    from scipy.optimize import minimize  # takes long to load

    options = {"gtol": 1e-8, "maxiter": 100, "initial_trust_radius": 0.1}
    result = minimize(objective, np.zeros_like(z), jac=True, hess=hessian, method="trust-exact", options=options)
    # The trust region stalls when rounding hides the decrease; the gradient tells whether that is a mode.
    converged = np.abs(result.jac).max() < 1e-4
    return Found(z + sd * result.x, -float(result.fun), bool(converged))
