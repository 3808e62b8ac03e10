"""Log likelihood ratios of a node: whether f depends on where the node's inputs are.

Gaussian processes under which the node is active and inactive are compared along a line or in a plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from pymc_active.kernels.radial import exp_quad
from pymc_active.posterior.factor import Factor

# Prior variance of the mean of f, in signal variances: nothing is known about the mean.
VAGUE = 100.0
# With less noise, in signal variances, the covariance of the observations is singular to rounding.
_LEAST_NOISE = 1e-10


def squared_exponential(square: np.ndarray) -> np.ndarray:
    """exp(-r² / b²) from r² / b², squared distances in units of the paper's bandwidth b = √2 ``ls``."""
    return exp_quad(2.0 * square, 0)[0]


def with_noise(K: np.ndarray, noise_variance: float) -> np.ndarray:
    """K, its diagonal raised in place."""
    K.flat[:: len(K) + 1] += noise_variance
    return K


def least_noise(signal_variance: float, noise_variance: float) -> float:
    """The noise variance, at least 1e-10 of the signal variance."""
    return max(noise_variance, _LEAST_NOISE * signal_variance)


class Moments(NamedTuple):
    """Of the next noisy observation under one hypothesis, or of its log likelihood ratio (nats), (m,) each."""

    mean: np.ndarray
    variance: np.ndarray

    @property
    def bound(self) -> np.ndarray:
        """Mean plus one sd: of the log likelihood ratio, the paper's index that selects node and place."""
        return self.mean + np.sqrt(self.variance)


def llr_moments_of(inactive: Moments, active: Moments) -> Moments:
    r"""Moments of the next observation's log likelihood ratio if the node is active.

    With :math:`r = s_1^2 / s_0^2` and :math:`m = \mu_1 - \mu_0`,
    :math:`E = -\tfrac12 \ln r + \tfrac12 (r - 1) + m^2 / (2 s_0^2)` and
    :math:`Var = \tfrac12 (r - 1)^2 + s_1^2 m^2 / s_0^4`: the paper's shifted non-central χ², without its 0/0 where both
    variances are equal.
    """
    ratio = active.variance / inactive.variance
    shift = np.square(active.mean - inactive.mean) / inactive.variance
    mean = 0.5 * (ratio - 1 - np.log(ratio) + shift)
    return Moments(mean, 0.5 * (ratio - 1) ** 2 + ratio * shift)


@dataclass(frozen=True)
class LikelihoodRatio:
    r"""f where the node's inputs are at z and all others at c, along a line through the box.

    Active: :math:`\kappa^2 + \sigma_s^2 e^{-a (c - c')^2 / b^2} [1 - w + w e^{-(z - z')^2 / b^2}]`; inactive: the same
    with w = 0. All nodes share observations at z = c. The plane has room for many more independent values than a line,
    which hardly distinguishes a smooth function from a constant.

    ``n_others`` is a, a guess of the number of active inputs outside the node, and ``share`` is w, the part of f's
    variance that the node accounts for: 1 in a draw of the paper's process, 1/d in a sum of functions of d inputs. By
    default, a = 0 and w = 1, c does not matter, and this is the paper's test (section 3.3) along a line: a Gaussian
    process as for one active input, the hardest case, against a constant. ``bandwidth`` is the paper's b, √2 times
    PyMC's ``ls``, in units of z; ``offset_variance`` is κ², of f's mean, whose prior mean is ``mean``.

    Examples
    --------
    >>> line = LikelihoodRatio(bandwidth=0.4, signal_variance=1.0, noise_variance=0.05)
    >>> z = np.array([-0.9, -0.35])
    >>> line.llr_path(np.array([z, z]), np.array([0.31, -0.52])).round(4)
    array([0.    , 2.0718])
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    offset_variance: float = 0.0
    mean: float = 0.0
    n_others: int = 0
    share: float = 1.0

    def _kernel(self, is_active: bool, at: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Covariance of f between places, without noise."""
        z, c = np.square((at[:, :, None] - other[:, None]) / self.bandwidth)
        shape = squared_exponential(self.n_others * c)
        if is_active:
            shape *= 1 - self.share + self.share * squared_exponential(z)
        return self.offset_variance + self.signal_variance * shape

    def _factor(self, is_active: bool, at: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L and L⁻¹(y - mean), for L Lᵀ the covariance of y."""
        factor = Factor(with_noise(self._kernel(is_active, at, at), self.noise_variance), y - self.mean)
        return factor.L, factor.half_solve(factor.residual)

    def _predict(self, is_active: bool, at: np.ndarray, y: np.ndarray, at_new: np.ndarray) -> Moments:
        prior = self.offset_variance + self.signal_variance + self.noise_variance
        if not len(y):
            return Moments(np.full(at_new.shape[1], self.mean), np.full(at_new.shape[1], prior))
        L, white = self._factor(is_active, at, y)
        half = lapack.dtrtrs(L, self._kernel(is_active, at, at_new), lower=1)[0]
        return Moments(self.mean + white @ half, prior - np.square(half).sum(0))

    def llr_path(self, at: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log likelihood ratio of each observation given those before it, active against inactive.

        ``at`` is where the node's inputs and the others are, (2, n). The sum of (n,) is eq. 3, nats.
        """
        (low, inactive), (high, active) = (self._factor(which, at, y) for which in (False, True))
        return 0.5 * (inactive**2 - active**2) + np.log(np.diagonal(low) / np.diagonal(high))

    def predict(self, at: np.ndarray, y: np.ndarray, at_new: np.ndarray) -> tuple[Moments, Moments]:
        """The next observation at each new place (2, m), if the node is inactive and if it is active."""
        return self._predict(False, at, y, at_new), self._predict(True, at, y, at_new)

    def llr_moments(self, at: np.ndarray, y: np.ndarray, at_new: np.ndarray) -> Moments:
        """:func:`llr_moments_of` the next observation at each new place."""
        return llr_moments_of(*self.predict(at, y, at_new))
