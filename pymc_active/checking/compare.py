"""Compare a fit with a reference: its predictions, its evidence, and what its decisions are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ndtri

from pymc_active.checking.reference import Reference
from pymc_active.criteria.base import Criterion, Scorer, relative_utility
from pymc_active.criteria.by_name import CRITERIA, Named, criterion_names, make_criterion
from pymc_active.criteria.epig import rows_among
from pymc_active.criteria.maximum.domain import check_data, read_domain
from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.fit import Fit
from pymc_active.inference.resampling import systematic
from pymc_active.information.mixture_entropy import mixture_moments, symmetrized_kl
from pymc_active.information.mixture_quantiles import mixture_log_density
from pymc_active.predictions.mixtures import Mixture, mixture

# Outcomes at which densities are compared, for every point from as many components of the reference; outcomes at all
# points together suffice for their mean. All three are guesses.
_MOST, _FEWEST, _OUTCOMES = 400, 50, 20_000
ESTIMATORS = ("fit", "reference")


def compare_predictions(
    fit: Fit, X: np.ndarray, labels: np.ndarray, p: Mixture, observed: np.ndarray | None
) -> xr.Dataset:
    """The group ``predictions`` of :func:`pymc_active.check`; ``p`` are the predictions of the reference at X."""
    true_mean, true_variance = mixture_moments(p.means, p.variances, p.weights)
    n_outcomes = int(np.clip(_OUTCOMES // len(X), _FEWEST, min(_MOST, len(p.weights))))
    y = _outcomes(p, systematic(p.weights, n_outcomes)) if observed is None else observed[None]
    rows: dict[str, list[np.ndarray]] = {}
    for ensemble in fit.approximations.values():
        q = mixture(ensemble, X)
        mean, variance = mixture_moments(q.means, q.variances, q.weights)
        columns = {
            "skl": symmetrized_kl(true_mean, true_variance, mean, variance),
            "nll": _negative_log_density(y, q),
            "f_mean": mean,
            "f_variance": variance,
        }
        for name, values in columns.items():
            rows.setdefault(name, []).append(values)
    truth = {"true_nll": _negative_log_density(y, p), "true_f_mean": true_mean, "true_f_variance": true_variance}
    return xr.Dataset(
        {
            **{name: (("approximation", "point"), np.stack(values)) for name, values in rows.items()},
            **{name: ("point", values) for name, values in truth.items()},
        },
        coords={"approximation": list(fit.approximations), "point": labels},
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


def compare_evidences(fit: Fit, reference: Reference) -> xr.Dataset:
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


def read_criteria(
    criteria: str | Sequence[Any], fit: Fit, pool: np.ndarray, bounds: Any, **options: Any
) -> dict[str, Criterion]:
    """Criteria of the registry by name, with ``options``. Criteria of the maximum need y that differ."""
    # A single sample path has no utility that another source could judge.
    known = [name for name in criterion_names("moments", "predictions", "maximum") if name != "thompson"]
    asked = (criteria,) if isinstance(criteria, str) or callable(criteria) else tuple(criteria)
    named = [name for entry in asked if (name := Named.read(entry, fit.gpm.inputs)) is not None and name.name in known]
    if not named or len(named) < len(asked):
        raise ValueError(f"criteria must be among {', '.join(sorted(known))}; got {', '.join(map(repr, asked))}")
    domain, targets = read_domain(bounds, pool, fit.gpm.inputs), pool[rows_among(len(pool))]
    if any(CRITERIA[name.name].kind == "maximum" for name in named):
        check_data(fit.y, fit.gpm)
    return {
        str(name): make_criterion(name, domain=lambda: domain, targets=lambda: targets, **options) for name in named
    }


def compare_decisions(
    scorers: Mapping[str, Scorer],
    criteria: Mapping[str, Criterion],
    truth: Ensemble,
    X: np.ndarray,
    labels: np.ndarray,
) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`; ``truth`` are draws of the reference."""
    scores = np.stack([scorer.score(X) for scorer in scorers.values()])
    utilities = np.stack([criterion.prepare(truth).score(X) for criterion in criteria.values()])
    picks = scores.argmax(1)
    triples = zip(criteria, utilities, picks, strict=True)
    both = ("criterion", "candidate")
    return xr.Dataset(
        {
            "score": (both, scores),
            "true_utility": (both, utilities),
            "pick": ("criterion", picks),
            "best": ("criterion", utilities.argmax(1)),
            "regret_ratio": ("criterion", [relative_utility(*triple) for triple in triples]),
        },
        coords={
            "criterion": list(criteria),
            "candidate": labels,
            "units": ("criterion", [scorer.units for scorer in scorers.values()]),
        },
    )
