"""Build an :class:`Ensemble` from any source of hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeGuard

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import METHODS, Ensemble, Seed, ensemble_of_draws, ensemble_of_models
from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.traces import check_trace, trace_thetas
from pymc_active.posterior.row_space import FullSpace
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average
from pymc_active.process.process import Process
from pymc_active.support.arguments import kind_of

# What makes an ensemble.
type Source = Ensemble | Fit | Fits | xr.DataTree | Mapping[str, Any]


def is_point(source: Any, model: GPModel | None) -> TypeGuard[Mapping[str, Any]]:
    """Whether a source is a dict of unconstrained values of the model's variables, not a dict of fits."""
    values = source.values() if isinstance(source, Mapping) and isinstance(model, GPModel) else [None]
    return not any(value is None or isinstance(value, Fit | xr.DataTree) for value in values)


def is_several(source: Any) -> bool:
    """Whether a source is fits of several models."""
    return isinstance(source, ModelAverage | Mapping | list | tuple)


def is_of_processes(source: Any) -> bool:
    """Whether a source has draws of the parameters of models that are no GPs."""
    one = source
    if is_several(source) and len(source):
        one = next(iter(source.values() if isinstance(source, Mapping) else source))
    return isinstance(one, Fit | Ensemble) and isinstance(one.gpm, Process)


def as_ensemble(
    source: Source,
    *,
    model: GPModel | None = None,
    method: str | None = None,
    draws: int | None = None,
    random_seed: Seed = None,
) -> Ensemble:
    """Weighted hyperparameters from any source; a TypeError or ValueError for what cannot be one.

    An ensemble is returned unchanged. Several fits are weighted by their models' posterior probabilities; models of
    zero weight are left out. A trace contributes all its draws, a dict of unconstrained values by value-variable name
    one point; both need ``model`` and are conditioned on the data that it holds now. ``method``, ``draws`` and
    ``random_seed`` are as in :func:`pymc_active.predict`.
    """
    return ensemble_from(source, "as_ensemble", model=model, method=method, draws=draws, random_seed=random_seed)


def ensemble_from(
    source: Source, what: str, weigh: Callable[[ModelAverage], ModelAverage] | None = None, *,
    model: GPModel | None = None, method: str | None = None, draws: int | None = None, random_seed: Seed = None,
) -> Ensemble:  # fmt: skip
    """:func:`as_ensemble` for the caller that messages name; ``weigh`` may change the weights of several fits."""
    if model is not None and not isinstance(model, GPModel):
        raise TypeError(f"model must be a GPModel, as from_marginal makes it of a pm.gp.Marginal; got {kind_of(model)}")
    if isinstance(source, Ensemble):
        return source
    if isinstance(source, xr.DataTree):
        if model is None:
            raise ValueError(f"{what} needs the model of a trace: pass model=gpm")
        thetas = trace_thetas(model, source)
        return ensemble_of_draws(model, model.data, FullSpace(model.posterior()), thetas, "trace")
    if isinstance(source, xr.Dataset | str | PathLike):
        # These are mappings and sequences too, but not of fits: a message about traces helps.
        check_trace(source)
    if isinstance(source, GPModel) or not isinstance(source, Fit | Mapping | Sequence):
        raise TypeError(f"{what} takes one or several fits, an Ensemble or a DataTree; got {kind_of(source)}")
    if method is not None and method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if isinstance(source, Fit):
        return source.ensemble_by(method, draws, random_seed)
    if is_point(source, model):
        assert model is not None
        theta = model.flatten(dict(source))[None]
        return ensemble_of_draws(model, model.data, FullSpace(model.posterior()), theta, "point")
    average = as_model_average(source)
    return _of_models(average if weigh is None else weigh(average), method, draws, random_seed)


def _of_models(average: ModelAverage, method: str | None, draws: int | None, random_seed: Seed) -> Ensemble:
    used = np.flatnonzero(average.weights)
    fits = list(average.values())
    members = [fits[k].ensemble_by(method, draws, random_seed) for k in used]
    # Where the weights are not probabilities, the most probable model may have weight zero.
    k, numbers = fits.index(average.best), used.tolist()
    best = numbers.index(k) if k in numbers else 0
    return ensemble_of_models(members, average.weights[used], best)
