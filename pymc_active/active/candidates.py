"""Where the next measurement may be: a pool of rows, or a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from pymc_active.active.box import maximize
from pymc_active.active.criterion import Criterion, is_lazy
from pymc_active.active.designs import read_bounds
from pymc_active.active.improvement import UpperConfidenceBound
from pymc_active.data import read_inputs
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.model_average import ModelAverage

Fit = LaplaceFit | ModelAverage
AnyCriterion = Criterion | Callable[[Any, np.ndarray], Any]

# Two points of a box nearer than this, as a fraction of its sides, are one.
_SAME = 1e-6
# Draws of the hyperparameters that a marginal posterior mean is the mean over.
_DRAWS = 32


def _mean(minimize: bool, method: str) -> UpperConfidenceBound:
    """The posterior mean as a criterion."""
    return UpperConfidenceBound(0.0, minimize, method, draws=_DRAWS)


class Choice(NamedTuple):
    """A point to measure, its row in the pool (-1 in a box), and the criterion there."""

    x: np.ndarray
    row: int
    score: float


class Candidates(Protocol):
    """Places that can be chosen from."""

    def choose(
        self,
        criterion: AnyCriterion | None,
        fit: Fit | None,
        measured: np.ndarray,
        pending: list[Choice],
        rng: np.random.Generator,
    ) -> Choice:
        """The next point: where the criterion is largest, or anywhere without one, but for those that are pending."""

    def best_mean(self, fit: Fit, minimize: bool, method: str) -> Choice:
        """Where the posterior mean is best, with the hyperparameters as in :func:`pymc_active.predict`."""

    def show(self, choices: list[Choice]) -> Any:
        """Choices as the user sees them."""

    def mark(self, x: np.ndarray) -> int:
        """Take note that a point that nobody chose is being measured; its row, or -1."""

    def reserve(self, choice: Choice) -> None:
        """Take note that a choice is being measured."""

    def release(self, choice: Choice, others: np.ndarray) -> None:
        """A choice is not being measured any more; ``others`` are those that were or still are."""

    def check(self, n: int, pending: list[Choice]) -> None:
        """Raise a ValueError if ``n`` more points cannot be had."""


class Pool:
    """Rows of an array or a data frame, each offered once unless ``repeat``."""

    def __init__(self, pool: Any, width: int, repeat: bool):
        if is_lazy(pool):
            raise TypeError(
                f"a learner keeps its candidates in memory, and this dask array of shape {pool.shape} is lazy: pass "
                "pool=X_pool.compute() (a million candidates take 8 MB an input); or choose from it yourself, by "
                "scores = bald(learner.fit, X_pool), row = int(scores.data.argmax()), and tell the learner the result"
            )
        self.table = pool if isinstance(pool, pd.DataFrame) else None
        self.X = read_inputs(pool, "pool", width=width)
        self.repeat = repeat
        self.offered = np.zeros(len(self.X), bool)

    @property
    def labels(self) -> np.ndarray:
        """Labels of the rows of a data frame, else 0, 1, ..."""
        return np.arange(len(self.X)) if self.table is None else self.table.index.to_numpy()

    def left(self, pending: Sequence[Choice] = ()) -> np.ndarray:
        """Rows that may be offered."""
        rows = np.arange(len(self.X)) if self.repeat else np.flatnonzero(~self.offered)
        return np.setdiff1d(rows, [choice.row for choice in pending])

    def check(self, n: int, pending: list[Choice]) -> None:
        """Raise a ValueError if fewer than ``n`` rows are left."""
        if n > len(self.left(pending)):
            raise ValueError(
                f"the pool has {len(self.left(pending))} candidate(s) left and {n} were asked for; add candidates or "
                "pass repeat=True"
            )

    def choose(self, criterion, fit, measured, pending, rng):
        """The row with the largest score."""
        left = self.left(pending)
        if criterion is None:
            row = int(rng.choice(left))
            return Choice(self.X[row], row, np.nan)
        X = self.X[left]
        score = np.asarray(criterion.score(fit, X) if isinstance(criterion, Criterion) else criterion(fit, X), float)
        if score.shape != left.shape:
            raise ValueError(f"the criterion must give one number a candidate, shape {left.shape}; got {score.shape}")
        if np.isnan(score).all():
            raise ValueError("the criterion is NaN for every candidate")
        best = int(np.nanargmax(score))
        return Choice(X[best], int(left[best]), float(score[best]))

    def best_mean(self, fit, minimize, method):
        """The row with the best posterior mean."""
        value = _mean(minimize, method).score(fit, self.X)
        row = int(np.argmax(value))
        return Choice(self.X[row], row, float(value[row]))

    def show(self, choices):
        """Rows of the pool."""
        rows = [choice.row for choice in choices]
        return self.X[rows] if self.table is None else self.table.iloc[rows]

    def mark(self, x):
        """Row of a point, which is then no longer offered; -1 if it is not in the pool."""
        same = np.flatnonzero((self.X == x).all(1))
        if not len(same):
            return -1
        # Of several equal rows, one that was not offered yet.
        row = int(same[np.argmin(self.offered[same])])
        self.offered[row] = True
        return row

    def reserve(self, choice):
        """Its row is no longer offered."""
        self.offered[choice.row] = True

    def release(self, choice, others):
        """Offer its row again, unless it was measured as well."""
        # Of equal rows as many stay as there are other measurements.
        n_offered = self.offered[(self.X == self.X[choice.row]).all(1)].sum()
        if n_offered > (others == self.X[choice.row]).all(1).sum():
            self.offered[choice.row] = False

    def __repr__(self) -> str:
        return f"{len(self.left())} left in the pool"


class Box:
    """All points between lower and upper bounds."""

    def __init__(self, bounds: Any, width: int, repeat: bool):
        self.low, self.high = read_bounds(bounds)
        self.repeat = repeat
        if len(self.low) != width:
            raise ValueError(f"bounds must have {width} pairs, one for each input of the model; got {len(self.low)}")

    def check(self, n: int, pending: list[Choice]) -> None:
        """A box is never exhausted."""

    def choose(self, criterion, fit, measured, pending, rng):
        """The best maximum that is not a point measured or asked for already."""
        if criterion is None:
            return Choice(rng.uniform(self.low, self.high), -1, np.nan)
        taken = np.array([choice.x for choice in pending]).reshape(-1, len(self.low))
        if not self.repeat:
            taken = np.concatenate([measured, taken])
        found = maximize(criterion, fit, self.low, self.high, rng)
        for x, value in zip(*found, strict=True):
            if not (np.abs((taken - x) / (self.high - self.low)).max(1) < _SAME).any():
                return Choice(x, -1, float(value))
        raise ValueError("every maximum of the criterion has been measured already; pass repeat=True to repeat them")

    def best_mean(self, fit, minimize, method):
        """The point with the best posterior mean."""
        found = maximize(_mean(minimize, method), fit, self.low, self.high, np.random.default_rng(0))
        return Choice(found.X[0], -1, float(found.values[0]))

    def show(self, choices):
        """An array."""
        return np.reshape([choice.x for choice in choices], (-1, len(self.low)))

    def mark(self, x):
        """Nothing to note: points that were measured are known from the data."""
        return -1

    def reserve(self, choice):
        """Nothing to note either."""

    def release(self, choice, others):
        """Nothing was noted."""

    def __repr__(self) -> str:
        return f"a box of {len(self.low)} inputs"
