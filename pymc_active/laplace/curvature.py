"""From a Hessian to a covariance: null directions, negative curvature, determinants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# A direction with less than this fraction of the prior's curvature is given that much, so that its sd is at most
# about three prior sds.
FLOOR = 0.1


class Curvature(NamedTuple):
    """Pseudo-inverse and determinant of a Hessian outside its null directions.

    ``root`` (P, P - q) is a square root of the covariance, root rootᵀ.
    """

    root: np.ndarray
    log_determinant: float
    smallest: float
    largest: float
    n_floored: int


def invert(hessian: np.ndarray, null: np.ndarray, prior_precision: np.ndarray) -> Curvature:
    """Covariance (P, P) of a Hessian of the negative log posterior.

    Parameters
    ----------
    hessian : ndarray, shape (P, P)
    null : ndarray, shape (q, P)
        Orthonormal directions to leave out.
    prior_precision : ndarray, shape (P, P)
        Negative Hessian of the log prior; it sets the floor for directions of zero or negative curvature.
    """
    if len(null):
        basis = np.linalg.qr(null.T, mode="complete")[0][:, len(null) :]
        reduced = basis.T @ hessian @ basis
    else:
        basis, reduced = None, hessian
    values, vectors = np.linalg.eigh(reduced)
    if basis is not None:
        vectors = basis @ vectors
    # Rounding leaves this much in a flat direction.
    scale = np.abs(values).max(initial=0.0)
    tiny = max(len(values), 10) * np.finfo(float).eps * scale
    low = values <= tiny
    used = values.copy()
    if low.any():
        prior = np.einsum("pi,pq,qi->i", vectors[:, low], prior_precision, vectors[:, low])
        used[low] = np.maximum(FLOOR * prior, np.sqrt(np.finfo(float).eps) * scale)
    return Curvature(
        vectors / np.sqrt(used),
        float(np.log(used).sum()),
        # Without parameters there is no direction that could be flat.
        float(values.min(initial=np.inf)),
        float(values.max(initial=-np.inf)),
        int(low.sum()),
    )
