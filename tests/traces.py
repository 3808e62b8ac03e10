"""Draws that stand in for MCMC: independent ones, laid out as a trace; and what an outcome tells of draws."""

import numpy as np
import xarray as xr

from pymc_active.models.datatrees import to_dataset

# A standard normal on a fine grid.
_NODES = np.linspace(-8, 8, 801)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()


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
        # Nodes of each draw in its own units: the mean of log ratios to its own density is smooth there.
        y = mean[:, None] + sd[:, None] * _NODES
        mixture, one = np.zeros_like(y), np.empty_like(y)
        for m, s in zip(mean, sd, strict=True):
            # In place: this is done for every pair of draws.
            np.subtract(y, m, out=one)
            one *= np.sqrt(0.5) / s
            np.multiply(one, one, out=one)
            np.exp(np.negative(one, out=one), out=one)
            one /= s
            mixture += one
        own = -np.log(sd)[:, None] - _NODES**2 / 2
        found.append(((own - np.log(mixture / len(mean))) @ _WEIGHTS).mean())
    return np.array(found)


def posterior_draws(fit, n, seed=0):
    """Draws of the ensemble ``"draws"`` of a fit, in the coordinates of its space, (n, P')."""
    return fit.ensemble_by("draws", n, seed).parts[0].z
