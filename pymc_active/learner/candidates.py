"""Candidates for the next measurement: rows of a pool, lazy ones apart, or all points of a box or a space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_active.criteria.base import Scorer
from pymc_active.criteria.epig import rows_among, targets_in
from pymc_active.criteria.maximize import LocalMaxima, maximize
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.screening import screened
from pymc_active.spaces.space import Space
from pymc_active.support.tables import in_order_of, read_bounds, read_inputs, with_index

# Points of a box closer than this fraction of its sides are the same; those of a batch are apart, if there are others.
_SAME, _APART = 1e-6, 0.02
# Points that stand for a space where sample paths are maximised, and of which the nearest is taken for one of a design
# that cannot be made.
_PLACES, _NEAREST = 2_048, 512
# What arithmetic rounds, in parts of an input's range: 0.1 * 3 is 0.3.
_ROUNDING = 1e-12

type Score = Callable[[np.ndarray], np.ndarray]


class Choice(NamedTuple):
    """A point to measure, its row in the pool (-1 in a box), its score, and whether the learner has asked for it."""

    x: np.ndarray
    row: int
    score: float
    is_asked: bool = False


class Candidates(ABC):
    """The points that a learner chooses from. Points ``tried`` were measured, failed or not; others are ``pending``."""

    # Values of inputs, by their numbers, that a choice must have.
    fixed: Mapping[int, float] = MappingProxyType({})
    # Whether points are offered again after they were tried.
    repeat: bool

    def __len__(self) -> int:
        """Rows of the pool; 0 for a box."""
        return 0

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Where to look for the maximum."""

    @property
    @abstractmethod
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each input (D,)."""

    @abstractmethod
    def n_left(self, tried: Sequence[Choice], pending: Sequence[Choice]) -> float:
        """How many more can be chosen."""

    @abstractmethod
    def places(self, n: int) -> np.ndarray:
        """At most ``n`` candidates (n, D) that stand for all, always the same."""

    def labels_of(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """The user's labels of rows of the pool."""
        return np.array(rows, int)

    @abstractmethod
    def choose(
        self, scorer: Scorer | None, tried: Sequence[Choice], pending: Sequence[Choice], rng: np.random.Generator
    ) -> Choice:
        """The largest score, or a random point without a scorer; neither pending nor, unless ``repeat``, tried."""

    @abstractmethod
    def maximum(self, scorer: Scorer) -> Choice:
        """The point with the largest score, whether offered or not."""

    def show(self, choices: Sequence[Choice]) -> Any:
        """Choices as the user sees them: rows of the array or data frame."""
        return np.reshape([choice.x for choice in choices], (-1, len(self.limits[0])))

    @abstractmethod
    def find(self, X: np.ndarray, known: Sequence[Choice] = ()) -> list[int]:
        """Rows of points (k, D), -1 for points outside the pool; of equal rows first those that are not ``known``."""


def rows_taken(tried: Sequence[Choice], pending: Sequence[Choice] = (), repeat: bool = False) -> list[int]:
    """Rows of a pool that are pending or, unless points are repeated, were tried."""
    return sorted({choice.row for choice in (*pending, *(() if repeat else tried)) if choice.row >= 0})


class Rows(Candidates):
    """Rows of a pool, each offered once unless ``repeat``."""

    @abstractmethod
    def read(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Rows (k, D)."""

    @abstractmethod
    def best(self, score: Score, taken: Sequence[int]) -> Choice | None:
        """The row with the largest score, except those taken; None if all are NaN."""

    @abstractmethod
    def equal_to(self, X: np.ndarray) -> list[list[int]]:
        """The rows that are equal to each of the points (k, D)."""

    @abstractmethod
    def with_fixed(self) -> np.ndarray:
        """The rows with the ``fixed`` values."""

    def left(self, taken: Sequence[int]) -> np.ndarray:
        """The rows with the ``fixed`` values, without those taken."""
        return np.setdiff1d(self.with_fixed(), taken)

    def n_left(self, tried, pending):
        taken = rows_taken(tried, pending, self.repeat)
        return len(self.left(taken)) if self.fixed else len(self) - len(taken)

    def places(self, n):
        return self.read(rows_among(len(self), n))

    def choose(self, scorer, tried, pending, rng):
        taken = rows_taken(tried, pending, self.repeat)
        if scorer is not None:
            return self._best(partial(screened, scorer), taken)
        if self.fixed:
            row = int(rng.choice(self.left(taken)))
            return Choice(self.read([row])[0], row, np.nan)
        row = int(rng.integers(len(self) - len(taken)))
        for earlier in taken:
            row += earlier <= row
        return Choice(self.read([row])[0], row, np.nan)

    def maximum(self, scorer):
        return self._best(scorer.score, ())

    def _best(self, score: Score, taken: Sequence[int]) -> Choice:
        if not self.fixed:
            return _known(self.best(score, taken))
        rows = self.left(taken)
        best = _known(best_of(self.read(rows), 0, score, ()))
        return best._replace(row=int(rows[best.row]))

    def find(self, X, known=()):
        offered, rows = set(rows_taken(known)), []
        for same in self.equal_to(X):
            row = min(same, key=lambda row: row in offered, default=-1)
            offered.add(row)
            rows.append(row)
        return rows


def _known(choice: Choice | None) -> Choice:
    if choice is None:
        raise ValueError("the criterion is NaN for every candidate")
    return choice


def best_of(X: np.ndarray, start: int, score: Score, taken: Sequence[int]) -> Choice | None:
    """The best of rows X (m, D) whose numbers begin with ``start``, except those taken; None if all scores are NaN."""
    rows = np.delete(np.arange(len(X)), [row - start for row in taken if start <= row < start + len(X)])
    scores = score(X[rows]) if len(rows) else np.empty(0)
    if np.isnan(scores).all():
        return None
    best = int(np.nanargmax(scores))
    # A view would keep the whole block in memory.
    return Choice(X[rows[best]].copy(), start + int(rows[best]), float(scores[best]))


def rows_with(X: np.ndarray, start: int, fixed: Mapping[int, float]) -> np.ndarray:
    """Numbers, which begin with ``start``, of rows of X (m, D) with values of some inputs."""
    return start + np.flatnonzero((X[:, list(fixed)] == list(fixed.values())).all(1))


class Pool(Rows):
    """Rows of an array or a data frame."""

    def __init__(self, pool: Any, inputs: Sequence, repeat: bool):
        space = getattr(inputs, "space", None)
        pool = with_index(in_order_of(inputs, pool, "pool")) if space is None else space.table(pool, "pool")
        # Copies, because users sort their tables, and add columns to them, during a run.
        self.table = pool.copy() if isinstance(pool, pd.DataFrame) else None
        self.X = read_inputs(pool, "pool", len(inputs), None if space is None else inputs).copy()
        self.X.setflags(write=False)
        # Points of an array are shown as the numbers that they are.
        self.dtype = int if np.asarray(pool).dtype.kind in "iu" else float
        self.repeat = repeat

    def __len__(self) -> int:
        return len(self.X)

    @property
    def labels(self) -> np.ndarray:
        """Labels of a data frame's rows, otherwise 0, 1, ..."""
        return np.arange(len(self.X)) if self.table is None else self.table.index.to_numpy()

    @property
    def domain(self):
        rows = self.with_fixed() if self.fixed else slice(None)
        return Domain(pool=self.X[rows], labels=self.labels[rows], fixed=self.fixed)

    @property
    def limits(self):
        return self.X.min(0), self.X.max(0)

    def read(self, rows):
        return self.X[rows]

    def with_fixed(self):
        return rows_with(self.X, 0, self.fixed)

    def labels_of(self, rows):
        return self.labels[list(rows)]

    def best(self, score, taken):
        return best_of(self.X, 0, score, taken)

    def equal_to(self, X):
        limits = self.limits
        return [np.flatnonzero(is_same(self.X, x, *limits)).tolist() for x in X]

    def show(self, choices):
        rows = [choice.row for choice in choices]
        return self.X[rows].astype(self.dtype) if self.table is None else self.table.iloc[rows]

    def __repr__(self) -> str:
        return f"a pool of {len(self.X)} points"


def is_same(X: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Which points X (m, D) are x, but for what arithmetic rounds in parts of the ranges of the inputs."""
    return (np.abs(X - x) <= _ROUNDING * (high - low)).all(1)


def best_free(
    maxima: LocalMaxima, tried: Sequence[Choice], pending: Sequence[Choice], repeat: bool, width: np.ndarray
) -> Choice:
    """The best of local maxima that is neither pending nor, unless points are repeated, was tried."""

    def is_away(x: np.ndarray, others: np.ndarray, least: float) -> bool:
        """Whether a point differs so much, as a part of the width, from each of the others in some input."""
        return bool((np.abs(others - x) / width).max(1).min(initial=np.inf) >= least)

    asked, measured = (np.reshape([one.x for one in part], (-1, len(width))) for part in (pending, tried))
    taken, apart = (asked, _SAME) if repeat else (np.concatenate([measured, asked]), _APART)
    free = [Choice(x, -1, float(value)) for x, value in zip(*maxima, strict=True) if is_away(x, taken, _SAME)]
    if free:
        # All that is left of a peak that is known are points beside each other, which would tell the same.
        return next((choice for choice in free if is_away(choice.x, asked, apart)), free[0])
    raise ValueError("every maximum of the criterion was measured or asked for; pass repeat=True, or fix fewer inputs")


class Region(Candidates):
    """All points of a box or a space, more than can be listed."""

    space: Space | None = None

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> np.ndarray:
        """A random point (D,)."""

    def n_left(self, tried, pending):
        return np.inf

    def find(self, X, known=()):
        return [-1] * len(X)

    def choose(self, scorer, tried, pending, rng):
        if scorer is None:
            return Choice(self._draw(rng), -1, np.nan)
        maxima = maximize(scorer, *self.limits, rng, self.space, self.fixed)
        return best_free(maxima, tried, pending, self.repeat, np.subtract(*reversed(self.limits)))

    def maximum(self, scorer):
        maxima = maximize(scorer, *self.limits, np.random.default_rng(0), self.space, self.fixed)
        return Choice(maxima.X[0], -1, float(maxima.values[0]))


class Box(Region):
    """All points between lower and upper bounds."""

    def __init__(self, bounds: Any, inputs: Sequence, repeat: bool):
        self.low, self.high = read_bounds(bounds, len(inputs), inputs)
        self.repeat = repeat
        # The inputs, if the user named them: points are then shown as rows of a data frame.
        self.names = list(inputs) if isinstance(bounds, Mapping) and all(isinstance(k, str) for k in bounds) else None

    @property
    def domain(self):
        return Domain(*self._ends, fixed=self.fixed)

    @property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, equal where an input is fixed."""
        low, high = self.low.copy(), self.high.copy()
        low[list(self.fixed)] = high[list(self.fixed)] = list(self.fixed.values())
        return low, high

    @property
    def limits(self):
        return self.low, self.high

    def places(self, n):
        return targets_in(self.low, self.high, n)

    def _draw(self, rng):
        return rng.uniform(*self._ends)

    def show(self, choices):
        X = super().show(choices)
        return X if self.names is None else pd.DataFrame(X, columns=self.names)

    def __repr__(self) -> str:
        return f"a box of {len(self.low)} input{'s' if len(self.low) > 1 else ''}"


class SpaceCandidates(Region):
    """All points of a space with too many to list them."""

    space: Space

    def __init__(self, space: Space, repeat: bool):
        self.space, self.repeat = space, repeat

    @property
    def domain(self):
        X = self.places(_PLACES)
        return Domain(pool=X, labels=np.arange(len(X)), space=self.space, fixed=self.fixed)

    @property
    def limits(self):
        return self.space.limits

    def places(self, n):
        return self.space.draw(n, np.random.default_rng(0), self.fixed)

    def _draw(self, rng):
        return self.space.draw(1, rng, self.fixed)[0]

    def nearest(self, x: np.ndarray, rng: np.random.Generator) -> Choice:
        """A point with the fixed values, near to x (D,)."""
        if not self.fixed:
            return Choice(x, -1, np.nan)
        Z = self.space.draw(_NEAREST, rng, self.fixed)
        return Choice(Z[np.square((Z - x) / self.space.scale[1]).sum(1).argmin()], -1, np.nan)

    def show(self, choices):
        return self.space.decode(super().show(choices))

    def __repr__(self) -> str:
        return f"a space of {len(self.space.variables)} inputs"
