"""Candidates in a dask array, read and scored block by block and never held in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pymc_active.learner.candidates import Choice, Rows, Score, best_of, rows_with
from pymc_active.support.tables import read_inputs


class LazyPool(Rows):
    """Rows of a dask array; those that were chosen or read are kept."""

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
        raise ValueError("where the maximum is cannot be told for a dask array: pass an array or bounds, or no until=")

    @cached_property
    def limits(self):
        from dask import compute

        low, high = compute(self.pool.min(axis=0), self.pool.max(axis=0))
        return np.asarray(low, float), np.asarray(high, float)

    def read(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Rows (k, D)."""
        if missing := [int(row) for row in rows if row not in self._read]:
            self._read |= zip(missing, np.asarray(self.pool[missing].compute(), float), strict=True)
        return np.reshape([self._read[row] for row in rows], (-1, self.pool.shape[1]))

    def best(self, score, taken):
        from dask import delayed

        # As a value of the graph the scorer is sent to each process once.
        choices = [one for one in self._map(_best_of, delayed(score, traverse=False), taken) if one is not None]
        best = max(choices, key=lambda choice: choice.score, default=None)
        if best is not None:
            self._read[best.row] = best.x
        return best

    def with_fixed(self):
        return np.concatenate(self._map(rows_with, dict(self.fixed)))

    def equal_to(self, X):
        equal: list[list[int]] = [[] for _ in X]
        for block in self._map(_equal_rows, X) if len(X) else ():
            for i, row in block:
                equal[i].append(row)
                self._read[row] = X[i].copy()
        return equal

    def _map(self, function: Callable, *arguments: Any) -> tuple:
        """Call the function with each block, the number of its first row, and the arguments."""
        from dask import compute, delayed

        task, starts = delayed(function, pure=False), np.cumsum([0, *self.pool.chunks[0][:-1]]).tolist()
        blocks = zip(self.pool.to_delayed().ravel(), starts, strict=True)
        return compute(*(task(block, start, *arguments) for block, start in blocks))

    def show(self, choices):
        # The limits of a dask array take long to compute.
        return np.reshape([choice.x for choice in choices], (-1, self.pool.shape[1]))

    def __repr__(self) -> str:
        return f"a dask array of {len(self)} points"


def _best_of(block: np.ndarray, start: int, score: Score, taken: Sequence[int]) -> Choice | None:
    """:func:`best_of` a block, which is screened by itself."""
    X = read_inputs(block, f"the block of pool that begins with row {start}") if len(block) else block
    return best_of(X, start, score, taken)


def _equal_rows(block: np.ndarray, start: int, X: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of a row of X and a row of the pool that are equal."""
    return [(i, start + int(row)) for i, x in enumerate(X) for row in np.flatnonzero((block == x).all(1))]
