"""Measurements as a value."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np


class Data(NamedTuple):
    """X (n, D), y (n,) and the known sds of y (n,), in the user's units; None if no error bar is known."""

    X: np.ndarray
    y: np.ndarray
    y_sd: np.ndarray | None = None

    @property
    def errors(self) -> np.ndarray:
        """The known sds (n,), 0 where none is known."""
        return np.zeros(len(self.y)) if self.y_sd is None else self.y_sd

    @property
    def sizes(self) -> np.ndarray:
        """The trials or exposures (n,) that ``y_sd`` holds where outcomes are not normal, 1 where none is known."""
        return np.where(self.errors > 0, self.errors, 1.0)

    def rows(self, rows: Any) -> Self:
        """Some rows, by numbers or a slice, as copies."""
        return self._replace(
            X=self.X[rows].copy(), y=self.y[rows].copy(), y_sd=None if self.y_sd is None else self.y_sd[rows].copy()
        )

    def copy(self) -> Self:
        """Copies, which may be written to."""
        return self.rows(slice(None))

    def joined(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> Self:
        """With more rows at the end."""
        more = Data(X, y, y_sd)
        has_none = self.y_sd is None and y_sd is None
        return self._replace(
            X=np.concatenate([self.X, X]),
            y=np.concatenate([self.y, y]),
            y_sd=None if has_none else np.concatenate([self.errors, more.errors]),
        )

    def equals(self, other: Data) -> bool:
        """Whether both are equal; 0 is the same as no error bar."""
        return (
            np.array_equal(self.X, other.X)
            and np.array_equal(self.y, other.y)
            and np.array_equal(self.errors, other.errors)
        )


class OfData:
    """What holds data, and shows its parts."""

    data: Data

    @property
    def X(self) -> np.ndarray:
        """Inputs (n, D), in the user's units."""
        return self.data.X

    @property
    def y(self) -> np.ndarray:
        """Outputs (n,), in the user's units."""
        return self.data.y

    @property
    def y_sd(self) -> np.ndarray | None:
        """Known standard deviations of the outputs (n,), in the user's units; None without."""
        return self.data.y_sd
