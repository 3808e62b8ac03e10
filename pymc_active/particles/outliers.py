"""Notice measurements that were entered wrongly: one that the others contradict, or rows that came twice."""

from __future__ import annotations

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.laplace.modes.search import Searcher
from pymc_active.models.datatrees import leave_one_out
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.base import MANY, Posterior
from pymc_active.support.user_warnings import EvaluationWarning, OutlierWarning, warn_user

# Sds from what all others predict, given a fit to all: a measurement much farther away makes the noise look so large
# that it seems to be near. Beside the largest of n normal numbers, about sqrt(2 log n).
_FAR, _BEYOND_CHANCE = 2.5, 0.5
# The same, given a fit to the others alone, and over what is typical of these.
_UNUSUAL = 20.0
# Points for each parameter: with fewer, a mode says more than the others know.
_ENOUGH = 2
# Share of outputs at different inputs that differ, with which equal ones are no matter of rounding.
_DIFFERENT = 0.9
# Median of the absolute value of a standard normal.
_MEDIAN = 0.6745


def find_outlier(fit: Fit) -> tuple[int, float] | None:
    """The row of a measurement far from what all others predict, and their prediction, in units of y; or None.

    The model is fitted again to the others, or to the nearest of them, and they must know the function there: its
    variance must be below that of the noise, and they must be twice as many as there are parameters.
    """
    posterior, n = fit.posterior, len(fit.y)
    if n <= _ENOUGH * len(fit.center):
        return None
    row = int(np.argmax(away := _away(posterior, fit.y, fit.center)))
    if away[row] < max(_FAR, _BEYOND_CHANCE + np.sqrt(2 * np.log(n))):
        return None
    distances = np.square((fit.X - fit.X[row]) / np.maximum(np.ptp(fit.X, axis=0), np.finfo(float).tiny)).sum(1)
    distances[row] = np.inf
    others = np.sort(np.argsort(distances, kind="stable")[: min(n - 1, MANY)])
    rest = posterior.of_each.subset(others)
    if rest is None:
        return None
    searcher = Searcher(rest)
    found = [searcher.climb(start, rough=True) for start in (fit.center, searcher.center)]
    theta = max(found, key=lambda mode: mode.log_posterior).z
    there = rest.moments(rest.light_state(theta), fit.X[row : row + 1])
    sd = np.sqrt(there.variance[0] + there.noise_variance[0] + fit.data.errors[row] ** 2)
    typical = max(float(np.median(_away(rest, fit.y[others], theta))) / _MEDIAN, 1.0)
    predicted, is_known = float(there.mean[0]), there.variance[0] <= there.noise_variance[0]
    return (row, predicted) if is_known and abs(fit.y[row] - predicted) > _UNUSUAL * typical * sd else None


def warn_of_outlier(fit: Fit, named: set[int] | None = None) -> bool:
    """Warn of a measurement far from what all others predict, in a run unless its row was ``named`` before.

    Returns whether there is one.
    """
    found = find_outlier(fit)
    if found is None or (named is not None and found[0] in named):
        return found is not None
    row, predicted = found
    if named is not None:
        named.add(row)
    advice = "If it is a slip, correct it; if the experiment failed, leave it out"
    if named is not None:
        advice = f"If it is a slip, learner.correct({row}, y) replaces it; y is NaN if the experiment failed"
    warn_user(
        f"y[{row}] = {fit.y[row]:.6g} is far from what all other data predict there, {predicted:.4g}, and makes the "
        f"noise look larger than it is elsewhere. {advice}",
        OutlierWarning,
    )
    return True


def warn_of_repeats(gpm: GPModel) -> None:
    """Warn if rows of data repeat others to the last digit, no replicates differ, and the noise is to be learned."""
    X, y = gpm.X, gpm.y
    places, rows = (len(np.unique(values, axis=0)) for values in (X, np.c_[X, y]))
    if "log_noise" in gpm.shapes and rows < len(y) and places == rows and len(np.unique(y)) > _DIFFERENT * places:
        warn_user(
            f"{len(y) - rows} of {len(y)} rows repeat others, outputs included, to the last digit, so that the noise "
            "looks like zero, and a fit may take long. If they were entered twice, leave them out "
            "(data.drop_duplicates()); a simulator without noise need not be run twice",
            EvaluationWarning,
        )


def _away(posterior: Posterior, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Distances (n,) of the data from what the others predict, in sds."""
    mean, sd = (values[0] for values in leave_one_out(posterior, theta[None])[:2])
    return np.abs(y - mean) / sd
