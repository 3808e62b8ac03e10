"""The point that a run recommends, and a warning where it is a guess."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from pymc_active.criteria.improvement import UpperConfidenceBound
from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Candidates, Choice, rows_with
from pymc_active.learner.success import Success
from pymc_active.learner.weighted import likely
from pymc_active.predictions.conditioned_gps import model_of
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import predict
from pymc_active.support.scaling import spread
from pymc_active.support.user_warnings import DataWarning, RunWarning, ignoring, warn_user

# Candidates that show the range of a score.
_PLACES = 256
# A mean that exceeds those of all measured points by more sds of y is doubtful.
_FAR = 1.0


def best_point(
    fit: Fit | ModelAverage, candidates: Candidates, measured: np.ndarray, success: Success | None, minimize: bool,
    learn: str,
) -> Choice:  # fmt: skip
    """The candidate with the best posterior mean; after failures one that is likely to work, or a measured one."""
    method = "draws" if learn == "maximum" else None
    scorer = UpperConfidenceBound(0.0, minimize, method, random_seed=0).scorer(fit)
    if success is None:
        return candidates.maximum(scorer)
    # A measured point works, whatever the classifier says.
    low, high = candidates.limits
    rows, inside = candidates.find(measured), ((low <= measured) & (measured <= high)).all(1)
    inside &= np.isin(np.arange(len(measured)), rows_with(measured, 0, candidates.fixed))
    points = zip(map(Choice, measured, rows, scorer.score(measured).tolist()), inside, strict=True)
    known = [choice for choice, is_inside in points if is_inside and (choice.row >= 0 or not len(candidates))]
    places = np.concatenate([candidates.places(_PLACES), measured])
    return max([candidates.maximum(likely(scorer, success, places)), *known], key=lambda choice: choice.score)


def warn_if_far_above(
    fit: Fit | ModelAverage, best: np.ndarray, measured: np.ndarray, y: np.ndarray, minimize: bool
) -> None:
    """Warn if the best point (D,) is predicted to be far better than all measured ones (n, D) with outputs y (n,)."""
    # Measured points far outside the bounds have been told of.
    with ignoring(DataWarning):
        p = predict(fit, np.concatenate([best[None], measured]))
    sign, mean = -1.0 if minimize else 1.0, p.f_mean.to_numpy()
    gain = float(sign * mean[0] - (sign * mean[1:]).max())
    if model_of(fit).likelihood is not None:
        # Outcomes are counts of any size, and predictions rates.
        y = mean[1:]
    # Where f has a cliff, most of y differ by far less than an sd. Close to the best they do so as well, but are known.
    usual = np.subtract(*np.percentile(y, (75, 25))) / (2 * ndtri(0.75))
    if gain > _FAR * spread(y) > 0 or min(gain, np.sqrt(p.f_variance[0])) > usual > 0:
        which = "below" if minimize else "above"
        warn_user(
            f"the recommended point is predicted to have f = {mean[0]:.4g} ± {np.sqrt(p.f_variance[0]):.2g}, "
            f"{gain:.3g} {which} the best point measured. This is a guess of the model where it has no data: "
            "measure the point before you rely on it",
            RunWarning,
        )
