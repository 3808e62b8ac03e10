"""Find the best of many candidates without scoring each with all draws; public functions score all in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, override

import numpy as np

from pymc_active.criteria.base import Criterion, Scorer
from pymc_active.predictions.ensembles import as_ensemble

type AnyCriterion = Criterion | Callable[[Any, np.ndarray], Any]

# Up to this many candidates times models are scored with all draws; else so many draws of each model screen them, and
# this share gets all draws.
_FULL, _SCREEN, _SHARE = 1000, 16, 0.05


def screened(scorer: Scorer, X: np.ndarray) -> np.ndarray:
    """Scores (m,) of candidates (m, D): exact for the best twentieth, coarse and lower elsewhere.

    At least for the best 500; of several models for so many divided by their number.
    """
    most = _FULL // scorer.n_models
    rough = scorer.coarse(_SCREEN) if len(X) > most else None
    if rough is None:
        return scorer.score(X)
    score = rough.score(X)
    best = np.argsort(-score, kind="stable")[: max(most // 2, int(_SHARE * len(X)))]
    exact = scorer.score(X[best])
    # The maximum is a candidate that all draws have scored.
    score = np.minimum(score, np.nextafter(exact.max(), -np.inf))
    score[best] = exact
    return score


class CallableScorer(Scorer):
    """A user's criterion ``function(fit, X)``, which returns one number for each row of X; larger is better."""

    def __init__(self, function: Callable[[Any, np.ndarray], Any], fit: Any):
        self.function, self.fit = function, fit
        self.ensemble, self.units, self.diagnostics = as_ensemble(fit, method="map"), "", {}

    @override
    def score(self, X):
        values = np.asarray(self.function(self.fit, X), float)
        if values.shape != (len(X),):
            raise ValueError(f"the criterion must give one number a candidate, shape {(len(X),)}; got {values.shape}")
        return values


def prepare(criterion: AnyCriterion, fit: Any) -> Scorer:
    """The scorer of a criterion, or of a user's function, for a fit."""
    return criterion.prepare(fit) if isinstance(criterion, Criterion) else CallableScorer(criterion, fit)
