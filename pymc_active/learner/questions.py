"""The ledger of a run: points asked for, and points told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.learner.candidates import Box, Candidates, Choice
from pymc_active.support.tables import read_inputs


class Questions:
    """Points pending (in the order asked) and told since the start of a run; ``inputs`` names the D inputs."""

    def __init__(self, candidates: Candidates, inputs: list):
        self.candidates, self.inputs = candidates, inputs
        self.pending: list[Choice] = []
        self.told: list[Choice] = []

    def read(self, x: Any, what: str) -> tuple[np.ndarray, list | None]:
        """Points as a matrix, and the labels of the rows of a data frame."""
        if isinstance(x, pd.Series):
            # A row of a data frame.
            x = x.to_frame().T
        elif not isinstance(x, pd.DataFrame | xr.DataArray):
            x = np.asarray(x)
            x = x[:, None] if x.ndim == 1 and len(self.inputs) == 1 else np.atleast_2d(x)
        X = read_inputs(x, what, inputs=self.inputs)
        return X, list(x.index) if isinstance(x, pd.DataFrame) else None

    def find(self, X: np.ndarray, labels: list | None) -> list[int | None]:
        """Positions of points among the pending ones, each used once; None for points that are not pending."""
        found: list[int | None] = []
        for row, x in enumerate(X):
            same = [i for i, choice in enumerate(self.pending) if i not in found and np.array_equal(choice.x, x)]
            if labels is not None:
                called = self.candidates.labels_of([self.pending[i].row for i in same])
                # Prefer the same label, else take the first.
                same = [i for i, label in zip(same, called, strict=True) if label == labels[row]] or same
            found.append(same[0] if same else None)
        return found

    def find_pending(self, x: Any, what: str) -> list[int]:
        """As :meth:`find`, but a ValueError for points that are not pending."""
        X, labels = self.read(x, what)
        positions = []
        for row, i in enumerate(self.find(X, labels)):
            if i is None:
                point = ", ".join(f"{value:g}" for value in X[row])
                raise ValueError(
                    f"{what} must be among the {len(self.pending)} pending point(s), learner.pending; row {row}, "
                    f"({point}), is not"
                )
            positions.append(i)
        return positions

    def ask(self, choice: Choice) -> None:
        """Add a pending point."""
        self.candidates.reserve(choice)
        self.pending.append(choice)

    def tell(self, X: np.ndarray, positions: Sequence[int | None]) -> None:
        """Add measured points (k, D), and the position of the pending point each answers, None if not asked for."""
        unasked = [i is None for i in positions]
        rows = iter(self.candidates.find(X[unasked]))
        for point, i in zip(X, positions, strict=True):
            if i is None:
                self.told.append(Choice(point, next(rows), np.nan))
                self.candidates.reserve(self.told[-1])
            else:
                self.told.append(self.pending[i]._replace(x=point))
        self._drop(positions)

    def forget(self, positions: Sequence[int], measured: np.ndarray) -> None:
        """Give up pending points; ``measured`` (n, D) holds all measured ones."""
        given_up = [self.pending[i] for i in positions]
        self._drop(positions)
        others = np.concatenate([measured, *(choice.x[None] for choice in self.pending)])
        for choice in given_up:
            self.candidates.release(choice, others)

    def expect(self, x: Any) -> None:
        """Add pending points that were not asked for."""
        X, _ = self.read(x, "x")
        rows = self.candidates.find(X)
        if -1 in rows and not isinstance(self.candidates, Box):
            raise ValueError(f"row {rows.index(-1)} of x is not in the pool, so it cannot be pending: tell its result")
        for row, point in zip(rows, X, strict=True):
            self.ask(Choice(point, row, np.nan))

    def _drop(self, positions: Sequence[int | None]) -> None:
        self.pending = [choice for i, choice in enumerate(self.pending) if i not in positions]

    def design(self, X: np.ndarray, y: np.ndarray, pending: bool) -> xr.Dataset:
        """The points X (k, D) told since the start with their outputs, and on request the pending ones with NaN."""
        missing = self.pending if pending else []
        choices = [*self.told, *missing]
        rows = np.array([choice.row for choice in choices], int)
        called = zip(rows, self.candidates.labels_of(rows), strict=True)
        labels = [str(label) if row >= 0 else "" for row, label in called]
        return xr.Dataset(
            {
                "x": (("step", "input"), np.concatenate([X, *(choice.x[None] for choice in missing)])),
                "y": ("step", np.append(y, np.full(len(missing), np.nan))),
                "pool_row": ("step", rows),
                "label": ("step", np.array(labels, dtype=str)),
                "score": ("step", np.array([choice.score for choice in choices], float)),
            }
        )
