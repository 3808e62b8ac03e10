"""Traces: sample the hyperparameters by MCMC, and read those of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_active.models.datatrees import arviz_groups
from pymc_active.models.gpmodel import GPModel, check_model


def sample(
    gpm: GPModel,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    step: str | Any = "nuts",
    **pm_sample_kwargs: Any,
) -> xr.DataTree:
    """Sample the hyperparameters from their exact posterior by MCMC, with ``pm.sample``.

    The trace of ``pm.sample`` with the groups of ``Fit.to_datatree`` that it lacks,
    such as ``log_likelihood``, ``posterior_predictive`` and ``prior``.

    Parameters
    ----------
    gpm : GPModel
    draws, tune, chains, random_seed
        As in ``pm.sample``.
    step : {"nuts", "slice"} or a PyMC step method
        ``"slice"``, the papers' choice, samples one variable at a time.
    **pm_sample_kwargs
        Passed on. Chains seldom change between the modes of an embedding: to sample around one, start them there,
        ``initvals=fit.constrained_point``.
    """
    check_model(gpm, "sample")
    with gpm.model:
        if isinstance(step, str):
            if step not in ("nuts", "slice"):
                raise ValueError(f"step must be one of nuts, slice or a PyMC step method; got {step!r}")
            # pm.sample passes compile_kwargs only to steps that it makes itself.
            compile_kwargs = pm_sample_kwargs.get("compile_kwargs")
            step = pm.Slice(compile_kwargs=compile_kwargs) if step == "slice" else None
        trace = pm.sample(draws=draws, tune=tune, chains=chains, random_seed=random_seed, step=step, **pm_sample_kwargs)
    if isinstance(trace, xr.DataTree) and set(gpm.free) <= set(trace["posterior"].data_vars):
        sizes = trace["posterior"].sizes
        rows = np.arange(sizes["chain"] * sizes["draw"]).reshape(sizes["chain"], sizes["draw"])
        # Reproducible if the draws are, whatever kind of seed they have.
        groups = arviz_groups(gpm, gpm.posterior(), trace_thetas(gpm, trace), rows, gpm.data, 0)
        for name, group in groups.items():
            if name not in trace.children:
                trace[name] = group
    return trace


def check_trace(trace: Any) -> None:
    """Raise a TypeError unless ``trace`` is a DataTree."""
    if not isinstance(trace, xr.DataTree):
        raise TypeError(
            'trace must be an xarray.DataTree with a group "posterior", as pm.sample and xarray.open_datatree(path) '
            f"return it; got {type(trace).__name__}"
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
