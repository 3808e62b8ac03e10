"""``advise``: what the data of a fit call for, by looking closer than ``fit`` does."""

from __future__ import annotations

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.kernels.node import Node
from pymc_active.kernels.periodic import Periodic, lattice_step
from pymc_active.laplace.modes.scans import hidden_leaves, longest_aliases, scan
from pymc_active.laplace.modes.search import Searcher
from pymc_active.models.advice import advise_on
from pymc_active.models.composite import KNOWN_PERIOD_SD
from pymc_active.models.datatrees import leave_one_out
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.outcome_advice import outcome_advice
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.base import MANY, Posterior
from pymc_active.predictions.mixtures import draw_moments
from pymc_active.support.arguments import kind_of

# Sds from what all others predict, given a fit to all: a measurement much farther away makes the noise look so large
# that it seems to be near. Beside the largest of n normal numbers, about sqrt(2 log n).
_FAR, _BEYOND_CHANCE = 2.5, 0.5
# The same, given a fit to the others alone, over what is typical of these, and the part of the prior's variance to
# which they know the function there: with 0.01 no data set of 36 drawn from priors had a slip, as with the noise alone.
_UNUSUAL, _KNOWN = 20.0, 0.01
# Points for each parameter, since with fewer a mode says more than the others know; median of |N(0, 1)|.
_ENOUGH, _MEDIAN = 2, 0.6745
# Nats by which another period must make the data more probable, all else the same, and sds of its prior at which the
# posterior contradicts a period. Of 1,148 series of 4 to 250 points drawn from models with a known period none came to
# 6 nats.
_GAIN, _PERIOD_SDS = 7.0, 4.0
# Sd of the log of periods among which others are looked for, by how much less the log noise sd is then, too, and the
# number of points that tell.
_WIDE, _QUIETER, _STRETCH = 1.0, 1.0, 120
# Points that are looked at, and sds by which predictions by periods must differ: guesses.
_POINTS, _DIFFERENT = 100, 3.0


def advise(fit: Fit) -> list[str]:
    """Sentences that say what the data of a fit call for: slips, other units, another likelihood or period.

    Besides what :func:`fit` says in warnings, this fits again without the measurement that is farthest from what all
    others predict, and looks at other periods. That takes about as long as the fit.

    Parameters
    ----------
    fit : ParticleFit or LaplaceFit
        As ``learner.fit``, or ``learner.fit.best`` of several models.

    Returns
    -------
    list of str
        Each with what was seen and what to do; empty if there is nothing to say.

    Raises
    ------
    TypeError
        For anything but a fit of one model.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 20)
    >>> y = np.sin(3 * x) + 0.02 * np.random.default_rng(0).normal(size=20)
    >>> y[7] += 4
    >>> fit = pma.fit(pma.ard_gp(x[:, None], y, bounds=[(-2, 2)]), random_seed=1, progressbar=False)
    >>> print(pma.advise(fit)[0][:61])
    y[7] = 3.01897 is far from what all other data predict there,
    """
    if not isinstance(fit, Fit):
        raise TypeError(f"advise takes a fit of one model, of several learner.fit.best; got {kind_of(fit)}")
    if not isinstance(fit.gpm, GPModel):
        return list(fit.diagnostics["warnings"])
    if fit.gpm.likelihood is not None:
        return advise_on(fit.gpm)
    # A slip would call for a map, too.
    texts = [_outlier(fit) or outcome_advice(fit)]
    if isinstance(fit.posterior, KernelPosterior):
        texts += [_contradicted_period(fit, fit.posterior), _alias(fit, fit.posterior)]
    return [*advise_on(fit.gpm), *filter(None, texts)]


def _outlier(fit: Fit) -> str | None:
    """A measurement far from what the others, or the nearest of them, predict by a fit to them alone.

    They must know the function there: its variance must be below the noise variance, or small beside the prior's.
    """
    posterior, n = fit.posterior, len(fit.y)
    row = int(np.argmax(away := _away(posterior, fit.y, fit.center)))
    if n <= _ENOUGH * len(fit.center) or away[row] < max(_FAR, _BEYOND_CHANCE + np.sqrt(2 * np.log(n))):
        return None
    distances = np.square((fit.X - fit.X[row]) / np.maximum(np.ptp(fit.X, axis=0), np.finfo(float).tiny)).sum(1)
    distances[row] = np.inf
    others = np.sort(np.argsort(distances, kind="stable")[: min(n - 1, MANY)])
    rest = posterior.of_each.subset(others)
    if rest is None:
        return None
    searcher = Searcher(rest)
    climbs = [searcher.climb(start, rough=True) for start in (fit.center, searcher.center)]
    theta = max(climbs, key=lambda mode: mode.log_posterior).z
    there = rest.moments(rest.light_state(theta), fit.X[row : row + 1])
    sd = np.sqrt(there.variance[0] + there.noise_variance[0] + fit.data.errors[row] ** 2)
    typical = max(float(np.median(_away(rest, fit.y[others], theta))) / _MEDIAN, 1.0)
    negligible = max(there.noise_variance[0], _KNOWN * there.prior_variance[0])
    predicted, is_known = float(there.mean[0]), there.variance[0] <= negligible
    if not is_known or abs(fit.y[row] - predicted) <= _UNUSUAL * typical * sd:
        return None
    return (
        f"y[{row}] = {fit.y[row]:.6g} is far from what all other data predict there, {predicted:.4g}, and makes the "
        "noise look larger than it is elsewhere. If it is a slip, correct it; if the experiment failed, "
        "leave it out, or tell NaN"
    )


def _away(posterior: Posterior, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Distances (n,) of the data from what the others predict, in sds."""
    mean, sd = (values[0] for values in leave_one_out(posterior, theta[None])[:2])
    return np.abs(y - mean) / sd


def _contradicted_period(fit: Fit, posterior: KernelPosterior) -> str | None:
    """A period that was told and that the data contradict; of the best other one they may have a part or a multiple."""
    for leaf in hidden_leaves(posterior):
        prior, now = posterior.prior, float(fit.center[leaf.hidden])
        told, sd = float(prior.mean[leaf.hidden]), float(prior.sd[leaf.hidden])
        if not isinstance(leaf, Periodic) or len(leaf.columns) > 1 or sd > 1.001 * KNOWN_PERIOD_SD:
            continue
        if abs(now - told) > _PERIOD_SDS * sd or _gain_by_another(posterior, fit.center, leaf) > _GAIN:
            # In the user's units.
            period = fit.constrained_center[fit.labels[leaf.hidden].removeprefix("log_")] * np.exp(told - now)
            return (
                f"the data show another period than period={float(period):.4g}, or one besides, and much more "
                "probably. Check its value and its units, or leave period out to learn it"
            )
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
    learned = [i for role, i in leaf.roles.items() if role != "log_period" and i < len(theta)]
    usual[learned] = quiet[learned] = posterior.prior.mean[learned]
    if posterior.log_noise < len(theta):
        quiet[posterior.log_noise] -= _QUIETER
    return float(max(_likelihoods(some, start, leaf, grid).max() for start in (theta, usual, quiet)) - here)


def _likelihoods(posterior: KernelPosterior, theta: np.ndarray, leaf: Node, grid: np.ndarray) -> np.ndarray:
    """Log likelihood (m,) at each value of the grid."""
    told, precision = posterior.prior.mean[leaf.hidden], posterior.prior.precision[leaf.hidden]
    of_period = -0.5 * precision * (np.square(grid - told) - np.square(theta[leaf.hidden] - told))
    return scan(posterior, theta, leaf, grid) - posterior.prior_value_and_gradient(theta)[0] - of_period


def _alias(fit: Fit, posterior: KernelPosterior) -> str | None:
    """Predictions between the points that would be others by a longer period that fits the data as well."""
    if (longer := longest_aliases(posterior, fit.center)) is None:
        return None
    X = fit.X[np.lexsort(fit.X.T[::-1])]
    X = (0.5 * (X[1:] + X[:-1]))[:: len(X) // _POINTS + 1]
    both = np.stack([fit.center, longer])
    (mean, other), variances, _ = draw_moments(posterior, both, X)
    if not (np.abs(mean - other) > _DIFFERENT * np.sqrt(variances[0])).any():
        return None
    [changed, *_] = np.flatnonzero(fit.center != longer)
    short, long = fit.gpm.constrain(both)[fit.gpm.labels[changed].removeprefix("log_")]
    return (
        f"points in equal steps cannot tell the period {float(short):.3g} from {float(long):.3g}, and predictions "
        f"between them depend on it: pass period={float(long):.3g} to the model if you believe that, or measure "
        "between the points"
    )
