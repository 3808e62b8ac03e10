"""Gaussian processes at a point, at draws from a fit, or at draws of a trace: what criteria of the maximum average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.traces import trace_thetas
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average

# Draws from a fit at least, of which the first few stand for all its modes.
_DRAWS = 32


def conditioned_gps(
    gpm: GPModel | None,
    *,
    point: dict[str, Any] | None = None,
    fit: LaplaceFit | Fits | None = None,
    trace: xr.DataTree | None = None,
    n: int = 10,
    method: str = "draws",
    minimize: bool = False,
    random_seed: int = 0,
) -> list[ConditionedGP]:
    """The GP at one or up to ``n`` equally weighted hyperparameters, given its data.

    Parameters
    ----------
    gpm : GPModel
        Not needed with ``fit``, whose model it must be.
    point : dict
        Unconstrained values by value-variable name: one GP.
    fit : LaplaceFit, ModelAverage, dict or list of LaplaceFit
        ``n`` draws from the posterior, as ``method="draws"`` of :func:`pymc_active.predict` takes them; of several
        models each gets a share of them by its probability.
    trace : xarray.DataTree
        Up to ``n`` draws, evenly spaced over all chains.
    n : int
    method : {"draws", "map"}
        Of a fit: draws, or its highest mode.
    minimize : bool
        Describe -f.
    random_seed : int
        For draws from a fit.

    Returns
    -------
    list of ConditionedGP
        Equally weighted; one that counts several times is in it several times.

    Raises
    ------
    TypeError, ValueError
        Unless exactly one source is given; if it does not belong to the model.
    """
    given = [name for name, value in (("point", point), ("fit", fit), ("trace", trace)) if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"give the hyperparameters by one of point=, fit= or trace=; got {' and '.join(given) or 'none'}"
        )
    if n < 1:
        raise ValueError(f"the number of hyperparameter draws must be positive; got {n}")
    if fit is not None:
        known = fit if isinstance(fit, LaplaceFit) else as_model_average(fit)
        members = [known] if isinstance(known, LaplaceFit) else list(known.values())
        if gpm is not None and all(member.gpm is not gpm for member in members):
            raise ValueError("fit= belongs to another model than the one given: leave out one of them")
        return _of_fit(known, n, method, minimize, random_seed)
    if not isinstance(gpm, GPModel):
        raise TypeError(
            f"{given[0]}= needs the model it belongs to, a GPModel, as first argument; got {type(gpm).__name__}"
        )
    posterior = gpm.posterior()
    if trace is None:
        assert point is not None
        return [ConditionedGP(posterior, gpm.flatten(point), minimize)]
    thetas = trace_thetas(gpm, trace)
    rows = np.unique(((np.arange(n) + 0.5) / n * len(thetas)).astype(int))
    return [ConditionedGP(posterior, theta, minimize) for theta in thetas[rows]]


def model_of(fit: Any) -> GPModel:
    """The model of a fit, or of the first of several."""
    if fit is None:
        raise TypeError("the hyperparameters need the model they belong to, a GPModel, as first argument; got None")
    members = fit.values() if hasattr(fit, "values") else fit if isinstance(fit, Sequence) else [fit]
    return next(iter(members)).gpm


def _of_fit(
    fit: LaplaceFit | ModelAverage, n: int, method: str, minimize: bool, random_seed: int
) -> list[ConditionedGP]:
    if isinstance(fit, ModelAverage):
        rng = np.random.default_rng(random_seed)
        # Systematic resampling: shares differ from n times the weight by less than one.
        places = (np.arange(n) + rng.uniform()) / n
        owners = np.searchsorted(np.cumsum(fit.weights / fit.weights.sum()), places)
        counts = np.bincount(np.minimum(owners, len(fit) - 1), minlength=len(fit))
        members = zip(fit.values(), counts, strict=True)
        return [
            gp
            for member, count in members
            if count
            for gp in _of_fit(member, int(count), method, minimize, random_seed)
        ]
    best = fit.best
    if method == "map" or not len(best.z):
        return [ConditionedGP(best.full_posterior, best.theta, minimize)] * n
    thetas = fit.particles(max(_DRAWS, n), random_seed)[:n]
    thetas = best.space.lift(thetas, np.random.default_rng(random_seed))
    return [ConditionedGP(best.full_posterior, theta, minimize) for theta in thetas]
