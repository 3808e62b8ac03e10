"""Checking and scaling of inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
import xarray as xr

Scale = Literal["unit", "box", "standardize"] | tuple[Any, Any] | None
SCALES = ("box", "standardize", "unit")


class InputMap(Protocol):
    """From the user's inputs to those of the kernel."""

    def __call__(self, value: np.ndarray) -> np.ndarray:
        """Map rows."""
        ...

    def pullback(self, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Gradient in the rows, from that in what they are mapped to."""
        ...


@dataclass(frozen=True)
class Affine:
    """``scaled = (value - shift) / scale``, by column."""

    shift: np.ndarray
    scale: np.ndarray
    is_identity: bool = False

    def __call__(self, value: np.ndarray) -> np.ndarray:
        """Scale values."""
        return value if self.is_identity else (value - self.shift) / self.scale

    def pullback(self, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Gradient in the values (m, D), from that in the scaled ones."""
        return gradient if self.is_identity else gradient / self.scale


IDENTITY = Affine(np.zeros(()), np.ones(()), is_identity=True)


def read_inputs(X: Any, what: str = "X", width: int | None = None) -> np.ndarray:
    """A float matrix (n, D) from an array, a data frame or a DataArray.

    Raises
    ------
    TypeError
        If the values are not numbers.
    ValueError
        If it is not two-dimensional, is empty, holds NaN or infinity, or has not ``width`` columns.
    """
    try:
        values = np.asarray(X.to_numpy() if isinstance(X, pd.DataFrame | xr.DataArray) else X, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must hold numbers, shape (n, n_inputs); got {type(X).__name__}: {error}") from None
    if values.ndim != 2:
        raise ValueError(
            f"{what} must be a matrix with a row for each point and a column for each input; got shape {values.shape}. "
            f"For a single input write {what}[:, None]."
        )
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise ValueError(f"{what} is empty: expected at least one row and one column; got shape {values.shape}")
    if width is not None and values.shape[1] != width:
        raise ValueError(f"{what} must have {width} columns, as the model's X has; got shape {values.shape}")
    # A finite sum takes no memory beside a large pool.
    with np.errstate(all="ignore"):
        total = values.sum()
    if not np.isfinite(total) and not np.isfinite(values).all():
        bad = ~np.isfinite(values)
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{what} must be finite: {bad.sum()} value(s) are NaN or infinite, the first at row {row}, column "
            f"{column}. Drop or impute these rows."
        )
    return np.ascontiguousarray(values)


def read_outputs(y: Any, n: int) -> np.ndarray:
    """A float vector (n,), checked like :func:`read_inputs`."""
    try:
        values = np.asarray(y.to_numpy() if isinstance(y, pd.Series | xr.DataArray) else y, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"y must hold numbers, shape (n,); got {type(y).__name__}: {error}") from None
    if values.ndim != 1:
        raise ValueError(f"y must be a vector with one value for each row of X; got shape {values.shape}")
    if len(values) != n:
        raise ValueError(f"X and y must have equally many points; got {n} row(s) of X and {len(values)} value(s) of y")
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(
            f"y must be finite: {bad.sum()} value(s) are NaN or infinite, the first at position {np.argmax(bad)}. "
            "Drop these points; a failed measurement carries no information about the function."
        )
    return np.ascontiguousarray(values)


def input_labels(X: Any, n_inputs: int) -> list:
    """Names of the input columns: those of a data frame or DataArray, else 0, 1, ...

    Raises
    ------
    ValueError
        If names repeat.
    """
    labels: Sequence
    if isinstance(X, pd.DataFrame):
        labels = list(X.columns)
    elif isinstance(X, xr.DataArray) and X.dims[-1] in X.coords:
        labels = X[X.dims[-1]].to_numpy().tolist()
    else:
        labels = list(range(n_inputs))
    if len(set(labels)) != len(labels):
        repeated = sorted({str(label) for label in labels if list(labels).count(label) > 1})
        raise ValueError(f"input names must be unique; these repeat: {', '.join(repeated)}")
    return list(labels)


def fit_scale(scale: Scale, values: np.ndarray, what: str) -> Affine:
    """The affine map that ``x_scale`` or ``y_scale`` asks for, frozen on the given values.

    A constant input column keeps a scale of one; a constant y cannot be scaled.

    Raises
    ------
    ValueError
        For an unknown name, a shift or scale of the wrong shape, a scale that is not positive, or a constant y.
    """
    shape = values.shape[1:]
    if scale is None:
        return Affine(np.zeros(shape), np.ones(shape), is_identity=True)
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"{what} must be None, one of {', '.join(SCALES)}, or (shift, scale); got {scale!r}")
        low, high = values.min(0), values.max(0)
        shift, width = {
            "unit": (low, high - low),
            "box": ((low + high) / 2, (high - low) / 2),
            "standardize": (values.mean(0), values.std(0)),
        }[scale]
        if shape == () and not width > 0:
            raise ValueError(
                f"{what}={scale!r} needs at least two different values of y; they are all {values[0]}. "
                f"Give {what}=(shift, scale) from what you know about y."
            )
        return Affine(np.asarray(shift), np.where(width > 0, width, 1.0))
    try:
        shift, width = (np.broadcast_to(np.asarray(part, float), shape) for part in scale)
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} as a pair must be (shift, scale), numbers or arrays of shape {shape}; got {scale!r}"
        ) from None
    if not (np.isfinite(shift).all() and np.isfinite(width).all() and (width > 0).all()):
        raise ValueError(f"{what}=(shift, scale) needs finite shifts and positive scales; got {scale!r}")
    return Affine(shift, width)
