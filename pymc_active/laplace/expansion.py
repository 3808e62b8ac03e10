"""The Gaussian expansion of the posterior at one point."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pymc_active.laplace.curvature import Curvature, invert
from pymc_active.laplace.like_terms import log_multiplicity, log_separation
from pymc_active.laplace.symmetry import NO_SYMMETRY, Symmetry, find_symmetry, log_orbit_volume
from pymc_active.posterior.base import Moments, Posterior, State
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.posterior.row_space import RowSpace, row_space

# A dense (P, P) matrix of this size takes about 200 MB, and a few of them are needed.
LARGEST_DENSE = 5000


class Expansion:
    """Log posterior, gradient, exact Hessian, covariance and Laplace evidence at ``theta``.

    Parameters
    ----------
    posterior : Posterior
    theta : ndarray, shape (P,)
    embedding : (slice, (d, D)), optional
        Where in theta an embedding matrix sits.
    row_space : RowSpace, optional
        What ``posterior`` is the row space of. Everything here is in the coordinates of ``posterior``; the
        attributes ``full_...`` and :meth:`draw` are in those of the model.

    Attributes
    ----------
    log_multiplicity : float
        Log of the number of copies of this mode that exchanging like terms of a kernel makes, less for copies that
        overlap; ``log_evidence`` counts them. See :mod:`pymc_active.laplace.like_terms`.
    """

    def __init__(
        self,
        posterior: Posterior,
        theta: np.ndarray,
        embedding: tuple[slice, tuple[int, int]] | None = None,
        row_space: RowSpace | None = None,
    ):
        P = len(theta)
        _check_dense(P)
        self.posterior, self.theta, self.embedding, self.row_space = posterior, theta, embedding, row_space
        state = self.state
        prior, prior_gradient = posterior.prior_value_and_gradient(theta)
        self.log_posterior = float(prior - state.factor.nll)
        self.gradient = posterior.likelihood_gradient(state) - prior_gradient
        self.hessian = posterior.hessian(state)
        self.symmetry: Symmetry = (
            NO_SYMMETRY if embedding is None else find_symmetry(posterior, theta, self.hessian, *embedding)
        )
        null = self.symmetry.directions.reshape(len(self.symmetry.directions), P)
        self.curvature: Curvature = invert(self.hessian, null, -posterior.prior_hessian(theta))
        self.log_multiplicity = log_multiplicity(posterior, theta)
        if self.log_multiplicity:
            self.log_multiplicity += log_separation(posterior, theta, self.curvature.root)
        self.log_evidence = (
            self.log_posterior
            + 0.5 * (P - len(null)) * LOG_2PI
            - 0.5 * self.curvature.log_determinant
            + self.symmetry.log_volume
            + self.log_multiplicity
            + (0.0 if row_space is None else row_space.log_complement)
        )

    def __getstate__(self) -> dict:
        # Matrices of the size of the data are computed again where they are needed.
        return {name: value for name, value in self.__dict__.items() if name != "state"}

    @cached_property
    def state(self) -> State:
        """The posterior's factorisation at theta."""
        return self.posterior.state(self.theta)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Inverse Hessian (P, P), zero along directions of symmetry."""
        return self.curvature.root @ self.curvature.root.T

    @cached_property
    def inverse_root(self) -> np.ndarray:
        """Takes what the Gaussian draws, less theta, to standard normal numbers, (P - q, P)."""
        # The columns of the root are orthogonal.
        return (self.curvature.root / np.square(self.curvature.root).sum(0)).T

    @property
    def full_posterior(self) -> Posterior:
        """The posterior over the model's own parameters."""
        return self.posterior if self.row_space is None else self.row_space.source

    @cached_property
    def full_theta(self) -> np.ndarray:
        """The model's own parameters."""
        return self.theta if self.row_space is None else self.row_space.lift(self.theta)

    @cached_property
    def full_gradient(self) -> np.ndarray:
        """Gradient of the NEGATIVE log posterior in the model's own parameters."""
        if self.row_space is None:
            return self.gradient
        return -self.full_posterior.value_and_gradient(self.full_theta)[1]

    @cached_property
    def full_hessian(self) -> np.ndarray:
        """Hessian in the model's own parameters.

        Raises
        ------
        ValueError
            If it is too large for a dense matrix.
        """
        if self.row_space is None:
            return self.hessian
        _check_dense(len(self.full_theta))
        return self.full_posterior.hessian(self.full_posterior.state(self.full_theta))

    @cached_property
    def full_covariance(self) -> np.ndarray:
        """Covariance of the model's own parameters; raises as ``full_hessian`` does."""
        if self.row_space is None:
            return self.covariance
        _check_dense(len(self.full_theta))
        C, N = self.row_space.covariance(self.covariance), self._full_null
        CN = C @ N.T
        # What lies along the orbit is taken out on both sides.
        return C - CN @ N - N.T @ CN.T + N.T @ (N @ CN) @ N

    @cached_property
    def _full_null(self) -> np.ndarray:
        """Orthonormal directions of symmetry among the model's own parameters, (q, P)."""
        null = self.symmetry.directions.reshape(len(self.symmetry.directions), len(self.theta))
        if self.row_space is None:
            return null
        return np.linalg.qr((self.row_space.lift(self.theta + null) - self.full_theta).T)[0].T

    def log_density(self, theta: np.ndarray) -> float:
        """Log posterior at theta; that of the whole orbit where draws do not move along it."""
        value = self.posterior.value(theta)
        if len(self.symmetry.directions) and self.embedding is not None:
            where, shape = self.embedding
            value += log_orbit_volume(np.linalg.svd(theta[where].reshape(shape), compute_uv=False), shape[0])
        return value

    def draw(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draws from the Gaussian, in the coordinates of ``posterior``, (draws, P)."""
        root = self.curvature.root
        return self.theta + rng.normal(size=(draws, root.shape[1])) @ root.T

    def draw_full(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of the model's own parameters; they do not move along directions of symmetry."""
        thetas = self.draw(draws, rng)
        if self.row_space is None:
            return thetas
        thetas = self.row_space.lift(thetas, rng)
        return thetas - (thetas - self.full_theta) @ self._full_null.T @ self._full_null

    def moments(self, X_new: np.ndarray, *, gradient: bool = False) -> Moments:
        """Predictions with the hyperparameters at theta."""
        return self.posterior.moments(self.state, X_new, gradient=gradient)

    def smallest_singular_value_is_uncertain(self) -> bool:
        """Whether the smallest singular value of an embedding is below its own posterior sd."""
        if self.embedding is None or len(self.symmetry.singular_values) < 2:
            return False
        where, shape = self.embedding
        left, s, right = np.linalg.svd(self.theta[where].reshape(shape), full_matrices=False)
        direction = np.outer(left[:, -1], right[-1]).ravel()
        return bool(s[-1] ** 2 < direction @ self.covariance[where, where] @ direction)


def expand(posterior: Posterior, theta: np.ndarray, embedding: tuple[slice, tuple[int, int]] | None) -> Expansion:
    """Expand at any theta (P,), in the row space where that is exact and smaller."""
    space = row_space(posterior, theta)
    if space is None:
        return Expansion(posterior, theta, embedding)
    return Expansion(space.posterior, space.shrink(theta), (space.where, space.shape), space)


def _check_dense(n_parameters: int) -> None:
    if n_parameters > LARGEST_DENSE:
        raise ValueError(
            f"a dense matrix over {n_parameters} parameters is limited to {LARGEST_DENSE}. An embedding with more "
            "inputs than data needs none (predictions, criteria and draws work) if R has a zero-mean normal prior with "
            "the same sds in each row and the mean is no function of X; else reduce the number of inputs."
        )
