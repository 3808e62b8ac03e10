"""Draws that stand in for MCMC: independent ones, laid out as a trace; and what an outcome tells of draws."""

import numpy as np
import xarray as xr
from scipy.stats import norm

from pymc_active.models.datatrees import to_dataset

# A standard normal on a fine grid.
_NODES = np.linspace(-8, 8, 801)
_WEIGHTS = norm.pdf(_NODES) / norm.pdf(_NODES).sum()


def as_trace(gpm, thetas, chains=2):
    """Unconstrained draws (S, P) as a DataTree, the first of them in the first chain."""
    values = {
        name: value.reshape(chains, -1, *value.shape[1:]) for name, value in gpm.constrain(np.asarray(thetas)).items()
    }
    return xr.DataTree.from_dict({"posterior": to_dataset(gpm, values, ["chain", "draw"], len(gpm.y))})


def mutual_information(means, variances):
    """Of an outcome and equally likely draws (S, m), nats, by divergences where the package subtracts entropies."""
    sds, found = np.sqrt(variances), []
    for mean, sd in zip(means.T, sds.T, strict=True):
        # Nodes of each draw in its own units: the mean of log ratios is smooth there.
        y = mean[:, None] + sd[:, None] * _NODES
        own = norm.logpdf(y, mean[:, None], sd[:, None])
        mixture = np.mean([norm.pdf(y, m, s) for m, s in zip(mean, sd, strict=True)], axis=0)
        found.append(((own - np.log(mixture)) @ _WEIGHTS).mean())
    return np.array(found)


def posterior_draws(fit, n, seed=0):
    """Draws of the ensemble ``"draws"`` of a fit, in the coordinates of its space, (n, P')."""
    return fit.ensemble_by("draws", n, seed).parts[0].z
