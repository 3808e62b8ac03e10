"""Scan the posterior over the period of a kernel, or the place of a step, given the other parameters.

The posterior has a mode near every multiple of the right period and near many wrong ones, each so narrow that a climb
hardly ever leaves it; so it has wherever a step may be. A sum or product of kernels is affine in each of its base
kernels, K = A + B * K_scanned, so each value of a scan costs one base kernel and one Cholesky factorisation.
"""

from __future__ import annotations

import numpy as np

from pymc_active.kernels.periodic import Periodic, highest_frequency
from pymc_active.kernels.step import Step
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.factor import Factor, NotPositiveDefiniteError

# Frequencies per reciprocal length of the data: neighbours differ by a third of a cycle over all data.
_PER_RECIPROCAL_LENGTH = 3
# The grid spans this many prior sds, more towards short periods, as data tell a period so well that a prior far from it
# matters little, and has these multiples of the data's length: such long periods model a trend.
_PRIOR_SDS, _SHORT_SDS = 2.5, 5.0
_TRENDS = np.geomspace(4.0, 0.7, 8)
_LARGEST_GRID = 400
# Part of a step by which points on a lattice may be off, and the smallest ratio of a period to its longer alias.
_UNEVEN, _LONGEST = 0.02, 1e-3
# Log output sd at which the kernel vanishes.
_VANISHING = -400.0
# Places of a step at most.
_PLACES = 200


def hidden_leaves(posterior: KernelPosterior) -> list[Periodic | Step]:
    """The base kernels with a period or a place of a step that is not fixed."""
    leaves = [leaf for leaf in posterior.kernel.leaves if isinstance(leaf, Periodic | Step)]
    return [leaf for leaf in leaves if leaf.hidden < posterior.n_parameters]


def hidden_grid(posterior: KernelPosterior, leaf: Periodic | Step) -> np.ndarray:
    """The values to scan: log periods, or places of a step, which are between neighbours among the data."""
    return _places(posterior, leaf) if isinstance(leaf, Step) else _log_periods(posterior, leaf)


def _places(posterior: KernelPosterior, leaf: Step) -> np.ndarray:
    x = np.unique(posterior.X[:, leaf.columns[0]])
    between = (x[1:] + x[:-1]) / 2
    mean, sd = posterior.prior.mean[leaf.location], posterior.prior.sd[leaf.location]
    between = between[np.abs(between - mean) < _PRIOR_SDS * sd]
    if not len(between):
        return np.array([mean])
    return between[np.unique(np.linspace(0, len(between) - 1, _PLACES).round().astype(int))]


def _log_periods(posterior: KernelPosterior, leaf: Periodic) -> np.ndarray:
    """Log periods that the data can distinguish and the prior allows, and trends, longest first.

    Points on a lattice cannot tell a period below two of its steps from longer ones; uneven points can. Periods down to
    the mean distance of the points are scanned all the same, since the prior may prefer them.
    """
    prior = posterior.prior
    mean, sd = prior.mean[leaf.log_period], prior.sd[leaf.log_period]
    X = posterior.X[:, leaf.columns]
    length = float(np.ptp(X, axis=0).max())
    if length > 0:
        step = 1 / (_PER_RECIPROCAL_LENGTH * length)
        lowest = max(np.exp(-mean - _PRIOR_SDS * sd), 0.5 / length)
        shortest = np.exp(mean - _SHORT_SDS * sd)
        # No further than the grid stays fine enough.
        highest = min(1 / shortest, lowest + _LARGEST_GRID * step)
        highest = min(highest, max(len(X) / length, *(highest_frequency(column, highest) for column in X.T)))
        if highest - lowest > 4 * step:
            n = min(int((highest - lowest) / step) + 1, _LARGEST_GRID)
            trends = _TRENDS * length
            return np.log(np.concatenate([trends[trends * lowest > 1], 1 / np.linspace(lowest, highest, n)]))
    return mean + sd * np.linspace(_PRIOR_SDS, -_PRIOR_SDS, 50)


def longest_aliases(posterior: KernelPosterior, theta: np.ndarray) -> np.ndarray | None:
    """The same parameters with each period that points on a lattice cannot tell from a longer one; None if none is."""
    found = theta.copy()
    for leaf in hidden_leaves(posterior):
        if isinstance(leaf, Periodic) and len(leaf.columns) == 1:
            step = _lattice_step(posterior.X[:, leaf.columns[0]])
            cycles = step * np.exp(-theta[leaf.log_period])
            folded = abs(cycles - np.round(cycles))
            if cycles > 0.5 and folded > _LONGEST * cycles:
                found[leaf.log_period] = np.log(step / folded)
    return None if np.array_equal(found, theta) else found


def _lattice_step(x: np.ndarray) -> float:
    """The distance of points (n,) that are equally far apart, up to gaps; 0 if they are not."""
    points = np.unique(x)
    if len(points) < 2:
        return 0.0
    span = points[-1] - points[0]
    steps = np.round(span / np.diff(points).min())
    places = (points - points[0]) / span * steps
    return float(span / steps) if np.abs(places - np.round(places)).max() < _UNEVEN else 0.0


def set_best(
    posterior: KernelPosterior, theta: np.ndarray, leaf: Periodic | Step, grid: np.ndarray, extra_noise: float = 0.0
) -> None:
    """Set what a base kernel hides to the best value of the grid, if there is one, in place."""
    values = scan(posterior, theta, leaf, grid, extra_noise)
    if np.isfinite(values).any():
        theta[leaf.hidden] = grid[np.argmax(values)]


def scan(
    posterior: KernelPosterior, theta: np.ndarray, leaf: Periodic | Step, grid: np.ndarray, extra_noise: float = 0.0
) -> np.ndarray:
    """Log posterior (m,) at each value of the grid, other parameters as in theta (P,); -inf where it is not finite.

    ``extra_noise`` is a variance to add to the model's noise.
    """
    full = np.concatenate([theta, posterior.constants])
    residual = posterior.residual(full)
    noise = np.exp(2 * full[posterior.log_noise]) + extra_noise
    changed, here = full.copy(), full.copy()
    changed[leaf.log_outputscale] = _VANISHING
    A = posterior.kernel.at(changed, posterior.X).K.copy()
    changed[leaf.log_outputscale], changed[leaf.hidden] = 0.0, leaf.inert
    B = posterior.kernel.at(changed, posterior.X).K - A
    A.flat[:: len(A) + 1] += noise
    values = np.empty(len(grid))
    for k, value in enumerate(grid):
        here[leaf.hidden] = value
        try:
            values[k] = -Factor(A + B * leaf.at(here, posterior.X).K, residual).nll
        except NotPositiveDefiniteError:
            values[k] = -np.inf
    prior = posterior.prior
    difference = grid - prior.mean[leaf.hidden]
    rest = posterior.prior_value_and_gradient(theta)[0] - len(residual) * np.log(posterior.y_map.scale)
    there = theta[leaf.hidden] - prior.mean[leaf.hidden]
    return values + rest - 0.5 * prior.precision[leaf.hidden] * (difference**2 - there**2)
