"""The Gaussian expansion of the posterior at one point."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pymc_active.laplace.curvature import Curvature, invert
from pymc_active.laplace.symmetry import NO_SYMMETRY, Symmetry, find_symmetry
from pymc_active.posterior.base import Moments, Posterior
from pymc_active.posterior.factor import LOG_2PI

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
    """

    def __init__(self, posterior: Posterior, theta: np.ndarray, embedding: tuple[slice, tuple[int, int]] | None = None):
        P = len(theta)
        if P > LARGEST_DENSE:
            raise ValueError(
                f"the model has {P} parameters; a dense Hessian is limited to {LARGEST_DENSE}. Reduce the number of "
                "inputs or components."
            )
        self.posterior, self.theta, self._embedding = posterior, theta, embedding
        self.state = posterior.state(theta)
        prior, prior_gradient = posterior.prior_value_and_gradient(theta)
        self.log_posterior = float(prior - self.state.factor.nll)
        self.gradient = posterior.likelihood_gradient(self.state) - prior_gradient
        self.hessian = posterior.hessian(self.state)
        self.symmetry: Symmetry = (
            NO_SYMMETRY if embedding is None else find_symmetry(posterior, theta, self.hessian, *embedding)
        )
        null = self.symmetry.directions.reshape(-1, P)
        self.curvature: Curvature = invert(self.hessian, null, -posterior.prior_hessian(theta))
        self.log_evidence = (
            self.log_posterior
            + 0.5 * (P - len(null)) * LOG_2PI
            - 0.5 * self.curvature.log_determinant
            + self.symmetry.log_volume
        )

    @cached_property
    def covariance(self) -> np.ndarray:
        """Inverse Hessian (P, P), zero along directions of symmetry."""
        return self.curvature.root @ self.curvature.root.T

    @cached_property
    def positive_hessian(self) -> np.ndarray:
        """Precision (P, P) of the Gaussian: the Hessian without symmetries and with its floor."""
        inverse_root = np.linalg.pinv(self.curvature.root)
        return inverse_root.T @ inverse_root

    def moments(self, X_new: np.ndarray, *, gradient: bool = False) -> Moments:
        """Predictions with the hyperparameters at theta."""
        return self.posterior.moments(self.state, X_new, gradient=gradient)

    def given(self, X: np.ndarray, y: np.ndarray) -> Expansion:
        """The expansion at the same theta for other data."""
        return Expansion(self.posterior.with_data(X, y), self.theta, self._embedding)

    def smallest_singular_value_is_uncertain(self) -> bool:
        """Whether the smallest singular value of an embedding is below its own posterior sd."""
        if self._embedding is None or len(self.symmetry.singular_values) < 2:
            return False
        where, shape = self._embedding
        left, s, right = np.linalg.svd(self.theta[where].reshape(shape), full_matrices=False)
        direction = np.outer(left[:, -1], right[-1]).ravel()
        return bool(s[-1] ** 2 < direction @ self.covariance[where, where] @ direction)
