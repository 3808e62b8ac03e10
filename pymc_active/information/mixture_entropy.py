"""Entropies and divergences of many Gaussian mixtures in one dimension, by one adaptive quadrature."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_active.posterior.factor import LOG_2PI

# Components are cut off this many sds from their means, which leaves out 8e-11 of their mass.
_REACH = 6.5
# Panels over a component are at most this many of its sds long and have this many Gauss-Legendre nodes.
_LENGTH, N_NODES = 3.0, 12
# A panel is split into at most this many parts at a time: the finest component may reach into only one of them.
_LARGEST_SPLIT = 8
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(N_NODES)
# Numbers in the arrays of components of one block, and in the arrays of densities of one piece.
_BLOCK, _PIECE = 200_000, 100_000
_TINY = np.finfo(float).tiny


def gaussian_entropy(variance: np.ndarray) -> np.ndarray:
    """1/2 log(2 pi e variance), nats."""
    return 0.5 * (LOG_2PI + 1 + np.log(variance))


class Quadrature(NamedTuple):
    """Nodes and weights of integrals over m mixtures; ``owner`` is the position of the mixture of each node."""

    y: np.ndarray
    weight: np.ndarray
    owner: np.ndarray


def quadrature(means: np.ndarray, variances: np.ndarray) -> Quadrature:
    """Gauss-Legendre panels for m mixtures of S components, (S, m) each.

    Panels are split until none is longer than 3 sds of any component within 6.5 sds of it, and dropped where no
    component reaches. A component 10,000 times narrower than another, or 100 sds away, costs only a few panels.
    """
    sd = np.sqrt(variances)
    low, high = means - _REACH * sd, means + _REACH * sd
    return gauss_legendre(*halves(np.arange(means.shape[1]), low.min(0), high.max(0), finest(low, high, _LENGTH * sd)))


# The longest panel allowed, given owners, lower and upper ends.
type Longest = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def finest(low: np.ndarray, high: np.ndarray, length: np.ndarray) -> Longest:
    """The smallest ``length`` of the components that reach into a panel, from low to high (S, m each); 0 if none."""

    def longest(owner: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        touches = (low[:, owner] < b) & (high[:, owner] > a)
        smallest = np.where(touches, length[:, owner], np.inf).min(0)
        return np.where(np.isfinite(smallest), smallest, 0.0)

    return longest


def gauss_legendre(owner: np.ndarray, a: np.ndarray, b: np.ndarray) -> Quadrature:
    """Twelve nodes in each panel from a to b."""
    half = 0.5 * (b - a)[:, None]
    y = 0.5 * (a + b)[:, None] + half * _NODES
    return Quadrature(y.ravel(), (half * _WEIGHTS).ravel(), np.repeat(owner, N_NODES))


def halves(owner: np.ndarray, a: np.ndarray, b: np.ndarray, longest: Longest) -> list[np.ndarray]:
    """Split owners' intervals [a, b) until none is longer than ``longest(owner, a, b)``; drop those with a limit of 0.

    Returns owners, lower and upper ends.
    """
    intervals = []
    while len(owner):
        allowed, width = longest(owner, a, b), b - a
        # Rounding could split a panel of the right length, or one that has no numbers inside, for ever.
        middle = a + 0.5 * width
        fine = (width <= (1 + 1e-9) * allowed) | ((allowed > 0) & ((middle <= a) | (middle >= b)))
        intervals.append((owner[fine], a[fine], b[fine]))
        split = ~fine & (allowed > 0)
        owner, a, width, allowed = owner[split], a[split], width[split], allowed[split]
        parts = np.clip(np.ceil(width / allowed), 2, _LARGEST_SPLIT).astype(int)
        index = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        owner, a, width, parts = (np.repeat(values, parts) for values in (owner, a, width, parts))
        a, b = a + index * width / parts, a + (index + 1) * width / parts
    return [np.concatenate(part) for part in zip(*intervals, strict=True)]


class _Components:
    """Components stored by mixture: gathering whole rows is several times faster than gathering single numbers."""

    def __init__(self, means: np.ndarray, variances: np.ndarray):
        self.mean = np.ascontiguousarray(means.T)
        self.variance = np.ascontiguousarray(variances.T)
        self.exponent = -0.5 / self.variance
        self.log_height = -0.5 * (LOG_2PI + np.log(self.variance))

    def log_densities(self, y: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Log density of each component of the owner's mixture at each y, (N, S)."""
        terms = y[:, None] - self.mean[owner]
        np.square(terms, out=terms)
        terms *= self.exponent[owner]
        terms += self.log_height[owner]
        return terms


def _integrate(integrand: Callable[[np.ndarray], np.ndarray], means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Integral over y of a function of the components' log densities (N, S), for each of m mixtures."""
    result = np.empty(means.shape[1])
    # Make the nodes of many mixtures at once, but use them in pieces that stay in the processor's cache.
    many, few = max(1, _BLOCK // len(means)), max(64, _PIECE // len(means))
    for start in range(0, len(result), many):
        m, v = means[:, start : start + many], variances[:, start : start + many]
        q, components = quadrature(m, v), _Components(m, v)
        pieces = [slice(first, first + few) for first in range(0, len(q.y), few)]
        values = np.concatenate([integrand(components.log_densities(q.y[piece], q.owner[piece])) for piece in pieces])
        result[start : start + many] = np.bincount(q.owner, q.weight * values, minlength=m.shape[1])
    return result


def mixture_entropy(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Differential entropy (m,), nats, within 1e-6, of mixtures with means and variances (S, m) and weights (S,)."""
    if len(means) == 1:
        return gaussian_entropy(variances[0])

    def integrand(terms: np.ndarray) -> np.ndarray:
        # At least one component reaches each node, so p does not underflow.
        p = np.exp(terms, out=terms) @ weights
        return -p * np.log(np.maximum(p, _TINY))

    return _integrate(integrand, means, variances)


def mixture_entropy_gradient(
    means: np.ndarray, variances: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of :func:`mixture_entropy` in each mean and variance, (S, m) each."""
    if len(means) == 1:
        return np.zeros_like(means), 0.5 / variances

    # d(-p log p) integrates to -(dp) log p, since the mass is constant.
    def slope(densities: np.ndarray) -> np.ndarray:
        return -np.log(np.maximum(densities.sum(1, keepdims=True), _TINY))

    return _gradient(slope, means, variances, weights)


def mixture_information(means: np.ndarray, variances: np.ndarray, weights: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Mutual information (m,) of an outcome and the ``owner`` (S,), from 0, of its component, nats, within 1e-6.

    Components have means and variances (S, m) and weights (S,): Σ_k ∫ p_k log(p_k / (w_k p)), with the part p_k of
    owner k, whose weight is w_k, in the density p.
    """
    parts = np.zeros((len(weights), owner.max() + 1))
    parts[np.arange(len(weights)), owner] = weights
    share = parts.sum(0)

    def integrand(terms: np.ndarray) -> np.ndarray:
        joint = np.exp(terms, out=terms) @ parts
        return (joint * _log_ratio(joint, share)).sum(1)

    # Only errors of the quadrature make it negative.
    return np.maximum(_integrate(integrand, means, variances), 0.0)


def mixture_information_gradient(
    means: np.ndarray, variances: np.ndarray, weights: np.ndarray, owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of :func:`mixture_information` in each mean and variance, (S, m) each."""
    belongs = np.equal.outer(owner, np.arange(owner.max() + 1)).astype(float)
    share = weights @ belongs
    return _gradient(lambda parts: _log_ratio(parts @ belongs, share)[:, owner], means, variances, weights)


def _log_ratio(joint: np.ndarray, share: np.ndarray) -> np.ndarray:
    """log(p_k / (w_k p)) from p_k (N, K) and w_k (K,); zero where p_k is."""
    p = np.maximum(joint.sum(1, keepdims=True), _TINY)
    # Products of tiny numbers underflow.
    ratio = np.log(np.maximum(joint, _TINY)) - np.log(np.where(share > 0, share, 1.0)) - np.log(p)
    return np.where(joint > 0, ratio, 0.0)


def _gradient(
    slope: Callable[[np.ndarray], np.ndarray], means: np.ndarray, variances: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives (S, m) of an integral whose integrand changes with weighted densities (N, S) by ``slope`` of them."""
    q = quadrature(means, variances)
    components = _Components(means, variances)
    densities = np.exp(components.log_densities(q.y, q.owner)) * weights
    densities *= q.weight[:, None] * slope(densities)
    variance = components.variance[q.owner]
    z = (q.y[:, None] - components.mean[q.owner]) / variance
    # Nodes of one mixture are spread over the panels of several rounds of halving.
    in_mean, in_variance = np.zeros_like(means.T), np.zeros_like(means.T)
    np.add.at(in_mean, q.owner, densities * z)
    np.add.at(in_variance, q.owner, densities * 0.5 * (z * z - 1 / variance))
    return in_mean.T, in_variance.T


def mixture_moments(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact mean and variance of Gaussian mixtures; components along the first axis."""
    mean = weights @ means
    return mean, weights @ (variances + np.square(means - mean))


def symmetrized_kl(m0: np.ndarray, v0: np.ndarray, m1: np.ndarray, v1: np.ndarray) -> np.ndarray:
    """KL(p‖q) + KL(q‖p) of Gaussians, nats."""
    square = np.square(m0 - m1)
    return 0.5 * ((v0 + square) / v1 + (v1 + square) / v0) - 1
