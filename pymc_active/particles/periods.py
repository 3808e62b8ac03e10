"""Notice that data contradict a period that was told, or have another one besides."""

from __future__ import annotations

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.kernels.node import Node
from pymc_active.kernels.periodic import Periodic, lattice_step
from pymc_active.laplace.modes.scans import hidden_leaves, scan
from pymc_active.models.composite import KNOWN_PERIOD_SD
from pymc_active.posterior.array import KernelPosterior
from pymc_active.support.user_warnings import PeriodWarning, warn_user

# Nats by which another period must make the data more probable, all else the same, and sds of its prior at which the
# posterior contradicts a period. Of 1,148 series of 4 to 250 points drawn from models with a known period none came to
# 6 nats.
_GAIN, _FAR = 7.0, 4.0
# Sd of the log of periods among which others are looked for, by how much less the log noise sd is then, too, and the
# number of points that tell.
_WIDE, _QUIETER, _STRETCH = 1.0, 1.0, 120


def contradicted_period(fit: Fit) -> float | None:
    """A period that was told and that the data contradict, in units of its input; or None.

    Which one they have instead is not said: of the best one, all else the same, they may have a part or a multiple.
    """
    posterior = fit.posterior
    if not isinstance(posterior, KernelPosterior):
        return None
    for leaf in hidden_leaves(posterior):
        prior, now = posterior.prior, float(fit.center[leaf.hidden])
        told, sd = float(prior.mean[leaf.hidden]), float(prior.sd[leaf.hidden])
        if not isinstance(leaf, Periodic) or len(leaf.columns) > 1 or sd > 1.001 * KNOWN_PERIOD_SD:
            continue
        if abs(now - told) > _FAR * sd or _gain_by_another(posterior, fit.center, leaf) > _GAIN:
            # In the user's units.
            period = fit.constrained_center[fit.labels[leaf.hidden].removeprefix("log_")]
            return float(period * np.exp(told - now))
    return None


def _gain_by_another(posterior: KernelPosterior, theta: np.ndarray, leaf: Node) -> float:
    """Nats by which the data are more probable if a period is another one, but no part of the one that was told."""
    told = posterior.prior.mean[leaf.hidden]
    # A stretch of many points is enough, and keeps their distance.
    some = posterior.subset(np.argsort(posterior.X[:, leaf.columns[0]], kind="stable")[-_STRETCH:])
    x = some.X[:, leaf.columns[0]]
    grid = leaf.hidden_grid(some.X, float(told), _WIDE)
    # What repeats twice a period repeats every period.
    times = np.exp(told - grid)
    is_part = (np.round(times) > 1) & (np.abs(times - np.round(times)) * np.ptp(x) < 0.5 * np.exp(told))
    grid = grid[~is_part & (np.exp(grid) < np.ptp(x)) & (np.exp(grid) > 2 * lattice_step(x))]
    if not len(grid):
        return 0.0
    here = _likelihoods(some, theta, leaf, theta[leaf.hidden][None])[0]
    # Where a wrong period has left everything to the noise, others show once it has as much output as expected.
    usual, quiet = theta.copy(), theta.copy()
    # What is fixed comes after what is learned.
    learned = [i for role, i in leaf.roles.items() if role != "log_period" and i < len(theta)]
    usual[learned] = quiet[learned] = posterior.prior.mean[learned]
    if posterior.log_noise < len(theta):
        quiet[posterior.log_noise] -= _QUIETER
    return float(max(_likelihoods(some, start, leaf, grid).max() for start in (theta, usual, quiet)) - here)


def _likelihoods(posterior: KernelPosterior, theta: np.ndarray, leaf: Node, grid: np.ndarray) -> np.ndarray:
    """Log likelihood (m,) at each value of the grid."""
    prior = posterior.prior
    told, precision = prior.mean[leaf.hidden], prior.precision[leaf.hidden]
    of_period = -0.5 * precision * (np.square(grid - told) - np.square(theta[leaf.hidden] - told))
    return scan(posterior, theta, leaf, grid) - posterior.prior_value_and_gradient(theta)[0] - of_period


def warn_of_period(fit: Fit) -> bool:
    """Warn of a period that was told and that the data contradict; whether there is one."""
    period = contradicted_period(fit)
    if period is not None:
        warn_user(
            f"the data show another period than period={period:.4g}, or one besides, and much more probably. Check its "
            "value and its units, or leave period out to learn it",
            PeriodWarning,
        )
    return period is not None
