"""From a Hessian to a covariance: null directions, negative curvature, determinants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

# A direction with less than this fraction of the prior's curvature is given that much, so that its sd is at most 1.8
# prior sds: where so little is left, the posterior is no parabola (it may be quartic), and the prior ends it.
FLOOR = 0.3


class Curvature(NamedTuple):
    """Pseudo-inverse and determinant of a Hessian outside its null directions.

    ``root`` (P, P - q) is a square root of the covariance, root rootᵀ. ``n_floored`` counts directions of no
    or negative curvature, at which there is no mode.
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
        Negative Hessian of the log prior; it sets the floor.
    """
    basis = np.linalg.qr(null.T, mode="complete")[0][:, len(null) :] if len(null) else None
    if basis is not None:
        hessian, prior_precision = (basis.T @ matrix @ basis for matrix in (hessian, prior_precision))
    values, vectors = np.linalg.eigh(hessian)
    # Without parameters there is no direction that could be flat.
    smallest, largest = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    # Rounding leaves this much in a flat direction.
    scale = np.abs(values).max(initial=0.0)
    flat = values <= max(len(values), 10) * np.finfo(float).eps * scale
    if not _is_positive_definite(hessian - FLOOR * prior_precision):
        values, vectors = np.linalg.eigh(_floored(hessian, prior_precision))
        values = np.maximum(values, np.finfo(float).eps * scale)
    if basis is not None:
        vectors = basis @ vectors
    return Curvature(vectors / np.sqrt(values), float(np.log(values).sum()), smallest, largest, int(flat.sum()))


def _is_positive_definite(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _floored(hessian: np.ndarray, prior_precision: np.ndarray) -> np.ndarray:
    """At least :data:`FLOOR` times the prior's curvature in every direction, whatever the coordinates."""
    if not _is_positive_definite(prior_precision):
        # A prior that is no normal one may have directions without curvature itself.
        values, vectors = np.linalg.eigh(hessian)
        prior = np.einsum("pi,pi->i", vectors, prior_precision @ vectors)
        least = np.where(prior > 0, FLOOR * prior, np.sqrt(np.finfo(float).eps) * np.abs(values).max())
        return (vectors * np.maximum(values, least)) @ vectors.T
    # In prior sds.
    values, vectors = eigh(hessian, prior_precision)
    images = prior_precision @ vectors
    return (images * np.maximum(values, FLOOR)) @ images.T
