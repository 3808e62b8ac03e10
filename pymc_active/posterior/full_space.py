"""The coordinates z in which a posterior is searched and expanded: the model's own theta, or a row space's.

``theta`` (P,) always means the user's parameters. An embedding with more inputs than data has a shorter z.
"""

from __future__ import annotations

import numpy as np

from pymc_active.posterior.base import Posterior
from pymc_active.posterior.row_space import RowSpace, row_space

# Where in a vector of parameters an embedding matrix sits, and its shape.
type EmbeddingSlice = tuple[slice, tuple[int, int]]


class FullSpace:
    """All parameters of a model, with the interface of :class:`~pymc_active.posterior.row_space.RowSpace`."""

    # Nothing lies outside.
    log_complement = 0.0

    def __init__(self, posterior: Posterior, embedding: EmbeddingSlice | None = None):
        self.source = self.posterior = posterior
        self.embedding = embedding

    def subset(self, rows: np.ndarray) -> FullSpace | None:
        """The same coordinates for the posterior of the data in these rows; None if it cannot be had."""
        some = self.posterior.subset(rows)
        return None if some is None else FullSpace(some, self.embedding)

    def shrink(self, theta: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        return theta

    def lift(self, z: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        return z


type Space = FullSpace | RowSpace


def find_space(posterior: Posterior, embedding: EmbeddingSlice | None, theta: np.ndarray | None = None) -> Space:
    """The row space of an embedding's data (holding ``theta``) where that is exact and smaller, else all parameters."""
    rows = row_space(posterior, theta)
    return FullSpace(posterior, embedding) if rows is None else rows
