"""Use the draws of a trace in place of a fit's own, also when the fit is expanded for other data."""

from __future__ import annotations

import numpy as np

from pymc_active.posterior.full_space import Space

_GOLDEN = 0.5 * (np.sqrt(5) - 1)


class TraceDraws:
    """Equally weighted draws from the posterior.

    Parameters
    ----------
    z : ndarray, shape (S, P')
        All chains one after another.
    space : FullSpace or RowSpace
        The space of these coordinates.
    """

    def __init__(self, z: np.ndarray, space: Space):
        self.z, self.space = z, space

    def __len__(self) -> int:
        return len(self.z)

    def take(self, n: int, space: Space, rng: np.random.Generator) -> np.ndarray:
        """Up to ``n`` evenly spaced draws in the coordinates of ``space``; the first few represent all.

        Parameters
        ----------
        n : int
        space : FullSpace or RowSpace
            May differ from the draws' own: more data span more of the inputs.
        rng : Generator
            Draws from the prior outside the row space of the draws.

        Returns
        -------
        ndarray, shape (min(n, S), P'')
        """
        rows = np.unique(((np.arange(n) + 0.5) / n * len(self)).astype(int))
        z = self.z[rows[np.argsort(np.arange(len(rows)) * _GOLDEN % 1)]]
        if space is self.space:
            return z
        # One at a time, since a lifted draw may be large.
        return np.stack([_move(point, self.space, space, rng) for point in z])


def _move(point: np.ndarray, old: Space, new: Space, rng: np.random.Generator) -> np.ndarray:
    return new.shrink(old.lift(point, rng), rng)
