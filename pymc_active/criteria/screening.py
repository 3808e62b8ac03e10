"""Which of many candidates is the best, without scoring all of them by all draws.

A choice needs the maximum only. Of many candidates the first few draws find the best ones, and all draws score these.
Public functions score every candidate in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_active.criteria.base import Criterion, Scorer
from pymc_active.predictions.ensembles import as_ensemble

type AnyCriterion = Criterion | Callable[[Any, np.ndarray], Any]

# Candidates that are all scored by all draws; draws that screen more of them; the share scored by all draws then.
_FULL, _SCREEN, _SHARE = 1000, 16, 0.05


def screened(scorer: Scorer, X: np.ndarray) -> np.ndarray:
    """Scores (m,) of candidates (m, D): exact for the best twentieth (at least 500), coarse and lower elsewhere."""
    rough = scorer.coarse(_SCREEN) if len(X) > _FULL else None
    if rough is None:
        return scorer.score(X)
    score = rough.score(X)
    best = np.argsort(-score, kind="stable")[: max(_FULL // 2, int(_SHARE * len(X)))]
    exact = scorer.score(X[best])
    # The maximum is a candidate that all draws have scored.
    score = np.minimum(score, np.nextafter(exact.max(), -np.inf))
    score[best] = exact
    return score


class CallableScorer(Scorer):
    """A function of the user's, ``function(fit, X)``, for one fit.

    Parameters
    ----------
    function : callable
        Gives one number for each row of X; larger is better.
    fit : LaplaceFit or ModelAverage
    """

    def __init__(self, function: Callable[[Any, np.ndarray], Any], fit: Any):
        self.function, self.fit = function, fit
        self.ensemble, self.units, self.diagnostics = as_ensemble(fit, method="map"), "", {}

    def score(self, X: np.ndarray) -> np.ndarray:
        """What the function gives.

        Raises
        ------
        ValueError
            If it is not one number for each candidate.
        """
        values = np.asarray(self.function(self.fit, X), float)
        if values.shape != (len(X),):
            raise ValueError(f"the criterion must give one number a candidate, shape {(len(X),)}; got {values.shape}")
        return values


def prepare(criterion: AnyCriterion, fit: Any) -> Scorer:
    """The scorer of a criterion, or of a function of the user's, for a fit."""
    return criterion.prepare(fit) if isinstance(criterion, Criterion) else CallableScorer(criterion, fit)
