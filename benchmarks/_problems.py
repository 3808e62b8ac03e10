"""Test problems: functions with known optima, and random functions of many inputs of which few matter.

A function takes inputs of shape (m, d) and returns values of shape (m,), without noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

BRANIN_BOUNDS = [(-5.0, 10.0), (0.0, 15.0)]
BRANIN_MINIMUM = 0.39788735772973816
BRANIN_MINIMIZERS = np.array([[-np.pi, 12.275], [np.pi, 2.275], [3 * np.pi, 2.475]])
BEALE_BOUNDS = [(-4.5, 4.5)] * 2
BEALE_MINIMUM = 0.0
BEALE_MINIMIZER = np.array([3.0, 0.5])
COSINES_BOUNDS = [(0.0, 1.0)] * 2
COSINES_MAXIMUM = 1.6
COSINES_MAXIMIZER = np.array([0.3125, 0.3125])
HARTMANN6_BOUNDS = [(0.0, 1.0)] * 6
HARTMANN6_MINIMUM = -3.322368011415515
HARTMANN6_MINIMIZER = np.array([0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053])

_HARTMANN_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN_SCALES = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_HARTMANN_CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)

# Numbers in the largest array of one block of a sum of cosines.
_BLOCK = 2_000_000
# Grid points per bandwidth, and the smallest eigenvalue kept, as a share of the largest.
_PER_BANDWIDTH, _SMALLEST = 5.5, 1e-9


class EmbeddedProblem(NamedTuple):
    """A function of x (m, D) in the box ``bounds``, [-1, 1]^D, that depends on u = R x only; ``R`` is (d, D)."""

    function: Function
    R: np.ndarray
    bounds: list[tuple[float, float]]


class HiddenProblem(NamedTuple):
    """A function of x (m, D) in the box ``bounds``, [-1, 1]^D; ``active`` are the inputs that matter, sorted."""

    function: Function
    active: list[int]
    bounds: list[tuple[float, float]]


def branin(X: np.ndarray) -> np.ndarray:
    """Branin's function on [-5, 10] x [0, 15], to be minimised: three minima of 0.397887, mean 54.3, sd 51.3."""
    x1, x2 = np.asarray(X, float).T
    parabola = x2 - 5.1 / (4 * np.pi**2) * x1**2 + 5 / np.pi * x1 - 6
    return parabola**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x1) + 10


def beale(X: np.ndarray) -> np.ndarray:
    """Beale's function on [-4.5, 4.5]², flat apart from steep corners, to be minimised: 0 at (3, 1/2)."""
    x, y = np.asarray(X, float).T
    return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2


def cosines(X: np.ndarray) -> np.ndarray:
    r"""A dome with ripples on [0, 1]², to be **maximised** (Anderson, Moore & Cohn 2000).

    :math:`1 - \sum_i (u_i^2 - 0.3 \cos 3 \pi u_i)`, :math:`u = 1.6 x - 1/2`; maximum 1.6, mean 0.32, sd 0.62.
    """
    U = 1.6 * np.asarray(X, float) - 0.5
    return 1 - (np.square(U) - 0.3 * np.cos(3 * np.pi * U)).sum(1)


def hartmann6(X: np.ndarray) -> np.ndarray:
    """Hartmann's function, four wells in [0, 1]^6, to be minimised: minimum -3.322368, mean -0.26, sd 0.39."""
    away = np.square(np.asarray(X, float)[:, None] - _HARTMANN_CENTRES)
    return -np.exp(-(_HARTMANN_SCALES * away).sum(-1)) @ _HARTMANN_WEIGHTS


def hidden(function: Function, bounds: list[tuple[float, float]], D: int, active: list[int]) -> HiddenProblem:
    """A function of d inputs, hidden among D inputs in [-1, 1]^D.

    ``bounds`` is the box of its d inputs, to which [-1, 1]^d is mapped. ``active`` are their positions among the D
    inputs.
    """
    low, high = np.array(bounds, float).T
    active = sorted(active)
    return HiddenProblem(
        lambda X: function(low + (high - low) * (np.asarray(X, float)[:, active] + 1) / 2), active, [(-1.0, 1.0)] * D
    )


def quad(
    D: int, d: int, *, bandwidth: float = 0.1, mix: float = 0.0, random_seed: int | np.random.Generator | None = None
) -> HiddenProblem:
    r"""A parabola :math:`|M P (x - x^*)|^2`, steep in d random inputs out of D (Chen, Castro & Krause 2012).

    The diagonal matrix P is 1/``bandwidth`` for the d inputs, and 1/100 for the others; :math:`M = (1 - r) I + r 1 1^T`
    with r = ``mix``, where 1/D gives the paper's QuadMix. The seed chooses the inputs, and x* uniformly in the box.
    """
    rng = np.random.default_rng(random_seed)
    active = sorted(rng.choice(D, d, replace=False).tolist())
    optimum = rng.uniform(-1, 1, D)
    scale = np.full(D, 0.01)
    scale[active] = 1 / bandwidth

    def function(X: np.ndarray) -> np.ndarray:
        U = scale * (np.asarray(X, float) - optimum)
        return np.square((1 - mix) * U + mix * U.sum(1, keepdims=True)).sum(1)

    return HiddenProblem(function, active, [(-1.0, 1.0)] * D)


def gp_draw(d: int, bandwidth: float, *, random_seed: int | np.random.Generator | None = None) -> Function:
    r"""A draw of a Gaussian process on [-1, 1]^d with kernel :math:`\exp(-|x - x'|^2 / b^2)`, for up to three inputs.

    The bandwidth b is √2 times PyMC's ``ls``. The draw is a Karhunen-Loève expansion: draws are analytic, so that the
    eigenvectors of the covariance on a fine grid, continued by the kernel, reproduce the covariance to 2e-9.
    """
    rng = np.random.default_rng(random_seed)
    grid, features = _expansion(bandwidth)
    weights = rng.normal(size=(features.shape[1],) * d)

    def function(X: np.ndarray) -> np.ndarray:
        X = np.asarray(X, float)
        factors = np.exp(-np.square((X.T[..., None] - grid) / bandwidth)) @ features
        value = np.einsum("nk,k...->n...", factors[0], weights)
        for factor in factors[1:]:
            value = np.einsum("nk,nk...->n...", factor, value)
        return value

    return function


@lru_cache(maxsize=8)
def _expansion(bandwidth: float) -> tuple[np.ndarray, np.ndarray]:
    """A grid, and the matrix that turns kernels with its points into features."""
    grid = np.linspace(-1.1, 1.1, int(np.ceil(_PER_BANDWIDTH * 2.2 / bandwidth)) + 10)
    values, vectors = np.linalg.eigh(np.exp(-np.square((grid[:, None] - grid) / bandwidth)))
    keep = values > _SMALLEST * values[-1]
    return grid, vectors[:, keep] / np.sqrt(values[keep])


def embedded(function: Function, R: np.ndarray) -> EmbeddedProblem:
    """A function of u as one of x in the box [-1, 1]^D, with u = R x and R of shape (d, D)."""
    R = np.atleast_2d(np.asarray(R, float))
    return EmbeddedProblem(lambda X: function(np.asarray(X, float) @ R.T), R, [(-1.0, 1.0)] * R.shape[1])


def random_embedding(
    D: int, d: int, *, prior_scale: float | None = None, random_seed: int | np.random.Generator | None = None
) -> np.ndarray:
    """An embedding (d, D) from the prior of :func:`pymc_active.embedding_gp`, with entries of sd ``prior_scale``."""
    scale = 1.25 * np.sqrt(3 / D) if prior_scale is None else prior_scale
    return np.random.default_rng(random_seed).normal(0, scale, (d, D))


def branin_embedding(D: int, *, random_seed: int | np.random.Generator | None = None) -> EmbeddedProblem:
    """Branin's function on a random embedding of D inputs, its box at u in [-2.5, 2.5]² (two sds) and continued."""
    low, high = np.array(BRANIN_BOUNDS).T
    R = random_embedding(D, 2, random_seed=random_seed)
    return embedded(lambda U: branin(low + (U + 2.5) / 5 * (high - low)), R)


def random_embedding_problem(
    D: int,
    d: int,
    *,
    prior_scale: float | None = None,
    n_features: int = 4000,
    random_seed: int | np.random.Generator | None = None,
) -> EmbeddedProblem:
    r"""A draw of a Gaussian process on a random embedding, as a function that can be evaluated anywhere.

    A sum of M = ``n_features`` random features, :math:`f(u) = \sqrt{2/M} \sum_i w_i \cos(\omega_i^T u + b_i)`, w and ω
    standard normal; the embedding is that of :func:`random_embedding`. Over random problems, the covariance is exactly
    that of ``ExpQuad`` with unit lengthscale and variance. Given the frequencies, the function is Gaussian, and the
    entries of its covariance have a sampling error of at most :math:`1/\sqrt{M}` (one sd), 0.016 with 4,000 features.
    """
    rng = np.random.default_rng(random_seed)
    R = random_embedding(D, d, prior_scale=prior_scale, random_seed=rng)
    frequency = rng.normal(size=(d, n_features))
    phase = rng.uniform(0, 2 * np.pi, n_features)
    weight = np.sqrt(2 / n_features) * rng.normal(size=n_features)

    def function(U: np.ndarray) -> np.ndarray:
        parts = np.array_split(U, len(U) * n_features // _BLOCK + 1)
        return np.concatenate([np.cos(part @ frequency + phase) @ weight for part in parts])

    return embedded(function, R)


def draw_problem(seed: int, D: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Data and test data (10 D points each) of one function of the prior of ``pma.ard_gp``.

    The noise sd is 0.1, the box [-1.7, 1.7]^D, and test points are 1 to 3 lengthscales from a point of the data in a
    random direction, as in Table 1 of Garnett, Osborne & Hennig (2014).
    """
    n = n_test = 10 * D
    rng = np.random.default_rng((seed, D, n))
    lengthscale = np.exp(rng.normal(0.5 * np.log(D), 1.0, D))
    outputscale = np.exp(rng.normal())
    X = rng.uniform(-1.7, 1.7, (n, D))
    direction = rng.normal(size=(n_test, D))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    X_new = X[rng.integers(n, size=n_test)] + rng.uniform(1, 3, (n_test, 1)) * lengthscale * direction
    Z = np.concatenate([X, X_new]) / lengthscale
    s = np.square(Z[:, None] - Z).sum(-1)
    K = outputscale**2 * np.exp(-s / 2) + 0.01 * np.eye(len(Z))
    y = rng.multivariate_normal(np.zeros(len(Z)), K, method="cholesky")
    return X, y[:n], X_new, y[n:]
