"""Count the copies of a mode under exchanges of like kernel terms, for the Laplace evidence.

In ``SE + RQ + SE`` exchanging the parameters of the first and the last term leaves the posterior unchanged, so every
mode at which they differ has a copy. Copies whose Gaussians overlap count less.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from math import exp, lgamma
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from pymc_active.kernels.combined import Multiply
from pymc_active.kernels.node import Node
from pymc_active.posterior.base import Posterior

# Parameters that agree to this many prior sds are equal: exchanging them gives the same mode.
_EQUAL = 1e-4
# Copies do not overlap if the border between them is this many posterior sds away.
_APART = 5.0
# Points that estimate the share of a Gaussian nearer to its own mode than to several copies, and the most copies for
# which that is done: five like terms have 120.
_N_POINTS, _MOST_COPIES = 1024, 24


class _Term(NamedTuple):
    """A kernel up to exchanges: its structure, its parameters in prior sds in canonical order, log number of images."""

    structure: tuple
    values: tuple[float, ...]
    log_images: float


def log_multiplicity(posterior: Posterior, theta: np.ndarray) -> float:
    """Log of the number of distinct images of ``theta`` (P,) under exchanges of like terms and factors.

    Terms (or factors) are alike if their kernels, inputs, priors and fixed values are the same; whole subtrees count,
    as in ``PER * SE + PER * SE``. k of them give k! images, fewer if some are equal. 0 without a kernel tree.
    """
    kernel = posterior.kernel
    if kernel is None or not kernel.parts:
        return 0.0
    center, sd = posterior.prior_scale()
    return _read(kernel, posterior, (theta - center) / sd).log_images


def log_separation(posterior: Posterior, theta: np.ndarray, root: np.ndarray) -> float:
    """Log of the share of a mode's Gaussian, of root covariance ``root`` (P, r), nearer to the mode than to its copies.

    That region's images tile the space, so the copies amount to their number times this share of Gaussians.
    """
    if not 0 < (log_images := log_multiplicity(posterior, theta)) < np.log(_MOST_COPIES) + 1e-9:
        return 0.0
    # scipy.stats takes long to load, and few kernels have like terms.
    from scipy.stats.qmc import MultivariateNormalQMC

    center, sd = posterior.prior_scale()
    scaled = (theta - center) / sd
    # Exchanges keep distances in prior sds, so copies have the mode's norm and borders are at z' (mode - copy) = 0.
    differences = np.array([scaled - scaled[image] for image in exchanges(posterior)])
    differences = differences[np.abs(differences).max(1) > _EQUAL]
    distances = differences @ scaled
    spread = differences @ (root / sd[:, None])
    sds = np.linalg.norm(spread, axis=1)
    if (distances > _APART * sds).all():
        return 0.0
    if len(differences) == 1:
        return float(log_ndtr(distances[0] / sds[0]))
    points = MultivariateNormalQMC(np.zeros(root.shape[1]), rng=0).random(_N_POINTS)
    share = float((distances + points @ spread.T >= 0).all(1).mean())
    return float(np.log(max(share, exp(-log_images))))


def same_place(posterior: Posterior, apart: float) -> Callable[[np.ndarray, np.ndarray], bool]:
    """A test whether two points, or copies of them, are within ``apart`` prior sds in every parameter."""
    images, sd = exchanges(posterior), posterior.prior_scale()[1]
    return lambda a, b: any((np.abs(a - b[image]) <= apart * sd).all() for image in images)


def kernel_priors(posterior: Posterior) -> tuple | None:
    """The kernel tree with its priors, up to the order of terms and factors; None without a tree."""
    if posterior.kernel is None:
        return None
    return _read(posterior.kernel, posterior, np.zeros(posterior.n_parameters)).structure


def exchanges(posterior: Posterior) -> list[np.ndarray]:
    """Permutations of theta (P,) that exchange like terms or factors of a kernel, the identity first."""
    kernel = posterior.kernel
    arrangements = [[]] if kernel is None or not kernel.parts else _arrangements(kernel, posterior)
    images = np.tile(np.arange(posterior.n_parameters), (len(arrangements), 1))
    images[:, arrangements[0]] = arrangements
    return list(images)


def _arrangements(node: Node, posterior: Posterior) -> list[list[int]]:
    """Equivalent orders of the parameters of a kernel."""
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
    P, roles = posterior.n_parameters, node.roles.items()
    kinds = [
        (role, *(posterior.prior_kinds[i] if i < P else ("fixed", float(posterior.constants[i - P]))))
        for role, i in roles
    ]
    values = tuple(float(scaled[i]) for _, i in roles if i < P)
    return _Term((*map(str, node.structure), *map(str, kinds)), values, 0.0)
