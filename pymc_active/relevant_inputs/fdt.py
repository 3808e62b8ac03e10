"""The paper's finite difference test (FDT): whether differences along a line exceed those of noise alone."""

from __future__ import annotations

import numpy as np

# Longest distance of a pair on a line of unit length; with longer ones all pairs would be nearly the same.
LONGEST_SPACING = 0.5


class FDT:
    r"""Pairs of points along a line through a random point (the paper's section 3.2).

    The variance of a difference is :math:`\sigma_0^2 = 2 \sigma^2` if the node is inactive, and with one active input
    :math:`\sigma_1^2 = 2 [(1 - e^{-\delta^2 / b^2}) \sigma_s^2 + \sigma^2]`, for the paper's bandwidth b in units of z.
    At the ``spacing`` δ = 3b, half of the line at most, the exponent is 9, and not the 3 that the paper prints.

    Examples
    --------
    >>> FDT(0.1, 1.0, 0.05).path(np.zeros(4), np.array([0.5, 0.5, 0.0, 1.0])).round(4)
    array([-1.5222,  1.7175])
    """

    def __init__(self, bandwidth: float, signal_variance: float, noise_variance: float, offset_variance: float = 0.0):
        self.spacing = min(3 * bandwidth, LONGEST_SPACING)
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
