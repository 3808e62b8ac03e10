"""Check options: whole numbers, and numbers that must be positive."""

from __future__ import annotations

from typing import Any

import numpy as np

# Squares of numbers beyond these are infinite or zero.
_SMALLEST, _LARGEST = 1e-150, 1e150


def count(name: str, value: Any, most: int | None = None, least: int = 1) -> int:
    """The whole number; anything below ``least`` or above ``most`` is refused by name."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least or (most and value > most):
        limits = f" from {least}" * (least != 1 or most is not None) + (f" to {most}" if most else "")
        raise ValueError(f"{name} must be a {'positive ' * (least == 1)}whole number{limits}; got {value!r}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """The number; anything that is not positive and finite, or whose square is not, is refused by name."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not _SMALLEST < value < _LARGEST:
        raise ValueError(f"{name} must be a positive, finite number, and so must its square; got {value!r}")
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """The number, 0 or as :func:`positive`."""
    return 0.0 if isinstance(value, int | float | np.number) and value == 0 else positive(name, value)
