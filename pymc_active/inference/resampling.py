"""Equally weighted draws from weighted ones."""

from __future__ import annotations

import numpy as np


def systematic(weights: np.ndarray, draws: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Rows chosen by systematic resampling, (draws,), in ascending order; weights (S,) add up to one.

    Without a generator they are the middles of equal shares: of equal weights, evenly spaced rows.
    """
    comb = ((0.5 if rng is None else rng.uniform()) + np.arange(draws)) / draws
    return np.minimum(np.searchsorted(np.cumsum(weights), comb), len(weights) - 1)
