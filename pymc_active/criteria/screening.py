"""Find the best of many candidates without scoring each with all draws; public functions score all in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, override

import numpy as np

from pymc_active.criteria.base import Criterion, Scorer
from pymc_active.predictions.ensembles import as_ensemble, is_of_processes

type AnyCriterion = Criterion | Callable[[Any, np.ndarray], Any]

# Draws of each model that screen many candidates.
_SCREEN = 16
# Candidates that a finer scorer judges: of one problem of ten 256 particles chose 0.94 of the best (any_model.py).
_REFINED = 10


def screened(scorer: Scorer, X: np.ndarray) -> np.ndarray:
    """Scores (m,) of candidates (m, D): exact for the best twentieth, coarse and lower elsewhere.

    At least for half as many as are scored in full without screening; of several models divided by their number. The
    very best are scored by a finer scorer, if there is one.
    """
    most = scorer.n_full // scorer.n_models
    rough = scorer.coarse(_SCREEN) if len(X) > most else None
    if rough is None:
        score = scorer.score(X)
    else:
        score = _with_best(rough.score(X), scorer, X, max(most // 2, int(scorer.share * len(X))))
    fine = scorer.fine()
    return score if fine is None else _with_best(score, fine, X, _REFINED)


def _with_best(score: np.ndarray, better: Scorer, X: np.ndarray, n: int) -> np.ndarray:
    """Scores (m,), the best ``n`` by a better scorer; the maximum is one that it has scored."""
    # Where a criterion is undefined nothing is chosen.
    score = np.where(np.isnan(score), -np.inf, score)
    best = np.argsort(-score, kind="stable")[:n]
    exact = better.score(X[best])
    exact = np.where(np.isnan(exact), -np.inf, exact)
    score = np.minimum(score, np.nextafter(exact.max(), -np.inf))
    score[best] = exact
    return score


class CallableScorer(Scorer):
    """A user's criterion ``function(fit, X)``, which returns one number for each row of X; larger is better."""

    def __init__(self, function: Callable[[Any, np.ndarray], Any], fit: Any):
        self.function, self.fit = function, fit
        super().__init__(as_ensemble(fit, method=None if is_of_processes(fit) else "map"), "")

    @override
    def score(self, X):
        values = np.asarray(self.function(self.fit, X), float)
        if values.shape != (len(X),):
            raise ValueError(f"the criterion must give one number a candidate, shape {(len(X),)}; got {values.shape}")
        return values


def prepare(criterion: AnyCriterion, fit: Any, pending: np.ndarray | None = None) -> Scorer:
    """The scorer of a criterion, or of a user's function, for a fit; pending rows are for models that are no GPs."""
    return (
        criterion.scorer(fit, pending=pending) if isinstance(criterion, Criterion) else CallableScorer(criterion, fit)
    )
