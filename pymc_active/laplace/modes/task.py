"""One mode search, from starts to expansions, as a task that can run in another process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from pymc_active.kernels.arrays import Stationary
from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.like_terms import same_place
from pymc_active.laplace.modes.composite_kernels import structured_search
from pymc_active.laplace.modes.search import (
    FEW_PARAMETERS,
    N_LEVELS,
    SAME,
    Found,
    Searcher,
    SearchResult,
    anywhere,
    distinct,
    newton,
    search,
    weighty,
)
from pymc_active.posterior.array import ArrayPosterior, KernelPosterior
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.full_space import EmbeddingSlice, Space, find_space

# Polished modes this close (prior sds) are one.
_POLISHED = 0.05
_NOT_FINITE = (
    "the log posterior is not finite at any start, because K + noise is never positive definite. "
    "Check the scale of X and y, or give log_noise a prior that keeps it away from zero."
)
# Nats that a Newton step may still gain at a mode.
_GAIN = 1e-6


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


class FoundModes(NamedTuple):
    """Expansions of the distinct modes, highest first, and how they were found."""

    expansions: list[Expansion]
    search: SearchResult
    converged: bool


class NoFiniteStartError(ValueError):
    """The log posterior is not finite at any start."""


def search_and_expand(
    task: SearchTask, executor: Executor | None = None, advance: Callable[..., None] = lambda *args: None
) -> FoundModes:
    """Search for the modes of a posterior and expand it at each; a :class:`NoFiniteStartError` if no start is finite.

    Calls ``advance`` after every step. Limit BLAS to one thread around it, as workers do.
    """
    _, _, starts, n_restarts, population, random_seed = task
    if int(n_restarts) != n_restarts or n_restarts < 0:
        raise ValueError(f"n_restarts must be a whole number from 0; got {n_restarts!r}")
    space = find_space(task.posterior, task.embedding)
    posterior, embedding = space.posterior, space.embedding
    starts = [space.shrink(start) for start in starts]
    # Compiled functions can neither be pickled nor be used by two threads at once.
    executor = executor if isinstance(posterior, ArrayPosterior) else None
    center, sd = posterior.prior_scale()
    searcher, rng = Searcher(posterior, center, sd, posterior.noise_unit), np.random.default_rng(random_seed)
    is_near: Callable[[np.ndarray, np.ndarray], bool] = anywhere
    if isinstance(posterior, KernelPosterior) and type(posterior.kernel) is not Stationary and not population:
        is_near = same_place(posterior, _POLISHED)
        result = structured_search(searcher, rng, starts, n_restarts, executor, advance)
    else:
        result = search(
            searcher,
            rng,
            starts=starts,
            n_restarts=n_restarts,
            n_climbs=_n_climbs(posterior, embedding, n_restarts),
            n_particles=population,
            # Most ladder starts may agree on a wrong mode of an embedding. Only the population can tell, unless all of
            # them reach the mode of an earlier search.
            agreement=2 / 3 if embedding is None else 1.0 if starts else np.inf,
            executor=executor,
            advance=advance,
        )
    if not result.modes:
        raise NoFiniteStartError(_NOT_FINITE)
    settled = [_settle(space, mode, sd) for mode in result.modes]
    expansions = {id(mode): expansion for mode, expansion in settled}
    kept = weighty(distinct([mode for mode, _ in settled], SAME, is_near))
    # A log posterior that is finite in the search may overflow at the polished mode, a rounding error away.
    if not kept:
        raise NoFiniteStartError(_NOT_FINITE)
    return FoundModes([expansions[id(mode)] for mode in kept], result, kept[0].converged)


def _n_climbs(posterior, embedding, n_restarts: int) -> int:
    """Number of plain climbs beside the ladder: many if modes hide, none if they seldom end well."""
    if embedding is not None or posterior.n_parameters > FEW_PARAMETERS:
        return 0
    return 2 * n_restarts if posterior.hides_modes else n_restarts


def _settle(space: Space, mode: Found, sd: np.ndarray) -> tuple[Found, Expansion]:
    """Polish a mode; leave it along its negative curvature if it is a saddle."""
    posterior = space.posterior
    mode = newton(posterior, mode.z, sd)
    expansion = Expansion(space, mode.z)
    for _ in range(3):
        if expansion.curvature.smallest > -1e-6 * expansion.curvature.largest:
            break
        direction = np.linalg.eigh(expansion.hessian)[1][:, 0] * sd.mean() * 0.1
        tries = [newton(posterior, mode.z + sign * direction, sd) for sign in (1, -1)]
        better = max(tries, key=lambda found: found.log_posterior)
        if better.log_posterior < mode.log_posterior + SAME:
            break
        mode, expansion = better, Expansion(space, better.z)
    # The trust region stalls when rounding hides the decrease; plain Newton steps take the gradient to zero.
    for _ in range(3):
        if expansion.curvature.n_floored or np.abs(expansion.gradient).max() < 1e-9:
            break
        z = mode.z - expansion.covariance @ expansion.gradient
        value, gradient = posterior.value_and_gradient(z)
        if not (value > expansion.log_posterior - 1e-6 and np.abs(gradient).max() < np.abs(expansion.gradient).max()):
            break
        converged = mode.converged or bool(np.abs(gradient * sd).max() < 1e-4)
        mode, expansion = Found(z, value, converged), Expansion(space, z)
    if not mode.converged and not expansion.curvature.n_floored:
        # In a narrow mode rounding keeps the gradient from vanishing; the gain of a Newton step decides.
        mode = mode._replace(converged=bool(expansion.gradient @ expansion.covariance @ expansion.gradient < _GAIN))
    return mode._replace(log_posterior=expansion.log_posterior), expansion
