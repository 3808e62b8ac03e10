"""Compare a fit with a reference: its predictions, its evidence, and what its decisions are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ndtri, softmax

from pymc_active.checking.reference import Reference, Subject
from pymc_active.criteria.base import Criterion, Scorer, relative_utility
from pymc_active.criteria.by_name import CRITERIA, Named, criterion_names, make_criterion
from pymc_active.criteria.epig import rows_among
from pymc_active.criteria.maximum.domain import check_data, read_domain
from pymc_active.criteria.maximum.max_value import Thompson
from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.resampling import systematic
from pymc_active.information.mixture_entropy import mixture_moments, mixture_symmetrized_kl, symmetrized_kl
from pymc_active.information.mixture_quantiles import mixture_log_density
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.mixtures import Mixture, mixture
from pymc_active.predictions.model_average import ModelAverage, log_weights

# Components of the reference in an integral for every point, each with an outcome at which densities are compared;
# outcomes at all points together suffice for their mean. All three are guesses.
_COMPONENTS, _FEWEST, _OUTCOMES = 400, 50, 20_000
ESTIMATORS = ("fit", "reference")


def compare_predictions(
    fit: Subject, X: np.ndarray, labels: np.ndarray, p: Mixture, observed: np.ndarray | None
) -> xr.Dataset:
    """The group ``predictions`` of :func:`pymc_active.check`; ``p`` are the predictions of the reference at X."""
    true_mean, true_variance = mixture_moments(p.means, p.variances, p.weights)
    true_y_variance = true_variance + p.weights @ p.noises
    thin = systematic(p.weights, min(_COMPONENTS, len(p.weights)))
    equal = np.full(len(thin), 1 / len(thin))
    n_outcomes = int(np.clip(_OUTCOMES // len(X), _FEWEST, len(thin)))
    y = _outcomes(p, systematic(p.weights, n_outcomes)) if observed is None else observed[None]
    approximations = {fit.method: fit} if isinstance(fit, Ensemble) else fit.approximations
    rows: dict[str, list[np.ndarray]] = {}
    for ensemble in approximations.values():
        q = mixture(ensemble, X)
        mean, variance = mixture_moments(q.means, q.variances, q.weights)
        y_variance = variance + q.weights @ q.noises
        # A draw without noise knows the function at a data point, and a spike cannot be compared with a density.
        spread = np.maximum(p.variances[thin], 1e-8 * variance)
        columns = {
            "skl": symmetrized_kl(true_mean, true_variance, mean, variance),
            "skl_mixture": mixture_symmetrized_kl(p.means[thin], spread, equal, mean, variance),
            "skl_y": symmetrized_kl(true_mean, true_y_variance, mean, y_variance),
            "nll": _negative_log_density(y, q),
            "f_mean": mean,
            "f_variance": variance,
            "y_variance": y_variance,
        }
        for name, values in columns.items():
            rows.setdefault(name, []).append(values)
    truth = {
        "true_nll": _negative_log_density(y, p),
        "true_f_mean": true_mean,
        "true_f_variance": true_variance,
        "true_y_variance": true_y_variance,
    }
    return xr.Dataset(
        {
            **{name: (("approximation", "point"), np.stack(values)) for name, values in rows.items()},
            **{name: ("point", values) for name, values in truth.items()},
        },
        coords={"approximation": list(approximations), "point": labels},
        attrs={"units": "nats", "units_of_moments": "the units of y, and their squares"},
    )


def _outcomes(p: Mixture, thin: np.ndarray) -> np.ndarray:
    """Outcomes (T, m) under the reference: one for each component, in strata in random order."""
    rng, n = np.random.default_rng(0), len(thin)
    strata = np.stack([rng.permutation(n) for _ in range(p.means.shape[1])], axis=1)
    quantiles = ndtri((strata + rng.uniform(size=strata.shape)) / n)
    return p.means[thin] + np.sqrt(p.variances[thin] + p.noises[thin]) * quantiles


def _negative_log_density(y: np.ndarray, q: Mixture) -> np.ndarray:
    """Minus the mean log density of outcomes y (T, m) under predictions, (m,)."""
    variances = q.variances + q.noises
    return -np.mean([mixture_log_density(row, q.means, variances, q.weights) for row in y], axis=0)


def compare_evidences(fit: Subject, reference: Reference) -> xr.Dataset:
    """The group ``evidence`` of :func:`pymc_active.check`."""
    pair = (fit.evidence, reference.evidence)
    return xr.Dataset(
        {
            "log_evidence": ("estimator", [evidence.value for evidence in pair]),
            "standard_error": ("estimator", [evidence.error for evidence in pair]),
        },
        coords={"estimator": list(ESTIMATORS)},
        attrs={"units": "nats"},
    )


def compare_models(average: ModelAverage, trees: Mapping[Any, xr.DataTree]) -> xr.Dataset:
    """The group ``models`` of :func:`pymc_active.check`."""
    table = xr.concat([trees[label]["evidence"].to_dataset() for label in average], "model", combine_attrs="override")
    table = table.assign_coords(model=list(average)).transpose("estimator", "model")
    own, true = table.log_evidence.to_numpy()
    # A trace has no evidence, so the evidence of the fit has to do.
    true = np.where(np.isfinite(true), true, own)
    table["probability"] = (table.log_evidence.dims, np.stack([_probabilities(e, average.prior) for e in (own, true)]))
    return table.assign(true_probability=("model", table.probability.to_numpy()[1]))


def _probabilities(log_evidence: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Models without an evidence get zero; all are NaN if no model has one."""
    return softmax(log_weights(log_evidence, prior)) if np.isfinite(log_evidence).any() else np.full(len(prior), np.nan)


def read_criteria(
    criteria: str | Sequence[Any] | None,
    default: Sequence[str],
    gpm: GPModel,
    y: np.ndarray,
    pool: np.ndarray,
    bounds: Any,
    several: bool,
    **options: Any,
) -> dict[str, Criterion]:
    """Criteria of the registry by name, with ``options``. Criteria of the maximum need y that differ."""
    known = criterion_names("models") if several else criterion_names("moments", "predictions", "maximum")
    if criteria is None:
        criteria = default
    asked = (criteria,) if isinstance(criteria, str) or callable(criteria) else tuple(criteria)
    named = [name for entry in asked if (name := Named.read(entry, gpm.inputs)) is not None and name.name in known]
    if not named or len(named) < len(asked):
        raise ValueError(f"criteria must be among {', '.join(sorted(known))}; got {', '.join(map(repr, asked))}")
    domain = read_domain(bounds, pool, gpm.inputs)
    if any(CRITERIA[name.name].kind == "maximum" for name in named):
        check_data(y, gpm)
    targets = pool[rows_among(len(pool))]
    made = {
        str(name): make_criterion(name, domain=lambda: domain, targets=lambda: targets, several_models=True, **options)
        for name in named
    }
    if thompson := [name for name, criterion in made.items() if isinstance(criterion, Thompson)]:
        raise ValueError(f"a single sample path has no utility that another source could judge: leave out {thompson}")
    return made


def compare_decisions(
    scorers: Mapping[str, Scorer],
    criteria: Mapping[str, Criterion],
    judges: Callable[[Criterion], Ensemble],
    X: np.ndarray,
    labels: np.ndarray,
) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`; ``judges`` returns draws of the truth for a criterion."""
    scores = [scorer.score(X) for scorer in scorers.values()]
    utilities = [criterion.prepare(judges(criterion)).score(X) for criterion in criteria.values()]
    picks = [int(np.argmax(score)) for score in scores]
    triples = zip(criteria, utilities, picks, strict=True)
    units = [scorer.units for scorer in scorers.values()]
    shares = [relative_utility(name, utility, pick) for name, utility, pick in triples]
    both = ("criterion", "candidate")
    return xr.Dataset(
        {
            "score": (both, np.stack(scores)),
            "true_utility": (both, np.stack(utilities)),
            "pick": ("criterion", picks),
            "best": ("criterion", [int(np.argmax(utility)) for utility in utilities]),
            "regret_ratio": ("criterion", shares),
        },
        coords={
            "criterion": list(criteria),
            "candidate": labels,
            "units": ("criterion", units),
        },
    )
