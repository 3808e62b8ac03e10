"""The Gaussian process likelihood ratio test (GPT): whether f varies along a line, as a GP does, or is constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from pymc_active.relevant_inputs.cholesky import cholesky


class LLRMoments(NamedTuple):
    """Of the next observation's log likelihood ratio, if the node is active, at each place."""

    mean: np.ndarray
    variance: np.ndarray

    @property
    def bound(self) -> np.ndarray:
        """The paper's index: mean plus one sd: the upper confidence bound that chooses node and place."""
        return self.mean + np.sqrt(self.variance)


class Predictive(NamedTuple):
    """Mean and variance of the next noisy observation under one hypothesis."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class GPTest:
    r"""Kernels of both hypotheses along the line of a node.

    Inactive: :math:`\kappa^2 + \sigma_s^2`, a constant function. Active with :math:`a` active inputs:
    :math:`\kappa^2 + \sigma_s^2 \exp(-a (z - z')^2 / b^2)`. The first observation therefore has a log likelihood ratio
    of 0.

    Parameters
    ----------
    bandwidth : float
        The paper's b, √2 times PyMC's ``ls``, in units of z.
    signal_variance, noise_variance : float
        Squared units of y.
    offset_variance : float
        :math:`\kappa^2`, the prior variance of f's mean, part of both kernels. The paper has 0: then an offset of y
        counts against an inactive node.
    mean : float
        Prior mean of f, in units of y.
    n_active : int
        a. One is the hardest case, and the paper's choice.

    References
    ----------
    .. [1] Chen, Castro & Krause (2012), section 3.3.

    Examples
    --------
    >>> test = GPTest(bandwidth=0.4, signal_variance=1.0, noise_variance=0.05)
    >>> test.llr_path([-0.9, -0.35], [0.31, -0.52])[1].round(4)
    np.float64(2.0718)
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    offset_variance: float = 0.0
    mean: float = 0.0
    n_active: int = 1

    def _kernel(self, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        square = np.square(z[:, None] - other) * (self.n_active / self.bandwidth**2)
        return self.offset_variance + self.signal_variance * np.exp(-square)

    def _factor(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L and L⁻¹(y - mean) of the active hypothesis."""
        K = self._kernel(z, z)
        K.flat[:: len(z) + 1] += self.noise_variance
        L = cholesky(K, self.signal_variance, self.noise_variance)
        return L, lapack.dtrtrs(L, y - self.mean, lower=1)[0]

    def _constant(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the constant before each observation and after the last, (n + 1,)."""
        precision = np.empty(len(y) + 1)
        precision[0], precision[1:] = 1 / (self.offset_variance + self.signal_variance), 1 / self.noise_variance
        weighted = np.zeros(len(y) + 1)
        weighted[1:] = (y - self.mean) / self.noise_variance
        precision = precision.cumsum()
        return weighted.cumsum() / precision, 1 / precision

    def llr_path(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log likelihood ratio of each observation given those before it, active against inactive.

        Parameters
        ----------
        z : array_like, shape (n,)
            Places on the line.
        y : array_like, shape (n,)
            Noisy observations.

        Returns
        -------
        ndarray, shape (n,)
            Nats; their sum is the log likelihood ratio of all (the paper's eq. 3).
        """
        z, y = np.asarray(z, float), np.asarray(y, float)
        if not len(z):
            return np.zeros(0)
        L, white = self._factor(z, y)
        mean, variance = self._constant(y)
        total = variance[:-1] + self.noise_variance
        residual = y - self.mean - mean[:-1]
        return 0.5 * (residual**2 / total + np.log(total) - white**2) - np.log(np.diagonal(L))

    def predict(self, z: np.ndarray, y: np.ndarray, z_new: np.ndarray) -> tuple[Predictive, Predictive]:
        """The next observation at each new place, if the node is inactive and if it is active, (m,) each."""
        z, y = np.asarray(z, float), np.asarray(y, float)
        z_new = np.asarray(z_new, float)
        mean, variance = self._constant(y)
        inactive = Predictive(
            np.full(len(z_new), self.mean + mean[-1]), np.full(len(z_new), variance[-1] + self.noise_variance)
        )
        prior = self.offset_variance + self.signal_variance + self.noise_variance
        if not len(z):
            return inactive, Predictive(np.full(len(z_new), self.mean), np.full(len(z_new), prior))
        L, white = self._factor(z, y)
        half = lapack.dtrtrs(L, self._kernel(z, z_new), lower=1)[0]
        active = Predictive(self.mean + white @ half, prior - np.square(half).sum(0))
        return inactive, active

    def llr_moments(self, z: np.ndarray, y: np.ndarray, z_new: np.ndarray) -> LLRMoments:
        r"""Moments of the next observation's log likelihood ratio if the node is active.

        With :math:`r = s_1^2 / s_0^2` and :math:`m = \mu_1 - \mu_0` of :meth:`predict`,
        :math:`E = -\tfrac12 \ln r + \tfrac12 (r - 1) + m^2 / (2 s_0^2)` and
        :math:`Var = \tfrac12 (r - 1)^2 + s_1^2 m^2 / s_0^4`: the paper's shifted non-central χ², without its 0/0 where
        both variances are equal.

        Parameters
        ----------
        z, y
            As in :meth:`llr_path`.
        z_new : array_like, shape (m,)

        Returns
        -------
        LLRMoments
            ``mean``, ``variance`` and the index ``bound``, (m,) each, in nats.
        """
        return llr_moments_of(*self.predict(z, y, z_new))


def llr_moments_of(inactive: Predictive, active: Predictive) -> LLRMoments:
    """Moments under the active hypothesis, see :meth:`GPTest.llr_moments`."""
    ratio = active.variance / inactive.variance
    shift = np.square(active.mean - inactive.mean) / inactive.variance
    mean = 0.5 * (ratio - 1 - np.log(ratio) + shift)
    return LLRMoments(mean, 0.5 * (ratio - 1) ** 2 + ratio * shift)
