"""Make starts for a kernel expression from the modes of another one that shares base kernels with it.

Shared base kernels keep their parameters. New ones change little at first: a new term starts small, a new factor nearly
constant. A linear factor is so only far from its zero; starts with the zero nearby are as good, so both are made. A new
step starts where it is best, since a climb hardly moves it.
"""

from __future__ import annotations

from itertools import islice, permutations, product

import numpy as np

from pymc_active.kernels.combined import Multiply
from pymc_active.kernels.linear import Linear
from pymc_active.kernels.node import Node
from pymc_active.kernels.step import Step
from pymc_active.laplace.modes.scans import hidden_grid, hidden_leaves, set_best
from pymc_active.posterior.array import KernelPosterior

# Modes of the parent to follow, and ways to match base kernels.
_MODES, _MATCHES = 3, 3
# Output sd of a new term (fraction of the sd of y), lengthscale of a new factor (prior sds above its mean), location of
# a new line among the factors (prior sds below its mean).
_SMALL, _LONG, _FAR = 0.2, 1.5, 3.0


def starts_from_parent(
    child: KernelPosterior, parent: KernelPosterior, thetas: list[np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Starts (P,) of ``child`` from modes of ``parent``, best first; their priors must be on the same scales."""
    mine, theirs = child.kernel.leaves, parent.kernel.leaves
    is_factor = _are_factors(child.kernel)
    starts = []
    for theta in thetas[:_MODES]:
        of_parent = np.concatenate([theta, parent.constants])
        for match in _matches(mine, theirs):
            drawn = child.prior.mean + 0.3 * child.prior.sd * rng.normal(size=child.n_parameters)
            start = np.concatenate([drawn, child.constants])
            for leaf, other, factor in zip(mine, match, is_factor, strict=True):
                if other is not None:
                    start[list(leaf.roles.values())] = of_parent[list(other.roles.values())]
                else:
                    _make_inconspicuous(start, leaf, factor, child)
            start[child.log_noise] = of_parent[parent.log_noise]
            if len(child.mean_indices) == len(parent.mean_indices):
                start[child.mean_indices] = of_parent[parent.mean_indices]
            new = [leaf for leaf, other in zip(mine, match, strict=True) if other is None]
            for leaf in hidden_leaves(child):
                if leaf in new and isinstance(leaf, Step):
                    # Large enough to be seen.
                    start[leaf.log_outputscale] = max(start[leaf.log_outputscale], np.log(child.noise_unit))
                    set_best(child, start[: child.n_parameters], leaf, hidden_grid(child, leaf))
            starts.append(start[: child.n_parameters].copy())
            pairs = zip(mine, match, is_factor, strict=True)
            lines = [leaf for leaf, other, factor in pairs if factor and other is None and isinstance(leaf, Linear)]
            if any(_set_far(start, leaf, child) for leaf in lines):
                starts.append(start[: child.n_parameters])
    return starts


def _set_far(start: np.ndarray, line: Linear, child: KernelPosterior) -> bool:
    """Make a line nearly constant over the data, in place; False if its location is fixed."""
    free = [] if line.location is None else [i for i in line.location if i < child.n_parameters]
    start[free] = child.prior.mean[free] - _FAR * child.prior.sd[free]
    if free:
        start[line.log_outputscale] = -0.5 * np.log(np.mean(np.square(line.centred(start, child.X)).sum(1)))
    return bool(free)


def _are_factors(node: Node, inside: bool = False) -> list[bool]:
    """Whether each base kernel of a tree is a factor rather than a term."""
    if not node.parts:
        return [inside]
    return [flag for part in node.parts for flag in _are_factors(part, isinstance(node, Multiply))]


def _matches(mine: list[Node], theirs: list[Node]) -> list[list[Node | None]]:
    """Ways to match base kernels of a child with its parent's, as many as possible of each kind."""
    options = []
    for kind in dict.fromkeys(leaf.structure for leaf in mine):
        places = [i for i, leaf in enumerate(mine) if leaf.structure == kind]
        others: list[Node | None] = [leaf for leaf in theirs if leaf.structure == kind]
        others += [None] * (len(places) - len(others))
        ways = dict.fromkeys(islice(permutations(others, len(places)), 24))
        options.append([list(zip(places, way, strict=True)) for way in ways])
    matches = []
    for choice in islice(product(*options), _MATCHES):
        pairs_of = dict(pair for pairs in choice for pair in pairs)
        matches.append([pairs_of[i] for i in range(len(mine))])
    return matches


def _make_inconspicuous(start: np.ndarray, leaf: Node, is_factor: bool, child: KernelPosterior) -> None:
    """Make a new term small, or a new factor nearly one, in place."""
    roles = leaf.roles
    start[roles["log_outputscale"]] = 0.0 if is_factor else np.log(_SMALL * child.noise_unit)
    if is_factor:
        for role, index in roles.items():
            if role.startswith("log_lengthscale") and index < child.n_parameters:
                start[index] = child.prior.mean[index] + _LONG * child.prior.sd[index]
