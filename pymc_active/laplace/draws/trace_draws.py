"""Draws of a trace in the place of a fit's own, in the coordinates of whatever data the fit is expanded for."""

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
    space : Space
        Whose coordinates these are.
    """

    def __init__(self, z: np.ndarray, space: Space):
        self.z, self.space = z, space

    def __len__(self) -> int:
        return len(self.z)

    def take(self, n: int, space: Space, rng: np.random.Generator) -> np.ndarray:
        """Up to ``n`` of them, evenly spaced, of which the first few stand for all, in the coordinates of ``space``.

        Parameters
        ----------
        n : int
        space : Space
            More data span more of the inputs, so that it may be another one.
        rng : Generator
            For what lies outside the row space of the draws, where the prior holds.

        Returns
        -------
        ndarray, shape (min(n, S), P'')
        """
        rows = np.unique(((np.arange(n) + 0.5) / n * len(self)).astype(int))
        z = self.z[rows[np.argsort(np.arange(len(rows)) * _GOLDEN % 1)]]
        if space is self.space:
            return z
        # One at a time: a matrix of all inputs may be large.
        return np.stack([_move(point, self.space, space, rng) for point in z])


def _move(point: np.ndarray, old: Space, new: Space, rng: np.random.Generator) -> np.ndarray:
    return new.shrink(old.lift(point, rng), rng)
