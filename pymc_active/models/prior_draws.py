"""Draw hyperparameters from the prior of any model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.prior import GaussianPrior


def draw_prior(gpm: GPModel, posterior: Posterior, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Unconstrained draws (draws, P') for a posterior of this model; a ValueError for a prior that has none."""
    prior: Any = getattr(posterior, "prior", None)
    if isinstance(prior, GaussianPrior):
        return prior.mean + prior.sd * rng.normal(size=(draws, len(prior.mean)))
    check_prior(gpm)
    model, seed = gpm.model, int(rng.integers(2**31))
    drawn = pm.draw(model.free_RVs, draws=draws, random_seed=seed, mode=vm_mode())
    return gpm.unconstrain({rv.name: values for rv, values in zip(model.free_RVs, drawn, strict=True)})


def check_prior(gpm: GPModel) -> None:
    """Raise a ValueError if the prior of a model cannot be drawn from."""
    if isinstance(getattr(gpm.posterior(), "prior", None), GaussianPrior):
        return
    model = gpm.model
    flat = [rv for rv in model.free_RVs if rv.owner.op.name in ("flat", "half_flat")]
    others = [*flat, *model.potentials, *(rv for rv in model.observed_RVs if rv.name != gpm.name)]
    if others:
        raise ValueError(
            f"the prior cannot be drawn from, because of {', '.join(str(v.name) for v in others)}: give proper priors "
            "and no potentials, or use method='laplace'"
        )
