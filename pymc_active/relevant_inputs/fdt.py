"""The finite difference test (FDT): whether differences along a line are larger than noise alone makes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtr, chdtri

# Longest distance of a pair on a line of unit length; with longer ones all pairs would be nearly the same.
LONGEST_SPACING = 0.5
# Most pairs that a fixed-sample test may need.
_MOST_PAIRS = 1_000_000


@dataclass(frozen=True)
class FDTest:
    r"""Variances of the difference dy of two observations under both hypotheses.

    Inactive: :math:`\sigma_0^2 = 2 \sigma^2`. Active with one active input:
    :math:`\sigma_1^2 = 2 [(1 - e^{-\delta^2 / b^2}) \sigma_s^2 + \sigma^2]`.

    Parameters
    ----------
    bandwidth : float
        The paper's b, √2 times PyMC's ``ls``, in units of z.
    signal_variance, noise_variance : float
        Squared units of y.
    spacing : float, optional
        δ, by default 3b: then the exponent is 9, and not the 3 that the paper prints.

    References
    ----------
    .. [1] Chen, Castro & Krause (2012), section 3.2.

    Examples
    --------
    >>> test = FDTest(bandwidth=0.4, signal_variance=1.0, noise_variance=0.05)
    >>> test.llr([0.0, 1.0]).round(4)
    array([-1.5222,  3.2397])
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    spacing: float | None = None

    @property
    def distance(self) -> float:
        """δ."""
        return 3 * self.bandwidth if self.spacing is None else self.spacing

    @property
    def inactive_variance(self) -> float:
        """Variance of a difference without an active input."""
        return 2 * self.noise_variance

    @property
    def active_variance(self) -> float:
        """Variance of a difference with one active input, averaged over functions."""
        return 2 * (-np.expm1(-((self.distance / self.bandwidth) ** 2)) * self.signal_variance + self.noise_variance)

    def llr(self, difference: np.ndarray | float) -> np.ndarray:
        """Log likelihood ratio of each difference, active against inactive (eq. 2), in nats."""
        low, high = self.inactive_variance, self.active_variance
        return 0.5 * (np.square(difference) * (1 / low - 1 / high) + np.log(low / high))

    def expected_pairs(self, accept: float, reject: float) -> tuple[float, float]:
        """Wald's approximation of the pairs needed to reject an inactive and to accept an active node."""
        ratio = self.active_variance / self.inactive_variance
        down = 0.5 * (1 / ratio - 1 + np.log(ratio))
        up = 0.5 * (ratio - 1 - np.log(ratio))
        return float(-reject / down), float(accept / up)

    def fixed_pairs(self, alpha: float) -> int:
        """The fewest pairs with which both errors of :func:`fixed_sample_test` are at most alpha.

        For independent differences, averaged over functions; compare :func:`fixed_sample_size`, which bounds them for
        one function.
        """
        _check_alpha(alpha)
        ratio = self.active_variance / self.inactive_variance

        def is_enough(n: int) -> bool:
            return bool(chdtr(n, chdtri(n, alpha) / ratio) <= alpha)

        if not is_enough(_MOST_PAIRS):
            raise ValueError(
                f"more than {_MOST_PAIRS:,} pairs would be needed: signal_variance={self.signal_variance:g} is too "
                f"small beside noise_variance={self.noise_variance:g}"
            )
        low, high = 0, _MOST_PAIRS
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        return high


def fixed_sample_size(smallest_mean: float, largest: float, alpha: float) -> int:
    r"""Pairs that bound both errors of the fixed-sample test by alpha, for a given function.

    Parameters
    ----------
    smallest_mean : float
        c, a lower bound of :math:`E[\Delta^2]`, with :math:`\Delta = (f(x) - f(x')) / \sqrt{2 \sigma^2}`.
    largest : float
        M, an upper bound of :math:`\Delta^2`.
    alpha : float

    Returns
    -------
    int
        :math:`\lceil \max\{2, 16 (1 + \sqrt{1 + c})^2 / c^2, 2 M^2 / c^2\} \log(2 / \alpha) \rceil`: sufficient, and
        seldom necessary.

    References
    ----------
    .. [1] Chen, Castro & Krause (2012), proposition 3.1.

    Examples
    --------
    >>> fixed_sample_size(10.0, 40.0, 0.01)
    170
    """
    _check_alpha(alpha)
    if not (smallest_mean > 0 and largest >= smallest_mean):
        raise ValueError(f"need 0 < smallest_mean <= largest; got {smallest_mean!r} and {largest!r}")
    c = smallest_mean
    factor = max(2.0, 16 * (1 + np.sqrt(1 + c)) ** 2 / c**2, 2 * largest**2 / c**2)
    return int(np.ceil(factor * np.log(2 / alpha)))


def fixed_sample_test(difference: np.ndarray, noise_variance: float, alpha: float) -> tuple[float, float]:
    r"""The statistic :math:`X_n = \sum dy^2 / (2 \sigma^2)` and the threshold that an inactive node passes rarely.

    Parameters
    ----------
    difference : array_like, shape (n,)
        Differences of pairs of noisy observations.
    noise_variance : float
    alpha : float
        The node is called active if the statistic exceeds the threshold; with an inactive one that has probability
        alpha, exactly.

    Returns
    -------
    statistic, threshold : float

    Raises
    ------
    ValueError
        Without a difference, or for an alpha outside (0, 0.5) or a noise variance that is not positive.
    """
    _check_alpha(alpha)
    difference = np.asarray(difference, float)
    if difference.ndim != 1 or not len(difference):
        raise ValueError(f"a test needs a vector of at least one difference; got shape {difference.shape}")
    if not 0 < noise_variance < np.inf:
        raise ValueError(f"noise_variance must be a positive, finite number; got {noise_variance!r}")
    return float(np.square(difference).sum() / (2 * noise_variance)), float(chdtri(len(difference), alpha))


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha, the probability of an error, must be between 0 and 0.5; got {alpha!r}")
