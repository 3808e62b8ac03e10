"""The prior of the hyperparameters of any model: draws, and densities by variable."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.models.free_variables import is_drawn
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.prior import GaussianPrior


def draw_prior(gpm: GPModel, posterior: Posterior, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Unconstrained draws (draws, P') for a posterior of this model; a ValueError for a prior that has none."""
    prior: Any = getattr(posterior, "prior", None)
    if isinstance(prior, GaussianPrior):
        return prior.mean + prior.sd * rng.normal(size=(draws, len(prior.mean)))
    check_prior(gpm)
    return gpm.unconstrain(gpm.draw_prior(draws, int(rng.integers(2**31))))


def log_prior_by_variable(gpm: GPModel, posterior: Any, thetas: np.ndarray) -> dict[str, np.ndarray]:
    """Log prior density (S,) of each free variable at thetas (S, P), in the user's space, summed over its entries."""
    if isinstance(getattr(posterior, "prior", None), GaussianPrior):
        entries = gpm.unflatten(posterior.prior.entries(thetas))
        return {name: values.reshape(len(thetas), -1).sum(1) for name, values in entries.items()}
    terms = posterior.log_prior_terms(thetas)
    return {name: terms[:, i] for i, name in enumerate(gpm.free)}


def obstacles(gpm: GPModel) -> list[str]:
    """Names of what keeps the prior of a model from being drawn from."""
    if isinstance(getattr(gpm.posterior(), "prior", None), GaussianPrior):
        return []
    model = gpm.model
    flat = [rv for rv in model.free_RVs if not is_drawn(rv)]
    others = [*flat, *model.potentials, *(rv for rv in model.observed_RVs if rv.name != gpm.name)]
    return [str(variable.name) for variable in others]


def check_prior(gpm: GPModel) -> None:
    """Raise a ValueError if the prior of a model cannot be drawn from."""
    if others := obstacles(gpm):
        raise ValueError(
            f"the prior cannot be drawn from, because of {', '.join(others)}: give proper priors and no potentials, or "
            "use method='laplace'"
        )
