"""Factors and stationary covariances of many particles in compiled loops, each thread with a part of the particles.

The matrices of one particle stay in the cache of one core, and nothing holds Python's lock. A particle is computed in
the same way whatever the number of threads. Numba compiles the loops at their first use and keeps them on disk, or,
where it finds no place, in the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite.binding import add_symbol
from numba import njit, types
from numba.extending import get_cython_function_address

from pymc_active.kernels.radial import FARTHEST, ROOT_OFFSET
from pymc_active.support.threads import in_threads, n_threads

# The profiles of :mod:`pymc_active.kernels.radial`, by number.
EXP_QUAD, MATERN12, MATERN32, MATERN52 = range(4)
# log 2 in two parts, the first with so few bits that products with whole numbers are exact, and a number whose sum with
# another rounds that one to a whole number, found in its last bits.
_LOG2_HIGH, _LOG2_LOW, _ROUND = 0.693145751953125, 1.4286068203094172e-06, 6755399441055744.0
# Sums in any order, so that they are vectorised; infinities and NaN are kept.
_FAST = {"contract", "reassoc", "nsz"}
_UPPER = np.array([ord("U")], np.uint8)


def _loop(fastmath: set[str]) -> Callable:
    """Decorator of a compiled loop: without Python's lock, with infinities, and kept on disk where there is a place."""

    def compiled(function: Callable) -> Callable:
        flags: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
        try:
            return njit(function, cache=True, **flags)
        except RuntimeError:
            return njit(function, **flags)

    return compiled


def _lapack(name: str, n_arguments: int) -> Any:
    """A function of SciPy's LAPACK by its name, which compiled code on disk finds again in another process."""
    symbol = f"pymc_active_{name}"
    add_symbol(symbol, get_cython_function_address("scipy.linalg.cython_lapack", name))
    # Addresses as numbers take a fraction of the time of compiling with pointers.
    return types.ExternalFunction(symbol, types.void(*[types.intp] * n_arguments))


_dpotrf, _dpotrs, _dpotri = _lapack("dpotrf", 5), _lapack("dpotrs", 8), _lapack("dpotri", 5)


# In this order: what calls it would otherwise hand on its own flags.
@_loop({"contract"})
def _exp(x, whole):
    """Exp of x (m,) in [-700, 0], in place, to one unit in the last place; ``whole`` (m,) is overwritten."""
    for j in range(len(x)):
        whole[j] = x[j] * 1.4426950408889634 + _ROUND
    for j in range(len(x)):
        k = whole[j] - _ROUND
        r = (x[j] - k * _LOG2_HIGH) - k * _LOG2_LOW
        p = 1 / 6227020800.0
        p = p * r + 1 / 479001600.0
        p = p * r + 1 / 39916800.0
        p = p * r + 1 / 3628800.0
        p = p * r + 1 / 362880.0
        p = p * r + 1 / 40320.0
        p = p * r + 1 / 5040.0
        p = p * r + 1 / 720.0
        p = p * r + 1 / 120.0
        p = p * r + 1 / 24.0
        p = p * r + 1 / 6.0
        p = p * r + 0.5
        x[j] = 1.0 + r + r * r * p
    # 2 to the power k by its bits.
    bits = whole.view(np.int64)
    for j in range(len(x)):
        bits[j] = (bits[j] + 1023) << 52
    for j in range(len(x)):
        x[j] *= whole[j]


@_loop(_FAST)
def _correlations(profile, s, g, slope, whole):
    """The profile and its slope at squared distances s (m,), which are overwritten."""
    if profile == EXP_QUAD:
        for j in range(len(s)):
            g[j] = max(-0.5 * s[j], -FARTHEST)
        _exp(g, whole)
        for j in range(len(s)):
            slope[j] = -0.5 * g[j]
        return
    factor = 5.0 if profile == MATERN52 else 3.0 if profile == MATERN32 else 1.0
    for j in range(len(s)):
        s[j] = min(np.sqrt(factor * (s[j] + ROOT_OFFSET)), FARTHEST)
        g[j] = -s[j]
    _exp(g, whole)
    for j in range(len(s)):
        e, a = g[j], s[j]
        if profile == MATERN52:
            slope[j] = -5.0 / 6.0 * (1.0 + a) * e
            g[j] = (a * a / 3.0 + 1.0 + a) * e
        elif profile == MATERN32:
            slope[j] = -1.5 * e
            g[j] = (1.0 + a) * e
        else:
            slope[j] = -0.5 * e / a


@_loop(_FAST)
def _factor(G, residual, alpha, smallest, gradient, at_G, at_alpha, info, fixed):
    """Half the log determinant of G (n, n), of which the lower triangle counts and becomes G⁻¹; NaN if not sound."""
    for i in range(len(alpha)):
        alpha[i] = residual[i]
    # LAPACK has the other order, so that the lower triangle is its upper one.
    upper, n, one, at_info = fixed
    _dpotrf(upper, n, at_G, n, at_info)
    is_sound, log_root = info[0] == 0, 0.0
    for i in range(len(G)):
        # False also for NaN.
        is_sound &= G[i, i] * G[i, i] > smallest
    if not is_sound:
        for i in range(len(alpha)):
            alpha[i] = 0.0
        return np.nan
    for i in range(len(G)):
        log_root += np.log(G[i, i])
    _dpotrs(upper, n, one, at_G, n, at_alpha, n, at_info)
    if gradient:
        _dpotri(upper, n, at_G, n, at_info)
    return log_root


@_loop(_FAST)
def _factors(first, last, info, fixed, share, gradient, G, residuals, alphas, log_roots, at_G, at_alphas):
    n = G.shape[1]
    for s in range(first, last):
        place, other = at_G + 8 * s * n * n, at_alphas + 8 * s * n
        smallest = share * G[s, 0, 0]
        log_roots[s] = _factor(G[s], residuals[s], alphas[s], smallest, gradient, place, other, info, fixed)
        if not gradient or np.isnan(log_roots[s]):
            continue
        for i in range(n):
            for j in range(i + 1):
                G[s, i, j] -= alphas[s, i] * alphas[s, j]


@_loop(_FAST)
def _stationary(
    first, last, info, fixed, share, G, K, slopes, profile, U, variances, noise, residuals, at_G, at_alphas, alphas,
    log_roots, in_U, in_variance, diagonals,
):  # fmt: skip
    _, d, n = U.shape
    whole, distance = np.empty(n), np.empty(n)
    for s in range(first, last):
        variance = variances[s]
        for i in range(n):
            row = distance[: i + 1]
            for j in range(i + 1):
                row[j] = 0.0
            for k in range(d):
                own, others = U[s, k, i], U[s, k]
                for j in range(i + 1):
                    row[j] += (own - others[j]) ** 2
            _correlations(profile, row, K[i, : i + 1], slopes[i, : i + 1], whole[: i + 1])
            for j in range(i + 1):
                K[i, j] *= variance
                G[i, j] = K[i, j]
            G[i, i] += noise[s, i]
        smallest, other = share * G[0, 0], at_alphas + 8 * s * n
        log_roots[s] = _factor(G, residuals[s], alphas[s], smallest, True, at_G, other, info, fixed)
        if np.isnan(log_roots[s]):
            continue
        alpha, total = alphas[s], 0.0
        for i in range(n):
            own, weights = alpha[i], slopes[i]
            for j in range(i):
                w = G[i, j] - own * alpha[j]
                total += 2.0 * w * K[i, j]
                weights[j] *= w * variance
            diagonals[s, i] = G[i, i] - own * own
            total += diagonals[s, i] * K[i, i]
            for k in range(d):
                place, others, slope, sum_ = U[s, k, i], U[s, k], in_U[s, k], 0.0
                for j in range(i):
                    t = weights[j] * (place - others[j])
                    sum_ += t
                    slope[j] += 2.0 * t
                slope[i] -= 2.0 * sum_
        in_variance[s] = -0.5 * total


def _in_parts(loop: Callable, n_particles: int, n: int, *arguments: Any) -> None:
    """Run a loop over the particles of n points, a part of these in each thread."""
    parts = min(n_threads(), n_particles)

    def run(first: int, last: int) -> None:
        # What LAPACK is given by its address.
        size, one, info = np.array([n], np.int32), np.array([1], np.int32), np.zeros(1, np.int32)
        loop(first, last, info, tuple(part.ctypes.data for part in (_UPPER, size, one, info)), *arguments)

    ends = [n_particles * k // parts for k in range(parts + 1)]
    in_threads(run, ends[:-1], ends[1:])


def factor_particles(
    G: np.ndarray, residuals: np.ndarray, share: float, gradient: bool
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`pymc_active.posterior.factor.factor_batch`, with pivots beyond a ``share`` of the first entry of G."""
    alphas, log_roots = np.empty(residuals.shape), np.empty(len(G))
    at = G.ctypes.data, alphas.ctypes.data
    _in_parts(_factors, *residuals.shape, share, gradient, G, np.ascontiguousarray(residuals), alphas, log_roots, *at)
    return alphas, log_roots


class Compiled(NamedTuple):
    """Of S particles: G⁻¹ residual (S, n), halves of log determinants (S,), NaN where G is not sound, and slopes.

    These are derivatives of the log likelihood in the embedded inputs (S, d, n) and in the kernel's variance, times it
    (S,), and the diagonals of G⁻¹ - alpha alphaᵀ (S, n).
    """

    alphas: np.ndarray
    log_roots: np.ndarray
    in_U: np.ndarray
    in_log_variance: np.ndarray
    diagonals: np.ndarray


def stationary_particles(
    profile: int, U: np.ndarray, variances: np.ndarray, noise: np.ndarray, residuals: np.ndarray, share: float
) -> Compiled:
    """Particles with kernels variance g(|u - u'|²) at U (S, d, n), and noise variances (S, n)."""
    S, _, n = U.shape
    out = Compiled(np.empty((S, n)), np.empty(S), np.zeros(U.shape), np.zeros(S), np.zeros((S, n)))
    given = [np.ascontiguousarray(part, float) for part in (U, variances, noise, residuals)]

    def loop(first: int, last: int, *fixed: Any) -> None:
        G, K, slopes = np.empty((3, n, n))
        _stationary(first, last, *fixed, share, G, K, slopes, profile, *given, G.ctypes.data, out[0].ctypes.data, *out)

    _in_parts(loop, S, n)
    return out
