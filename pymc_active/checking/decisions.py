"""Decision regret: what our pick is worth in truth, over the best in the pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_active.checking.comparison import evenly
from pymc_active.criteria.bald import Bald, Uncertainty
from pymc_active.criteria.base import MomentCriterion, relative_utility
from pymc_active.criteria.improvement import ExpectedImprovement, UpperConfidenceBound
from pymc_active.criteria.maximum.base import OptimumCriterion
from pymc_active.criteria.maximum.domain import Domain, check_data, read_domain
from pymc_active.criteria.maximum.max_value import MaxValueEntropy
from pymc_active.criteria.maximum.pes import Pes
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.mixtures import Mixture, mixture_of_draws
from pymc_active.predictions.moments import draw_moments

_METHODS = ("mgp", "bbq", "modes", "draws", "cubature")
# Functions of predictive moments, by name: how their hyperparameters are marginalised, and whether f is to be small.
_KINDS: dict[str, Callable[[str, bool], MomentCriterion]] = {
    "bald": lambda method, minimize: Bald("y", method),
    "bald_f": lambda method, minimize: Bald("f", method),
    "uncertainty": lambda method, minimize: Uncertainty(method),
    "expected_improvement": lambda method, minimize: ExpectedImprovement(minimize, method),
    "upper_confidence_bound": lambda method, minimize: UpperConfidenceBound(minimize=minimize, method=method),
}
# Criteria by the names that a Learner gives them: kind and method.
_MOMENTS: dict[str, tuple[str, str]] = {
    **{"bald" + ("" if m == "mgp" else f"_{m}"): ("bald", m) for m in _METHODS},
    **{"bald" + ("" if m == "mgp" else f"_{m}") + "_f": ("bald_f", m) for m in _METHODS},
    **{kind: (kind, "mgp") for kind in ("uncertainty", "expected_improvement", "upper_confidence_bound")},
}
_OPTIMUM: dict[str, type[OptimumCriterion]] = {"max_value_entropy": MaxValueEntropy, "pes": Pes}
CRITERIA = (*_MOMENTS, *_OPTIMUM)
# Maxima of sample paths cost seconds; with more inputs, more.
_MOST_INPUTS = 6
# The truth of criteria of the maximum: draws of the hyperparameters and paths, of each half of the trace.
_TRUE_DRAWS, _TRUE_OPTIMA = 32, 128


class Question(NamedTuple):
    """What to decide: candidates (m, D), their labels, criteria by name, where the maximum is looked for."""

    X: np.ndarray
    labels: np.ndarray
    criteria: tuple[str, ...]
    domain: Domain
    minimize: bool


def read_question(
    fit: LaplaceFit, pool: np.ndarray, labels: np.ndarray, criteria: Sequence[str] | None, bounds: Any, minimize: bool
) -> Question:
    """Check the criteria, or choose them.

    Raises
    ------
    ValueError
        For unknown criteria, malformed bounds, or criteria of the maximum where all y are equal.
    """
    domain = read_domain(bounds, pool, fit.X.shape[1])
    if criteria is None:
        simple = np.ptp(fit.y) > 0 and fit.X.shape[1] <= _MOST_INPUTS
        criteria = CRITERIA if simple else tuple(_MOMENTS)
    criteria = (criteria,) if isinstance(criteria, str) else tuple(criteria)
    if not criteria or not set(criteria) <= set(CRITERIA):
        raise ValueError(f"criteria must be among {', '.join(sorted(CRITERIA))}; got {', '.join(map(repr, criteria))}")
    if set(criteria) & set(_OPTIMUM):
        check_data(fit.y)
    return Question(pool, labels, criteria, domain, minimize)


def compare_decisions(fit: LaplaceFit, question: Question, thetas: np.ndarray, random_seed: int | None) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`, from draws of the trace (S, P), chain after chain."""
    rows: dict[str, Row] = {}
    left_out = {}
    truths = _TrueMoments(fit, question, thetas[evenly(len(thetas))])
    for name in question.criteria:
        if name in _MOMENTS:
            kind, method = _MOMENTS[name]
            ours = _KINDS[kind](method, question.minimize)
            rows[name] = Row(ours.score(fit, question.X), *truths(kind), ours.units)
            continue
        try:
            rows[name] = _of_maximum(_OPTIMUM[name], fit, question, thetas, random_seed)
        except (ValueError, NotImplementedError) as error:
            # A kernel without derivatives must not cost what the trace has cost.
            left_out[name] = str(error)
    return to_dataset(rows, question.labels).assign_attrs({f"left_out_{k}": text for k, text in left_out.items()})


class Row(NamedTuple):
    """Our scores, the true utility, and the true one by each half of the trace, (m,) each."""

    score: np.ndarray
    utility: np.ndarray
    halves: tuple[np.ndarray, np.ndarray]
    units: str


class _TrueMoments:
    """True utilities of functions of predictive moments: of the mixture over the trace, and over each half of it."""

    def __init__(self, fit: LaplaceFit, question: Question, thetas: np.ndarray):
        self.minimize = question.minimize
        self.at_pool, self.at_data = (draw_moments(fit.best.full_posterior, thetas, X) for X in (question.X, fit.X))
        self.known: dict[str, tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]] = {}

    def __call__(self, kind: str) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        if kind not in self.known:
            middle = len(self.at_pool[0]) // 2
            whole, *halves = (self._utility(kind, s) for s in (slice(None), slice(middle), slice(middle, None)))
            self.known[kind] = whole, (halves[0], halves[1])
        return self.known[kind]

    def _utility(self, kind: str, rows: slice) -> np.ndarray:
        criterion = _KINDS[kind]("draws", self.minimize)

        def some(moments: tuple[np.ndarray, ...]) -> Mixture:
            means, variances, noises = (part[rows] for part in moments)
            return mixture_of_draws(means, variances, noises)

        criterion.begin_mixture(some(self.at_data))
        return criterion.mixture_value(some(self.at_pool))


def _of_maximum(
    kind: type[OptimumCriterion], fit: LaplaceFit, question: Question, thetas: np.ndarray, random_seed: int | None
) -> Row:
    ours = kind(question.domain, minimize=question.minimize, random_seed=random_seed)
    score = ours.score(fit, question.X)
    seeds = np.random.SeedSequence(random_seed).generate_state(2)
    halves = []
    for half, seed in zip(np.array_split(thetas, 2), seeds, strict=True):
        truth = kind(question.domain, minimize=question.minimize, n_optima=_TRUE_OPTIMA, random_seed=int(seed))
        truth.prepare(
            [
                ConditionedGP(fit.best.full_posterior, theta, question.minimize)
                for theta in half[evenly(len(half), _TRUE_DRAWS)]
            ]
        )
        halves.append(truth.values(question.X))
    return Row(score, 0.5 * (halves[0] + halves[1]), (halves[0], halves[1]), ours.units)


def to_dataset(rows: dict[str, Row], labels: np.ndarray) -> xr.Dataset:
    """Scores and utilities by criterion and candidate, and what the picks are worth."""
    picks = [int(np.argmax(row.score)) for row in rows.values()]
    split = [
        0.5 * (relative_utility(name, a, int(np.argmax(b))) + relative_utility(name, b, int(np.argmax(a))))
        for name, (_, _, (a, b), _) in rows.items()
    ]
    both = ("criterion", "candidate")
    return xr.Dataset(
        {
            "true_utility": (both, np.stack([row.utility for row in rows.values()])),
            "score": (both, np.stack([row.score for row in rows.values()])),
            "pick": ("criterion", picks),
            "best": ("criterion", [int(np.argmax(row.utility)) for row in rows.values()]),
            "regret_ratio": (
                "criterion",
                [relative_utility(name, row.utility, k) for (name, row), k in zip(rows.items(), picks, strict=True)],
            ),
            "split_half": ("criterion", split),
        },
        coords={
            "criterion": list(rows),
            "candidate": labels,
            "units": ("criterion", [row.units for row in rows.values()]),
        },
    )
