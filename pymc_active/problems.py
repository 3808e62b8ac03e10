"""Standard test problems: functions with known answers, and random functions on linear embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

BRANIN_BOUNDS = [(-5.0, 10.0), (0.0, 15.0)]
BRANIN_MINIMUM = 0.39788735772973816
BRANIN_MINIMIZERS = np.array([[-np.pi, 12.275], [np.pi, 2.275], [3 * np.pi, 2.475]])

# Numbers in the largest array of one block of a sum of cosines.
_BLOCK = 2_000_000


class EmbeddedProblem(NamedTuple):
    """A function of a few linear combinations of many inputs, x in the box [-1, 1]^D.

    Attributes
    ----------
    function : callable
        Takes (m, D), returns (m,); without noise.
    R : ndarray, shape (d, D)
        The true embedding, u = R x.
    bounds : list of (low, high)
    """

    function: Function
    R: np.ndarray
    bounds: list[tuple[float, float]]


def branin(X: np.ndarray) -> np.ndarray:
    """Branin's function on [-5, 10] x [0, 15], with three equal minima.

    Parameters
    ----------
    X : array_like, shape (m, 2)

    Returns
    -------
    ndarray, shape (m,)
        Its smallest value is 0.397887; mean 54.3 and sd 51.3 over its box.

    Examples
    --------
    >>> branin([[np.pi, 2.275]]).round(6)
    array([0.397887])
    """
    x1, x2 = np.asarray(X, float).T
    parabola = x2 - 5.1 / (4 * np.pi**2) * x1**2 + 5 / np.pi * x1 - 6
    return parabola**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x1) + 10


def embedded(function: Function, R: np.ndarray) -> EmbeddedProblem:
    """A function of u, (m, d), as one of x in the box [-1, 1]^D, with u = R x.

    Parameters
    ----------
    function : callable
        Takes (m, d), returns (m,).
    R : ndarray, shape (d, D)

    Returns
    -------
    EmbeddedProblem
    """
    R = np.atleast_2d(np.asarray(R, float))
    return EmbeddedProblem(lambda X: function(np.asarray(X, float) @ R.T), R, [(-1.0, 1.0)] * R.shape[1])


def random_embedding(
    D: int, d: int, *, prior_scale: float | None = None, random_seed: int | np.random.Generator | None = None
) -> np.ndarray:
    """An embedding (d, D) from the prior of :func:`pymc_active.embedding_gp`.

    Parameters
    ----------
    D, d : int
    prior_scale : float, optional
        Sd of the entries, by default ``5/4 * sqrt(3 / D)``: then x uniform in the box gives u an sd of 5/4.
    random_seed : int or Generator, optional
    """
    scale = 1.25 * np.sqrt(3 / D) if prior_scale is None else prior_scale
    return np.random.default_rng(random_seed).normal(0, scale, (d, D))


def branin_embedding(D: int, *, random_seed: int | np.random.Generator | None = None) -> EmbeddedProblem:
    """Branin on a random embedding of D inputs: [-2.5, 2.5]^2, two sds of u, is mapped to Branin's box.

    Corners of the x-box map outside of it; there Branin goes on as its formula does, up to several hundreds.
    """
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

    Parameters
    ----------
    D, d : int
    prior_scale : float, optional
        As in :func:`random_embedding`.
    n_features : int
        Random Fourier features, :math:`f(u) = \sqrt{2/M} \sum_i w_i \cos(\omega_i^T u + b_i)` with standard normal
        w and ω.
    random_seed : int or Generator, optional
        Chooses R, the features and the function.

    Returns
    -------
    EmbeddedProblem

    Notes
    -----
    Over random problems the covariance is exactly that of ``ExpQuad`` with unit lengthscale and unit variance. Given
    the frequencies, the function is exactly Gaussian, with a covariance whose entries have a sampling error of at
    most :math:`1/\sqrt{M}` (one sd): 0.016 with 4,000 features.
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
