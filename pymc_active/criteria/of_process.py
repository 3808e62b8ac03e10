"""Criteria for any PyMC model: the same questions, asked of the outcomes of its particles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, override

import numpy as np

from pymc_active.criteria.base import Scorer
from pymc_active.inference.ensemble import Ensemble
from pymc_active.process.information import Information
from pymc_active.process.members import Members

# Particles that score, of a single model or of all together, and at least so many that screen large pools.
SCORING, _SCREENING = 256, 48
# Particles that score the very best.
_FINE = 1024
# Rows of candidates that expected outcomes are computed for at once.
_BLOCK = 4096


@dataclass(eq=False)
class OutcomeScorer(Scorer):
    """A function of particles' outcomes; ``make`` prepares it for members, and returns what evaluates X (m, D)."""

    make: Callable[[Members], Callable[[np.ndarray], np.ndarray]]
    n_members: int = SCORING
    n_full, share = 200, 0.0

    def __post_init__(self):
        members = Members.of(self.ensemble, max(self.n_members // self.ensemble.n_models, _SCREENING))
        self._fine: OutcomeScorer | None = None
        self._n, self._evaluate = len(members) // self.ensemble.n_models, self.make(members)

    @override
    def score(self, X):
        return self._evaluate(X)

    @override
    def fine(self):
        if self._fine is None and self.n_members == SCORING and self._n < len(self.ensemble) / self.ensemble.n_models:
            self._fine = OutcomeScorer(self.ensemble, self.units, self.make, _FINE)
        return self._fine

    @override
    def coarse(self, n):
        n = max(n, _SCREENING)
        if self._n <= 2 * n:
            return None
        return OutcomeScorer(self.ensemble, self.units, self.make, n * self.ensemble.n_models)


def of_information(ensemble: Ensemble, quantity: Callable[[Members], Any], pending: np.ndarray) -> OutcomeScorer:
    """Information about the ``quantity`` that members make, from one outcome more than the pending ones."""

    def make(members: Members) -> Callable[[np.ndarray], np.ndarray]:
        information = Information(members, quantity(members))
        if len(pending):
            information = information.given(pending)
        return lambda X: information.at(X)[0]

    return OutcomeScorer(ensemble, "nats", make)


def of_improvement(ensemble: Ensemble, sign: float, pending: np.ndarray) -> OutcomeScorer:
    """Log of the expected improvement of the expected outcome over its best mean at measured rows.

    Pending rows count by what each particle says of them, so that they do not promise the same again. Before any row is
    measured, improvement is over the mean at each candidate.
    """

    def make(members: Members) -> Callable[[np.ndarray], np.ndarray]:
        measured, asked = ((sign * members.means(X)) if len(X) else None for X in (ensemble.X, pending))
        # Not the best of each particle, which knows the outcome at all rows that were measured, however noisily.
        best: Any = None if measured is None else (members.weights @ measured).max()
        if asked is not None:
            best = np.maximum(-np.inf if best is None else best, asked.max(1, keepdims=True))

        def evaluate(X: np.ndarray) -> np.ndarray:
            mean = sign * members.means(X)
            zero = members.weights @ mean if best is None else best
            gain = members.weights @ np.maximum(mean - zero, 0.0)
            nearest = np.clip((mean - zero).max(0), -1e300, 0.0)
            # Where no particle improves, by how little the best one falls short.
            return np.log(np.maximum(gain, np.finfo(float).tiny)) + nearest / (1 - nearest)

        return _in_blocks(evaluate)

    return OutcomeScorer(ensemble, "log of units of y", make, n_members=4 * SCORING)


def of_bound(ensemble: Ensemble, sign: float, width: float) -> OutcomeScorer:
    """The mean of the expected outcome plus so many of its sds."""

    def make(members: Members) -> Callable[[np.ndarray], np.ndarray]:
        def evaluate(X: np.ndarray) -> np.ndarray:
            means = members.means(X)
            mean = members.weights @ means
            return sign * mean + width * np.sqrt(members.weights @ np.square(means - mean))

        return _in_blocks(evaluate)

    return OutcomeScorer(ensemble, "units of y", make, n_members=4 * SCORING)


def _in_blocks(evaluate: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: np.concatenate([evaluate(X[k : k + _BLOCK]) for k in range(0, len(X), _BLOCK)])
