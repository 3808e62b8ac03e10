"""Ground truth: MCMC on the same model, and what the comparison with it is made of; see :func:`pymc_active.check`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.importance import pareto_shape
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.factor import one_blas_thread

STEPS = ("nuts", "slice")
# Draws behind Pareto k; of larger data an evaluation takes longer, and the posterior is closer to a Gaussian.
_DRAWS, _FEWER_DRAWS, _LARGE = 4000, 1000, 100


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
    """Draw hyperparameters from their exact posterior by MCMC, with ``pm.sample``.

    Parameters
    ----------
    gpm : GPModel
    draws, tune, chains, random_seed
        As in ``pm.sample``.
    step : {"nuts", "slice"} or a PyMC step method
        ``"slice"`` is the papers' choice, one variable at a time.
    **pm_sample_kwargs
        Passed on, e.g. ``cores``, ``initvals``, ``progressbar``, ``target_accept``.

    Returns
    -------
    xarray.DataTree
        As ``pm.sample`` returns it. The modes of an embedding are far apart: start every chain at a mode
        (``initvals=fit.constrained_point``) if only that mode is meant.
    """
    with gpm.model:
        if isinstance(step, str):
            if step not in STEPS:
                raise ValueError(f"step must be one of {', '.join(STEPS)} or a PyMC step method; got {step!r}")
            # pm.sample passes compile_kwargs only to the steps that it makes itself.
            compile_kwargs = pm_sample_kwargs.get("compile_kwargs")
            step = pm.Slice(compile_kwargs=compile_kwargs) if step == "slice" else None
        return pm.sample(draws=draws, tune=tune, chains=chains, random_seed=random_seed, step=step, **pm_sample_kwargs)


def symmetrized_kl(m0: np.ndarray, v0: np.ndarray, m1: np.ndarray, v1: np.ndarray) -> np.ndarray:
    """KL(p‖q) + KL(q‖p) of Gaussians, nats."""
    square = np.square(m0 - m1)
    return 0.5 * ((v0 + square) / v1 + (v1 + square) / v0) - 1


def pareto_k(fit: LaplaceFit, draws: int | None = None, random_seed: int | None = 0) -> float:
    """Shape of the tail of the importance weights from the Laplace approximation to the posterior.

    Draws do not move along an embedding's rotations; the density is that of orbits, volume included. By default there
    are 4,000 of them for fewer than 100 points, else 1,000: the standard error of k is then about 0.1 or 0.2.
    """
    # In the row space of an embedding: outside, the approximation is exact.
    best = fit.best
    if draws is None:
        draws = _DRAWS if len(fit.y) < _LARGE else _FEWER_DRAWS
    thetas = best.draw(draws, np.random.default_rng(random_seed))
    z = (thetas - best.theta) @ best.inverse_root.T
    with one_blas_thread():
        values = np.array([best.log_density(theta) for theta in thetas])
    return pareto_shape(values + 0.5 * np.square(z).sum(1))


def relative_utility(name: str, utility: np.ndarray, pick: int) -> float:
    """Utility at a pick over the largest, 1 if there is nothing to gain anywhere.

    Expected improvement is given by its logarithm; an upper confidence bound has no zero, and is counted from the
    lowest in the pool.
    """
    if name == "expected_improvement":
        return float(np.exp(utility[pick] - utility.max()))
    gained, most = utility[pick], utility.max()
    if name in ("upper_confidence_bound", "committee"):
        gained, most = gained - utility.min(), most - utility.min()
    return float(gained / most) if most > 0 else 1.0
