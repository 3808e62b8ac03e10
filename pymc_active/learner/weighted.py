"""Criteria weighed by the probability that an experiment gives a result at all, or divided by its price."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import override

import numpy as np

from pymc_active.criteria.base import Scorer
from pymc_active.learner.price import Price
from pymc_active.learner.success import Success

# Criteria without a natural zero.
_LEVELS = ("upper_confidence_bound", "thompson", "committee")
# Log probability from which on a point may be recommended. The best predictions often lie where success becomes less
# likely, so that at even odds many recommendations would fail (benchmarks/outside/failures.py).
LIKELY = np.log(0.8)
# Price of a nat below that, in ranges of the score. From 0.8 to 0.5 it is more than a range; a steeper wall would stop
# the climb along it.
_PRICE = 3.0


# A weighed score (m,), and its derivatives in the score and in the log probability.
type _Weighed = tuple[np.ndarray, np.ndarray, np.ndarray]
type Rule = Callable[[np.ndarray, np.ndarray], _Weighed]


class WeightedScorer(Scorer):
    """A scorer whose scores a rule combines with the probability of success."""

    def __init__(self, scorer: Scorer, success: Success | Price, rule: Rule):
        self.scorer, self.success, self.rule = scorer, success, rule
        self.ensemble, self.units, self.diagnostics = scorer.ensemble, scorer.units, scorer.diagnostics

    @override
    def score(self, X):
        return self.rule(self.scorer.score(X), self.success(X))[0]

    @override
    def gradient(self, X):
        gradients = self.scorer.gradient(X)
        if gradients is None:
            return None
        score, slope = gradients
        log, log_slope = self.success.gradient(X)
        value, in_score, in_log = self.rule(score, log)
        return value, in_score[:, None] * slope + in_log[:, None] * log_slope

    @override
    def coarse(self, n):
        rough = self.scorer.coarse(n)
        return None if rough is None else WeightedScorer(rough, self.success.coarse(n), self.rule)

    @property
    @override
    def seeds(self):
        return self.scorer.seeds


def expected(scorer: Scorer, name: str, success: Success | Price) -> WeightedScorer:
    """The criterion of this name times P(success): what a measurement is worth if a failure is worth nothing.

    The logarithm of a worth gains log P instead. Levels without a natural zero (upper confidence bound, Thompson's
    path, a committee's entropy) count by how far they exceed the best level of a measured point. A score below zero is
    divided by P, so that it never gains from a likely failure. In place of P(success) there may be 1 / price.
    """
    if scorer.units.startswith("log of"):
        return WeightedScorer(scorer, success, _log)
    zero = float(scorer.score(scorer.ensemble.X).max()) if name in _LEVELS else 0.0
    return WeightedScorer(scorer, success, partial(_gain, zero))


def likely(scorer: Scorer, success: Success, places: np.ndarray) -> WeightedScorer:
    """The scorer where success has a probability of 0.8 or more; below that it falls with the log probability.

    Scores at ``places`` (m, D), spread over all candidates, show their range.
    """
    price = _PRICE * (float(np.ptp(scorer.score(places))) or 1.0)
    return WeightedScorer(scorer, success, partial(_likely, price))


def _log(score: np.ndarray, log: np.ndarray) -> _Weighed:
    one = np.ones_like(score)
    return score + log, one, one


def _gain(zero: float, score: np.ndarray, log: np.ndarray) -> _Weighed:
    gain = score - zero
    weight = np.exp(np.where(gain < 0, -log, log))
    return zero + weight * gain, weight, weight * np.abs(gain)


def _likely(price: float, score: np.ndarray, log: np.ndarray) -> _Weighed:
    return score + price * np.minimum(log - LIKELY, 0.0), np.ones_like(score), price * (log < LIKELY)
