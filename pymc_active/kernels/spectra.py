"""Kernels as sums of products of linear and stationary kernels, the latter by their spectral densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, ndtri

from pymc_active.kernels.radial import DEGREES_OF_FREEDOM, Profile

# A factor of a product of linear kernels: the input column, and where it is zero.
Factors = tuple[tuple[int, float], ...]


class Spectrum(NamedTuple):
    """A map of uniforms (F, width) to frequencies (F, D); if ``heavy``, a small last column gives the fastest waves."""

    width: int
    frequencies: Callable[[np.ndarray], np.ndarray]
    heavy: bool = False


class Term(NamedTuple):
    """variance Π (x_j - c)(z_j - c) times a stationary kernel, or times one without spectra."""

    variance: float
    factors: Factors = ()
    spectra: tuple[Spectrum, ...] = ()


def radial_spectrum(profile: Profile, turn: np.ndarray) -> Spectrum:
    """Spectrum of the kernel g(|turn (x - z)|²), with ``turn`` (d, D)."""
    d, dof = len(turn), DEGREES_OF_FREEDOM[profile]
    if np.isinf(dof):
        return Spectrum(d, lambda U: ndtri(U) @ turn)

    def frequencies(U):
        # A normal vector over the root of chi-squared / dof.
        return (ndtri(U[:, :d]) * np.sqrt(dof / (2 * gammaincinv(dof / 2, U[:, d:])))) @ turn

    return Spectrum(d + 1, frequencies, heavy=True)
