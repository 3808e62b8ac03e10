"""Build an :class:`Ensemble` from any source of hyperparameters, and conditioned GPs, one for each draw of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeGuard

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import METHODS, UNKNOWN, Ensemble, Seed, ensemble_of_draws, equal_rows, systematic
from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel, check_is_gp
from pymc_active.models.traces import check_trace, trace_thetas
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.posterior.row_space import FullSpace
from pymc_active.predictions.mixtures import kept_states
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average
from pymc_active.process.process import Process
from pymc_active.support.arguments import kind_of
from pymc_active.support.options import count

# What makes an ensemble.
type Source = Ensemble | Fit | Fits | xr.DataTree | Mapping[str, Any]
# Fewest draws taken from a fit, so that they cover its modes.
_DRAWS = 32


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
    average = average if weigh is None else weigh(average)
    fits, used = list(average.values()), np.flatnonzero(average.weights).tolist()
    members = [fits[k].ensemble_by(method, draws, random_seed) for k in used]
    # Where the weights are not probabilities, the most probable model may have weight zero.
    best = fits.index(average.best)
    parts = [
        part._replace(share=float(average.weights[k]), owner=owner)
        for owner, (k, member) in enumerate(zip(used, members, strict=True))
        for part in member.parts
    ]
    return replace(members[used.index(best) if best in used else 0], parts=tuple(parts), evidence=UNKNOWN)


def ensemble_of(
    source: Source,
    model: GPModel | None = None,
    *,
    draws: int = 10,
    method: str = "draws",
    random_seed: int | np.random.Generator | None = None,
) -> Ensemble:
    """The ensemble of any source, if ``draws`` members will be used; see :func:`as_ensemble`."""
    most = max(_DRAWS, count("draws", draws))
    return as_ensemble(source, model=model, method=method, draws=most, random_seed=random_seed)


def check_units(models: Iterable[Any]) -> None:
    """Raise a ValueError for models of one unit and of another."""
    likelihoods = [getattr(model, "likelihood", None) for model in models]
    if len({likelihood is None or likelihood.has_unit for likelihood in likelihoods}) > 1:
        raise ValueError(
            "functions of y and of its logarithm have no common unit: such models can be told apart (learn='model', "
            "bams) and averaged in predictions; for all else take likelihood='warped' in place of 'lognormal'"
        )


def conditioned_gps(
    ensemble: Ensemble, n: int = 1, *, minimize: bool = False, random_seed: int | np.random.Generator | None = None
) -> list[ConditionedGP]:
    """The conditioned GPs at up to ``n`` equally weighted members of an ensemble; repeated members repeat in the list.

    Members of a trace are evenly spaced, and several models share ``n`` by their weights. ``minimize`` describes -f.
    """
    check_is_gp(ensemble.gpm, "functions are drawn")
    rng = np.random.default_rng(random_seed)
    if ensemble.n_models > 1:
        check_units(ensemble.processes)
        # Systematic resampling: a count differs from n times the weight by less than one.
        shares = np.zeros(ensemble.n_models)
        for part in ensemble.parts:
            shares[part.owner] = part.share
        owners, counts = np.unique(systematic(shares / shares.sum(), n, rng), return_counts=True)
        return [
            gp
            for owner, share in zip(owners.tolist(), counts, strict=True)
            for gp in conditioned_gps(ensemble.of_model(owner), int(share), minimize=minimize, random_seed=random_seed)
        ]
    if len(ensemble) == 1:
        [part] = ensemble.parts
        gp = ConditionedGP(part.space.source, part.space.lift(part.z)[0], minimize)
        return [gp] if ensemble.method == "point" else [gp] * n
    if len(ensemble.parts) > 1 or ensemble.parts[0].local:
        gps = [ConditionedGP(ensemble.posterior, theta, minimize) for theta in ensemble.thetas]
        return [gps[row] for row in systematic(ensemble.weights / ensemble.weights.sum(), n, rng)]
    [part] = ensemble.parts
    if ensemble.method == "trace":
        rows = np.unique(((np.arange(n) + 0.5) / n * len(part.z)).astype(int))
    else:
        rows = equal_rows(part.within, n, rng)
    thetas, posterior = part.space.lift(part.z[rows], rng), part.space.source
    if isinstance(posterior, LatentPosterior):
        # Sites of all together.
        states = kept_states(posterior, thetas)
        pairs = zip(thetas, states, strict=True)
        return [ConditionedGP(posterior, theta, minimize, state) for theta, state in pairs]
    return [ConditionedGP(posterior, theta, minimize) for theta in thetas]


def model_of(source: Any, model: GPModel | None = None) -> GPModel:
    """The model of a source, of the first of several fits, or the one given with a trace or a point."""
    if models := models_of(source):
        return models[0]
    if isinstance(model, GPModel):
        return model
    raise TypeError(
        f"expected a fit, several fits or an Ensemble, or model=gpm with a trace or a point; got {kind_of(source)}"
    )


def models_of(source: Any) -> list[GPModel]:
    """The models of a fit, of several fits or of an ensemble; none for anything else."""
    if isinstance(source, Ensemble | Fit):
        return [source.gpm]
    if not isinstance(source, Mapping | Sequence):
        return []
    return [one.gpm for one in (source.values() if isinstance(source, Mapping) else source) if isinstance(one, Fit)]
