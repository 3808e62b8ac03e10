"""Candidates in a dask array, read and scored block by block and never held in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from pymc_active.criteria.epig import rows_among
from pymc_active.criteria.screening import screened
from pymc_active.learner.candidates import Choice, rows_taken
from pymc_active.support.tables import read_inputs


class LazyPool:
    """Rows of a dask array, each offered once unless ``repeat``; those that were chosen or read are kept."""

    def __init__(self, pool: Any, width: int, repeat: bool):
        if pool.ndim != 2 or pool.shape[1] != width:
            raise ValueError(f"pool must have shape (m, {width}), as the model's X has; got {pool.shape}")
        if np.isnan(pool.shape[0]):
            raise ValueError("the dask array has an unknown number of rows; call X_pool.compute_chunk_sizes() first")
        if not pool.shape[0]:
            raise ValueError("pool is empty: expected at least one row")
        self.pool = pool.rechunk({1: -1})
        self.repeat = repeat
        self._read: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def domain(self):
        # Sample paths are maximised over all candidates together.
        raise ValueError(
            "criteria of the maximum's place cannot use a dask array: pass bounds=[(low, high), ...] or an array, or "
            'choose another criterion, such as "expected_improvement"'
        )

    @cached_property
    def limits(self):
        from dask import compute

        low, high = compute(self.pool.min(axis=0), self.pool.max(axis=0))
        return np.asarray(low, float), np.asarray(high, float)

    def n_left(self, tried, pending):
        return len(self) - len(rows_taken(tried, pending, self.repeat))

    def read(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Rows (k, D)."""
        if missing := [int(row) for row in rows if row not in self._read]:
            self._read |= zip(missing, np.asarray(self.pool[missing].compute(), float), strict=True)
        return np.reshape([self._read[row] for row in rows], (-1, self.pool.shape[1]))

    def places(self, n):
        return self.read(rows_among(len(self), n))

    def labels_of(self, rows):
        return np.array(rows, int)

    def choose(self, scorer, tried, pending, rng):
        excluded = rows_taken(tried, pending, self.repeat)
        if scorer is None:
            row = int(rng.integers(len(self) - len(excluded)))
            for earlier in excluded:
                row += earlier <= row
            return Choice(self.read([row])[0], row, np.nan)
        # Each block is screened by itself.
        return self._best(partial(screened, scorer), excluded)

    def maximum(self, scorer):
        return self._best(scorer.score, ())

    def _best(self, score: Callable[[np.ndarray], np.ndarray], excluded: Sequence[int]) -> Choice:
        from dask import delayed

        # As a value of the graph it is sent to each process once.
        scorer = delayed(score, traverse=False)
        best = [choice for choice in self._map(_best_of, scorer, excluded) if choice is not None]
        if not best:
            raise ValueError("the criterion is NaN for every candidate")
        found = max(best, key=lambda choice: choice.score)
        self._read[found.row] = found.x
        return found

    def _map(self, function: Callable, *arguments: Any) -> tuple:
        """Call the function with each block, the number of its first row, and the arguments."""
        from dask import compute, delayed

        task, starts = delayed(function, pure=False), np.cumsum([0, *self.pool.chunks[0][:-1]]).tolist()
        blocks = zip(self.pool.to_delayed().ravel(), starts, strict=True)
        return compute(*(task(block, start, *arguments) for block, start in blocks))

    def show(self, choices):
        return np.reshape([choice.x for choice in choices], (-1, self.pool.shape[1]))

    def find(self, X, known=()):
        equal: list[list[int]] = [[] for _ in X]
        for block in self._map(_equal_rows, X) if len(X) else ():
            for i, row in block:
                equal[i].append(row)
        offered, rows = set(rows_taken(known)), []
        for x, same in zip(X, equal, strict=True):
            row = min(same, key=lambda row: row in offered, default=-1)
            if row >= 0:
                offered.add(row)
                self._read[row] = x.copy()
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        return f"a dask array of {len(self)} points"


def _best_of(block: np.ndarray, start: int, score: Callable, excluded: Sequence[int]) -> Choice | None:
    """The row of a block with the largest score; None if there is none."""
    rows = np.setdiff1d(np.arange(start, start + len(block)), excluded)
    if not len(rows):
        return None
    X = read_inputs(block, f"the block of pool that begins with row {start}")[rows - start]
    scores = score(X)
    if np.isnan(scores).all():
        return None
    best = int(np.nanargmax(scores))
    # A view would keep the whole block in memory.
    return Choice(X[best].copy(), int(rows[best]), float(scores[best]))


def _equal_rows(block: np.ndarray, start: int, X: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of a row of X and a row of the pool that are equal."""
    return [(i, start + int(row)) for i, x in enumerate(X) for row in np.flatnonzero((block == x).all(1))]
