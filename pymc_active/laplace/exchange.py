"""Terms of a kernel that can change places: how many modes are copies of one.

In ``SE + PER * SE + RQ + SE`` the first and the last term are the same kernel with the same priors. Exchanging their
parameters leaves the posterior as it is, so that every mode at which they differ has a copy. Laplace's evidence of one
mode counts one of them.
"""

from __future__ import annotations

from itertools import permutations, product
from math import lgamma
from typing import NamedTuple

import numpy as np

from pymc_active.kernels.arrays import Multiply, Node
from pymc_active.posterior.base import Posterior

# Parameters that agree to this many prior sds are equal: the mode lies where the terms are alike, and is no copy.
_EQUAL = 1e-4


class _Term(NamedTuple):
    """A kernel up to exchanges: what it is, its parameters in prior sds in a canonical order, log number of images."""

    structure: tuple
    values: tuple[float, ...]
    log_images: float


def log_multiplicity(posterior: Posterior, theta: np.ndarray) -> float:
    """Log of the number of distinct images of ``theta`` under exchanges of like terms and factors.

    Terms (or factors) are alike if they are the same kernels of the same inputs, with the same priors on their
    parameters and the same fixed values. k of them, all with different parameters, give k! images; those with equal
    parameters give fewer. Whole subtrees count, such as the terms of ``PER * SE + PER * SE``.

    Parameters
    ----------
    posterior : Posterior
        0 for one without a tree of kernels.
    theta : ndarray, shape (P,)

    Returns
    -------
    float
        To be added to the Laplace evidence, nats.
    """
    kernel = posterior.kernel
    if kernel is None or not kernel.parts:
        return 0.0
    center, sd = posterior.prior_scale()
    return _read(kernel, posterior, (theta - center) / sd).log_images


def exchanges(posterior: Posterior) -> list[np.ndarray]:
    """Permutations of theta (P,) that exchange like terms or factors of a kernel, the identity among them."""
    kernel = posterior.kernel
    identity = np.arange(posterior.n_parameters)
    if kernel is None or not kernel.parts:
        return [identity]
    first, *others = _arrangements(kernel, posterior)
    images = [identity]
    for arrangement in others:
        image = identity.copy()
        image[first] = arrangement
        images.append(image)
    return images


def _arrangements(node: Node, posterior: Posterior) -> list[list[int]]:
    """Orders of a kernel's own parameters in which they mean the same."""
    if not node.parts:
        return [[index for index in node.roles.values() if index < posterior.n_parameters]]
    alike: dict[tuple, list[list[list[int]]]] = {}
    for part in node.parts:
        structure = _read(part, posterior, np.zeros(posterior.n_parameters)).structure
        alike.setdefault(structure, []).append(_arrangements(part, posterior))
    orders = [[o for p in permutations(group) for o in product(*p)] for _, group in sorted(alike.items())]
    return [[index for group in order for part in group for index in part] for order in product(*orders)]


def _read(node: Node, posterior: Posterior, scaled: np.ndarray) -> _Term:
    if not node.parts:
        return _read_base(node, posterior, scaled)
    terms = sorted(_read(part, posterior, scaled) for part in node.parts)
    log_images = sum(term.log_images for term in terms)
    for structure in {term.structure for term in terms}:
        alike = [term.values for term in terms if term.structure == structure]
        log_images += lgamma(len(alike) + 1)
        while alike:
            equal = [values for values in alike if np.allclose(values, alike[0], rtol=0, atol=_EQUAL)]
            log_images -= lgamma(len(equal) + 1)
            alike = [values for values in alike if values not in equal]
    kind = "product" if isinstance(node, Multiply) else "sum"
    return _Term((kind, *(t.structure for t in terms)), tuple(v for t in terms for v in t.values), log_images)


def _read_base(node: Node, posterior: Posterior, scaled: np.ndarray) -> _Term:
    P = posterior.n_parameters
    kinds: list[tuple] = []
    values: list[float] = []
    for role, index in node.roles.items():
        if index < P:
            kinds.append((role, *posterior.prior_kinds[index]))
            values.append(float(scaled[index]))
        else:
            kinds.append((role, "fixed", float(posterior.constants[index - P])))
    return _Term((*map(str, node.structure), *map(str, kinds)), tuple(values), 0.0)
