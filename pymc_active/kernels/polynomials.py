"""Polynomials in s and t up to s² t², whose coefficients are arrays.

A kernel between points that move along straight lines, k(a + s u, b + t v), is one. Its coefficients give all
covariances of a Gaussian process and its first two derivatives, exactly, also where both points are the same.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import product

import numpy as np

# Coefficients of s^i t^j; missing ones are zero.
Polynomial = dict[tuple[int, int], np.ndarray]


def multiply(p: Polynomial, q: Polynomial, order: tuple[int, int]) -> Polynomial:
    """Product of polynomials, truncated at ``order``."""
    out: Polynomial = {}
    for ((i, j), a), ((k, m), b) in product(p.items(), q.items()):
        if i + k <= order[0] and j + m <= order[1]:
            term = a * b
            out[i + k, j + m] = out[i + k, j + m] + term if (i + k, j + m) in out else term
    return out


def add(p: Polynomial, q: Polynomial) -> Polynomial:
    """Sum of polynomials."""
    return {**p, **{key: p[key] + value if key in p else value for key, value in q.items()}}


def combine(parts: list[Polynomial], is_sum: bool, order: tuple[int, int]) -> Polynomial:
    """Sum or truncated product of polynomials."""
    return reduce(add if is_sum else partial(multiply, order=order), parts)


def compose(derivatives: tuple[np.ndarray, ...], inner: Polynomial, order: tuple[int, int]) -> Polynomial:
    """g(inner), from g and its derivatives at the constant term of ``inner``."""
    change = {key: value for key, value in inner.items() if key != (0, 0)}
    out: Polynomial = {(0, 0): derivatives[0]}
    power: Polynomial = {(0, 0): np.ones(())}
    factorial = 1.0
    for k in range(1, sum(order) + 1):
        power = multiply(power, change, order)
        factorial *= k
        if not power:
            break
        out = add(out, {key: derivatives[k] / factorial * value for key, value in power.items()})
    return out


def line(constant: np.ndarray, in_s: np.ndarray | None, in_t: np.ndarray | None, order: tuple[int, int]) -> Polynomial:
    """The line constant + s in_s + t in_t."""
    p = {(0, 0): constant}
    if order[0] and in_s is not None:
        p[1, 0] = in_s
    if order[1] and in_t is not None:
        p[0, 1] = in_t
    return p
