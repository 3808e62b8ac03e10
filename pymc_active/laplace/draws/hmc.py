"""One trajectory of Hamiltonian Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Place(NamedTuple):
    """A point with its log density and gradient."""

    z: np.ndarray
    value: float
    gradient: np.ndarray


def trajectory(
    evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: Place,
    root: np.ndarray,
    step: float,
    n_steps: int,
    rng: np.random.Generator,
) -> tuple[Place, float]:
    """Propose by leapfrog steps, accept or stay; returns the place and the probability of acceptance.

    In the coordinates of ``root``, (P, q) or the diagonal (P,), ``evaluate`` (log density and gradient) should be
    roughly a unit Gaussian; ``step`` is in these coordinates and jittered by up to 20 %.
    """
    diagonal = root.ndim == 1
    momentum = np.asarray(rng.normal(size=root.shape[-1]))
    energy = start.value - 0.5 * momentum @ momentum
    step *= rng.uniform(0.8, 1.2)
    uniform = rng.uniform()
    z, value, gradient = start
    for _ in range(n_steps):
        momentum = momentum + 0.5 * step * (gradient * root if diagonal else gradient @ root)
        z = z + step * (root * momentum if diagonal else root @ momentum)
        value, gradient = evaluate(z)
        if not np.isfinite(value):
            return start, 0.0
        momentum = momentum + 0.5 * step * (gradient * root if diagonal else gradient @ root)
    # A trajectory that leaves a narrow mode may overflow; it is rejected.
    with np.errstate(over="ignore", invalid="ignore"):
        change = value - 0.5 * momentum @ momentum - energy
    probability = float(np.exp(min(change, 0.0))) if np.isfinite(change) else 0.0
    return (Place(z, value, gradient) if uniform < probability else start), probability
