"""Notice predictions that depend on a period which points in equal steps cannot tell from a longer one."""

from __future__ import annotations

import numpy as np

from pymc_active.inference.ensemble import Ensemble
from pymc_active.laplace.modes.scans import hidden_leaves, longest_aliases
from pymc_active.posterior.array import KernelPosterior
from pymc_active.predictions.moments import draw_moments
from pymc_active.support.user_warnings import PeriodWarning, warn_user

# Members and points that are looked at, the weight of members whose predictions must depend on it, and the sds by which
# these must differ.
_MEMBERS, _POINTS, _WEIGHT, _DIFFERENT = 8, 100, 0.25, 3.0


def warn_of_aliases(ensemble: Ensemble, X: np.ndarray) -> None:
    """Warn if predictions at X (m, D) would be others by a longer period that fits the data as well.

    At points in step with the data, such as the next months, both periods predict the same.
    """
    X, weight, found = X[:: len(X) // _POINTS + 1], 0.0, None
    for part in ensemble.parts:
        posterior = part.space.posterior
        if not isinstance(posterior, KernelPosterior) or not hidden_leaves(posterior):
            continue
        members = part.z[:: len(part.z) // _MEMBERS + 1]
        for theta in members:
            longer = longest_aliases(posterior, theta)
            if longer is None:
                continue
            (mean, other), variances, _ = draw_moments(posterior, np.stack([theta, longer]), X)
            if (np.abs(mean - other) > _DIFFERENT * np.sqrt(variances[0])).any():
                weight += part.share * part.within.sum() / len(members)
                found = found or (part.gpm, theta, longer)
    if found is None or weight < _WEIGHT:
        return
    gpm, theta, longer = found
    [changed, *_] = np.flatnonzero(theta != longer)
    short, long = gpm.constrain(np.stack([theta, longer]))[gpm.labels[changed].removeprefix("log_")]
    warn_user(
        f"points in equal steps cannot tell the period {float(short):.3g} from {float(long):.3g}, and predictions "
        f"between them depend on it: pass period={float(long):.3g} to the model if you believe that, or measure "
        "between the points",
        PeriodWarning,
    )
