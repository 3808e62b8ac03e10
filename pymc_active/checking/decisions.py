"""Decision regret: what our pick is worth in truth, over the best in the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_active.checking.reference import Reference, Subject, picked
from pymc_active.criteria.bald import bald
from pymc_active.criteria.bams import bams
from pymc_active.criteria.base import Criterion, MomentCriterion, relative_utility
from pymc_active.criteria.by_name import CRITERIA, Named, criterion_names, make_criterion
from pymc_active.criteria.epig import rows_among
from pymc_active.criteria.maximum.domain import Domain, check_data, read_domain
from pymc_active.criteria.maximum.max_value import Thompson
from pymc_active.inference.ensemble import Ensemble, ensemble_of_models
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.mixtures import Mixture, mixture
from pymc_active.predictions.model_average import ModelAverage

# Maxima of sample paths cost seconds; with more inputs, more.
_MOST_INPUTS = 6
# The criteria that are looked at unless others are named: of moments and of predictions, for a fit that is one
# ensemble; of the maximum; and between models.
_OF_PREDICTIONS, _OPTIMUM = ("integrated_variance",), ("max_value_entropy", "pes")
# Variants that a Gaussian at a mode has, while particles have one answer.
_OF_MODES = (partial(bald, method="draws"), partial(bald, target="f"))
_BETWEEN_OF_MODES = (partial(bams, method="modes"), partial(bams, method="draws"))
# Draws of the reference in the truth; for criteria of the maximum and of predictions draws of the hyperparameters of
# each half, and paths.
_DRAWS, _TRUE_DRAWS, _TRUE_OPTIMA = 400, 32, 128
# Draws of each of several models in the truth, and the weight below which a model is left out.
_OF_EACH, _NEGLIGIBLE = 200, 1e-9


class Question(NamedTuple):
    """What to decide: candidates (m, D), their labels, criteria of the registry, where the maximum is looked for."""

    X: np.ndarray
    labels: np.ndarray
    criteria: tuple[Named, ...]
    domain: Domain
    minimize: bool

    def criterion(self, named: Named, random_seed: int | None) -> Criterion:
        """One of them."""
        common: dict[str, Any] = {"minimize": self.minimize, "random_seed": random_seed, "several_models": True}
        targets = self.X[rows_among(len(self.X))]
        return make_criterion(named, domain=lambda: self.domain, targets=lambda: targets, **common)


def read_question(
    fit: Subject | ModelAverage,
    pool: np.ndarray,
    labels: np.ndarray,
    criteria: str | Sequence[Any] | None,
    bounds: Any,
    minimize: bool,
) -> Question:
    """Check the criteria, or choose them. Criteria of the maximum need y that differ."""
    domain = read_domain(bounds, pool, fit.gpm.inputs)
    between = isinstance(fit, ModelAverage)
    known = criterion_names("models") if between else criterion_names("moments", "predictions", "maximum")
    if criteria is None:
        of_modes = (_BETWEEN_OF_MODES if between else _OF_MODES) if as_ensemble(fit).has_gaussians else ()
        is_simple = np.ptp(fit.y) > 0 and fit.X.shape[1] <= _MOST_INPUTS
        optimum = _OPTIMUM if is_simple and not between else ()
        criteria = [*(known if between else [*criterion_names("moments"), *_OF_PREDICTIONS]), *of_modes, *optimum]
    given = (criteria,) if isinstance(criteria, str) or callable(criteria) else tuple(criteria)
    read = (Named.read(one, fit.gpm.inputs) for one in given)
    named = [one for one in read if one is not None and one.name in known]
    if not named or len(named) < len(given):
        raise ValueError(f"criteria must be among {', '.join(sorted(known))}; got {', '.join(map(repr, given))}")
    if any(CRITERIA[one.name].kind == "maximum" for one in named):
        check_data(fit.y)
    return Question(pool, labels, tuple(named), domain, minimize)


class Row(NamedTuple):
    """Our scores (m,), and the true utilities by the reference and by each half of it, (m,) each."""

    score: np.ndarray
    true: Sequence[np.ndarray]
    units: str


type _Pairs = list[tuple[Ensemble, Mixture]]


def _with_mixtures(ensembles: Iterable[Ensemble], X: np.ndarray) -> _Pairs:
    return [(ensemble, mixture(ensemble, X)) for ensemble in ensembles]


def _true(criterion: MomentCriterion, pairs: _Pairs) -> list[np.ndarray]:
    """True utilities of a function of the predictive mixture, however it marginalises a fit."""
    return [criterion.bind(ensemble).value(p) for ensemble, p in pairs]


def _parts(ensemble: Ensemble, n: int) -> list[Ensemble]:
    """Draws of a reference, and of each half of it."""
    return [picked(ensemble, n), picked(ensemble, n, 0), picked(ensemble, n, 1)]


def compare_decisions(fit: Subject, question: Question, reference: Reference, random_seed: int | None) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`."""
    rows: dict[str, Row] = {}
    left_out = {}
    pairs = _with_mixtures(_parts(reference.ensemble, _DRAWS), question.X)
    for named in question.criteria:
        name, ours = str(named), question.criterion(named, random_seed)
        try:
            if isinstance(ours, Thompson):
                raise ValueError("a single sample path has no utility that another source could judge")
            scorer = ours.prepare(fit)
            if isinstance(ours, MomentCriterion):
                true = _true(ours, pairs)
            else:
                true = _by_halves(named, question, reference, random_seed)
            rows[name] = Row(scorer.score(question.X), true, scorer.units)
        except (ValueError, NotImplementedError) as error:
            # A kernel without derivatives must not cost what the reference has cost.
            left_out[name] = str(error)
    if not rows:
        raise ValueError("none of the criteria can be compared: " + "; ".join(f"{k}: {t}" for k, t in left_out.items()))
    return to_dataset(rows, question.labels).assign_attrs({f"left_out_{k}": text for k, text in left_out.items()})


def _by_halves(named: Named, question: Question, reference: Reference, random_seed: int | None) -> list[np.ndarray]:
    """True utilities of a criterion that takes long: the mean over both halves of the reference, and each."""
    seeds = np.random.SeedSequence(random_seed).generate_state(2)
    halves = []
    for half, seed in enumerate(seeds.tolist()):
        if CRITERIA[named.name].kind == "maximum":
            size: dict[str, int] = {"n_optima": _TRUE_OPTIMA, "n_hyperparameters": _TRUE_DRAWS, "random_seed": seed}
            truth = CRITERIA[named.name].make(question.domain, minimize=question.minimize, **size)
        else:
            truth = question.criterion(named, None)
        halves.append(truth.prepare(picked(reference.ensemble, 2 * _TRUE_DRAWS, half)).score(question.X))
    return [0.5 * (halves[0] + halves[1]), *halves]


def decide_between(
    average: ModelAverage, references: Mapping[Any, Reference], true: np.ndarray, question: Question
) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`, for several models with ``true`` probabilities (K,)."""
    some = [_parts(references[label].ensemble, _OF_EACH) for label in average]

    def pairs(weights: np.ndarray) -> _Pairs:
        used = np.flatnonzero(weights > _NEGLIGIBLE)
        shares = weights[used] / weights[used].sum()
        columns = zip(*(some[k] for k in used), strict=True)
        return _with_mixtures((ensemble_of_models(members, shares, 0) for members in columns), question.X)

    by_probability, rows = pairs(true), {}
    for named in question.criteria:
        criterion = question.criterion(named, None)
        assert isinstance(criterion, MomentCriterion)
        scorer = criterion.prepare(average)
        # A committee's members have equal votes.
        judges = pairs((true > 0) / np.count_nonzero(true)) if named.name == "committee" else by_probability
        rows[str(named)] = Row(scorer.score(question.X), _true(criterion, judges), scorer.units)
    return to_dataset(rows, question.labels)


def to_dataset(rows: dict[str, Row], labels: np.ndarray) -> xr.Dataset:
    """Scores and utilities by criterion and candidate, and what the picks are worth."""
    picks = [int(np.argmax(row.score)) for row in rows.values()]
    split = [
        0.5 * (relative_utility(name, a, int(np.argmax(b))) + relative_utility(name, b, int(np.argmax(a))))
        for name, (_, (_, a, b), _) in rows.items()
    ]
    ratio = [relative_utility(name, row.true[0], pick) for (name, row), pick in zip(rows.items(), picks, strict=True)]
    both = ("criterion", "candidate")
    return xr.Dataset(
        {
            "true_utility": (both, np.stack([row.true[0] for row in rows.values()])),
            "score": (both, np.stack([row.score for row in rows.values()])),
            "pick": ("criterion", picks),
            "best": ("criterion", [int(np.argmax(row.true[0])) for row in rows.values()]),
            "regret_ratio": ("criterion", ratio),
            "split_half": ("criterion", split),
        },
        coords={
            "criterion": list(rows),
            "candidate": labels,
            "units": ("criterion", [row.units for row in rows.values()]),
        },
    )
