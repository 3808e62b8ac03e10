"""Affine maps of inputs and outputs between the units of the user and of the priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, Union

import numpy as np

Scale = Union[Literal["unit", "box", "standardize"], tuple[Any, Any], "Affine", None]

SCALES = ("box", "standardize", "unit")
# Ranges of all other values beyond which several equal ones stand for failures.
_FAR = 5.0
# Values that differ by less are equal up to rounding: as a part of the largest, and in units of their scale.
_ROUNDING, EQUAL = 8 * np.finfo(float).eps, 1e-14


class InputMap(Protocol):
    """Map from the user's inputs to the kernel's."""

    def __call__(self, value: np.ndarray) -> np.ndarray:
        """Map rows."""

    def pullback(self, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Gradient in the rows, from that in what they are mapped to."""


@dataclass(frozen=True)
class Affine:
    """``scaled = (value - shift) / scale``, by column."""

    shift: np.ndarray
    scale: np.ndarray
    is_identity: bool = False
    # Of y: whether the default priors are those for y standardised by the current data, not by this map.
    is_renewed: bool = False

    def __call__(self, value: np.ndarray) -> np.ndarray:
        """Scale values."""
        return value if self.is_identity else (value - self.shift) / self.scale

    def pullback(self, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Gradient in the values (m, D), from that in the scaled ones."""
        return gradient if self.is_identity else gradient / self.scale


IDENTITY = Affine(np.zeros(()), np.ones(()), is_identity=True)


def spread(values: np.ndarray) -> np.ndarray:
    """Sd along the first axis; exactly 0 where values are equal, as NumPy's need not be."""
    return np.where(np.ptp(values, axis=0) > _ROUNDING * np.abs(values).max(0), values.std(0), 0.0)


def scale_about_median(y: np.ndarray) -> tuple[float, float]:
    """The median of y (n,) and a width that far outputs hardly change, positive."""
    level = float(np.median(y))
    away = np.abs(y - level)
    # Where most are equal, as below a limit of detection, the others tell, over decades if need be.
    others = float(np.exp(np.log(away[away > 0]).mean())) if away.any() else 0.0
    return level, float(1.4826 * np.median(away)) or others or abs(level) or 1.0


def renewed_scale(y: np.ndarray) -> Affine:
    """The map in which y (n,) is standardised, as far as it can be; priors follow when data are added."""
    width = float(spread(y))
    level = y.mean() if width else y[0]
    return Affine(np.asarray(level), np.asarray(width or abs(float(y[0])) or 1.0), is_renewed=True)


def fit_scale(scale: Scale | list, values: np.ndarray, what: str) -> Affine:
    """The affine map of ``x_scale`` or ``y_scale``, frozen on the given values; a constant input has a scale of one."""
    shape = values.shape[1:]
    if isinstance(scale, Affine):
        return scale
    if scale is None:
        return Affine(np.zeros(shape), np.ones(shape), is_identity=True)
    if isinstance(scale, list) and scale and all(isinstance(part, tuple) for part in scale):
        advice = "Write (low, high - low) for intervals."
        raise ValueError(f"{what} is (shift, scale), not a list of intervals; got {scale!r}. {advice}")
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"{what} must be None, one of {', '.join(SCALES)}, or (shift, scale); got {scale!r}")
        low, high = values.min(0), values.max(0)
        shift, width = {
            "unit": (low, high - low),
            "box": ((low + high) / 2, (high - low) / 2),
            "standardize": (values.mean(0), spread(values)),
        }[scale]
        if shape == () and not width > 0:
            problem = f"{what}={scale!r} needs at least two different values of y; they are all {values[0]}"
            raise ValueError(f"{problem}. Write {what}=(shift, scale).")
        return Affine(np.asarray(shift), np.where(width > 0, width, 1.0))
    try:
        shift, width = (np.broadcast_to(np.asarray(part, float), shape) for part in scale)
    except (TypeError, ValueError, OverflowError):
        message = f"{what} as a pair must be (shift, scale), numbers or arrays of shape {shape}; got {scale!r}"
        raise ValueError(message) from None
    if not (np.isfinite(shift).all() and np.isfinite(width).all() and (width > 0).all()):
        raise ValueError(f"{what}=(shift, scale) needs finite shifts and positive scales; got {scale!r}")
    return Affine(shift, width)


def penalties(y: np.ndarray) -> np.ndarray:
    """The rows (k,) of two or more equal values that are far from all others, as those that stand for failures."""
    for extreme in (y.min(), y.max()):
        is_extreme = y == extreme
        others = y[~is_extreme]
        if 1 < is_extreme.sum() <= len(others) and np.abs(others - extreme).min() > _FAR * np.ptp(others) > 0:
            return np.flatnonzero(is_extreme)
    return np.empty(0, int)
