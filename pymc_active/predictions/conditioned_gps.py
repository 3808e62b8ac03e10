"""Turn an ensemble into conditioned GPs, one for each hyperparameter draw, for sample paths and criteria."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import Ensemble, equal_rows
from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.model_average import Fits, as_model_average

# Fewest draws taken from a fit, so that they cover its modes.
_DRAWS = 32


def ensemble_from(
    gpm: GPModel | None,
    *,
    point: dict[str, Any] | None = None,
    fit: Ensemble | Fit | Fits | None = None,
    trace: xr.DataTree | None = None,
    draws: int = 10,
    method: str = "draws",
    random_seed: int | np.random.Generator | None = None,
) -> Ensemble:
    """The ensemble of the one source given: ``point``, ``fit`` or ``trace``, as in :func:`pymc_active.active.pes`.

    A point or a trace needs its model ``gpm``; with ``fit``, ``gpm`` is None or its model (else a TypeError or
    ValueError). ``draws`` is the number of members that will be used; ``method`` and ``random_seed`` are those of
    :func:`~pymc_active.predictions.ensembles.as_ensemble`.
    """
    sources = {"point": point, "fit": fit, "trace": trace}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"pass exactly one of point=, fit= and trace=; got {' and '.join(given) or 'none'}")
    if draws < 1:
        raise ValueError(f"the number of hyperparameter draws must be positive; got {draws}")
    if fit is not None:
        if not isinstance(fit, Ensemble | Fit):
            fit = as_model_average(fit)
        models = [one.gpm for one in ([fit] if isinstance(fit, Ensemble | Fit) else fit.values())]
        if gpm is not None and all(model is not gpm for model in models):
            raise ValueError("fit= belongs to another model than the first argument: pass None as first argument")
        return as_ensemble(fit, method=method, draws=max(_DRAWS, draws), random_seed=random_seed)
    if not isinstance(gpm, GPModel):
        raise TypeError(f"with {given[0]}= the first argument must be its GPModel; got {type(gpm).__name__}")
    if point is not None:
        gpm.flatten(point)
    source = trace if point is None else point
    assert source is not None
    return as_ensemble(source, model=gpm)


def conditioned_gps(
    ensemble: Ensemble, n: int = 1, *, minimize: bool = False, random_seed: int | np.random.Generator | None = None
) -> list[ConditionedGP]:
    """The conditioned GPs at up to ``n`` equally weighted members of an ensemble; repeated members repeat in the list.

    Members of a trace are evenly spaced, and several models share ``n`` by their weights. ``minimize`` describes -f.
    """
    rng = np.random.default_rng(random_seed)
    if ensemble.n_models > 1:
        # Systematic resampling: a count differs from n times the weight by less than one.
        places = (np.arange(n) + rng.uniform()) / n
        shares = np.zeros(ensemble.n_models)
        for part in ensemble.parts:
            shares[part.owner] = part.share
        counts = _systematic(shares, places)
        return [
            gp
            for owner, count in enumerate(counts)
            if count
            for gp in conditioned_gps(ensemble.of_model(owner), int(count), minimize=minimize, random_seed=random_seed)
        ]
    if len(ensemble) == 1:
        [part] = ensemble.parts
        gp = ConditionedGP(part.space.source, part.space.lift(part.z)[0], minimize)
        return [gp] if ensemble.method == "point" else [gp] * n
    if len(ensemble.parts) > 1 or ensemble.parts[0].local:
        counts = _systematic(ensemble.weights, (np.arange(n) + rng.uniform()) / n)
        gps = [ConditionedGP(ensemble.posterior, theta, minimize) for theta in ensemble.thetas]
        return [gp for gp, count in zip(gps, counts, strict=True) for _ in range(count)]
    [part] = ensemble.parts
    if ensemble.method == "trace":
        rows = np.unique(((np.arange(n) + 0.5) / n * len(part.z)).astype(int))
    else:
        rows = equal_rows(part.within, n, rng)
    thetas = part.space.lift(part.z[rows], rng)
    return [ConditionedGP(part.space.source, theta, minimize) for theta in thetas]


def _systematic(weights: np.ndarray, places: np.ndarray) -> np.ndarray:
    """How often each index is chosen at places in [0, 1)."""
    chosen = np.searchsorted(np.cumsum(weights / weights.sum()), places)
    return np.bincount(np.minimum(chosen, len(weights) - 1), minlength=len(weights))


def model_of(fit: Any) -> GPModel:
    """The model of a fit or an ensemble, or of the first of several fits."""
    if fit is None:
        raise TypeError("the first argument must be the GPModel of the hyperparameters; None is for fit= only")
    if hasattr(fit, "gpm") and not isinstance(fit, Mapping):
        return fit.gpm
    return next(iter(fit.values() if isinstance(fit, Mapping) else fit)).gpm
