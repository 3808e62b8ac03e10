"""What measurements cost: a criterion is divided by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_active.support.tables import read_numbers


class Price:
    """The price of points, from a user's function of these as the learner shows them."""

    def __init__(self, function: Callable[[Any], Any], inputs: Sequence, some: np.ndarray):
        if not callable(function):
            raise TypeError(
                "cost must be a function of a table of points, such as lambda table: 5 + 0.1 * table['temperature']; "
                f"got {type(function).__name__}"
            )
        self.function, self.inputs = function, inputs
        # What it cannot say of candidates it says before anything is measured.
        self.of(some)

    def of(self, X: np.ndarray) -> np.ndarray:
        """Prices (m,) of points X (m, D); a ValueError unless all are positive."""
        space, shown = getattr(self.inputs, "space", None), X
        if space is not None:
            shown = space.decode(X)
        elif all(isinstance(name, str) for name in self.inputs):
            shown = pd.DataFrame(X, columns=list(self.inputs))
        found = read_numbers(self.function(shown), "cost")
        if found.shape not in ((), (len(X),)) or not ((found > 0) & np.isfinite(found)).all():
            raise ValueError(f"cost must return a positive number for each of {len(X)} points; got {found!r}")
        return np.broadcast_to(found, len(X))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The log of the share of a measurement that a unit of cost pays for, (m,)."""
        return -np.log(self.of(X))

    def gradient(self, X: np.ndarray) -> None:
        """A user's function has none."""
