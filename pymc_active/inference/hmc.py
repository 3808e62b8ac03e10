"""Trajectories of Hamiltonian Monte Carlo, of several particles at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_active.posterior.base import Posterior

# Smallest sd of a coordinate.
_SMALLEST = 1e-8

# Log densities (S,) and gradients (S, P) at points (S, P).
type Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Places(NamedTuple):
    """Points (S, P) with their log densities (S,) and gradients (S, P)."""

    z: np.ndarray
    value: np.ndarray
    gradient: np.ndarray

    def take(self, rows: np.ndarray) -> Places:
        """Some of the places, with repeats."""
        return Places(*(part[rows] for part in self))


def jittered(step: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Step sizes (n, 1) up to 20 % from one, so that no trajectory resonates."""
    return step * rng.uniform(0.8, 1.2, size=(n, 1))


def density(posterior: Posterior, extra_noise: float = 0.0) -> Evaluate:
    """Log densities with additional noise, and their gradients."""

    def evaluate(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prior, slope = posterior.log_priors(z)
        likelihood, gradient, *_ = posterior.log_likelihoods(z, extra_noise)
        return prior + likelihood, np.where(np.isfinite(likelihood)[:, None], slope + gradient, 0.0)

    return evaluate


class Halves:
    """Coordinates in which each half of points z (S, P) is about a unit Gaussian, by the covariance of the other half.

    No point has a part in its own, so that moves leave densities as they are. Correlations shrink towards zero where
    points are few.
    """

    def __init__(self, z: np.ndarray, rng: np.random.Generator):
        S, P = z.shape
        self.rows = np.array_split(rng.permutation(S), 2)
        self.roots = [_root(z[rows], min(1.0, 2 * P / S)) for rows in reversed(self.rows)]

    def times(self, x: np.ndarray, transpose: bool = False) -> np.ndarray:
        """The rows of x (S, P) times the root of their half."""
        out = np.empty_like(x)
        for rows, root in zip(self.rows, self.roots, strict=True):
            out[rows] = _times(root, x[rows], transpose)
        return out


def _root(z: np.ndarray, shrinkage: float) -> np.ndarray:
    """The Cholesky factor (P, P) of the covariance of z (S, P), or if all correlations shrink to zero, its diagonal."""
    sds = np.maximum(z.std(0), _SMALLEST)
    if shrinkage == 1:
        return sds
    correlations = np.cov((z - z.mean(0)) / sds, rowvar=False, bias=True).reshape(len(sds), -1)
    return sds[:, None] * np.linalg.cholesky((1 - shrinkage) * correlations + shrinkage * np.eye(len(sds)))


def _times(root: np.ndarray | Halves, x: np.ndarray, transpose: bool = False) -> np.ndarray:
    """The rows of x times a root (P, q), or its transpose."""
    if isinstance(root, Halves):
        return root.times(x, transpose)
    return x * root if root.ndim == 1 else x @ (root.T if transpose else root)


def trajectories(
    evaluate: Evaluate, start: Places, root: np.ndarray | Halves, steps: np.ndarray, n_steps: int,
    rng: np.random.Generator,
) -> tuple[Places, np.ndarray, np.ndarray]:  # fmt: skip
    """Propose by leapfrog steps, accept or stay; the last call of ``evaluate`` is at the proposals.

    Returns the places, the probability of acceptance (S,), and whether it was accepted (S,).
    In the coordinates of ``root``, (P, q) or the diagonal (P,), or of halves, the density should be roughly a unit
    Gaussian; the sizes of the ``steps``, (S, 1), are in these coordinates.
    """
    S, P = start.z.shape
    momentum = rng.normal(size=(S, P if isinstance(root, Halves) else root.shape[-1]))
    uniform = rng.uniform(size=S)
    # A trajectory that leaves a narrow mode may overflow; it is rejected.
    with np.errstate(over="ignore", invalid="ignore"):
        energy = start.value - 0.5 * np.square(momentum).sum(1)
        z, value, gradient = start
        for _ in range(n_steps):
            momentum = momentum + 0.5 * steps * _times(root, gradient)
            z = z + steps * _times(root, momentum, transpose=True)
            value, gradient = evaluate(z)
            momentum = momentum + 0.5 * steps * _times(root, gradient)
        change = value - 0.5 * np.square(momentum).sum(1) - energy
        probability = np.where(np.isfinite(change), np.exp(np.minimum(change, 0.0)), 0.0)
    accepted = uniform < probability
    return Places(*where(accepted, (z, value, gradient), start)), probability, accepted


def where(accepted: np.ndarray, new: Sequence[np.ndarray | None], old: Sequence[np.ndarray | None]) -> list[Any]:
    """Arrays over particles (S, ...): the rows of ``new`` where accepted (S,), else the rows of ``old``; None stays."""
    return [
        None if a is None or b is None else np.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b)
        for a, b in zip(new, old, strict=True)
    ]
