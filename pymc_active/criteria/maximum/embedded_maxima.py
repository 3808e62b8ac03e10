"""Describe maxima under a linear embedding in the few inputs u = R x that f depends on."""

from __future__ import annotations

import numpy as np

from pymc_active.criteria.maximum.base import OptimizedPaths
from pymc_active.paths import PathMaxima
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.embedded import EmbeddedGP, in_fewest_inputs

# Movements of u by the free inputs below this fraction of the norm of R are rounding errors.
_RANK = 1e-8


def frames(optima: OptimizedPaths) -> tuple[ConditionedGP, PathMaxima, np.ndarray | None]:
    """The maxima in u for an embedding, unchanged for other models, as arguments of :class:`GPGivenMaxima`.

    These are a GP, places, and the directions in which each is free or not, None for the inputs. Along directions in
    which free inputs move u, f has no slope and curves down. If these are not all directions, u lies on the boundary of
    the box's image and f rises along its gradient; nothing is known of the others.
    """
    gp, maxima = optima.gp, optima.maxima
    view = in_fewest_inputs(gp)
    if not isinstance(view, EmbeddedGP):
        return gp, maxima, None
    R = view.R
    d, S = len(R), len(maxima.X)
    directions, free, slopes = np.empty((d, S, d)), np.zeros((S, d), bool), np.zeros((S, d))
    for s in range(S):
        gradient = np.linalg.lstsq(R.T, maxima.slopes[s])[0]
        left, size, _ = np.linalg.svd(R[:, maxima.free[s]], full_matrices=False)
        moved = left[:, size > _RANK * np.linalg.norm(R)]
        rise = gradient - moved @ (moved.T @ gradient)
        rank = moved.shape[1]
        # Orthonormal: what moves freely, the rise, and anything.
        frame = np.linalg.qr(np.column_stack([moved, rise, np.eye(d)]))[0]
        directions[:, s] = frame.T
        free[s, :rank] = True
        if rank < d:
            slopes[s, rank] = frame[:, rank] @ rise
    return view, maxima._replace(X=maxima.X @ R.T, free=free, slopes=slopes), directions
