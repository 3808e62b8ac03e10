"""Scan the posterior over what a kernel hides, its period or the place of a step, given the other parameters.

The posterior has a mode near every multiple of the right period and near many wrong ones, each so narrow that a climb
hardly ever leaves it; so it has wherever a step may be. A sum or product of kernels is affine in each of its base
kernels, K = A + B * K_scanned, so each value of a scan costs one base kernel and one Cholesky factorisation.
"""

from __future__ import annotations

import numpy as np

from pymc_active.kernels.node import Node
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.factor import Factor, NotPositiveDefiniteError

# Log output sd at which the kernel vanishes.
_VANISHING = -400.0


def hidden_leaves(posterior: KernelPosterior) -> list[Node]:
    """The base kernels with a parameter such as a period or the place of a step that is not fixed."""
    return [leaf for leaf in posterior.kernel.leaves if leaf.hidden < posterior.n_parameters]


def hidden_grid(posterior: KernelPosterior, leaf: Node) -> np.ndarray:
    """The values to scan."""
    prior = posterior.prior
    return leaf.hidden_grid(posterior.X, float(prior.mean[leaf.hidden]), float(prior.sd[leaf.hidden]))


def longest_aliases(posterior: KernelPosterior, theta: np.ndarray) -> np.ndarray | None:
    """The same parameters with each period that points on a lattice cannot tell from a longer one; None if none is."""
    found = theta.copy()
    for leaf in hidden_leaves(posterior):
        if (alias := leaf.longest_alias(theta, posterior.X)) is not None:
            found[leaf.hidden] = alias
    return None if np.array_equal(found, theta) else found


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
    full = np.concatenate([theta, posterior.constants])
    residual = posterior.residual(full)
    noise = posterior.noise_variances(full, extra_noise)
    changed, here = full.copy(), full.copy()
    changed[leaf.roles["log_outputscale"]] = _VANISHING
    A = posterior.kernel.at(changed, posterior.X).K.copy()
    changed[leaf.roles["log_outputscale"]], changed[leaf.hidden] = 0.0, leaf.inert
    B = posterior.kernel.at(changed, posterior.X).K - A
    A.flat[:: len(A) + 1] += noise
    values = np.empty(len(grid))
    for k, value in enumerate(grid):
        here[leaf.hidden] = value
        try:
            values[k] = -Factor(A + B * leaf.at(here, posterior.X).K, residual).nll
        except NotPositiveDefiniteError:
            values[k] = -np.inf
    prior = posterior.prior
    difference = grid - prior.mean[leaf.hidden]
    rest = posterior.beside(np.exp(2 * full[posterior.log_noise]) + extra_noise).value
    rest += posterior.prior_value_and_gradient(theta)[0] - len(residual) * np.log(posterior.y_map.scale)
    there = theta[leaf.hidden] - prior.mean[leaf.hidden]
    return values + rest - 0.5 * prior.precision[leaf.hidden] * (difference**2 - there**2)
