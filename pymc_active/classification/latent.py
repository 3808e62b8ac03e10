"""Gaussian approximations of the latent function behind labels at fixed hyperparameters (probit likelihood)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, override

import numpy as np
from scipy.linalg import lapack
from scipy.special import log_ndtr

from pymc_active.kernels.node import Node
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.posterior.prior import GaussianPrior

# Newton's method on a concave function: it takes five to ten steps.
_MOST_STEPS, _TOLERANCE = 100, 1e-10
# Sweeps of expectation propagation, which takes ten to thirty, and the change at which it ends.
_MOST_SWEEPS, _SAME_SITES = 300, 1e-8
_SMALLEST = 1e-10


class _Derivatives(NamedTuple):
    """Of log Φ(s f) in f, for signs s = ±1: first, minus the second, and third."""

    first: np.ndarray
    W: np.ndarray
    third: np.ndarray


def _derivatives(sign: np.ndarray, f: np.ndarray) -> _Derivatives:
    z = sign * f
    ratio = np.exp(-0.5 * (z * z + LOG_2PI) - log_ndtr(z))
    curvature = ratio * (z + ratio)
    third = sign * (curvature * (z + 2 * ratio) - ratio)
    return _Derivatives(sign * ratio, np.clip(curvature, 1e-300, 1.0), third)


class LatentGaussian(ABC):
    """A Gaussian approximation of the latent function's posterior at n data: its prior times n Gaussian sites.

    ``K`` (n, n) and ``mean`` are the prior's, and ``sign`` (n,) is 1 for yes and -1 for no. ``log_likelihood`` is the
    approximation's log p(labels | hyperparameters) in nats.
    """

    K: np.ndarray
    # K⁻¹(posterior mean - prior mean), (n,).
    a: np.ndarray
    log_likelihood: float
    converged: bool
    # Square roots of the sites' precisions, and the Cholesky factor of I + root K root.
    _root: np.ndarray
    _L: np.ndarray

    @abstractmethod
    def __init__(self, K: np.ndarray, mean: float, sign: np.ndarray):
        """Find the sites."""

    @abstractmethod
    def gradient_weights(self) -> tuple[np.ndarray, float]:
        """G, such that d log likelihood = <G, dK>, symmetric (n, n); and the derivative in the prior mean."""

    def _factor(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W^½ and the Cholesky factor of I + W^½ K W^½, whose eigenvalues are at least one."""
        root = np.sqrt(W)
        B = root[:, None] * self.K * root
        B.flat[:: len(B) + 1] += 1
        L, info = lapack.dpotrf(B, lower=1, clean=1, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError(f"the covariance of {len(W)} points is not finite")
        return root, L

    def _precision(self) -> np.ndarray:
        """(K + 1/W)⁻¹."""
        return self._root[:, None] * lapack.dpotrs(self._L, np.diag(self._root), lower=1)[0]

    def _variance(self, cross: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        half = lapack.dtrtrs(self._L, self._root[:, None] * cross, lower=1)[0]
        return diagonal - np.square(half).sum(0)

    def moments(self, mean: float, cross: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latent mean and variance (m,) at points with covariance ``cross`` (n, m) with the data."""
        return mean + self.a @ cross, np.maximum(self._variance(cross, diagonal), 0.0)

    def moment_slopes(self, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of :meth:`moments` in ``cross``, (n, m) each."""
        solved = self._root[:, None] * lapack.dpotrs(self._L, self._root[:, None] * cross, lower=1)[0]
        return np.repeat(self.a[:, None], cross.shape[1], axis=1), -2 * solved


class LatentMode(LatentGaussian):
    """Laplace's approximation: the mode ``f`` (n,) and curvature of the latent function.

    Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, algorithms 3.1 and 5.1. The sign of s2 in
    5.1 is the opposite of that in the text's derivation: dW/df is minus the third derivative.
    """

    def __init__(self, K: np.ndarray, mean: float, sign: np.ndarray):
        self.K, self.sign = K, sign
        f, a = np.full(len(sign), mean), np.zeros(len(sign))
        value = log_ndtr(sign * f).sum()
        for _ in range(_MOST_STEPS):
            at = _derivatives(sign, f)
            root, L = self._factor(at.W)
            b = at.W * (f - mean) + at.first
            direction = b - root * lapack.dpotrs(L, root * (K @ b), lower=1)[0] - a
            step, gained = 1.0, -np.inf
            while step > 1e-8:
                new_a = a + step * direction
                new_f = K @ new_a + mean
                new_value = -0.5 * new_a @ (new_f - mean) + log_ndtr(sign * new_f).sum()
                gained = new_value - value
                if gained > -_TOLERANCE:
                    f, a, value = new_f, new_a, new_value
                    break
                step /= 2
            self.converged = gained < _TOLERANCE
            if self.converged:
                break
        self.f, self._at = f, _derivatives(sign, f)
        # At the mode a is the gradient, which is exact to the last digit.
        self.a = self._at.first
        self._root, self._L = self._factor(self._at.W)
        self.log_likelihood = float(value - np.log(np.diagonal(self._L)).sum())

    @override
    def gradient_weights(self) -> tuple[np.ndarray, float]:
        R = self._precision()
        in_mode = 0.5 * self._variance(self.K, np.diagonal(self.K)) * self._at.third
        through = in_mode - R @ (self.K @ in_mode)
        outer = np.multiply.outer(through, self.a)
        G = 0.5 * (np.multiply.outer(self.a, self.a) - R) + 0.5 * (outer + outer.T)
        return G, float(self.a.sum() + through.sum())


class LatentEP(LatentGaussian):
    """Expectation propagation: sites match the moments of each label's factor, and all are updated at once.

    Rasmussen & Williams (2006), algorithms 3.5, 3.6 and 5.2, with eqs. 3.73 and 3.74 for the evidence.
    """

    def __init__(self, K: np.ndarray, mean: float, sign: np.ndarray):
        self.K = K
        precision, shift = np.zeros(len(K)), np.zeros(len(K))
        step, last, self.converged = 1.0, np.inf, False
        for _ in range(_MOST_SWEEPS):
            self._root, self._L = self._factor(precision)
            variance = np.maximum(self._variance(K, np.diagonal(K)), 1e-12 * np.diagonal(K))
            # All moments are relative to the prior mean.
            self.a = shift - self._root * lapack.dpotrs(self._L, self._root * (K @ shift), lower=1)[0]
            centre = K @ self.a
            cavity_precision = np.maximum(1 / variance - precision, _SMALLEST)
            cavity_shift = centre / variance - shift
            v, m = 1 / cavity_precision, cavity_shift / cavity_precision
            z = sign * (m + mean) / np.sqrt(1 + v)
            ratio = np.exp(-0.5 * (z * z + LOG_2PI) - log_ndtr(z))
            slope, bend = sign * ratio / np.sqrt(1 + v), ratio * (z + ratio) / (1 + v)
            left = np.maximum(1 - bend * v, _SMALLEST)
            new_precision, new_shift = bend / left, (slope + bend * m) / left
            # In sds of the posterior.
            change = np.abs((new_shift - shift) - (new_precision - precision) * centre).max() * np.sqrt(variance.max())
            if change < _SAME_SITES:
                self.converged = True
                break
            # Updates of all sites at once may overshoot; then smaller steps converge.
            step = max(0.5 * step, 0.1) if change > last else step
            last = change
            precision = np.maximum(precision + step * (new_precision - precision), 0.0)
            shift = shift + step * (new_shift - shift)
        total = cavity_precision + precision
        quadratic = shift @ centre - (np.square(shift) / total).sum()
        quadratic += (m * cavity_precision / total * (precision * m - 2 * shift)).sum()
        matched = log_ndtr(z).sum() + 0.5 * np.log1p(precision * v).sum()
        self.log_likelihood = float(matched - np.log(np.diagonal(self._L)).sum() + 0.5 * quadratic)

    @override
    def gradient_weights(self) -> tuple[np.ndarray, float]:
        # Sites do not change to the first order.
        return 0.5 * (np.multiply.outer(self.a, self.a) - self._precision()), float(self.a.sum())


APPROXIMATIONS: dict[str, type[LatentGaussian]] = {"ep": LatentEP, "laplace": LatentMode}


@dataclass(eq=False)
class ProbitPosterior:
    """Log posterior of the hyperparameters theta (P,), with the latent function integrated out approximately.

    ``X`` (n, D) is in the kernel's units, and the kernel's parameters are at positions of (theta, constants). Without
    the position of a constant mean, the mean is zero.
    """

    X: np.ndarray
    sign: np.ndarray
    kernel: Node
    constants: np.ndarray
    prior: GaussianPrior
    mean_index: int | None
    approximation: type[LatentGaussian]

    def _full(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        full = np.concatenate([theta, self.constants])
        return full, 0.0 if self.mean_index is None else float(full[self.mean_index])

    def latent(self, theta: np.ndarray) -> LatentGaussian:
        """The latent function at the data, given hyperparameters theta."""
        full, mean = self._full(theta)
        return self.approximation(self.kernel.at(full, self.X).K, mean, self.sign)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log posterior density (labels and hyperparameters) and its gradient."""
        full, mean = self._full(theta)
        at = self.kernel.at(full, self.X)
        latent = self.approximation(at.K, mean, self.sign)
        G, in_mean = latent.gradient_weights()
        gradient = at.pullback(G)
        if self.mean_index is not None:
            gradient[self.mean_index] += in_mean
        value, in_prior = self.prior.value_and_gradient(theta)
        return latent.log_likelihood + value, gradient[: len(theta)] + in_prior

    def moments(self, theta: np.ndarray, latent: LatentGaussian, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latent mean and variance (m,) at points in the kernel's units."""
        full, mean = self._full(theta)
        cross = self.kernel.at(full, self.X, X_new).K
        return latent.moments(mean, cross, self.kernel.diagonal(full, X_new)[0])

    def moment_gradients(
        self, theta: np.ndarray, latent: LatentGaussian, X_new: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of :meth:`moments` in the inputs, (m, D) each; the kernel is stationary."""
        at = self.kernel.at(self._full(theta)[0], self.X, X_new)
        in_mean, in_variance = latent.moment_slopes(at.K)
        return at.input_pullback(in_mean), at.input_pullback(in_variance)
