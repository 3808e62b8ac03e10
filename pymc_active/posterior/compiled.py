"""Log likelihoods of particles and their gradients in compiled loops, each thread with a part of the particles.

The loop follows a kernel as a *program*: base kernels, sums and products in an order in which all parts come first. So
it is compiled once for all kernels. A matrix is a row of its lower triangle; those of one particle stay in the cache of
one core, and nothing holds Python's lock. A particle is computed in the same way whatever the number of threads. Numba
compiles the loops at their first use and keeps them on disk, or, where it finds no place, in the process. All of them
stand in this file, since it looks for a newer version of no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite.binding import add_symbol
from numba import njit, types
from numba.extending import get_cython_function_address

from pymc_active.kernels.program import (
    ADD,
    CONSTANT,
    EXP_QUAD,
    LINEAR,
    MATERN32,
    MATERN52,
    PERIODIC,
    RATIONAL_QUADRATIC,
    STEP,
    Program,
)
from pymc_active.kernels.radial import FARTHEST, ROOT_OFFSET
from pymc_active.support.threads import in_threads, keep_freed_memory, n_threads

# log 2 in two parts, the first with so few bits that products with whole numbers are exact, and a number whose sum with
# another rounds that one to a whole number, found in its last bits.
_LOG2_HIGH, _LOG2_LOW, _ROUND = 0.693145751953125, 1.4286068203094172e-06, 6755399441055744.0
# A quarter of a turn in three parts, the first two with so few bits that products with whole numbers are exact, up to
# phases of this size.
_QUARTER, _MANY_TURNS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21), 1e6
# Exponentials are of no less.
_LEAST = -700.0
# Sums in any order, so that they are vectorised; infinities and NaN are kept.
_FAST = {"contract", "reassoc", "nsz"}


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


@_loop({"contract"})
def _log(x, whole):
    """Log of positive x (m,), in place, with errors of 1e-16; ``whole`` (m,) is overwritten."""
    bits, exponents = x.view(np.int64), whole.view(np.int64)
    for j in range(len(x)):
        exponents[j] = (bits[j] >> 52) | 0x4330000000000000
        bits[j] = (bits[j] & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000
    for j in range(len(x)):
        m, e = x[j], whole[j] - (4503599627370496.0 + 1022.0)
        is_small = m < 0.7071067811865476
        m, e = (2.0 * m, e - 1.0) if is_small else (m, e)
        f = (m - 1.0) / (m + 1.0)
        s = f * f
        p = 1 / 21.0
        p = p * s + 1 / 19.0
        p = p * s + 1 / 17.0
        p = p * s + 1 / 15.0
        p = p * s + 1 / 13.0
        p = p * s + 1 / 11.0
        p = p * s + 1 / 9.0
        p = p * s + 1 / 7.0
        p = p * s + 1 / 5.0
        p = p * s + 1 / 3.0
        x[j] = e * _LOG2_HIGH + (e * _LOG2_LOW + 2.0 * f + 2.0 * f * s * p)


@_loop({"contract"})
def _cosine_and_sine(x, cosine, whole):
    """Cosine of x (m,), which becomes its sine, with errors of 1e-15 up to 1e5; ``whole`` (m,) is overwritten."""
    for j in range(len(x)):
        whole[j] = x[j] * 0.6366197723675814 + _ROUND
    bits = whole.view(np.int64)
    for j in range(len(x)):
        k, quarter = whole[j] - _ROUND, bits[j]
        r = ((x[j] - k * _QUARTER[0]) - k * _QUARTER[1]) - k * _QUARTER[2]
        s = r * r
        p = 1 / 355687428096000.0
        p = p * s - 1 / 1307674368000.0
        p = p * s + 1 / 6227020800.0
        p = p * s - 1 / 39916800.0
        p = p * s + 1 / 362880.0
        p = p * s - 1 / 5040.0
        p = p * s + 1 / 120.0
        p = p * s - 1 / 6.0
        sine = r + r * s * p
        p = 1 / 20922789888000.0
        p = p * s - 1 / 87178291200.0
        p = p * s + 1 / 479001600.0
        p = p * s - 1 / 3628800.0
        p = p * s + 1 / 40320.0
        p = p * s - 1 / 720.0
        p = p * s + 1 / 24.0
        level = 1.0 - 0.5 * s + s * s * p
        is_odd = (quarter & 1) == 1
        first, second = (level, sine) if is_odd else (sine, level)
        x[j] = -first if (quarter & 2) == 2 else first
        cosine[j] = -second if ((quarter + 1) & 2) == 2 else second


def cosine_and_sine(phase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both of many phases in a tenth of NumPy's time where that has no vector instructions; overwrites the phases."""
    # The loop tells no turns of more.
    if not (phase.max(initial=0.0) < _MANY_TURNS and phase.min(initial=0.0) > -_MANY_TURNS):
        return np.cos(phase), np.sin(phase)
    flat, cosine = np.ascontiguousarray(phase).reshape(-1), np.empty(phase.size)
    _cosine_and_sine(flat, cosine, np.empty(phase.size))
    return cosine.reshape(phase.shape), flat.reshape(phase.shape)


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
def _factor(G, residual, alpha, smallest, gradient, sizes):
    """Half the log determinant of G (n, n), of which the lower triangle counts and becomes G⁻¹; NaN if not sound.

    ``sizes`` is an array of whole numbers (4,), which LAPACK is given by their address.
    """
    for i in range(len(alpha)):
        alpha[i] = residual[i]
    # LAPACK has the other order, so that the lower triangle is its upper one, called U.
    sizes[:] = 85, len(G), 1, 0
    info, upper = sizes[3:], sizes.ctypes.data
    n, one, at_info, at_G, at_alpha = upper + 4, upper + 8, upper + 12, G.ctypes.data, alpha.ctypes.data
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
def _factors(first, last, share, gradient, G, residuals, alphas, log_roots):
    n, sizes = G.shape[1], np.empty(4, np.int32)
    for s in range(first, last):
        log_roots[s] = _factor(G[s], residuals[s], alphas[s], share * G[s, 0, 0], gradient, sizes)
        if not gradient or np.isnan(log_roots[s]):
            continue
        for i in range(n):
            for j in range(i + 1):
                G[s, i, j] -= alphas[s, i] * alphas[s, j]


def in_parts(loop: Callable[[int, int], Any], n_particles: int) -> None:
    """Call ``loop(first, last)`` for all particles, each thread with a part of them."""
    parts = min(n_threads(), n_particles)
    ends = [n_particles * k // parts for k in range(parts + 1)]
    if parts < 2:
        loop(0, n_particles)
    else:
        in_threads(loop, ends[:-1], ends[1:])


def factor_particles(
    G: np.ndarray, residuals: np.ndarray, share: float, gradient: bool
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`pymc_active.posterior.factor.factor_batch`, with pivots beyond a ``share`` of the first entry of G."""
    alphas, log_roots = np.empty(residuals.shape), np.empty(len(G))
    residuals = np.ascontiguousarray(residuals)
    in_parts(lambda *ends: _factors(*ends, share, gradient, G, residuals, alphas, log_roots), len(G))
    return alphas, log_roots


@_loop(_FAST)
def _leaf(kind, columns, places, other, variance, theta, X, points, value, slope, more, whole):
    """A base kernel (q,), and what the gradient needs of it: its slopes, and features of the ``points`` (3 C, n)."""
    n, q = X.shape[1], 0
    for j in range(len(value)):
        value[j] = variance if kind == CONSTANT else 0.0
        slope[j] = 0.0
    if kind <= MATERN52 and other >= 0:
        # Embedded inputs.
        scale = np.exp(-theta[other])
        for k in range(len(places) // len(columns)):
            own, q = points[k], 0
            for i in range(n):
                own[i] = 0.0
            for c in range(len(columns)):
                factor = scale * theta[places[k * len(columns) + c]]
                for i in range(n):
                    own[i] += factor * X[columns[c], i]
            for i in range(n):
                for j in range(i + 1):
                    value[q + j] += (own[i] - own[j]) ** 2
                q += i + 1
        columns = columns[:0]
    if kind == STEP:
        width = np.exp(theta[other])
        for i in range(n):
            t = (X[columns[0], i] - theta[places[0]]) / width
            s = 1.0 / (1.0 + np.exp(-t))
            first = s / (1.0 + np.exp(t))
            points[0, i], points[1, i], points[2, i] = s, -first / width, -t * first
        for i in range(n):
            for j in range(i + 1):
                value[q + j] = variance * points[0, i] * points[0, j]
            q += i + 1
        return
    for k in range(len(columns)):
        x, place, q = X[columns[k]], places[k], 0
        if kind == LINEAR:
            own = points[k]
            for i in range(n):
                own[i] = x[i] - (theta[place] if place >= 0 else 0.0)
            for i in range(n):
                for j in range(i + 1):
                    value[q + j] += variance * own[i] * own[j]
                q += i + 1
        elif kind == PERIODIC:
            angle, sine, cosine = points[3 * k], points[3 * k + 1], points[3 * k + 2]
            scale = np.pi * np.exp(-theta[place])
            for i in range(n):
                angle[i] = scale * (x[i] - x[0])
                sine[i], cosine[i] = np.sin(angle[i]), np.cos(angle[i])
            # Rounding leaves some of the sine of nothing.
            for i in range(n):
                for j in range(i):
                    s = sine[i] * cosine[j] - cosine[i] * sine[j]
                    value[q + j] += s * s
                    slope[q + j] += (angle[i] - angle[j]) * s * (cosine[i] * cosine[j] + sine[i] * sine[j])
                q += i + 1
        else:
            own, scale = points[k], np.exp(-theta[place])
            for i in range(n):
                own[i] = x[i] * scale
            for i in range(n):
                for j in range(i + 1):
                    value[q + j] += (own[i] - own[j]) ** 2
                q += i + 1
    if kind == PERIODIC:
        weight = 4.0 * np.exp(-2.0 * theta[other])
        for j in range(len(value)):
            more[j] = weight * value[j]
            value[j] = max(-0.5 * more[j], -FARTHEST)
        _exp(value, whole)
        for j in range(len(value)):
            value[j] *= variance
            more[j] *= value[j]
            slope[j] *= weight * value[j]
    elif kind == RATIONAL_QUADRATIC:
        alpha = np.exp(theta[other])
        for j in range(len(value)):
            more[j] = value[j]
            value[j] = 1.0 + more[j] / (2.0 * alpha)
            slope[j] = -0.5 / value[j]
        _log(value, whole)
        for j in range(len(value)):
            value[j] *= -alpha
            more[j] = value[j] - more[j] * slope[j]
            value[j] = max(value[j], _LEAST)
        _exp(value, whole)
        for j in range(len(value)):
            value[j] *= variance
            more[j] *= value[j]
            slope[j] *= value[j]
    elif kind <= MATERN52:
        for j in range(len(value)):
            more[j] = value[j]
        _correlations(kind, more, value, slope, whole)
        for j in range(len(value)):
            value[j] *= variance
            slope[j] *= variance


@_loop(_FAST)
def _pull(kind, columns, places, other, scale, theta, X, points, weight, value, slope, more, whole, gradient):
    """Add the gradient of the sum of ``weight`` (q,) times a base kernel, in its parameters; overwrites weights."""
    n, total, rest, q = points.shape[1], 0.0, 0.0, 0
    for j in range(len(value)):
        total += weight[j] * value[j]
    gradient[scale] += 2.0 * total
    variance = np.exp(2.0 * theta[scale])
    if kind == STEP:
        for part, place in ((1, places[0]), (2, other)):
            total, q = 0.0, 0
            for i in range(n):
                for j in range(i + 1):
                    total += weight[q + j] * (points[part, i] * points[0, j] + points[0, i] * points[part, j])
                q += i + 1
            gradient[place] += variance * total
        return
    if kind == PERIODIC:
        total = 0.0
        for j in range(len(value)):
            total += weight[j] * more[j]
            rest += weight[j] * slope[j]
        gradient[other] += total
        # Columns share a period.
        gradient[places[0]] += rest
        return
    if kind == RATIONAL_QUADRATIC:
        for j in range(len(value)):
            rest += weight[j] * more[j]
        gradient[other] += rest
    if kind != LINEAR:
        for j in range(len(value)):
            weight[j] *= slope[j]
    if kind <= MATERN52 and other >= 0:
        length = np.exp(-theta[other])
        for k in range(len(places) // len(columns)):
            own, in_own, q = points[k], whole[:n], 0
            for i in range(n):
                in_own[i], total = 0.0, 0.0
                for j in range(i):
                    t = weight[q + j] * (own[i] - own[j])
                    total += t
                    in_own[j] -= 2.0 * t
                in_own[i] += 2.0 * total
                q += i + 1
            for i in range(n):
                gradient[other] -= own[i] * in_own[i]
            for c in range(len(columns)):
                total = 0.0
                for i in range(n):
                    total += X[columns[c], i] * in_own[i]
                gradient[places[k * len(columns) + c]] += length * total
        return
    for k in range(len(places)):
        own, total, q = points[k], 0.0, 0
        if places[k] < 0:
            continue
        if kind == LINEAR:
            for i in range(n):
                for j in range(i + 1):
                    total += weight[q + j] * (own[i] + own[j])
                q += i + 1
            gradient[places[k]] -= variance * total
        else:
            for i in range(n):
                for j in range(i + 1):
                    total += weight[q + j] * (own[i] - own[j]) ** 2
                q += i + 1
            gradient[places[k]] -= 2.0 * total


@_loop(_FAST)
def _particles(
    first, last, share, gradient, X, thetas, steps, left, right, kinds, first_columns, columns,
    first_places, places, others, scales,
    noise, residuals, alphas, log_roots, gradients, diagonals,
):  # fmt: skip
    n, root, q, L = X.shape[1], len(steps) - 1, X.shape[1] * (X.shape[1] + 1) // 2, len(kinds)
    G, whole, points = np.empty((n, n)), np.empty(q), np.empty((L, 3 * max(1, len(places)), n))
    values, weights = np.empty((root + 1, q)), np.empty((root + 1, q))
    slopes, more = np.empty((L, q)), np.empty((L, q))
    sizes = np.empty(4, np.int32)
    for s in range(first, last):
        theta = thetas[s]
        for m in range(root + 1):
            step, value = steps[m], values[m]
            if step >= 0:
                inputs = columns[first_columns[step] : first_columns[step + 1]]
                own = places[first_places[step] : first_places[step + 1]]
                variance = np.exp(2.0 * theta[scales[step]])
                _leaf(
                    kinds[step], inputs, own, others[step], variance, theta, X, points[step], value, slopes[step],
                    more[step], whole,
                )  # fmt: skip
                continue
            a, b = values[left[m]], values[right[m]]
            if step == ADD:
                for j in range(len(value)):
                    value[j] = a[j] + b[j]
            else:
                for j in range(len(value)):
                    value[j] = a[j] * b[j]
        q, value = 0, values[root]
        for i in range(n):
            for j in range(i + 1):
                G[i, j] = value[q + j]
            q += i + 1
            G[i, i] += noise[s, i]
        log_roots[s] = _factor(G, residuals[s], alphas[s], share * G[0, 0], gradient, sizes)
        if not gradient or np.isnan(log_roots[s]):
            continue
        # Entries off the diagonal stand for two, and the log likelihood falls by half of them.
        alpha, weight, q = alphas[s], weights[root], 0
        for i in range(n):
            for j in range(i):
                weight[q + j] = alpha[i] * alpha[j] - G[i, j]
            q += i + 1
            diagonals[s, i] = G[i, i] - alpha[i] ** 2
            weight[q - 1] = -0.5 * diagonals[s, i]
        for m in range(root, -1, -1):
            step, weight = steps[m], weights[m]
            if step >= 0:
                inputs = columns[first_columns[step] : first_columns[step + 1]]
                own = places[first_places[step] : first_places[step + 1]]
                _pull(
                    kinds[step], inputs, own, others[step], scales[step], theta, X, points[step], weight, values[m],
                    slopes[step], more[step], whole, gradients[s],
                )  # fmt: skip
                continue
            a, b = weights[left[m]], weights[right[m]]
            if step == ADD:
                for j in range(len(weight)):
                    a[j] = b[j] = weight[j]
            else:
                factor, other = values[right[m]], values[left[m]]
                for j in range(len(weight)):
                    a[j] = weight[j] * factor[j]
                    b[j] = weight[j] * other[j]


class Evaluated(NamedTuple):
    """Of S particles: G⁻¹ residual (S, n), halves of log determinants (S,), NaN where G is not sound, and slopes.

    These are derivatives of the log likelihood in all parameters of the kernel (S, P), and the diagonals of G⁻¹ - alpha
    alphaᵀ (S, n).
    """

    alphas: np.ndarray
    log_roots: np.ndarray
    gradients: np.ndarray
    diagonals: np.ndarray


def evaluate(
    program: Program, X: np.ndarray, thetas: np.ndarray, noise: np.ndarray, residuals: np.ndarray, share: float,
    gradient: bool,
) -> Evaluated:  # fmt: skip
    """Particles thetas (S, P) given points X (n, D), with noise variances (S, n)."""
    keep_freed_memory()
    S, n = residuals.shape
    out = Evaluated(np.empty((S, n)), np.empty(S), np.zeros(thetas.shape), np.zeros((S, n)))
    X, thetas, noise, residuals = (np.ascontiguousarray(part, float) for part in (X.T, thetas, noise, residuals))
    in_parts(lambda *ends: _particles(*ends, share, gradient, X, thetas, *program, noise, residuals, *out), S)
    return out
