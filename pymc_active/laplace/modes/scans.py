"""Scan the posterior over what a kernel hides, its period or the place of a step, given the other parameters.

The posterior has a mode near every multiple of the right period and near many wrong ones, each so narrow that a climb
hardly ever leaves it; so it has wherever a step may be.
"""

from __future__ import annotations

import numpy as np

from pymc_active.kernels.node import Node
from pymc_active.posterior.array import KernelPosterior


def hidden_leaves(posterior: KernelPosterior) -> list[Node]:
    """The base kernels with a parameter such as a period or the place of a step that is not fixed."""
    return [leaf for leaf in posterior.kernel.leaves if leaf.hidden < posterior.n_parameters]


def hidden_grid(posterior: KernelPosterior, leaf: Node) -> np.ndarray:
    """The values to scan."""
    prior = posterior.prior
    return leaf.hidden_grid(posterior.X, float(prior.mean[leaf.hidden]), float(prior.sd[leaf.hidden]))


def longest_aliases(posterior: KernelPosterior, theta: np.ndarray) -> np.ndarray | None:
    """The same parameters with each period that points on a lattice cannot tell from a longer one; None if none is."""
    moved = theta.copy()
    for leaf in hidden_leaves(posterior):
        if (alias := leaf.longest_alias(theta, posterior.X)) is not None:
            moved[leaf.hidden] = alias
    return None if np.array_equal(moved, theta) else moved


def set_best(
    posterior: KernelPosterior, theta: np.ndarray, leaf: Node, grid: np.ndarray, extra_noise: float = 0.0
) -> None:
    """Set what a base kernel hides to the best value of the grid, if there is one, in place."""
    values = scan(posterior, theta, leaf, grid, extra_noise)
    if np.isfinite(values).any():
        theta[leaf.hidden] = grid[np.argmax(values)]


def scan(
    posterior: KernelPosterior, theta: np.ndarray, leaf: Node, grid: np.ndarray, extra_noise: float = 0.0
) -> np.ndarray:
    """Log posterior (m,) at each value of the grid, other parameters as in theta (P,); -inf where it is not finite.

    ``extra_noise`` is a variance to add to the model's noise.
    """
    here = np.tile(theta, (len(grid), 1))
    here[:, leaf.hidden] = grid
    return posterior.values(here, extra_noise)
