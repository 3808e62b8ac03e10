"""Log likelihoods of particles and their gradients in compiled loops, each thread with a part of the particles.

The loop follows a kernel as a *program*: base kernels, sums and products in an order in which all parts come first. So
it is compiled once for all kernels. A matrix is a row of its lower triangle; all of one particle stay in the cache of
one core, and nothing holds Python's lock. A particle is computed in the same way whatever the number of threads. Numba
compiles the loops at their first use and keeps them on disk, or, where it finds no place, in the process. All of them
stand in this file, since it looks for a newer version of no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
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
# Of a climb: pairs of steps and changes of the slope that it keeps, trials of a step, what a good one has to fulfil (as
# of L-BFGS-B), and the height where nothing is finite.
_PAIRS, _TRIALS, _ARMIJO, _WOLFE, _FAR_BELOW = 20, 20, 1e-3, 0.9, -1e25
# Numbers of a climb: how many evaluations, iterations and pairs, whether it has converged, height and rise where it is,
# the step that is tried, the ends of an interval that holds a good one, the better first, and how many were tried.
_COUNT, _ITERATION, _N_PAIRS, _DONE, _HEIGHT, _RISE, _STEP = range(7)
_LOW, _LOW_HEIGHT, _LOW_RISE, _HIGH, _HIGH_HEIGHT, _TRIAL = range(7, 13)
# Sums in any order, so that they are vectorised; infinities and NaN are kept.
_FAST = {"contract", "reassoc", "nsz"}


def _loop(fastmath: set[str], inline: str = "never") -> Callable:
    """Decorator of a compiled loop: without Python's lock, with infinities, and kept on disk where there is a place."""

    def compiled(function: Callable) -> Callable:
        flags: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, "inline": inline}
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
    """Half the log determinant of G (n, n), whose lower triangle counts and becomes G⁻¹; NaN if not sound.

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


@cache
def _load_parts() -> None:
    """Load the loops on disk in the order of this file, so that every process runs the same code.

    A loop on disk brings copies of what it calls. They are optimised anew, and so differ in the last bits from those of
    the process that compiled them, which stand unless others of their name are there already.
    """
    # Numba has no public list of what is on disk; without one, last bits differ between a first run and later ones.
    with suppress(AttributeError):
        for loop in list(globals().values()):
            if hasattr(loop, "py_func"):
                for signature, *_ in loop._cache._cache_file._load_index():
                    loop.compile(signature)


def in_parts(loop: Callable[[int, int], Any], n_particles: int) -> None:
    """Call ``loop(first, last)`` for all particles, each thread with a part of them."""
    _load_parts()
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


# Array expressions take long to compile.
@_loop(_FAST)
def _dot(a, b):
    total = 0.0
    for c in range(len(a)):
        total += a[c] * b[c]
    return total


@_loop(_FAST)
def _line(a, factor, b, out):
    """Set ``out`` to a + factor * b."""
    for c in range(len(a)):
        out[c] = a[c] + factor * b[c]


@_loop(_FAST)
def _set_direction(slope, steps, changes, n_pairs, direction, weights):
    """Upwards by the last pairs of steps and changes of slopes, the newest last (Nocedal & Wright, algorithm 7.4)."""
    _line(slope, 0.0, slope, direction)
    for m in range(n_pairs - 1, -1, -1):
        weights[m] = _dot(steps[m], direction) / _dot(steps[m], changes[m])
        _line(direction, -weights[m], changes[m], direction)
    if n_pairs:
        newest, change = steps[n_pairs - 1], changes[n_pairs - 1]
        _line(direction, _dot(newest, change) / _dot(change, change) - 1.0, direction, direction)
    for m in range(n_pairs):
        factor = weights[m] - _dot(changes[m], direction) / _dot(steps[m], changes[m])
        _line(direction, factor, steps[m], direction)


@_loop(_FAST)
def _has_ended(height, limits, u, slope, numbers, here, in_here, memory):
    """Whether a climb by L-BFGS ends, given height and slope at u (r,), which becomes the next place to look at.

    ``here`` is the last place whose step fulfilled the strong Wolfe conditions (Nocedal & Wright, algorithm 3.5).
    """
    steps, changes, direction, low, in_low, weights = memory
    iterations, least_slope, least_gain = limits
    numbers[_COUNT] += 1
    if numbers[_COUNT] > 1:
        step, rise, is_good = numbers[_STEP], _dot(slope, direction), False
        enough = numbers[_HEIGHT] + _ARMIJO * step * numbers[_RISE]
        if height < enough or height < numbers[_LOW_HEIGHT]:
            numbers[_HIGH], numbers[_HIGH_HEIGHT] = step, height
        else:
            is_good = abs(rise) <= _WOLFE * numbers[_RISE]
            way = 1.0 if numbers[_HIGH] == np.inf else numbers[_HIGH] - numbers[_LOW]
            if rise * way < 0:
                numbers[_HIGH], numbers[_HIGH_HEIGHT] = numbers[_LOW], numbers[_LOW_HEIGHT]
            numbers[_LOW], numbers[_LOW_HEIGHT], numbers[_LOW_RISE] = step, height, rise
            _line(u, 0.0, u, low)
            _line(slope, 0.0, slope, in_low)
        numbers[_TRIAL] += 1
        if not is_good and numbers[_TRIAL] < _TRIALS:
            way = numbers[_HIGH] - numbers[_LOW]
            bend = numbers[_LOW_RISE] * way - (numbers[_HIGH_HEIGHT] - numbers[_LOW_HEIGHT])
            # The top of a parabola or, where the height is not finite, nearer.
            part = 0.5 * numbers[_LOW_RISE] * way / bend if bend > 0 and numbers[_HIGH_HEIGHT] > _FAR_BELOW else 0.2
            is_open = numbers[_HIGH] == np.inf
            numbers[_STEP] = 4.0 * step if is_open else numbers[_LOW] + min(max(part, 0.1), 0.9) * way
            _line(here, numbers[_STEP], direction, u)
            return False
        if not numbers[_LOW_HEIGHT] > numbers[_HEIGHT]:
            # Nothing better within rounding errors.
            return True
        n_pairs = int(numbers[_N_PAIRS])
        if n_pairs == _PAIRS:
            for m in range(_PAIRS - 1):
                _line(steps[m + 1], 0.0, steps[m + 1], steps[m])
                _line(changes[m + 1], 0.0, changes[m + 1], changes[m])
            n_pairs -= 1
        _line(low, -1.0, here, steps[n_pairs])
        _line(in_here, -1.0, in_low, changes[n_pairs])
        curvature = _dot(changes[n_pairs], changes[n_pairs])
        numbers[_N_PAIRS] = n_pairs + (_dot(steps[n_pairs], changes[n_pairs]) > 1e-12 * curvature)
        _line(low, 0.0, low, here)
        _line(in_low, 0.0, in_low, in_here)
        height = numbers[_LOW_HEIGHT]
        gain = (height - numbers[_HEIGHT]) / max(abs(height), abs(numbers[_HEIGHT]), 1.0)
        numbers[_DONE] = 1.0 if gain <= least_gain else 0.0
        numbers[_ITERATION] += 1
    else:
        _line(u, 0.0, u, here)
        _line(slope, 0.0, slope, in_here)
    numbers[_HEIGHT], largest = height, 0.0
    for c in range(len(u)):
        largest = max(largest, abs(in_here[c]))
    if largest <= least_slope:
        numbers[_DONE] = 1.0
    if numbers[_DONE] > 0 or numbers[_ITERATION] >= iterations:
        return True
    _set_direction(in_here, steps, changes, int(numbers[_N_PAIRS]), direction, weights)
    rise = _dot(in_here, direction)
    numbers[_RISE], numbers[_STEP] = rise, 1.0 if numbers[_N_PAIRS] > 0 else min(1.0, 1.0 / np.sqrt(rise))
    numbers[_LOW], numbers[_LOW_HEIGHT], numbers[_LOW_RISE] = 0.0, height, rise
    numbers[_HIGH], numbers[_HIGH_HEIGHT], numbers[_TRIAL] = np.inf, 0.0, 0.0
    _line(here, numbers[_STEP], direction, u)
    return not rise > 0


@_loop(_FAST)
def _set_place(u, center, scale, root, data, theta, residual, noise):
    """Theta, but for its constants, at the coordinates u of a climb, and residual and noise variances (n,) there."""
    y, basis, means, log_noise, known, extra = data
    for k in range(len(center)):
        theta[k] = center[k]
        if len(scale):
            theta[k] += scale[k] * u[k]
        else:
            for c in range(len(u)):
                theta[k] += root[k, c] * u[c]
    own = np.exp(2.0 * theta[log_noise]) + extra
    for i in range(len(y)):
        residual[i], noise[i] = y[i], own + known[i]
        for k in range(len(means)):
            residual[i] -= basis[i, k] * theta[means[k]]


@_loop(_FAST)
def _height(
    log_root, theta, residual, alpha, gradient, diagonal, data, mean, precision, scale, root, slope
):  # fmt: skip
    """The log posterior but for a constant, and its slope in the coordinates of a climb; low where it is not finite."""
    _, basis, means, log_noise, _, _ = data
    height, own, P = -log_root, np.exp(2.0 * theta[log_noise]), len(mean)
    for i in range(len(residual)):
        height -= 0.5 * residual[i] * alpha[i]
        gradient[log_noise] -= own * diagonal[i]
        for k in range(len(means)):
            gradient[means[k]] += basis[i, k] * alpha[i]
    is_finite = not np.isnan(log_root)
    for k in range(P):
        height -= 0.5 * precision[k] * (theta[k] - mean[k]) ** 2
        gradient[k] -= precision[k] * (theta[k] - mean[k])
        is_finite &= np.isfinite(gradient[k])
    is_finite &= np.isfinite(height)
    for c in range(len(slope)):
        slope[c] = 0.0
        if is_finite and len(scale):
            slope[c] = scale[c] * gradient[c]
        elif is_finite:
            for k in range(P):
                slope[c] += root[k, c] * gradient[k]
    return height if is_finite else _FAR_BELOW


@_loop(_FAST, inline="always")
def _rooms(n, program):
    """Memory for one particle of n points: G, entries of its kernels and what their gradients need, and for LAPACK."""
    steps, kinds, places = program[0], program[3], program[7]
    q, M, L = n * (n + 1) // 2, len(steps), len(kinds)
    points = np.empty((L, 3 * max(1, len(places)), n))
    sizes, entries = np.empty(4, np.int32), (np.empty((M, q)), np.empty((M, q)), np.empty((L, q)), np.empty((L, q)))
    return np.empty((n, n)), np.empty(q), points, *entries, sizes


@_loop(_FAST, inline="always")
def _particle(share, gradient, X, theta, program, noise, residual, alpha, slope, diagonal, rooms):
    """Half the log determinant of G of a particle theta, NaN if it is not sound, and what :class:`Evaluated` has."""
    steps, left, right, kinds, first_columns, columns, first_places, places, others, scales = program
    G, whole, points, values, weights, slopes, more, sizes = rooms
    n, root = X.shape[1], len(steps) - 1
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
        G[i, i] += noise[i]
    log_root = _factor(G, residual, alpha, share * G[0, 0], gradient, sizes)
    if not gradient or np.isnan(log_root):
        return log_root
    # Entries off the diagonal stand for two, and the log likelihood falls by half of them.
    weight, q = weights[root], 0
    for i in range(n):
        for j in range(i):
            weight[q + j] = alpha[i] * alpha[j] - G[i, j]
        q += i + 1
        diagonal[i] = G[i, i] - alpha[i] ** 2
        weight[q - 1] = -0.5 * diagonal[i]
    for m in range(root, -1, -1):
        step, weight = steps[m], weights[m]
        if step >= 0:
            inputs = columns[first_columns[step] : first_columns[step + 1]]
            own = places[first_places[step] : first_places[step + 1]]
            _pull(
                kinds[step], inputs, own, others[step], scales[step], theta, X, points[step], weight, values[m],
                slopes[step], more[step], whole, slope,
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
    return log_root


@_loop(_FAST)
def _particles(first, last, share, gradient, X, thetas, program, noise, residuals, out, climb):
    """Evaluate particles or, if there are iterations, climb from each first, to where its evaluation then is."""
    alphas, log_roots, gradients, diagonals = out
    data, (mean, precision), (scale, frame), limits, us, in_us, numbers = climb
    rooms, r, climbs = _rooms(X.shape[1], program), us.shape[1], limits[0] > 0
    u, slope, direction, low, in_low = np.empty(r), np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    memory = np.empty((_PAIRS, r)), np.empty((_PAIRS, r)), direction, low, in_low, np.empty(_PAIRS)
    center = np.empty(len(mean))
    for s in range(first, last):
        theta, residual, alpha, diagonal = thetas[s], residuals[s], alphas[s], diagonals[s]
        for k in range(len(mean)):
            center[k] = theta[k]
        for c in range(r):
            u[c] = 0.0
        while True:
            if climbs:
                _set_place(u, center, scale, frame, data, theta, residual, noise[s])
                for k in range(len(theta)):
                    gradients[s, k] = 0.0
            log_roots[s] = _particle(
                share, gradient, X, theta, program, noise[s], residual, alpha, gradients[s], diagonal, rooms
            )
            if not climbs:
                break
            height = _height(
                log_roots[s], theta, residual, alpha, gradients[s], diagonal, data, mean, precision, scale, frame, slope
            )
            if _has_ended(height, limits, u, slope, numbers[s], us[s], in_us[s], memory):
                break


class Evaluated(NamedTuple):
    """Of S particles: G⁻¹ residual (S, n), halves of log determinants (S,), NaN where G is not sound, and slopes.

    These are derivatives of the log likelihood in all parameters of the kernel (S, P), and the diagonals of G⁻¹ - alpha
    alphaᵀ (S, n).
    """

    alphas: np.ndarray
    log_roots: np.ndarray
    gradients: np.ndarray
    diagonals: np.ndarray


def _writable(*arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays of one kind in memory: each kind is compiled anew."""
    return [np.require(array, float, ["C", "W"]) for array in arrays]


_NONE, _NO_ROWS = np.empty(0), np.empty((0, 0))
# Of particles that are only evaluated.
_NO_CLIMB = (
    (_NONE, _NO_ROWS, np.empty(0, np.int64), 0, _NONE, 0.0),
    (_NONE, _NONE),
    (_NONE, _NO_ROWS),
    (0, 0.0, 0.0),
    *(_NO_ROWS, _NO_ROWS, _NO_ROWS),
)


def evaluate(
    program: Program, X: np.ndarray, thetas: np.ndarray, noise: np.ndarray, residuals: np.ndarray, share: float,
    gradient: bool, climb: tuple = _NO_CLIMB,
) -> Evaluated:  # fmt: skip
    """Particles thetas (S, P) given points X (n, D), with noise variances (S, n), or where climbs from them end."""
    keep_freed_memory()
    S, n = residuals.shape
    out = Evaluated(np.empty((S, n)), np.empty(S), np.zeros(thetas.shape), np.zeros((S, n)))
    X, thetas, noise, residuals = _writable(X.T, thetas, noise, residuals)
    arguments = share, gradient, X, thetas, tuple(program), noise, residuals, tuple(out), climb
    in_parts(lambda *ends: _particles(*ends, *arguments), S)
    return out


def climb(
    program: Program, X: np.ndarray, theta: np.ndarray, data: Sequence[Any], prior: Sequence[np.ndarray], share: float,
    root: np.ndarray, limits: tuple[int, float, float],
) -> tuple[np.ndarray, float, np.ndarray, bool, int]:  # fmt: skip
    """The end of a climb from theta (P,), constants included: u (r,) and the rest of :class:`Climbed`.

    The height is but for a constant. ``data`` are y (n,), the basis of the mean (n, b) and the positions of its
    coefficients, the position of the log noise, known variances (n,) and an additional one; ``prior`` means and
    precisions of the free parameters; ``root`` and ``limits`` as in :meth:`Posterior.climb`.
    """
    y, basis, means, log_noise, known, extra = data
    ends, numbers, room = np.empty((2, 1, root.shape[-1])), np.zeros((1, _TRIAL + 1)), np.empty((1, len(y)))
    scale, frame = (root, _NO_ROWS) if root.ndim == 1 else (_NONE, root)
    y, basis, known, *prior = _writable(y, basis, known, *prior)
    given = (y, basis, means, log_noise, known, float(extra)), tuple(prior), tuple(_writable(scale, frame)), limits
    # Climbs overwrite these.
    evaluate(program, X, theta[None].copy(), room, room.copy(), share, True, (*given, *ends, numbers))
    n_evaluations, is_done, height = numbers[0, [_COUNT, _DONE, _HEIGHT]]
    value = float(height) if height > _FAR_BELOW else -np.inf
    return ends[0, 0], value, ends[1, 0], bool(is_done), int(n_evaluations)
