"""A Gaussian process given its data and hyperparameters, with all derivatives in the inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_active.kernels.node import Lines
from pymc_active.posterior.array import ArrayPosterior, EmbeddingPosterior
from pymc_active.posterior.base import Posterior, State
from pymc_active.posterior.factor import Factor
from pymc_active.posterior.graph import GraphPosterior
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.support.scaling import Affine, InputMap

# Step of central differences, where a user's mean or noise has no derivatives, as a fraction of the range of an input.
_STEP = 1e-5


class ConditionedGP:
    """A Gaussian process given X (n, D) and y (n,), in the kernel's units, at theta (P,); ``minimize`` describes -f."""

    def __init__(self, posterior: Posterior, theta: np.ndarray, minimize: bool = False, state: State | None = None):
        self.posterior, self.theta, self._known = posterior.by_arrays(np.asarray(theta, float), state)
        self.sign = -1.0 if minimize else 1.0
        self.X = self.posterior.X

    @property
    def y(self) -> np.ndarray:
        """The outputs (n,), or the sites that stand for outcomes that are not normal."""
        if not isinstance(self.posterior, LatentPosterior):
            return self.sign * self.posterior.y
        return self.sign * self.factor.residual + self.prior_mean(self.X)[0]

    @cached_property
    def _state(self) -> State:
        return self.posterior.light_state(self.theta) if self._known is None else self._known

    @property
    def factor(self) -> Factor:
        """Factor of the data covariance G = K + noise. Its own ``alpha`` has the sign of f; see :attr:`alpha`."""
        return self._state.factor

    @property
    def alpha(self) -> np.ndarray:
        """G⁻¹ (y - mean), (n,)."""
        return self.sign * self.factor.alpha

    @property
    def x_map(self) -> Affine:
        """From the user's inputs to the kernel's."""
        assert isinstance(self.posterior.x_map, Affine), "the map into a row space has no inverse"
        return self.posterior.x_map

    def to_user(self, X: np.ndarray) -> np.ndarray:
        """Inputs in the user's units."""
        return self.x_map.shift + self.x_map.scale * X

    def to_user_y(self, f: np.ndarray) -> np.ndarray:
        """Values of f in the user's units of y, from values of what is described: f or -f."""
        y_map = self.posterior.y_map
        return y_map.shift + y_map.scale * self.sign * f

    def to_expected(self, f: np.ndarray) -> np.ndarray:
        """The expected outcome from values of what is described: f, or what a likelihood makes of it."""
        values = self.to_user_y(f)
        if not isinstance(self.posterior, LatentPosterior):
            return values
        return self.posterior.likelihood.rate(values, self.posterior.phi_of(self.theta))

    def from_expected(self, outcome: float) -> float:
        """The value of f, in the user's units, of an expected outcome; not finite for what that cannot be."""
        if not isinstance(self.posterior, LatentPosterior):
            return outcome
        return float(np.squeeze(self.posterior.likelihood.link(np.asarray(outcome), self.posterior.phi_of(self.theta))))

    def prior_mean(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean function (m,) and its gradient (m, D)."""
        mean, gradient = self.posterior.prior_mean(self.theta, X)
        return self.sign * mean, self.sign * gradient

    def prior_mean_hessian(self, X: np.ndarray) -> np.ndarray:
        """Second derivatives of the mean function, (m, D, D)."""
        if isinstance(self.posterior, ArrayPosterior) or getattr(self.posterior, "is_mean_linear", False):
            # Constant or linear.
            return np.zeros((*X.shape, X.shape[1]))
        # Only the gradient of a user's mean function is known.
        hessian = self.central_differences(lambda points: self.prior_mean(points)[1], X)
        return 0.5 * (hessian + hessian.swapaxes(1, 2))

    def lines(self, a: np.ndarray, b: np.ndarray) -> Lines:
        """The prior kernel between points ``a`` (n, 1, D) and ``b`` (m, D), or row by row; not of a graph."""
        posterior: Any = self.posterior
        return posterior.lines(self.theta, a, b)

    def covariance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The prior kernel between rows, (n, m)."""
        if isinstance(self.posterior, GraphPosterior):
            return self.posterior.covariance(self.theta, A, B)
        return self.lines(A[:, None], B).along(None, None, (0, 0))[0, 0]

    def prior_variance(self, X: np.ndarray) -> np.ndarray:
        """k(x, x) at the rows of X, (m,)."""
        if isinstance(self.posterior, GraphPosterior):
            return self.posterior.prior_variance(self.theta, X)
        return self.lines(X, X).along(None, None, (0, 0))[0, 0]

    @cached_property
    def _constant_noise(self) -> float | None:
        """The noise variance, unless it may depend on the input."""
        if not isinstance(self.posterior, ArrayPosterior) or isinstance(self.posterior, LatentPosterior):
            return None
        user = self.posterior.moments(self._state, self.to_user(self.X[:1])).noise_variance
        return float(user[0]) / float(self.posterior.y_map.scale) ** 2

    def noise_variance(self, X: np.ndarray) -> np.ndarray:
        """Noise variance of observations at the rows of X, (m,)."""
        if self._constant_noise is not None:
            return np.full(len(X), self._constant_noise)
        if isinstance(self.posterior, LatentPosterior):
            mean, variance = self.moments(X)
            unit = float(self.posterior.y_map.scale)
            return self.posterior.noise_of(self.theta, self.to_user_y(mean), unit**2 * variance) / unit**2
        user = self.posterior.moments(self._state, self.to_user(X)).noise_variance
        return user / float(self.posterior.y_map.scale) ** 2

    @property
    def data_noise(self) -> np.ndarray:
        """Noise variance of each row of the data (n,), with its known part; rows may be means."""
        if isinstance(self.posterior, LatentPosterior):
            return self.factor.sites
        return (self.noise_variance(self.X) + self.posterior.known_variance) / self.posterior.counts

    def noise_variance_gradient(self, X: np.ndarray) -> np.ndarray:
        """Derivatives of :meth:`noise_variance` in the rows of X, (m, D)."""
        if self._constant_noise is not None:
            return np.zeros(X.shape)
        return self.central_differences(self.noise_variance, X)

    def central_differences(self, function: Callable[[np.ndarray], np.ndarray], X: np.ndarray) -> np.ndarray:
        """Derivatives (m, D, ...) of a function of the rows of X, to about ten digits of a gradient."""
        # It is called once, with 2 D copies of X one after the other, since small calls cost more than their
        # arithmetic.
        m, D = X.shape
        width = np.ptp(np.concatenate([self.X, X]), axis=0)
        steps = _STEP * np.where(width > 0, width, 1.0)
        moved = X + np.multiply.outer([1.0, -1.0], np.diag(steps))[:, :, None]
        values = function(moved.reshape(-1, D))
        up, down = values.reshape(2, D, m, *values.shape[1:])
        return np.stack([(a - b) / (2 * h) for a, b, h in zip(up, down, steps, strict=True)], axis=1)

    def moments(self, X: np.ndarray, cross: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Latent posterior mean and variance (m,); ``cross`` is the covariance (n, m) with the data, if it is known."""
        cross = self.covariance(self.X, X) if cross is None else cross
        half = self.factor.half_solve(cross)
        mean = self.prior_mean(X)[0] + self.alpha @ cross
        return mean, np.maximum(self.prior_variance(X) - np.einsum("ij,ij->j", half, half), 0.0)

    def pull(self, X: np.ndarray, W: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Gradient of ⟨W, k(at, X)⟩ in the rows of X, (m, D); W is (n, m) or (n, 1), and ``at`` (n, D) the data."""
        at = self.X if at is None else at
        if isinstance(self.posterior, GraphPosterior):
            return self.posterior.sums(self.theta, at, X, W)[1]
        lines = self.lines(at[:, None], X)
        # All axes at once.
        slopes = lines.along(None, np.eye(X.shape[1])[:, None, None], (0, 1)).get((0, 1), 0.0)
        return np.broadcast_to((W * slopes).sum(-2), (X.shape[1], len(X))).T

    def prior_variance_gradient(self, X: np.ndarray) -> np.ndarray:
        """Gradient of k(x, x) in x, (m, D): twice the gradient in one argument."""
        if isinstance(self.posterior, GraphPosterior):
            return self.central_differences(self.prior_variance, X)
        slopes = self.lines(X, X).along(None, np.eye(X.shape[1])[:, None], (0, 1)).get((0, 1), 0.0)
        return 2 * np.broadcast_to(slopes, (X.shape[1], len(X))).T

    def sums(self, X: np.ndarray, W: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ_i W_ij k(at_i, x_j) (m,) and its gradient in x_j (m, D), of a graph."""
        posterior: Any = self.posterior
        return posterior.sums(self.theta, at, X, W)

    def moment_gradients(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of :meth:`moments` in the rows of X, (m, D) each."""
        solved = self.factor.solve(self.covariance(self.X, X))
        mean = self.prior_mean(X)[1] + self.pull(X, self.alpha[:, None])
        return mean, self.prior_variance_gradient(X) - 2 * self.pull(X, solved)


@dataclass(frozen=True)
class EmbeddedMap:
    """From the user's inputs (m, D) to u (m, d)."""

    x_map: InputMap
    R: np.ndarray

    def __call__(self, value: np.ndarray) -> np.ndarray:
        return self.x_map(value) @ self.R.T

    def pullback(self, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        return self.x_map.pullback(value, gradient @ self.R)


class EmbeddedGP(ConditionedGP):
    """The process ``gp`` on a linear embedding in the d inputs u = R x, so that covariances cost no more than these."""

    def __init__(self, gp: ConditionedGP):
        super().__init__(gp.posterior, gp.theta, gp.sign < 0)
        assert isinstance(gp.posterior, EmbeddingPosterior)
        self.source = gp
        self.R = gp.posterior.embedding(gp.theta)
        self.X = gp.X @ self.R.T

    @property
    def x_map(self):
        return EmbeddedMap(self.posterior.x_map, self.R)

    @property
    def factor(self):
        return self.source.factor

    @cached_property
    def _constant_noise(self):
        return self.source._constant_noise

    @property
    def y(self):
        return self.source.y

    def prior_mean(self, X):
        mean, _ = self.source.prior_mean(np.zeros((len(X), self.source.X.shape[1])))
        return mean, np.zeros(X.shape)

    def lines(self, a, b):
        posterior = self.posterior
        assert isinstance(posterior, EmbeddingPosterior)
        return posterior.lines_between(self.theta, a - b, lambda direction: direction)


def in_fewest_inputs(gp: ConditionedGP) -> ConditionedGP:
    """The process in d embedded inputs, if d < D and the mean is constant, else itself; maps lead there and back."""
    posterior = gp.posterior
    if not isinstance(posterior, EmbeddingPosterior) or posterior.shape[0] >= posterior.shape[1]:
        return gp
    return gp if len(posterior.mean_indices) > 1 else EmbeddedGP(gp)
