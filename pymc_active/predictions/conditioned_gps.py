"""Turn an ensemble into conditioned GPs, one for each hyperparameter draw, for sample paths and criteria."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pymc_active.inference.ensemble import Ensemble, equal_rows, systematic
from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel, check_is_gp
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.predictions.ensembles import Source, as_ensemble
from pymc_active.predictions.moments import kept_states
from pymc_active.support.arguments import kind_of
from pymc_active.support.options import count

# Fewest draws taken from a fit, so that they cover its modes.
_DRAWS = 32


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
