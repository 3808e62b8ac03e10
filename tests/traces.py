"""Draws that stand in for MCMC: independent ones, laid out as a trace; and what an outcome tells of draws."""

import numpy as np
import xarray as xr

from pymc_active.information import outcome_divergences as outcomes
from pymc_active.models.datatrees import to_dataset


def as_trace(gpm, thetas, chains=2):
    """Unconstrained draws (S, P) as a DataTree, the first of them in the first chain."""
    values = {
        name: value.reshape(chains, -1, *value.shape[1:]) for name, value in gpm.constrain(np.asarray(thetas)).items()
    }
    return xr.DataTree.from_dict({"posterior": to_dataset(gpm, values, ["chain", "draw"], len(gpm.y))})


def mutual_information(means, variances):
    """Of an outcome and equally likely draws (S, m), nats, by divergences where the package subtracts entropies."""
    return outcomes.normal(means, np.sqrt(variances)).kl.mean(0)


def posterior_draws(fit, n, seed=0):
    """Draws of the ensemble ``"draws"`` of a fit, in the coordinates of its space, (n, P')."""
    return fit.ensemble_by("draws", n, seed).parts[0].z
