"""Turn a Hessian into a covariance: null directions, missing curvature, determinant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

# Directions with less than this fraction of the prior's curvature are given that much, so that their sd is at most 1.8
# prior sds. The log posterior is not parabolic there (it may be quartic), and the prior bounds it.
FLOOR = 0.3


class Curvature(NamedTuple):
    """Pseudo-inverse and determinant of a Hessian outside its null directions.

    ``root`` (P, P - q) is a square root of the covariance, root rootᵀ. ``n_floored`` counts the directions with zero or
    negative curvature, which a mode does not have, and ``n_weak`` those with less than :data:`FLOOR` times the prior's
    curvature; both were given that much.
    """

    root: np.ndarray
    log_determinant: float
    smallest: float
    largest: float
    n_floored: int
    n_weak: int


def invert(hessian: np.ndarray, null: np.ndarray, prior_precision: np.ndarray) -> Curvature:
    """Invert a Hessian (P, P) outside the orthonormal directions ``null`` (q, P); the prior's one sets a floor."""
    basis = np.linalg.qr(null.T, mode="complete")[0][:, len(null) :] if len(null) else None
    if basis is not None:
        hessian, prior_precision = (basis.T @ matrix @ basis for matrix in (hessian, prior_precision))
    values, vectors = np.linalg.eigh(hessian)
    # The initial values are for models without free parameters.
    smallest, largest = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    # Rounding leaves a small multiple of this in a flat direction.
    scale = np.abs(values).max(initial=0.0)
    flat = values <= max(len(values), 10) * np.finfo(float).eps * scale
    n_raised = 0
    if not _is_positive_definite(hessian - FLOOR * prior_precision):
        raised, n_raised = _floored(hessian, prior_precision)
        values, vectors = np.linalg.eigh(raised)
    # At the bottom of a funnel one direction is so stiff that rounding takes all curvature from another.
    values = np.maximum(values, np.finfo(float).eps * scale)
    if basis is not None:
        vectors = basis @ vectors
    n_floored = int(flat.sum())
    log_determinant, n_weak = float(np.log(values).sum()), max(n_raised - n_floored, 0)
    return Curvature(vectors / np.sqrt(values), log_determinant, smallest, largest, n_floored, n_weak)


def _is_positive_definite(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _floored(hessian: np.ndarray, prior_precision: np.ndarray) -> tuple[np.ndarray, int]:
    """Raise the curvature to :data:`FLOOR` times the prior's in every direction, and count the raised directions."""
    # Eigenvectors relative to the prior make the result independent of the coordinates.
    if not _is_positive_definite(prior_precision):
        # A prior that is not normal may itself lack curvature in some directions.
        values, vectors = np.linalg.eigh(hessian)
        prior = np.einsum("pi,pi->i", vectors, prior_precision @ vectors)
        least = np.where(prior > 0, FLOOR * prior, np.sqrt(np.finfo(float).eps) * np.abs(values).max())
        return (vectors * np.maximum(values, least)) @ vectors.T, int((values < least).sum())
    values, vectors = eigh(hessian, prior_precision)
    images = prior_precision @ vectors
    return (images * np.maximum(values, FLOOR)) @ images.T, int((values < FLOOR).sum())
