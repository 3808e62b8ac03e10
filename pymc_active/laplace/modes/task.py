"""One mode search, from starts to expansions, as a task that can run in another process."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import numpy as np

from pymc_active.kernels.stationary import Stationary
from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.like_terms import same_place
from pymc_active.laplace.modes.composite_kernels import structured_search
from pymc_active.laplace.modes.learned_lengthscale import GivenLengthscale, learns_lengthscale
from pymc_active.laplace.modes.search import (
    SAME,
    Advance,
    Found,
    Searcher,
    SearchResult,
    SearchTask,
    anywhere,
    distinct,
    follow,
    newton,
    search,
    weighty,
)
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.base import MANY, NoFiniteStartError, Posterior
from pymc_active.posterior.row_space import Space, find_space
from pymc_active.support.options import count

# Polished modes this close (prior sds) are one.
_POLISHED = 0.05
_NOT_FINITE = (
    "the log posterior is not finite at any start, because K + noise is never positive definite. "
    "Check the scale of X and y, pass bounds, or give log_noise a prior that keeps it away from zero."
)
# With many points the modes of this share of them, but at least so many, are found first; so many are then followed.
_SHARE, _FEWEST, _FOLLOWED = 4, 150, 3
# Nats that a Newton step may still gain at a mode; largest derivative of a polished one, along the axes of a Gaussian
# approximation, per sd.
_GAIN, _POLISH = 1e-6, 1e-6


class FoundModes(NamedTuple):
    """Expansions of the distinct modes, highest first, and how they were found."""

    expansions: list[Expansion]
    search: SearchResult
    converged: bool


def search_and_expand(task: SearchTask, advance: Advance = lambda *args: None) -> FoundModes:
    """Search for the modes of a posterior and expand it at each; a :class:`NoFiniteStartError` if no start is finite.

    Calls ``advance`` after every step. Limit BLAS to one thread around it, as workers do.
    """
    posterior = task.posterior
    if not learns_lengthscale(posterior):
        return _search(task, advance)
    lengthscale = GivenLengthscale(posterior)
    first = lengthscale.mean
    starts = [lengthscale.start(start, first) for start in task.starts]
    modes = _search(task._replace(posterior=lengthscale.posterior(first), starts=starts), advance)

    def modes_at(log_lengthscale: float, starts: list[np.ndarray]) -> list[Expansion]:
        known = SearchTask(lengthscale.posterior(log_lengthscale), task.embedding, starts, 0, 0, 0)
        return _search(known).expansions

    best = lengthscale.most_probable(modes.expansions[0].theta, modes_at)
    starts = [lengthscale.start(expansion.theta, best) for expansion in modes.expansions]
    space = find_space(posterior, task.embedding)
    expansions = [Expansion(space, space.shrink(expansion.theta)) for expansion in modes_at(best, starts)]
    return modes._replace(expansions=expansions)


def evidence_nearby(task: SearchTask) -> float:
    """Laplace's log evidence at the modes that the starts lead to: of an embedding roughly, at their lengthscale."""
    posterior, cost = task.posterior, 0.0
    if learns_lengthscale(posterior):
        lengthscale = GivenLengthscale(posterior)
        value = float(task.starts[0][posterior.log_lengthscale])
        cost = 0.5 * ((value - lengthscale.mean) / lengthscale.sd) ** 2
        task = task._replace(posterior=lengthscale.posterior(value))
    try:
        return _search(task).expansions[0].log_evidence - cost
    except NoFiniteStartError:
        return -np.inf


def _search(task: SearchTask, advance: Advance = lambda *args: None) -> FoundModes:
    count("n_restarts", task.n_restarts, least=0)
    space = find_space(task.posterior, task.embedding)
    task = task._replace(starts=[space.shrink(start) for start in task.starts])
    return _search_in(space, task, np.random.default_rng(task.random_seed), advance)


def _search_in(space: Space, task: SearchTask, rng: np.random.Generator, advance: Advance) -> FoundModes:
    """Search in the coordinates of a space, as the starts are; with many points first on some of them."""
    posterior, n = space.posterior, len(space.posterior.y)
    some = space.subset(rng.choice(n, max(n // _SHARE, _FEWEST), replace=False)) if n > MANY else None
    if some is not None:
        result = _follow(posterior, task.starts, _search_in(some, task, rng, advance))
    elif _is_structured(posterior, task):
        result = structured_search(Searcher(posterior), rng, task, advance)
    else:
        result = search(Searcher(posterior), rng, task, advance)
    if not result.modes:
        raise NoFiniteStartError(_NOT_FINITE)
    sd = posterior.prior_scale()[1]
    settled = [_settle(space, mode, sd) for mode in result.modes]
    expansions = {id(mode): expansion for mode, expansion in settled}
    is_near = same_place(posterior, _POLISHED) if _is_structured(posterior, task) else anywhere
    kept = weighty(distinct([mode for mode, _ in settled], SAME, is_near))
    # A log posterior that is finite in the search may overflow at the polished mode, a rounding error away.
    if not kept:
        raise NoFiniteStartError(_NOT_FINITE)
    return FoundModes([expansions[id(mode)] for mode in kept], result, kept[0].converged)


def _is_structured(posterior: Posterior, task: SearchTask) -> TypeGuard[KernelPosterior]:
    """Whether the search for sums and products of kernels applies."""
    return isinstance(posterior, KernelPosterior) and type(posterior.kernel) is not Stationary and not task.population


def _follow(posterior: Posterior, starts: list[np.ndarray], some: FoundModes) -> SearchResult:
    """The modes near modes of some of the data and near warm starts, from the most probable of these."""
    best = some.expansions[0]
    places = [(e.z, e.root) for e in some.expansions] + [(start, best.root) for start in starts]
    values = posterior.values(np.stack([z for z, _ in places]))
    order = np.argsort(-values, kind="stable")[:_FOLLOWED]
    followed = [follow(posterior, *places[k]) for k in order if np.isfinite(values[k])]
    n_evaluations = some.search.n_evaluations + len(places) + sum(mode.n_evaluations for mode in followed)
    return some.search._replace(modes=weighty(distinct(followed, SAME)), n_evaluations=n_evaluations)


def _settle(space: Space, mode: Found, sd: np.ndarray) -> tuple[Found, Expansion]:
    """Polish a mode; leave it along its negative curvature if it is a saddle."""
    posterior = space.posterior
    # With many points a Hessian is expensive, and followed modes need no more polish.
    is_expensive = len(posterior.y) > MANY
    mode = mode if is_expensive else _polish(space, mode, sd)
    expansion = Expansion(space, mode.z)
    for _ in range(3):
        if expansion.curvature.smallest > -1e-6 * expansion.curvature.largest:
            break
        direction = np.linalg.eigh(expansion.hessian)[1][:, 0] * sd.mean() * 0.1
        tries = [newton(posterior, mode.z + sign * direction, sd) for sign in (1, -1)]
        better = max(tries, key=lambda place: place.log_posterior)
        if better.log_posterior < mode.log_posterior + SAME:
            break
        mode, expansion = better, Expansion(space, better.z)
    # The trust region stalls when rounding hides the decrease; plain Newton steps take the gradient to zero.
    for _ in range(3):
        if expansion.curvature.n_floored or np.abs(expansion.gradient).max() < 1e-9:
            break
        if is_expensive and _gain(expansion) < _GAIN:
            break
        z = mode.z - expansion.covariance @ expansion.gradient
        value, gradient = posterior.value_and_gradient(z)
        if not (value > expansion.log_posterior - 1e-6 and np.abs(gradient).max() < np.abs(expansion.gradient).max()):
            break
        converged = mode.converged or bool(np.abs(gradient * sd).max() < 1e-4)
        mode, expansion = Found(z, value, converged), Expansion(space, z)
    if not mode.converged and not expansion.curvature.n_floored:
        # In a narrow mode rounding keeps the gradient from vanishing; the gain of a Newton step decides.
        mode = mode._replace(converged=_gain(expansion) < _GAIN)
    return mode._replace(log_posterior=expansion.log_posterior), expansion


def _polish(space: Space, mode: Found, sd: np.ndarray) -> Found:
    """Climb to the mode by Newton steps, or by gradients from one Hessian, which takes as long as ten of them."""
    if space.embedding is None:
        followed = follow(space.posterior, mode.z, Expansion(space, mode.z).root, _POLISH)
        if followed.converged:
            return followed
    # An embedding has directions that are hardly curved.
    return newton(space.posterior, mode.z, sd)


def _gain(expansion: Expansion) -> float:
    """Twice the nats that a Newton step gains."""
    return float(expansion.gradient @ expansion.covariance @ expansion.gradient)
