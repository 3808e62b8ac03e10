"""Radial profiles: a stationary kernel as a function of the squared scaled distance ``s``.

A profile returns ``g(s)`` and as many derivatives in ``s`` as asked for: up to four if functions with the kernel are
twice differentiable, else up to two. Profiles equal PyMC's kernels to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Profile = Callable[[np.ndarray, int], tuple[np.ndarray, ...]]

# pm.gp.cov.Stationary adds this under the root to keep the derivative finite at r = 0.
ROOT_OFFSET = 1e-12
# Correlations fall no further than to exp of minus this, or about, 1e-30. Products of much smaller ones are subnormal
# numbers, with which a Cholesky factorisation takes four times as long.
FARTHEST = 70.0


def correlation(logarithm: np.ndarray) -> np.ndarray:
    """exp(logarithm), overwriting it; 1e-30 in place of less."""
    np.maximum(logarithm, -FARTHEST, out=logarithm)
    return np.exp(logarithm, out=logarithm)


def exp_quad(s: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
    """exp(-s / 2)."""
    g = correlation(np.multiply(s, -0.5))
    return tuple((-0.5) ** k * g if k else g for k in range(order + 1))


def matern52(s: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
    """(1 + √5 r + 5/3 r²) exp(-√5 r)."""
    a = np.minimum(np.sqrt(5.0 * (s + ROOT_OFFSET)), FARTHEST)
    e = np.exp(-a)
    slope = (1.0 + a) * e
    g = (a * a / 3.0) * e + slope
    if not order:
        return (g,)
    slope *= -5.0 / 6.0
    if order == 1:
        return g, slope
    second = (25.0 / 12.0) * e
    if order == 2:
        return g, slope, second
    # Singular at r = 0, where they multiply a zero: the fourth derivative in the inputs is finite.
    third, fourth = -(125.0 / 24.0) * e / a, (625.0 / 48.0) * e * (1.0 + 1.0 / a) / (a * a)
    return (g, slope, second, third, fourth)[: order + 1]


def matern32(s: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
    """(1 + √3 r) exp(-√3 r)."""
    a = np.minimum(np.sqrt(3.0 * (s + ROOT_OFFSET)), FARTHEST)
    e = np.exp(-a)
    g = (1.0 + a) * e
    return (g, -1.5 * e, 2.25 * e / a)[: order + 1] if order else (g,)


def matern12(s: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
    """exp(-r)."""
    r = np.minimum(np.sqrt(s + ROOT_OFFSET), FARTHEST)
    g = np.exp(-r)
    return (g, -0.5 * g / r, 0.25 * g * (1.0 + 1.0 / r) / (r * r))[: order + 1] if order else (g,)


# As base kernels.
NAMES: dict[Profile, str] = {exp_quad: "SE", matern12: "MAT12", matern32: "MAT32", matern52: "MAT52"}
PROFILES: dict[str, Profile] = {"ExpQuad": exp_quad, "Matern12": matern12, "Matern32": matern32, "Matern52": matern52}


# Those that compiled loops know, in the order of the numbers in :mod:`pymc_active.kernels.program`.
_COMPILED = exp_quad, matern12, matern32, matern52


def number_of(profile: Profile) -> int | None:
    """The number by which compiled loops know a profile; None if they do not."""
    return _COMPILED.index(profile) if profile in _COMPILED else None


# How often functions with these kernels can be differentiated, in mean square.
MEAN_SQUARE_DERIVATIVES: dict[Profile, int] = {exp_quad: 4, matern12: 0, matern32: 1, matern52: 2}
# The frequency of a Matern kernel has Student's t distribution with these degrees of freedom, a normal one if infinite.
DEGREES_OF_FREEDOM: dict[Profile, float] = {exp_quad: np.inf, matern12: 1.0, matern32: 3.0, matern52: 5.0}
