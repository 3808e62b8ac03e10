"""Draws of a trace in the place of a fit's own, in the coordinates of whatever data the fit is expanded for."""

from __future__ import annotations

import numpy as np

from pymc_active.posterior.row_space import RowSpace

_GOLDEN = 0.5 * (np.sqrt(5) - 1)


class TraceDraws:
    """Equally weighted draws from the posterior.

    Parameters
    ----------
    thetas : ndarray, shape (S, P')
        All chains one after another.
    space : RowSpace or None
        Of an embedding with more inputs than data, whose coordinates these are; None for the model's own.
    """

    def __init__(self, thetas: np.ndarray, space: RowSpace | None):
        self.thetas, self.space = thetas, space

    def __len__(self) -> int:
        return len(self.thetas)

    def take(self, n: int, space: RowSpace | None, rng: np.random.Generator) -> np.ndarray:
        """Up to ``n`` of them, evenly spaced, of which the first few stand for all, in the coordinates of ``space``.

        Parameters
        ----------
        n : int
        space : RowSpace or None
            More data span more of the inputs, so that it may be another one.
        rng : Generator
            For what lies outside the row space of the draws, where the prior holds.

        Returns
        -------
        ndarray, shape (min(n, S), P'')
        """
        rows = np.unique(((np.arange(n) + 0.5) / n * len(self)).astype(int))
        thetas = self.thetas[rows[np.argsort(np.arange(len(rows)) * _GOLDEN % 1)]]
        if space is self.space:
            return thetas
        # One at a time: a matrix of all inputs may be large.
        return np.stack([_move(theta, self.space, space, rng) for theta in thetas])


def _move(theta: np.ndarray, old: RowSpace | None, new: RowSpace | None, rng: np.random.Generator) -> np.ndarray:
    full = theta if old is None else old.lift(theta, rng)
    return full if new is None else new.shrink(full, rng)
