"""The orbit of an embedding under rotations and reflections of its components."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_active.posterior.base import Posterior

# Singular values below this fraction of the largest count as zero.
_RANK_TOLERANCE = 1e-5


class Symmetry(NamedTuple):
    """Directions (q, P') along which the posterior is constant, volume of the orbit, and singular values of R."""

    directions: np.ndarray
    log_volume: float
    singular_values: np.ndarray


NO_SYMMETRY = Symmetry(np.empty((0, 0)), 0.0, np.empty(0))


def log_orbit_volume(singular_values: np.ndarray, d: int) -> float:
    r"""Log volume of the orbit {QR : Q orthogonal} of a (d, D) matrix of rank r.

    .. math:: \prod_{k=d-r}^{d-1} \mathrm{vol}(S^k) \prod_{i<j\le r} \sqrt{s_i^2 + s_j^2} \prod_{i\le r} s_i^{d-r}
    """
    s = np.asarray(singular_values)
    r = len(s)
    # The surfaces of spheres in n dimensions; S⁰ has two points.
    volume = sum(np.log(2.0) + 0.5 * n * np.log(np.pi) - gammaln(0.5 * n) for n in range(d - r + 1, d + 1))
    volume += sum(0.5 * np.log(s[i] ** 2 + s[j] ** 2) for i, j in combinations(range(r), 2))
    return float(volume + (d - r) * np.log(s).sum())


def is_rotation_invariant(posterior: Posterior, z: np.ndarray, where: slice, shape: tuple[int, int]) -> bool:
    """Whether rotating and reflecting R leaves the log posterior unchanged, tested with two random rotations."""
    d = shape[0]
    value = posterior.value(z)
    rng = np.random.default_rng(0)
    # In one dimension the only other group element is -1.
    for rotation in [-np.eye(1)] if d == 1 else [np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2)]:
        turned = z.copy()
        turned[where] = (rotation @ z[where].reshape(shape)).ravel()
        if abs(posterior.value(turned) - value) > 1e-7 * max(1.0, abs(value)):
            return False
    return True


def generators(R: np.ndarray) -> np.ndarray:
    """The generators A R for the skew A of all plane rotations; R (..., d, D) gives (..., d (d - 1) / 2, d D)."""
    *front, d, D = R.shape
    pairs = list(combinations(range(d), 2))
    result = np.zeros((*front, len(pairs), d, D))
    for k, (i, j) in enumerate(pairs):
        result[..., k, i, :], result[..., k, j, :] = R[..., j, :], -R[..., i, :]
    return result.reshape(*front, len(pairs), d * D)


def find_symmetry(
    posterior: Posterior, z: np.ndarray, hessian: np.ndarray, where: slice, shape: tuple[int, int]
) -> Symmetry:
    """Null directions of an embedding, if the Hessian vanishes along them, as at a mode but not far from one."""
    if not is_rotation_invariant(posterior, z, where, shape):
        return NO_SYMMETRY
    d, R = shape[0], z[where].reshape(shape)
    singular = np.linalg.svd(R, compute_uv=False)
    if not singular[0] > 0:
        return NO_SYMMETRY
    rank = int((singular > _RANK_TOLERANCE * singular[0]).sum())
    directions = np.zeros((d * (d - 1) // 2, len(z)))
    if len(directions):
        directions[:, where] = generators(R)
        _, size, rows = np.linalg.svd(directions, full_matrices=False)
        directions = rows[size > _RANK_TOLERANCE * singular[0]]
        flat = directions[np.linalg.norm(directions @ hessian, axis=1) < 1e-5 * np.abs(hessian).max()]
        if len(flat) < len(directions):
            # Away from a mode the orbit's directions are curved and stay in the determinant.
            return Symmetry(flat[:0], 0.0, singular)
    return Symmetry(directions, log_orbit_volume(singular[:rank], d), singular)
