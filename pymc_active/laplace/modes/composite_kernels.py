"""Mode search for sums and products of kernels: several kinds of starts, then changes to the best modes.

These models have few parameters and many modes, above all if a period or the place of a step is free. No single kind
of start finds the best mode of every model, so kinds take turns: a scan over these
(:mod:`pymc_active.laplace.modes.scans`), without or with additional noise, or at short lengthscales; a short noise
ladder; and changes to a good mode found before, whose base kernels are redrawn.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pymc_active.kernels.periodic import Periodic
from pymc_active.laplace.like_terms import same_place
from pymc_active.laplace.modes.scans import hidden_grid, hidden_leaves, longest_aliases, scan, set_best
from pymc_active.laplace.modes.search import (
    MOST_MODES,
    Advance,
    Found,
    Searcher,
    SearchResult,
    SearchTask,
    distinct,
    several,
    weighty,
)
from pymc_active.posterior.array import KernelPosterior

type KernelSearcher = Searcher[KernelPosterior]

# Additional noise of the short ladder, as fractions of the sd of y.
_LADDER = (0.6, 0.3, 0.15)
# Iterations on each of its rungs, and of a rough climb.
_RUNG, _ROUGH = 25, 60
# How many prior sds below the prior's centre a short lengthscale of a period is.
_SHORT = (1.5, 3.5)
# Share of the starts that change modes found by the others, and the number of modes to change.
_CHANGES, _BEST = 0.4, 3
# Up to this many fresh starts, warm starts are followed: the best few, or all with fewer data than the last number.
FOLLOW, _WARM, _FEW_DATA = 2, 3, 30
# How often what the best mode hides is scanned again, while that finds a better one, and the peaks to climb from.
_ROUNDS, _PEAKS = 3, 3
# Rough climbs that end this close, in nats and in prior sds, most likely found one mode.
_ALIKE, _NEAR = 0.02, 0.5


def structured_search(
    searcher: KernelSearcher, rng: np.random.Generator, task: SearchTask, advance: Advance
) -> SearchResult:
    """Unpolished modes of a ``KernelPosterior``, from warm starts (best first) and fresh ones."""
    starts, n_restarts = task.starts, task.n_restarts
    follows = bool(len(starts)) and n_restarts <= FOLLOW
    n_changes = int(_CHANGES * n_restarts)
    if follows:
        # With few data many modes have weight, and climbs are cheap. Without fresh starts follow all.
        few = len(searcher.posterior.y) < _FEW_DATA
        starts = starts[: MOST_MODES if few else _WARM] if n_restarts else starts
        # A single start is as often a change as a new one, and two are never both.
        n_changes = int(rng.binomial(min(n_restarts, 1), 0.5))
    kinds = _SCANS if follows and hidden_leaves(searcher.posterior) else _KINDS
    if n_restarts > FOLLOW and _rough_periods(searcher):
        kinds = (*kinds, _scan_rough)
    turn = int(rng.integers(len(kinds)))
    # Each start has its own seed.
    seeds = rng.integers(2**63, size=n_restarts)
    is_near = same_place(searcher.posterior, _NEAR)
    climb, climbs = partial(searcher.climb, iterations=_ROUGH), partial(several, searcher.posterior)
    modes = climbs(climb, starts, advance=advance)
    n_new = n_restarts - n_changes
    fresh = [kinds[(turn + i) % len(kinds)] for i in range(n_new)]
    modes += climbs(
        lambda kind, seed: kind(searcher, np.random.default_rng(seed)), fresh, seeds[:n_new], advance=advance
    )
    # In two rounds, so that changes can build on each other.
    for part in np.array_split(seeds[n_new:], 2):
        best = [mode.z for mode in distinct(modes, _ALIKE, is_near)[:_BEST]]
        if best and len(part):
            changed = [best[i % len(best)] for i in range(len(part))]
            modes += climbs(partial(_change, searcher), changed, part, advance=advance)
    # A longer alias fits as well, and the prior most often prefers it by far.
    best = [mode.z for mode in distinct(modes, _ALIKE, is_near)[:_BEST]]
    longer = [z for z in (longest_aliases(searcher.posterior, z) for z in best) if z is not None]
    modes += climbs(climb, longer)
    if not modes:
        raise ValueError("nothing to search from: give a start or n_restarts")
    for _ in range(_ROUNDS if n_restarts > FOLLOW else 0):
        highest = max(modes, key=_height)
        modes += climbs(climb, _scanned_again(searcher, highest.z))
        if max(map(_height, modes)) < highest.log_posterior + 0.1:
            break
    kept = weighty(distinct(modes, _ALIKE, is_near))
    best_value = kept[0].log_posterior if kept else -np.inf
    n_best = sum(mode.log_posterior > best_value - 0.1 for mode in modes)
    return SearchResult(kept, len(modes), sum(mode.n_evaluations for mode in modes), n_best, False)


def _height(mode: Found) -> float:
    return mode.log_posterior


def _scanned_again(searcher: KernelSearcher, theta: np.ndarray) -> list[np.ndarray]:
    """A mode with each period, or each place of a step, at its best other values."""
    # A period that is wrong leaves a trend to others, and the right one shows once the trend is explained.
    posterior = searcher.posterior
    starts = []
    for leaf in hidden_leaves(posterior):
        grid = hidden_grid(posterior, leaf)
        values = np.concatenate([[-np.inf], scan(posterior, theta, leaf, grid), [-np.inf]])
        peaks = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:]))
        for peak in peaks[np.argsort(-values[1:-1][peaks], kind="stable")][:_PEAKS]:
            start = theta.copy()
            start[leaf.hidden] = grid[peak]
            starts.append(start)
    return starts


def _set_hidden(searcher: KernelSearcher, theta: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """Set each period, and each place of a step, in turn to the best given the other parameters."""
    posterior = searcher.posterior
    theta = theta.copy()
    for leaf in hidden_leaves(posterior):
        grid = hidden_grid(posterior, leaf)
        # Each start sees a slightly different grid.
        grid = grid[rng.uniform(size=len(grid)) < 0.8] if len(grid) > 10 else grid
        set_best(posterior, theta, leaf, grid, (level * searcher.y_sd) ** 2)
    return theta


def _ladder(searcher: KernelSearcher, rng: np.random.Generator) -> Found:
    return searcher.ladder(searcher.draw(rng, 0.3), _LADDER, _RUNG, _ROUGH)


def _scan(searcher: KernelSearcher, rng: np.random.Generator) -> Found:
    theta = _set_hidden(searcher, searcher.draw(rng, 0.6), 0.0, rng)
    return searcher.climb(theta, iterations=_ROUGH)


def _scan_in_noise(searcher: KernelSearcher, rng: np.random.Generator) -> Found:
    level = float(rng.choice([0.1, 0.3, 0.6]))
    theta = _set_hidden(searcher, searcher.draw(rng, 0.6), level, rng)
    return searcher.ladder(theta, [level], _RUNG, _ROUGH)


def _scan_rough(searcher: KernelSearcher, rng: np.random.Generator) -> Found:
    """Scan periods at short lengthscales: a long period of rough cycles may be best, and no other scan leads there."""
    theta = searcher.draw(rng, 0.6)
    for leaf in _rough_periods(searcher):
        _make_rough(searcher, theta, leaf, rng)
    return searcher.climb(_set_hidden(searcher, theta, 0.0, rng), iterations=_ROUGH)


def _rough_periods(searcher: KernelSearcher) -> list[Periodic]:
    """The periods to scan at short lengthscales."""
    posterior = searcher.posterior
    periods = [leaf for leaf in hidden_leaves(posterior) if isinstance(leaf, Periodic)]
    return [leaf for leaf in periods if leaf.log_lengthscale < posterior.n_parameters]


def _make_rough(searcher: KernelSearcher, theta: np.ndarray, leaf: Periodic, rng: np.random.Generator) -> None:
    k = leaf.log_lengthscale
    theta[k] = searcher.center[k] - rng.uniform(*_SHORT) * searcher.sd[k]


# Where known modes are followed, only scans: what a new period or step explains, others have explained before.
_SCANS = (_scan, _scan_in_noise)
_KINDS = (*_SCANS, _ladder)


def _change(searcher: KernelSearcher, theta: np.ndarray, seed: int) -> Found:
    """Redraw one base kernel, scan what it hides, and start with enough noise for it to fit in."""
    rng = np.random.default_rng(seed)
    posterior = searcher.posterior
    P, leaves = posterior.n_parameters, posterior.kernel.leaves
    changed, theta = searcher.draw(rng, 1.0), theta.copy()
    which = int(rng.integers(len(leaves)))
    places = [i for i in leaves[which].roles.values() if i < P]
    theta[places] = changed[places]
    if leaves[which] in _rough_periods(searcher) and rng.uniform() < 0.5:
        _make_rough(searcher, theta, leaves[which], rng)  # type: ignore[arg-type]
    if posterior.log_noise < P:
        theta[posterior.log_noise] = max(theta[posterior.log_noise], np.log(0.1 * searcher.y_sd))
    if leaves[which] in hidden_leaves(posterior):
        theta = _set_hidden(searcher, theta, 0.0, rng)
    return searcher.climb(theta, iterations=_ROUGH)
