"""Expected improvement at given hyperparameters: the fallback of PES where sample paths and their maxima fail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, logsumexp

from pymc_active.criteria.improvement import log_h
from pymc_active.posterior.conditioned import ConditionedGP

# Smallest variance, as a fraction of the prior's.
_SMALLEST = 1e-10


def log_expected_improvement(
    gps: Sequence[ConditionedGP], X_user: np.ndarray, gradient: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Log of the mean, over equally weighted GPs, of the expected improvement over the best mean at the data.

    At points in the user's units, (m,), in the log of units of y; and its gradient (m, D).
    """
    logs, slopes = [], []
    for gp in gps:
        X = gp.x_map(X_user)
        mean, V = gp.moments(X)
        V = np.maximum(V, _SMALLEST * gp.prior_variance(X))
        sd = np.sqrt(V)
        z = (mean - gp.moments(gp.X)[0].max()) / sd
        logs.append(np.log(float(gp.posterior.y_map.scale) * sd) + log_h(z))
        if gradient:
            # Φ(z) / h(z), and the derivative of log sd + log h(z) in the variance.
            ratio = np.exp(log_ndtr(z) - log_h(z))
            dm, dV = gp.moment_gradients(X)
            slope = (ratio / sd)[:, None] * dm + (0.5 * (1 - z * ratio) / V)[:, None] * dV
            slopes.append(gp.x_map.pullback(X_user, slope))
    total = logsumexp(logs, axis=0)
    value = total - np.log(len(logs))
    return value, np.einsum("gm,gmd->md", np.exp(logs - total), slopes) if gradient else None
