"""Check options that Python would silently convert."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_flag(name: str, value: Any) -> bool:
    """The value as a bool; a TypeError unless it is one, because text such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return bool(value)
