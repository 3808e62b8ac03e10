"""The paper's tests of a node: its log likelihood ratio, active against inactive, and where to evaluate next."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from pymc_active.kernels.radial import exp_quad
from pymc_active.posterior.factor import Factor

# Longest distance of a pair on a line of unit length; with longer ones all pairs would be nearly the same.
_LONGEST_SPACING = 0.5

# Number of random places at which the test compares its index; a fresh set each time, so that ties are random.
_N_PLACES = 64
# Relative difference below which indices are a tie: far from all data they differ by rounding only.
_TIE = 1e-6

# Mean and variance, (m,) each.
Moments = tuple[np.ndarray, np.ndarray]


class GPT:
    r"""A Gaussian process along a line, as for one active input, the hardest case, against a constant (section 3.3).

    Active: the covariance is :math:`\kappa^2 + \sigma_s^2 e^{-(z - z')^2 / b^2}`; inactive: :math:`\kappa^2 +
    \sigma_s^2`. ``bandwidth`` is the paper's b, √2 times PyMC's ``ls``, in units of z; ``offset_variance`` is κ², of
    f's mean, whose prior mean is 0, or if κ > 0 the first observation: any one is as good a guess as another.

    Examples
    --------
    >>> test = GPT(bandwidth=0.4, signal_variance=1.0, noise_variance=0.05)
    >>> test.path(np.array([-0.9, -0.35]), np.array([0.31, -0.52])).round(4)
    array([0.    , 2.0718])
    """

    def __init__(self, bandwidth: float, signal_variance: float, noise_variance: float, offset_variance: float = 0.0):
        self.bandwidth, self.signal = bandwidth, signal_variance
        self.noise, self.offset = noise_variance, offset_variance

    def _kernel(self, is_active: bool, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Covariance of f between places, without noise."""
        square = np.square((z[:, None] - other) / self.bandwidth) * float(is_active)
        return self.offset + self.signal * exp_quad(2.0 * square, 0)[0]

    def _factor(self, is_active: bool, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """L, L⁻¹(y - mean) and the mean, for L Lᵀ the covariance of y."""
        mean = float(y[0]) if self.offset else 0.0
        factor = Factor(self._kernel(is_active, z, z) + self.noise * np.eye(len(z)), y - mean)
        return factor.L, factor.half_solve(factor.residual), mean

    def predict(self, is_active: bool, z: np.ndarray, y: np.ndarray, new: np.ndarray) -> Moments:
        """Moments of the next observation at each new place (m,), after y (n,) at z, under one hypothesis."""
        prior = self.offset + self.signal + self.noise
        if not len(y):
            return np.zeros(len(new)), np.full(len(new), prior)
        L, white, mean = self._factor(is_active, z, y)
        half = lapack.dtrtrs(L, self._kernel(is_active, z, new), lower=1)[0]
        return mean + white @ half, prior - np.square(half).sum(0)

    def llr_moments(self, z: np.ndarray, y: np.ndarray, new: np.ndarray) -> Moments:
        r"""Moments of the next observation's log likelihood ratio at each new place, if the node is active.

        With :math:`r = s_1^2 / s_0^2` and :math:`m = \mu_1 - \mu_0`,
        :math:`E = -\tfrac12 \ln r + \tfrac12 (r - 1) + m^2 / (2 s_0^2)` and
        :math:`Var = \tfrac12 (r - 1)^2 + s_1^2 m^2 / s_0^4`: the paper's shifted non-central χ², without its 0/0 where
        both variances are equal.
        """
        (low, inactive), (high, active) = (self.predict(which, z, y, new) for which in (False, True))
        ratio, shift = active / inactive, np.square(high - low) / inactive
        return 0.5 * (ratio - 1 - np.log(ratio) + shift), 0.5 * (ratio - 1) ** 2 + ratio * shift

    def places(self, z: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Where to evaluate next, (1,): where the mean plus one sd of the ratio, the paper's index, is largest."""
        new = rng.random(_N_PLACES)
        mean, variance = self.llr_moments(z, y, new)
        index = mean + np.sqrt(variance)
        return new[[rng.choice(np.flatnonzero(index >= index.max() * (1 - _TIE)))]]

    def path(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The cumulative log likelihood ratio (nats, eq. 3) after each value, (n,), active against inactive."""
        (low, inactive, _), (high, active, _) = (self._factor(which, z, y) for which in (False, True))
        return np.cumsum(0.5 * (inactive**2 - active**2) + np.log(np.diagonal(low) / np.diagonal(high)))


class FDT:
    r"""The finite difference test: pairs of points along a line through a random point (the paper's section 3.2).

    The variance of a difference is :math:`\sigma_0^2 = 2 \sigma^2` if the node is inactive, and with one active input
    :math:`\sigma_1^2 = 2 [(1 - e^{-\delta^2 / b^2}) \sigma_s^2 + \sigma^2]`, for the paper's bandwidth b in units of z.
    At the ``spacing`` δ = 3b, half of the line at most, the exponent is 9, and not the 3 that the paper prints.

    Examples
    --------
    >>> FDT(0.1, 1.0, 0.05).path(np.zeros(4), np.array([0.5, 0.5, 0.0, 1.0])).round(4)
    array([-1.5222,  1.7175])
    """

    def __init__(self, bandwidth: float, signal_variance: float, noise_variance: float, offset_variance: float = 0.0):
        self.spacing = min(3 * bandwidth, _LONGEST_SPACING)
        self._low = 2 * noise_variance
        self._high = 2 * (-np.expm1(-((self.spacing / bandwidth) ** 2)) * signal_variance + noise_variance)

    def places(self, z: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The next pair, (2,), after values y (n,) at z."""
        first = float(rng.uniform(0, 1 - self.spacing))
        return np.array([first, first + self.spacing])

    def path(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The cumulative log likelihood ratio (nats, eq. 2) after each pair, (n / 2,), active against inactive."""
        square = np.square(y[1::2] - y[::2])
        return np.cumsum(0.5 * (square * (1 / self._low - 1 / self._high) + np.log(self._low / self._high)))
