"""The coordinates z in which a posterior is searched and expanded: the model's own theta, or a row space's.

``theta`` (P,) always means the user's parameters. An embedding with more inputs than data has a shorter z, in as many
coordinates as the data span.

The likelihood knows R through U = X Rᵀ only. If D > n, the part of R outside the row space of X keeps its prior, so the
posterior factorises exactly: an embedding posterior in the r ≤ n + d coordinates of that row space, times the prior
outside. A candidate has r coordinates in the row space and a rest, and sees the prior outside through the *length* of
that rest only: one more input, zero in all data. Everything therefore runs in r + 1 inputs without knowing it.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.linalg import qr

from pymc_active.posterior.array import EmbeddingPosterior
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.posterior.prior import GaussianPrior
from pymc_active.support.scaling import InputMap


class Projection:
    """Map from the user's inputs to the r + 1 coordinates: those in the row space, and the length of the rest.

    ``scale`` (D,) has the prior sds of R's columns over their geometric mean; ``basis`` (D, r) spans the scaled data.
    """

    def __init__(self, x_map: InputMap, scale: np.ndarray, basis: np.ndarray):
        self.x_map, self.scale, self.basis = x_map, scale, basis
        self._is_scaled = bool((scale != 1).any())

    def _scaled(self, value: np.ndarray) -> np.ndarray:
        # A pool is large: do not copy it needlessly.
        Z = self.x_map(value)
        return Z * self.scale if self._is_scaled else Z

    def __call__(self, value: np.ndarray) -> np.ndarray:
        Z = self._scaled(value)
        inside = Z @ self.basis
        rest = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->i", inside, inside)
        return np.column_stack([inside, np.sqrt(np.maximum(rest, 0.0))])

    def pullback(self, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Gradient in the user's inputs (m, D), from that in the coordinates (m, r + 1)."""
        Z = self._scaled(value)
        rest = Z - (Z @ self.basis) @ self.basis.T
        # The length of the rest has no gradient where the rest vanishes.
        rest /= np.maximum(np.linalg.norm(rest, axis=1), 1e-12 * np.linalg.norm(Z, axis=1) + 1e-300)[:, None]
        in_Z = gradient[:, :-1] @ self.basis.T + gradient[:, -1:] * rest
        return self.x_map.pullback(value, in_Z * self.scale)


# Where in a vector of parameters an embedding matrix sits, and its shape.
type EmbeddingSlice = tuple[slice, tuple[int, int]]


class FullSpace:
    """All parameters of a model, with the interface of :class:`RowSpace`."""

    # Nothing lies outside.
    log_complement = 0.0

    def __init__(self, posterior: Posterior, embedding: EmbeddingSlice | None = None):
        self.source = self.posterior = posterior
        self.embedding = embedding

    def subset(self, rows: np.ndarray) -> FullSpace | None:
        """The same coordinates for the posterior of the data in these rows; None if it cannot be had."""
        some = self.posterior.subset(rows)
        return None if some is None else FullSpace(some, self.embedding)

    def shrink(self, theta: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        return theta

    def lift(self, z: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        return z


class RowSpace:
    """The posterior in its row space, and the way back.

    ``source`` has all D inputs, ``posterior`` r + 1; its log density is the one of ``source`` at the lifted point. Add
    ``log_complement``, the log of the Gaussian integral outside the row space, to a Laplace evidence of ``posterior``.
    """

    def __init__(self, source: EmbeddingPosterior, R: np.ndarray | None = None):
        d, D = source.shape
        sd = source.prior.sd[source.R].reshape(d, D)[0]
        mean_sd = float(np.exp(np.log(sd).mean()))
        scale = sd / mean_sd
        rows = source.X * scale
        # A point that is not a mode may lie off the row space of the data, and is expanded too.
        span = rows if R is None else np.concatenate([rows, R / scale])
        basis, triangle = qr(span.T, mode="economic", check_finite=False)
        r = basis.shape[1]

        self.source, self.scale, self.basis = source, scale, basis
        self.where, self.shape = slice(source.R.start, source.R.start + d * (r + 1)), (d, r + 1)
        mean, sds = self._replace(source.prior.mean, 0.0), self._replace(source.prior.sd, mean_sd)
        prior = GaussianPrior(mean, sds)
        outside = d * (D - r - 1)
        self.log_complement = 0.5 * outside * LOG_2PI + outside * np.log(mean_sd)
        # Scaling the inputs adds the Jacobian of R, the sum of the log scales, which is zero by construction.
        prior.constant -= self.log_complement

        X = np.zeros((len(source.X), r + 1))
        X[:, :r] = triangle.T[: len(source.X)]
        self.posterior = in_coordinates(source, X, Projection(source.x_map, scale, basis), prior)

    def subset(self, rows: np.ndarray) -> RowSpace:
        """The same coordinates for the posterior of the data in these rows."""
        other = copy(self)
        other.posterior = self.posterior.subset(rows)
        return other

    @property
    def embedding(self) -> EmbeddingSlice:
        """Where in z the matrix sits, and its shape."""
        return self.where, self.shape

    def _replace(self, values: np.ndarray, new: float | np.ndarray) -> np.ndarray:
        """A vector over theta with the entries of R replaced by coordinates of the row space."""
        middle = np.broadcast_to(new, self.shape[0] * self.shape[1])
        return np.concatenate([values[: self.where.start], middle, values[self.source.R.stop :]])

    def shrink(self, theta: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The point of the row space next to theta (P,); weights of the rest are zero, or prior draws by ``rng``."""
        R = theta[self.source.R].reshape(self.source.shape) / self.scale
        rest = np.zeros(len(R)) if rng is None else rng.normal(size=len(R)) * self.posterior.prior.sd[self.where.start]
        return self._replace(theta, np.column_stack([R @ self.basis, rest]).ravel())

    def lift(self, thetas: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Full parameters (..., P) of points in the row space; ``rng`` draws the part outside from its prior."""
        thetas = np.asarray(thetas)
        lead, (d, D) = thetas.shape[:-1], self.source.shape
        # One product of two-dimensional arrays reads the basis once.
        inside = thetas[..., self.where].reshape(-1, self.shape[1])[:, :-1]
        R = (inside @ self.basis.T).reshape(*lead, d, D)
        if rng is not None:
            rest = rng.normal(size=(*lead, d, D)).reshape(-1, D)
            rest -= (rest @ self.basis) @ self.basis.T
            R += self.posterior.prior.sd[self.where.start] * rest.reshape(R.shape)
        R *= self.scale
        parts = thetas[..., : self.where.start], R.reshape(*lead, d * D), thetas[..., self.where.stop :]
        return np.concatenate(parts, axis=-1)

    def covariance(self, inside: np.ndarray) -> np.ndarray:
        """Dense covariance (P, P) of theta, from the covariance in the row space."""
        (d, D), where = self.source.shape, self.where
        frame = self.scale[:, None] * self.basis
        lift = np.zeros((self.source.n_parameters, self.posterior.n_parameters))
        lift[: where.start, : where.start] = np.eye(where.start)
        lift[self.source.R.stop :, where.stop :] = np.eye(self.posterior.n_parameters - where.stop)
        outside = self.posterior.prior.sd[where.start] ** 2 * (np.diag(self.scale**2) - frame @ frame.T)
        result = np.zeros((self.source.n_parameters,) * 2)
        for k in range(d):
            rows = slice(where.start + k * D, where.start + (k + 1) * D)
            start = where.start + k * self.shape[1]
            lift[rows, start : start + self.shape[1] - 1] = frame
            result[rows, rows] = outside
        return result + lift @ inside @ lift.T


def in_coordinates(
    source: EmbeddingPosterior, X: np.ndarray, x_map: InputMap, prior: GaussianPrior
) -> EmbeddingPosterior:
    """The same posterior with R acting on the columns of X (n, C), to which ``x_map`` takes the user's inputs."""
    d, D = source.shape
    shift = d * (X.shape[1] - D)

    def moved(index: int | np.ndarray) -> Any:
        return index + shift * (index >= source.R.stop)

    other = copy(source)
    other.forget()
    other.X, other.x_map, other.prior = X, x_map, prior
    other.shape, other.R = (d, X.shape[1]), slice(source.R.start, source.R.stop + shift)
    other.n_parameters = source.n_parameters + shift
    other.log_lengthscale = moved(source.log_lengthscale)
    other.log_noise, other.log_outputscale = moved(source.log_noise), moved(source.log_outputscale)
    other.mean_indices, other.phi_indices = moved(source.mean_indices), moved(source.phi_indices)
    return other


def row_space(posterior: Posterior, theta: np.ndarray | None = None) -> RowSpace | None:
    """The posterior in its row space, which with ``theta`` also holds its R; None if it saves nothing or is not exact.

    It is exact for a prior of R of mean zero with the same sds in every row, and a mean function without slopes.
    """
    if not isinstance(posterior, EmbeddingPosterior) or posterior.R.stop > posterior.n_parameters:
        return None
    d, D = posterior.shape
    sd = posterior.prior.sd[posterior.R].reshape(d, D)
    if (
        D <= len(posterior.X) + (d if theta is not None else 0) + 1
        or posterior.prior.mean[posterior.R].any()
        or (sd != sd[0]).any()
        or len(posterior.mean_indices) > 1
    ):
        return None
    return RowSpace(posterior, None if theta is None else theta[posterior.R].reshape(d, D))


type Space = FullSpace | RowSpace


def find_space(posterior: Posterior, embedding: EmbeddingSlice | None, theta: np.ndarray | None = None) -> Space:
    """The row space of an embedding's data (holding ``theta``) where that is exact and smaller, else all parameters."""
    return row_space(posterior, theta) or FullSpace(posterior, embedding)
