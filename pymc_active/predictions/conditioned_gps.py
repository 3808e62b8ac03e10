"""Turn an ensemble into Gaussian processes conditioned on the data, one for each hyperparameter draw.

Sample paths and the criteria in :mod:`pymc_active.criteria.maximum` average over these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import Ensemble
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.model_average import Fits, as_model_average

# Draws from a fit at least; the first few of them stand for all its modes.
_DRAWS = 32


def ensemble_from(
    gpm: GPModel | None,
    *,
    point: dict[str, Any] | None = None,
    fit: Ensemble | LaplaceFit | Fits | None = None,
    trace: xr.DataTree | None = None,
    draws: int = 10,
    method: str = "draws",
    random_seed: int | np.random.Generator | None = None,
) -> Ensemble:
    """The ensemble of the one source that is given.

    Parameters
    ----------
    gpm : GPModel
        Not needed with ``fit``, whose model it must be.
    point : dict
        Unconstrained values by value-variable name.
    fit : Ensemble, LaplaceFit, ModelAverage, dict or list of LaplaceFit
    trace : xarray.DataTree
    draws : int
        How many members of the ensemble will be used.
    method, random_seed
        As in :func:`~pymc_active.predictions.ensembles.as_ensemble`.

    Raises
    ------
    TypeError, ValueError
        Unless exactly one source is given, and it belongs to the model.
    """
    sources = {"point": point, "fit": fit, "trace": trace}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"give the hyperparameters by one of point=, fit= or trace=; got {' and '.join(given) or 'none'}"
        )
    if draws < 1:
        raise ValueError(f"the number of hyperparameter draws must be positive; got {draws}")
    if fit is not None:
        if not isinstance(fit, Ensemble | LaplaceFit):
            fit = as_model_average(fit)
        models = [one.gpm for one in ([fit] if isinstance(fit, Ensemble | LaplaceFit) else fit.values())]
        if gpm is not None and all(model is not gpm for model in models):
            raise ValueError("fit= belongs to another model than the one given: leave out one of them")
        return as_ensemble(fit, method=method, draws=max(_DRAWS, draws), random_seed=random_seed)
    if not isinstance(gpm, GPModel):
        raise TypeError(
            f"{given[0]}= needs the model it belongs to, a GPModel, as first argument; got {type(gpm).__name__}"
        )
    if point is not None:
        gpm.flatten(point)
    source = trace if point is None else point
    assert source is not None
    return as_ensemble(source, model=gpm)


def conditioned_gps(
    ensemble: Ensemble, n: int = 1, *, minimize: bool = False, random_seed: int | np.random.Generator | None = None
) -> list[ConditionedGP]:
    """The GP at up to ``n`` equally weighted members of an ensemble, given its data.

    Parameters
    ----------
    ensemble : Ensemble
    n : int
        Of a trace these are evenly spaced; of several models each gets a share of them by its weight.
    minimize : bool
        Describe -f.
    random_seed : int or Generator, optional

    Returns
    -------
    list of ConditionedGP
        One that counts several times is in it several times.
    """
    rng = np.random.default_rng(random_seed)
    if ensemble.n_models > 1:
        # Systematic resampling: shares differ from n times the weight by less than one.
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
    size = len(part.z)
    rows = np.unique(((np.arange(n) + 0.5) / n * size).astype(int)) if ensemble.method == "trace" else np.arange(size)
    thetas = part.space.lift(part.z[rows[:n]], rng)
    return [ConditionedGP(part.space.source, theta, minimize) for theta in thetas]


def _systematic(weights: np.ndarray, places: np.ndarray) -> np.ndarray:
    """How often each is chosen at places in [0, 1)."""
    chosen = np.searchsorted(np.cumsum(weights / weights.sum()), places)
    return np.bincount(np.minimum(chosen, len(weights) - 1), minlength=len(weights))


def model_of(fit: Any) -> GPModel:
    """The model of a fit or an ensemble, or of the first of several fits."""
    if fit is None:
        raise TypeError("the hyperparameters need the model they belong to, a GPModel, as first argument; got None")
    if hasattr(fit, "gpm") and not isinstance(fit, Mapping):
        return fit.gpm
    return next(iter(fit.values() if isinstance(fit, Mapping) else fit)).gpm
