"""Kernels as sums of products of lines, steps and stationary kernels, the latter by their spectral densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv, ndtri

from pymc_active.kernels.radial import DEGREES_OF_FREEDOM, Profile


class Factor(NamedTuple):
    """What multiplies functions along one input column: x - centre or, with a positive width, 1 / (1 + exp(-t)).

    t is (x - centre) / width. Centre and width may be complex.
    """

    column: int
    centre: float
    width: float = 0.0

    def derivatives(self, X: np.ndarray) -> tuple[np.ndarray, Any, Any]:
        """Values at points (..., D), and first and second derivatives along the column, (...) each or a number."""
        t = X[..., self.column] - self.centre
        if not self.width:
            return t, 1.0, 0.0
        value, first, second = sigmoid(t / self.width)
        return value, first / self.width, second / self.width**2


Factors = tuple[Factor, ...]


def sigmoid(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1 / (1 + exp(-t)) and its first two derivatives; t may be complex."""
    h = np.tanh(0.5 * t)
    first = 0.25 * (1 - h * h)
    return 0.5 * (1 + h), first, -h * first


class Spectrum(NamedTuple):
    """A map of uniforms (F, width) to frequencies (F, D); if ``heavy``, a small last column gives the fastest waves."""

    width: int
    frequencies: Callable[[np.ndarray], np.ndarray]
    heavy: bool = False


class Term(NamedTuple):
    """variance Π factor(x) factor(z) times a stationary kernel, or times one without spectra."""

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
