"""Unconstrained hyperparameters from a trace."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.models.gpmodel import GPModel


def check_trace(trace: Any) -> None:
    """Raise a TypeError unless ``trace`` is a DataTree."""
    if isinstance(trace, xr.DataTree):
        return
    hint = ""
    if isinstance(trace, str | PathLike):
        hint = ": open the file first, xarray.open_datatree(path)"
    elif isinstance(trace, xr.Dataset):
        hint = ': make it one by xarray.DataTree.from_dict({"posterior": dataset})'
    raise TypeError(
        'trace must be an xarray.DataTree with a group "posterior", as pm.sample returns it; got '
        f"{type(trace).__name__}{hint}"
    )


def trace_thetas(gpm: GPModel, trace: xr.DataTree) -> np.ndarray:
    """Unconstrained draws (S, P) of a trace, chains one after another; a ValueError if it is not of this model."""
    check_trace(trace)
    if "posterior" not in trace.children:
        hint = "" if trace.children else ": pass the whole trace, not one of its groups"
        raise ValueError(f"the trace has no group 'posterior'; it has {sorted(trace.children)}{hint}")
    posterior = trace["posterior"].to_dataset()
    # A single point may come without them.
    posterior = posterior.expand_dims([dim for dim in ("chain", "draw") if dim not in posterior.dims])
    # A latent function is found anew, given its hyperparameters.
    names = gpm.free
    missing = [name for name in names if name not in posterior]
    if missing:
        raise ValueError(f"the trace was not drawn from this model: it lacks {', '.join(missing)}")
    stacked = {
        name: posterior[name].transpose("chain", "draw", ...).to_numpy().reshape(-1, *posterior[name].shape[2:])
        for name in names
    }
    thetas, n = gpm.unconstrain(stacked), gpm.n_parameters
    if thetas.shape[1] != n:
        raise ValueError(f"the trace was not drawn from this model: it has {thetas.shape[1]} parameters instead of {n}")
    return thetas
