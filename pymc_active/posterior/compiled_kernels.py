"""Log likelihoods of sums and products of kernels, and their gradients, in one compiled loop over particles.

The loop follows a *program*: base kernels, sums and products in an order in which all parts come first. So it is
compiled once for all kernels. A matrix is a row of its lower triangle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_active.kernels.program import (
    ADD,
    CONSTANT,
    LINEAR,
    MATERN52,
    PERIODIC,
    RATIONAL_QUADRATIC,
    STEP,
    Program,
)
from pymc_active.kernels.radial import FARTHEST
from pymc_active.posterior.compiled import _FAST, _correlations, _exp, _factor, _log, _loop, in_parts
from pymc_active.posterior.factor import keep_freed_memory

# Exponentials are of no less.
_LEAST = -700.0


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
            for i in range(n):
                for j in range(i + 1):
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
