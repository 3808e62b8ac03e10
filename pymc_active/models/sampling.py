"""Sample the hyperparameters by MCMC."""

from __future__ import annotations

from typing import Any

import pymc as pm
import xarray as xr

from pymc_active.models.gpmodel import GPModel

STEPS = ("nuts", "slice")


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
    with gpm.model:
        if isinstance(step, str):
            if step not in STEPS:
                raise ValueError(f"step must be one of {', '.join(STEPS)} or a PyMC step method; got {step!r}")
            # pm.sample passes compile_kwargs only to steps that it makes itself.
            compile_kwargs = pm_sample_kwargs.get("compile_kwargs")
            step = pm.Slice(compile_kwargs=compile_kwargs) if step == "slice" else None
        return pm.sample(draws=draws, tune=tune, chains=chains, random_seed=random_seed, step=step, **pm_sample_kwargs)
