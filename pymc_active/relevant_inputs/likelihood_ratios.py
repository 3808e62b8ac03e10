"""Log likelihood ratios of a node: whether f depends on where the node's inputs are.

Gaussian processes under which the node is active and inactive are compared along a line or in a plane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from pymc_active.posterior.factor import Factor
from pymc_active.relevant_inputs.covariance import squared_exponential, with_noise


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
class LikelihoodRatio(ABC):
    """Two Gaussian processes with the same variances, in squared units of y, and the same prior mean of f.

    ``bandwidth`` is the paper's b, √2 times PyMC's ``ls``, in units of z. ``offset_variance`` is κ², of f's mean.
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    offset_variance: float = 0.0
    mean: float = 0.0

    @property
    def _prior_variance(self) -> float:
        return self.offset_variance + self.signal_variance + self.noise_variance

    @abstractmethod
    def _kernel(self, is_active: bool, at: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Covariance of f between places, without noise."""

    def _factor(self, is_active: bool, at: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L and L⁻¹(y - mean), for L Lᵀ the covariance of y."""
        factor = Factor(with_noise(self._kernel(is_active, at, at), self.noise_variance), y - self.mean)
        return factor.L, factor.half_solve(factor.residual)

    def _predict(self, is_active: bool, at: np.ndarray, y: np.ndarray, at_new: np.ndarray) -> Moments:
        L, white = self._factor(is_active, at, y)
        half = lapack.dtrtrs(L, self._kernel(is_active, at, at_new), lower=1)[0]
        return Moments(self.mean + white @ half, self._prior_variance - np.square(half).sum(0))

    def llr_path(self, at: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log likelihood ratio of each observation given those before it, active against inactive.

        ``at`` is where the node's inputs and the others are, (2, n), or (n,) on a line. The sum of (n,) is eq. 3, nats.
        """
        (low, inactive), (high, active) = (self._factor(which, at, y) for which in (False, True))
        return 0.5 * (inactive**2 - active**2) + np.log(np.diagonal(low) / np.diagonal(high))

    def predict(self, at: np.ndarray, y: np.ndarray, at_new: np.ndarray) -> tuple[Moments, Moments]:
        """The next observation at each new place, if the node is inactive and if it is active."""
        return self._predict(False, at, y, at_new), self._predict(True, at, y, at_new)

    def llr_moments(self, at: np.ndarray, y: np.ndarray, at_new: np.ndarray) -> Moments:
        """:func:`llr_moments_of` the next observation at each new place."""
        return llr_moments_of(*self.predict(at, y, at_new))


@dataclass(frozen=True)
class LineRatio(LikelihoodRatio):
    r"""f along a line: a Gaussian process if the node is active, a constant if it is not (the paper's section 3.3).

    Active: :math:`\kappa^2 + \sigma_s^2 \exp(-(z - z')^2 / b^2)`, as for one active input, the hardest case; inactive:
    :math:`\kappa^2 + \sigma_s^2`. The log likelihood ratio of the first observation is therefore 0.

    Examples
    --------
    >>> ratio = LineRatio(bandwidth=0.4, signal_variance=1.0, noise_variance=0.05)
    >>> ratio.llr_path([-0.9, -0.35], [0.31, -0.52])[1].round(4)
    np.float64(2.0718)
    """

    def _kernel(self, is_active: bool, at: np.ndarray, other: np.ndarray) -> np.ndarray:
        square = np.square(at[:, None] - other) * (1 / self.bandwidth**2)
        return self.offset_variance + self.signal_variance * squared_exponential(square)

    def _constant(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the constant before each observation and after the last, (n + 1,)."""
        precision = np.empty(len(y) + 1)
        precision[0], precision[1:] = 1 / (self.offset_variance + self.signal_variance), 1 / self.noise_variance
        weighted = np.zeros(len(y) + 1)
        weighted[1:] = (y - self.mean) / self.noise_variance
        precision = precision.cumsum()
        return weighted.cumsum() / precision, 1 / precision

    def llr_path(self, at: np.ndarray, y: np.ndarray) -> np.ndarray:
        """See :meth:`LikelihoodRatio.llr_path`; a constant needs no factorisation."""
        z, y = np.atleast_2d(np.asarray(at, float))[0], np.asarray(y, float)
        if not len(z):
            return np.zeros(0)
        L, white = self._factor(True, z, y)
        mean, variance = self._constant(y)
        total = variance[:-1] + self.noise_variance
        residual = y - self.mean - mean[:-1]
        return 0.5 * (residual**2 / total + np.log(total) - white**2) - np.log(np.diagonal(L))

    def predict(self, at: np.ndarray, y: np.ndarray, at_new: np.ndarray) -> tuple[Moments, Moments]:
        """See :meth:`LikelihoodRatio.predict`; y may be empty."""
        z, z_new = (np.atleast_2d(np.asarray(places, float))[0] for places in (at, at_new))
        y = np.asarray(y, float)
        mean, variance = self._constant(y)
        shape = len(z_new)
        inactive = Moments(np.full(shape, self.mean + mean[-1]), np.full(shape, variance[-1] + self.noise_variance))
        if not len(z):
            return inactive, Moments(np.full(shape, self.mean), np.full(shape, self._prior_variance))
        return inactive, self._predict(True, z, y, z_new)


@dataclass(frozen=True)
class PlaneRatio(LikelihoodRatio):
    r"""f where the node's inputs are at z and all others at c, along a diagonal of the box.

    Active: :math:`\kappa^2 + \sigma_s^2 e^{-a (c - c')^2 / b^2} [1 - w + w e^{-(z - z')^2 / b^2}]`; inactive: the same
    with w = 0. On the diagonal, z = c, all nodes share the observations of its scan. The plane has room for many more
    independent values than a line, which hardly distinguishes a smooth function from a constant.

    ``n_others`` is a, a guess of the number of active inputs outside the node. ``share`` is w, the part of f's variance
    that the node accounts for: 1 in a draw of the paper's process, 1/d in a sum of functions of d inputs.

    Examples
    --------
    >>> ratio = PlaneRatio(bandwidth=0.2, signal_variance=1.0, noise_variance=0.01, offset_variance=100.0)
    >>> scan = np.array([0.1, 0.5, 0.9])
    >>> at, y = np.array([np.append(scan, 0.5), np.append(scan, 0.1)]), np.array([2.0, -1.0, 0.0, 2.1])
    >>> bool(ratio.llr_path(at, y)[3] < -1)
    True
    """

    n_others: int = 4
    share: float = 0.6

    def _kernel(self, is_active: bool, at: np.ndarray, other: np.ndarray) -> np.ndarray:
        z, c = np.square((at[:, :, None] - other[:, None]) / self.bandwidth)
        shape = squared_exponential(self.n_others * c)
        if is_active:
            shape *= 1 - self.share + self.share * squared_exponential(z)
        return self.offset_variance + self.signal_variance * shape
