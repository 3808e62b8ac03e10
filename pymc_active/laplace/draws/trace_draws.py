"""Draws of a trace in the place of a fit's own, in the coordinates of whatever data the fit is expanded for."""

from __future__ import annotations

import numpy as np

from pymc_active.posterior.full_space import Space

_GOLDEN = 0.5 * (np.sqrt(5) - 1)


class TraceDraws:
    """Equally weighted draws from the posterior.

    Parameters
    ----------
    thetas : ndarray, shape (S, P')
        All chains one after another.
    space : Space
        Whose coordinates these are.
    """

    def __init__(self, thetas: np.ndarray, space: Space):
        self.thetas, self.space = thetas, space

    def __len__(self) -> int:
        return len(self.thetas)

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
        thetas = self.thetas[rows[np.argsort(np.arange(len(rows)) * _GOLDEN % 1)]]
        if space is self.space:
            return thetas
        # One at a time: a matrix of all inputs may be large.
        return np.stack([_move(theta, self.space, space, rng) for theta in thetas])


def _move(theta: np.ndarray, old: Space, new: Space, rng: np.random.Generator) -> np.ndarray:
    return new.shrink(old.lift(theta, rng), rng)
