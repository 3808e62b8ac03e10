"""Notice a measurement that the others contradict."""

from __future__ import annotations

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.models.datatrees import leave_one_out
from pymc_active.support.user_warnings import OutlierWarning, warn_user

# Distances from what all others predict: in sds, and over those that are typical of the fit, by their median. A value
# far from all others makes the noise look so large that its own distance in sds stays below √n.
_FAR, _UNUSUAL = 2.5, 20.0
# Median of the absolute value of a standard normal.
_MEDIAN = 0.6745
# Variance of an observation, in noise variances, above which the function is not known there.
_UNKNOWN = 2.0


def warn_of_outlier(fit: Fit) -> None:
    """Warn of the one measurement, or one of very few, that lies far from what all others predict."""
    posterior, theta = fit.posterior, fit.center
    mean, sd = (values[0] for values in leave_one_out(posterior, theta[None])[:2])
    away = np.abs(fit.y - mean) / sd
    is_far = away > max(_FAR, _UNUSUAL * float(np.median(away)) / _MEDIAN)
    if not 1 <= is_far.sum() <= 1 + len(away) // 100:
        return
    row = int(np.argmax(away))
    noise = posterior.moments(posterior.light_state(theta), fit.X[row : row + 1]).noise_variance[0]
    if sd[row] ** 2 > _UNKNOWN * noise:
        return
    warn_user(
        f"y[{row}] = {fit.y[row]:.6g} is far from what all other data predict there, {mean[row]:.4g}, and makes the "
        "noise look larger than it is elsewhere. If it is a slip, correct it; if the experiment failed, leave it out",
        OutlierWarning,
    )
