"""Checks of options that Python would otherwise take for something else."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_flag(name: str, value: Any) -> bool:
    """True or False.

    Raises
    ------
    TypeError
        For anything else: the text "no" would count as true.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return bool(value)
