"""Candidates for the next measurement: a pool of rows, or a box. See also :mod:`pymc_active.learner.lazy_pool`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from pymc_active.criteria.base import Scorer
from pymc_active.criteria.epig import rows_among, targets_in
from pymc_active.criteria.maximize_in_box import maximize
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.screening import screened
from pymc_active.support.tables import in_order_of, read_bounds, read_inputs

# Points of a box closer than this fraction of its sides are the same; those of a batch are apart, if there are others.
_SAME, _APART = 1e-6, 0.02


class Choice(NamedTuple):
    """A point to measure, its row in the pool (-1 in a box), and its score."""

    x: np.ndarray
    row: int
    score: float


class Candidates(Protocol):
    """The points that a learner chooses from. Points ``tried`` were measured, failed or not; others are ``pending``."""

    def __len__(self) -> int:
        """Rows of the pool; 0 for a box."""

    @property
    def domain(self) -> Domain:
        """Where to look for the maximum."""

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each input (D,)."""

    def n_left(self, tried: Sequence[Choice], pending: Sequence[Choice]) -> float:
        """How many more can be chosen."""

    def places(self, n: int) -> np.ndarray:
        """At most ``n`` candidates (n, D) that stand for all, always the same."""

    def labels_of(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """The user's labels of rows of the pool."""

    def choose(
        self, scorer: Scorer | None, tried: Sequence[Choice], pending: Sequence[Choice], rng: np.random.Generator
    ) -> Choice:
        """The largest score, or a random point without a scorer; neither pending nor, unless ``repeat``, tried."""

    def maximum(self, scorer: Scorer) -> Choice:
        """The point with the largest score, whether offered or not."""

    def show(self, choices: Sequence[Choice]) -> Any:
        """Choices as the user sees them: rows of the array or data frame."""

    def find(self, X: np.ndarray, known: Sequence[Choice] = ()) -> list[int]:
        """Rows of points (k, D), -1 for points outside the pool; of equal rows first those that are not ``known``."""


def rows_taken(tried: Sequence[Choice], pending: Sequence[Choice] = (), repeat: bool = False) -> list[int]:
    """Rows of a pool that are pending or, unless points are repeated, were tried."""
    return sorted({choice.row for choice in (*pending, *(() if repeat else tried)) if choice.row >= 0})


class Pool:
    """Rows of an array or a data frame, each offered once unless ``repeat``."""

    def __init__(self, pool: Any, inputs: Sequence, repeat: bool):
        pool = in_order_of(inputs, pool, "pool")
        # Copies, because users sort their tables, and add columns to them, during a run.
        self.table = pool.copy() if isinstance(pool, pd.DataFrame) else None
        self.X = read_inputs(pool, "pool", len(inputs)).copy()
        self.X.setflags(write=False)
        self.repeat = repeat

    def __len__(self) -> int:
        return len(self.X)

    @property
    def labels(self) -> np.ndarray:
        """Labels of a data frame's rows, otherwise 0, 1, ..."""
        return np.arange(len(self.X)) if self.table is None else self.table.index.to_numpy()

    @property
    def domain(self):
        return Domain(pool=self.X, labels=self.labels)

    @property
    def limits(self):
        return self.X.min(0), self.X.max(0)

    def left(self, tried: Sequence[Choice], pending: Sequence[Choice]) -> np.ndarray:
        """Rows that may be offered."""
        return np.delete(np.arange(len(self.X)), rows_taken(tried, pending, self.repeat))

    def n_left(self, tried, pending):
        return len(self.left(tried, pending))

    def places(self, n):
        return self.X[rows_among(len(self.X), n)]

    def labels_of(self, rows):
        return self.labels[list(rows)]

    def choose(self, scorer, tried, pending, rng):
        left = self.left(tried, pending)
        if scorer is None:
            row = int(rng.choice(left))
            return Choice(self.X[row], row, np.nan)
        X = self.X[left]
        score = screened(scorer, X)
        if np.isnan(score).all():
            raise ValueError("the criterion is NaN for every candidate")
        best = int(np.nanargmax(score))
        return Choice(X[best], int(left[best]), float(score[best]))

    def maximum(self, scorer):
        value = scorer.score(self.X)
        row = int(np.nanargmax(value))
        return Choice(self.X[row], row, float(value[row]))

    def show(self, choices):
        rows = [choice.row for choice in choices]
        return self.X[rows] if self.table is None else self.table.iloc[rows]

    def find(self, X, known=()):
        offered, rows = np.zeros(len(self.X), bool), []
        offered[rows_taken(known)] = True
        for x in X:
            same = np.flatnonzero((self.X == x).all(1))
            row = int(same[np.argmin(offered[same])]) if len(same) else -1
            if row >= 0:
                offered[row] = True
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        return f"a pool of {len(self.X)} points"


class Box:
    """All points between lower and upper bounds."""

    def __init__(self, bounds: Any, inputs: Sequence, repeat: bool):
        self.low, self.high = read_bounds(bounds, len(inputs), inputs)
        self.repeat = repeat
        # The inputs, if the user named them: points are then shown as rows of a data frame.
        self.names = list(inputs) if isinstance(bounds, Mapping) and all(isinstance(k, str) for k in bounds) else None

    def __len__(self) -> int:
        return 0

    @property
    def domain(self):
        return Domain(self.low, self.high)

    @property
    def limits(self):
        return self.low, self.high

    def n_left(self, tried, pending):
        return np.inf

    def places(self, n):
        return targets_in(self.low, self.high, n)

    def labels_of(self, rows):
        return np.array(rows, int)

    def choose(self, scorer, tried, pending, rng):
        if scorer is None:
            return Choice(rng.uniform(self.low, self.high), -1, np.nan)
        asked, measured = (np.reshape([one.x for one in part], (-1, len(self.low))) for part in (pending, tried))
        taken, apart = (asked, _SAME) if self.repeat else (np.concatenate([measured, asked]), _APART)
        found = maximize(scorer, self.low, self.high, rng)
        free = [Choice(x, -1, float(v)) for x, v in zip(*found, strict=True) if self._is_away(x, taken, _SAME)]
        if free:
            # All that is left of a peak that is known are points beside each other, which would tell the same.
            return next((choice for choice in free if self._is_away(choice.x, asked, apart)), free[0])
        raise ValueError("every maximum of the criterion was measured already; pass repeat=True to repeat points")

    def _is_away(self, x: np.ndarray, others: np.ndarray, least: float) -> bool:
        """Whether a point differs so much, as a part of the box, from each of the others in some input."""
        return bool((np.abs(others - x) / (self.high - self.low)).max(1).min(initial=np.inf) >= least)

    def maximum(self, scorer):
        found = maximize(scorer, self.low, self.high, np.random.default_rng(0))
        return Choice(found.X[0], -1, float(found.values[0]))

    def show(self, choices):
        X = np.reshape([choice.x for choice in choices], (-1, len(self.low)))
        return X if self.names is None else pd.DataFrame(X, columns=self.names)

    def find(self, X, known=()):
        return [-1] * len(X)

    def __repr__(self) -> str:
        return f"a box of {len(self.low)} input{'s' if len(self.low) > 1 else ''}"
