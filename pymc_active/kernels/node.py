"""Kernels as NumPy arrays, with exact derivatives in their few log-parameters and in the inputs.

A *node* is a kernel whose parameters sit at given positions of one flat vector ``theta``. ``node.at(theta, X, Z)``
evaluates it once, and the result has

* ``K``, the (n, m) matrix,
* ``pullback(W)``: the gradient of <W, K>,
* ``tangents()``: the derivatives dK/dtheta[a] that are not zero, as pairs (a, matrix),
* ``curvature(W)``: the Hessian of <W, K>, and
* ``input_pullback(W)``: the gradient of <W, K> in the rows of Z, (m, D).

Sums and products combine these by the sum and product rules. ``K`` and ``input_pullback`` are analytic and accept a
complex theta: a complex step gives their derivatives in theta to the last digit.

``node.batch(thetas, pairs)`` evaluates it among the data for many hyperparameters at once, which is what particles are
moved by, ``node.lines(theta, a, b)`` along straight lines, for derivatives of any kind in the inputs, and
``node.terms(theta, n_inputs)`` tells its spectral densities, from which sample paths are drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pymc_active.kernels.polynomials import Polynomial
from pymc_active.kernels.program import Leaf
from pymc_active.kernels.spectra import Term

Tangents = list[tuple[int, np.ndarray]]


class Node:
    """A kernel with parameters at fixed positions of ``theta``."""

    # Terms of a sum, factors of a product; none for a base kernel.
    parts: Sequence[Node] = ()
    # How a program joins these.
    joins: int
    # Of a base kernel: its parameters, such as "log_period", and their positions; its name and what else identifies it.
    roles: dict[str, int]
    structure: tuple
    # The input columns on which a base kernel acts, and the position of its log output scale.
    columns: np.ndarray
    log_outputscale: int
    # What evaluates a base kernel: between rows, among the data for many hyperparameters, and along lines.
    evaluation: type[Any]
    batch_evaluation: type[Any]
    line_evaluation: type[Any]
    # Of a base kernel: the parameter in which posteriors have many narrow modes, beyond all if there is none.
    hidden: int = sys.maxsize

    @property
    def loop(self) -> Leaf | None:
        """A base kernel as compiled loops know it; None if they do not."""
        return None

    @property
    def leaves(self) -> list[Node]:
        """The base kernels, from left to right."""
        return [leaf for part in self.parts for leaf in part.leaves] if self.parts else [self]

    def at(self, theta: np.ndarray, X: np.ndarray, Z: np.ndarray | None = None) -> Any:
        """Evaluate between the rows of ``X`` and of ``Z`` (default: ``X`` itself)."""
        return self.evaluation(self, theta, X, Z)

    def diagonal(self, theta: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, Tangents]:
        """k(x, x) for every row of ``X``, shape (n,), and its derivatives: outputscale², unless a kernel says more."""
        value = np.full(len(X), np.exp(2 * theta[self.log_outputscale]))
        return value, [(self.log_outputscale, 2 * value)]

    def batch(self, thetas: np.ndarray, pairs: Pairs) -> Batch:
        """Evaluate among the data at every row of ``thetas`` (S, P)."""
        return self.batch_evaluation(self, thetas, pairs)

    def lines(self, theta: np.ndarray, a: np.ndarray, b: np.ndarray) -> Lines:
        """Evaluate between points a and b (..., D), for derivatives along any lines through them."""
        return self.line_evaluation(self, theta, a, b)

    def terms(self, theta: np.ndarray, n_inputs: int) -> list[Term]:
        """The kernel as a sum of products of lines, steps and stationary kernels."""
        raise NotImplementedError

    def hidden_grid(self, X: np.ndarray, mean: float, sd: float) -> np.ndarray:
        """Values of the hidden parameter to scan: that the rows of X can tell, and its prior N(mean, sd²) allows."""
        raise NotImplementedError

    def longest_alias(self, theta: np.ndarray, X: np.ndarray) -> float | None:
        """A larger value of the hidden parameter with the same covariances between the rows of X, if there is one."""
        return None

    def check_twice_differentiable(self) -> None:
        """Raise a ValueError unless functions with this kernel have second derivatives."""
        for part in self.parts:
            part.check_twice_differentiable()


class Pairs:
    """The lower triangle of the n x n pairs of rows of ``X``, diagonal included."""

    def __init__(self, X: np.ndarray):
        self.X = X
        self.rows, self.columns = np.tril_indices(len(X))
        # Where they stand in a flat (n, n) matrix.
        self.places = self.rows * len(X) + self.columns
        self._differences: dict[bytes, np.ndarray] = {}

    def differences(self, columns: np.ndarray) -> np.ndarray:
        """x_i - x_j for these input columns, (C, q)."""
        key = columns.tobytes()
        if key not in self._differences:
            some = self.X[:, columns].T
            self._differences[key] = some[:, self.rows] - some[:, self.columns]
        return self._differences[key]

    def squared_differences(self, columns: np.ndarray) -> np.ndarray:
        """(x_i - x_j)² for these input columns, (C, q)."""
        key = b"squared" + columns.tobytes()
        if key not in self._differences:
            self._differences[key] = np.square(self.differences(columns))
        return self._differences[key]


class Batch(Protocol):
    """A kernel among the data for S particles.

    Only the lower triangle of a covariance is computed, as one row of ``q = n (n + 1) / 2`` numbers for each particle.
    Differences of inputs are differences of the data, so lengthscales and embeddings act by matrix products alone.
    """

    # (S, q).
    K: np.ndarray

    def pullback(self, W: np.ndarray) -> np.ndarray:
        """Gradients (S, P) of (W * K).sum(1)."""


class Lines(Protocol):
    """A kernel between points a and b (..., D), which broadcast against each other."""

    def along(self, u: np.ndarray | None, v: np.ndarray | None, order: tuple[int, int]) -> Polynomial:
        """Coefficients of k(a + s u, b + t v) up to s^order[0] t^order[1].

        Directions broadcast like the points, and may have further axes in front. None stands for a point that stays.
        """


def roles(name: str, indices: Sequence[int], log_outputscale: int) -> dict[str, int]:
    """Roles of parameters with one name, numbered if they are several, and of the output scale."""
    names = [name] if len(indices) == 1 else [f"{name}[{number}]" for number in range(len(indices))]
    return dict(zip([*names, "log_outputscale"], [*indices, log_outputscale], strict=True))


def variances(thetas: np.ndarray, log_outputscale: int) -> np.ndarray:
    """outputscale² at every row of thetas (S, P), shape (S, 1)."""
    return np.exp(2 * thetas[:, log_outputscale])[:, None]


def two_outer(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The matrix a bᵀ + c dᵀ, by a product in a fifth of the time of two outer ones."""
    return np.stack([a, c], 1) @ np.stack([b, d])


def outer_differences(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a_i - b_j, (n, m)."""
    return two_outer(a, np.ones_like(b), np.ones_like(a), -b)


def squared_distance(A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
    """Squared Euclidean distances between rows, as PyMC computes them (clipped at zero); of numbers directly."""
    if A.shape[1] == 1:
        s = outer_differences(A[:, 0], A[:, 0] if B is None else B[:, 0])
        return np.multiply(s, s, out=s)
    a = np.einsum("ij,ij->i", A, A)
    b = a if B is None else np.einsum("ij,ij->i", B, B)
    s = A @ (A if B is None else B).T
    s *= -2.0
    s += a[:, None]
    s += b
    return np.maximum(s, 0.0, out=s)
