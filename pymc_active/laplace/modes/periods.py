"""Scan the posterior over the period of a kernel, given the other parameters.

The posterior has a mode near every multiple of the right period and near many wrong ones, each so narrow that a climb
hardly ever leaves it. A sum or product of kernels is affine in each of its base kernels, K = A + B * K_periodic, so
each period of a scan costs one base kernel and one Cholesky factorisation.
"""

from __future__ import annotations

import numpy as np

from pymc_active.kernels.periodic import Periodic
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.factor import Factor, NotPositiveDefiniteError

# Frequencies per reciprocal length of the data: neighbours differ by a third of a cycle over all data.
_PER_RECIPROCAL_LENGTH = 3
# The grid spans this many prior sds, and has these multiples of the data's length: such long periods model a trend.
_PRIOR_SDS = 2.5
_TRENDS = np.geomspace(4.0, 0.7, 8)
_LARGEST_GRID = 400
# Log output sd at which the kernel vanishes, and log period at which it is constant.
_VANISHING, _CONSTANT = -400.0, 40.0


def free_periods(posterior: KernelPosterior) -> list[Periodic]:
    """The periodic base kernels whose period is not fixed."""
    return [
        leaf
        for leaf in posterior.kernel.leaves
        if isinstance(leaf, Periodic) and leaf.log_period < posterior.n_parameters
    ]


def period_grid(posterior: KernelPosterior, leaf: Periodic) -> np.ndarray:
    """Log periods that the data can distinguish and the prior allows, and trends, longest first.

    The more uneven the spacing, the shorter the periods that the data can distinguish.
    """
    prior = posterior.prior
    mean, sd = prior.mean[leaf.log_period], prior.sd[leaf.log_period]
    X = posterior.X[:, leaf.columns]
    length = float(np.ptp(X, axis=0).max())
    if length > 0:
        step = 1 / (_PER_RECIPROCAL_LENGTH * length)
        lowest = max(np.exp(-mean - _PRIOR_SDS * sd), 0.5 / length)
        # No further than the grid stays fine enough.
        uneven = min(0.5 / (length * _small_distance(X / length)), lowest + _LARGEST_GRID * step)
        highest = min(np.exp(-mean + _PRIOR_SDS * sd), max(len(X) / length, uneven))
        if highest - lowest > 4 * step:
            n = min(int((highest - lowest) / step) + 1, _LARGEST_GRID)
            trends = _TRENDS * length
            return np.log(np.concatenate([trends[trends * lowest > 1], 1 / np.linspace(lowest, highest, n)]))
    return mean + sd * np.linspace(_PRIOR_SDS, -_PRIOR_SDS, 50)


def _small_distance(X: np.ndarray) -> float:
    """The 10 % quantile of the distances between neighbours, in the column of X (n, k) in which it is smallest."""
    # Not the minimum: one close pair says little about the others. Values that differ by rounding count as equal.
    distinct = [np.unique(np.round(column, 8)) for column in X.T]
    return min(float(np.quantile(np.diff(x), 0.1)) for x in distinct if len(x) > 1)


def scan_periods(
    posterior: KernelPosterior, theta: np.ndarray, leaf: Periodic, log_periods: np.ndarray, extra_noise: float = 0.0
) -> np.ndarray:
    """Log posterior (m,) at each period, other parameters as in theta (P,); -inf where it is not finite.

    ``extra_noise`` is a variance to add to the model's noise.
    """
    full = np.concatenate([theta, posterior.constants])
    residual = posterior.residual(full)
    noise = np.exp(2 * full[posterior.log_noise]) + extra_noise
    changed, here = full.copy(), full.copy()
    changed[leaf.log_outputscale] = _VANISHING
    A = posterior.kernel.at(changed, posterior.X).K.copy()
    changed[leaf.log_outputscale], changed[leaf.log_period] = 0.0, _CONSTANT
    B = posterior.kernel.at(changed, posterior.X).K - A
    A.flat[:: len(A) + 1] += noise
    values = np.empty(len(log_periods))
    for k, log_period in enumerate(log_periods):
        here[leaf.log_period] = log_period
        try:
            values[k] = -Factor(A + B * leaf.at(here, posterior.X).K, residual).nll
        except NotPositiveDefiniteError:
            values[k] = -np.inf
    prior = posterior.prior
    difference = log_periods - prior.mean[leaf.log_period]
    rest = posterior.prior_value_and_gradient(theta)[0] - len(residual) * np.log(posterior.y_map.scale)
    there = theta[leaf.log_period] - prior.mean[leaf.log_period]
    return values + rest - 0.5 * prior.precision[leaf.log_period] * (difference**2 - there**2)
