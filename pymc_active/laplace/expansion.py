"""Expand a posterior to second order at one point: gradient, Hessian, covariance, Laplace evidence."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pymc_active.laplace.curvature import Curvature, invert
from pymc_active.laplace.like_terms import log_multiplicity, log_separation
from pymc_active.laplace.symmetry import NO_SYMMETRY, Symmetry, find_symmetry, log_orbit_volume
from pymc_active.posterior.base import Moments, Posterior, State
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.posterior.row_space import EmbeddingSlice, FullSpace, Space, find_space
from pymc_active.support.summaries import Summarized, Summary

# A dense (P, P) matrix of this size takes about 200 MB, and a few of them are needed.
LARGEST_DENSE = 5000


class Expansion(Summarized):
    """Log posterior, gradient, exact Hessian, covariance and Laplace evidence at one point z (P',).

    All are in the coordinates of ``space``; ``theta`` and ``full_...`` are in the model's own parameters. ``posterior``
    is that over z; ``embedding`` says where in z an embedding matrix sits, and its shape; ``root`` (P', r) is a square
    root of the covariance of z. ``log_evidence`` includes ``log_multiplicity`` (see
    :mod:`pymc_active.laplace.like_terms`).
    """

    def __init__(self, space: Space, z: np.ndarray):
        P = len(z)
        _check_dense(P)
        self.space, self.z = space, z
        self.posterior, self.full_posterior, self.embedding = space.posterior, space.source, space.embedding
        posterior = space.posterior
        state = self.state
        prior, prior_gradient = posterior.prior_value_and_gradient(z)
        self.log_posterior = float(prior - state.factor.nll)
        self.gradient = posterior.likelihood_gradient(state) - prior_gradient
        self.hessian = posterior.hessian(state)
        self.symmetry: Symmetry = (
            NO_SYMMETRY if space.embedding is None else find_symmetry(posterior, z, self.hessian, *space.embedding)
        )
        null = self.symmetry.directions.reshape(len(self.symmetry.directions), P)
        self.curvature: Curvature = invert(self.hessian, null, -posterior.prior_hessian(z))
        self.root = self.curvature.root
        self.log_multiplicity = log_multiplicity(posterior, z) + log_separation(posterior, z, self.root)
        self.log_evidence = (
            self.log_posterior
            + 0.5 * (P - len(null)) * LOG_2PI
            - 0.5 * self.curvature.log_determinant
            + self.symmetry.log_volume
            + self.log_multiplicity
            + space.log_complement
        )

    def _summary(self) -> Summary:
        return Summary("Expansion", {"log posterior": f"{self.log_posterior:.2f} nats", "parameters": len(self.theta)})

    def __getstate__(self) -> dict:
        # Matrices of the size of the data are recomputed when needed.
        return {name: value for name, value in self.__dict__.items() if name != "state"}

    def forget(self) -> None:
        """Drop matrices of the size of the data, which are made again when needed."""
        self.__dict__.pop("state", None)
        self.posterior.forget()

    @cached_property
    def state(self) -> State:
        """The posterior's factorisation at z."""
        return self.posterior.state(self.z)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Inverse Hessian (P', P'), zero along directions of symmetry."""
        return self.root @ self.root.T

    @cached_property
    def inverse_root(self) -> np.ndarray:
        """Matrix (r, P') that maps draws from the Gaussian, centred at z, to standard normal numbers."""
        # The columns of the root are orthogonal.
        return (self.root / np.square(self.root).sum(0)).T

    @cached_property
    def theta(self) -> np.ndarray:
        """The model's own parameters."""
        return self.space.lift(self.z)

    @cached_property
    def full_gradient(self) -> np.ndarray:
        """Gradient of the NEGATIVE log posterior in the model's own parameters."""
        if isinstance(self.space, FullSpace):
            return self.gradient
        return -self.full_posterior.value_and_gradient(self.theta)[1]

    @cached_property
    def full_hessian(self) -> np.ndarray:
        """Hessian in the model's own parameters; a ValueError if it is too large for a dense matrix."""
        if isinstance(self.space, FullSpace):
            return self.hessian
        _check_dense(len(self.theta))
        return self.full_posterior.hessian(self.full_posterior.state(self.theta))

    @cached_property
    def full_covariance(self) -> np.ndarray:
        """Covariance of the model's own parameters; raises as ``full_hessian`` does."""
        if isinstance(self.space, FullSpace):
            return self.covariance
        _check_dense(len(self.theta))
        C, N = self.space.covariance(self.covariance), self._full_null
        CN = C @ N.T
        # Project the orbit out on both sides.
        return C - CN @ N - N.T @ CN.T + N.T @ (N @ CN) @ N

    @cached_property
    def _full_null(self) -> np.ndarray:
        """Orthonormal directions of symmetry among the model's own parameters, (q, P)."""
        null = self.symmetry.directions.reshape(len(self.symmetry.directions), len(self.z))
        return np.linalg.qr((self.space.lift(self.z + null) - self.theta).T)[0].T

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """Log posterior at the rows of z (S, P'), with the orbits' volumes where draws do not move along them."""
        values = self.posterior.values(z)
        if len(self.symmetry.directions) and self.embedding is not None:
            where, shape = self.embedding
            sizes = np.linalg.svd(z[:, where].reshape(-1, *shape), compute_uv=False)
            values += np.array([log_orbit_volume(size, shape[0]) for size in sizes])
        return values

    def draw(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draws z from the Gaussian, (draws, P')."""
        return self.z + rng.normal(size=(draws, self.root.shape[1])) @ self.root.T

    def draw_full(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of the model's own parameters (draws, P); they do not move along directions of symmetry."""
        z = self.draw(draws, rng)
        if isinstance(self.space, FullSpace):
            return z
        thetas = self.space.lift(z, rng)
        return thetas - (thetas - self.theta) @ self._full_null.T @ self._full_null

    def moments(self, X_new: np.ndarray, *, gradient: bool = False) -> Moments:
        """Predictions with the hyperparameters at z."""
        return self.posterior.moments(self.state, X_new, gradient=gradient)

    def smallest_singular_value_is_uncertain(self) -> bool:
        """Whether the smallest singular value of an embedding is below its posterior sd."""
        if self.embedding is None or len(self.symmetry.singular_values) < 2:
            return False
        where, shape = self.embedding
        left, s, right = np.linalg.svd(self.z[where].reshape(shape), full_matrices=False)
        direction = np.outer(left[:, -1], right[-1]).ravel()
        return bool(s[-1] ** 2 < direction @ self.covariance[where, where] @ direction)


def expand(posterior: Posterior, theta: np.ndarray, embedding: EmbeddingSlice | None) -> Expansion:
    """Expand at any theta (P,), in the row space if that is exact and smaller."""
    space = find_space(posterior, embedding, theta)
    return Expansion(space, space.shrink(theta))


def _check_dense(n_parameters: int) -> None:
    if n_parameters > LARGEST_DENSE:
        raise ValueError(
            f"dense matrices are limited to {LARGEST_DENSE} parameters; got {n_parameters}. An embedding with more "
            "inputs than data needs none for predictions, criteria and draws, if R has a zero-mean normal prior with "
            "the same sds in each row and the mean does not depend on X. Otherwise reduce the number of inputs."
        )
