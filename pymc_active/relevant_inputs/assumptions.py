"""Whether data look like a draw from the Gaussian process that was assumed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtr, chdtrc

from pymc_active.posterior.factor import Factor
from pymc_active.relevant_inputs.covariance import least_noise, squared_exponential, with_noise
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulSearchWarning, warn_user

# p-value at which the data count as unlike the assumed process.
_SURPRISING = 1e-3
_FEWEST = 8
# Draws of the assumed process with which the flatness of the data is compared.
_DRAWS = 1999


@dataclass(frozen=True, repr=False, eq=False)
class AssumptionCheck(Summarized):
    """How surprising the data are under the assumed process.

    Attributes
    ----------
    residual : ndarray, shape (n - 1,)
        After prediction from all data before, the mean unknown: independent standard normal if the assumptions hold.
    scale_p : float
        Two-sided p-value of their sum of squares (χ²): small if the scales are wrong.
    normal_p : float
        p-value of their normality (Shapiro and Wilk): small with outliers or jumps.
    flat_p : float
        Share of 1,999 draws of the process that are as flat as the data (sd of y over its interquartile range): a
        function that is almost constant but for rare large changes is not a draw from any stationary process.
    """

    residual: np.ndarray
    scale_p: float
    normal_p: float
    flat_p: float

    def _summary(self) -> Summary:
        facts = {
            "verdict": "plausible" if self.is_plausible else "DOUBTFUL, a p-value is below 0.001",
            "p, scales": f"{self.scale_p:.2g}",
            "p, jumps or outliers": f"{self.normal_p:.2g}",
            "p, flat with rare changes": f"{self.flat_p:.2g}",
        }
        return Summary(f"AssumptionCheck of {len(self.residual) + 1} points", facts)

    @property
    def is_plausible(self) -> bool:
        """Whether no p-value is below 0.001."""
        return min(self.scale_p, self.normal_p, self.flat_p) > _SURPRISING

    def warn(self) -> None:
        """Warn once if the assumptions look wrong."""
        if self.is_plausible:
            return
        reasons = {
            "mostly flat with rare large changes": self.flat_p,
            "with jumps or outliers": self.normal_p,
            "scaled differently": self.scale_p,
        }
        what, p = next((reason, p) for reason, p in reasons.items() if p <= _SURPRISING)
        warn_user(
            f"the data are unlike the assumed Gaussian process: {what} (p = {p:.1g}). "
            "Inputs may be missed. Transform y (log, ranks), or check bandwidth, signal_variance and noise_variance.",
            DoubtfulSearchWarning,
        )


def check_assumptions(
    X: np.ndarray,
    y: np.ndarray,
    *,
    bandwidth: float | np.ndarray,
    signal_variance: float,
    noise_variance: float,
    random_seed: int | np.random.Generator | None = None,
) -> AssumptionCheck:
    """Compare data with a Gaussian process of unknown mean and given scales.

    X, (n, d), are the active inputs and y, (n,), the observations, at least eight. The scales are as in
    :class:`HDSLearner`; ``random_seed`` is that of the draws behind ``flat_p``, by default fresh randomness.

    Examples
    --------
    >>> x = np.linspace(0, 9, 30)[:, None]
    >>> y = np.where(np.arange(30) == 7, 50.0, 0.01 * np.sin(x[:, 0]))
    >>> check_assumptions(x, y, bandwidth=1.0, signal_variance=80.0, noise_variance=1.0).is_plausible
    False
    """
    from scipy.stats import shapiro

    X, y = np.asarray(X, float) / bandwidth, np.asarray(y, float)
    if len(y) < _FEWEST or X.shape[0] != len(y):
        raise ValueError(f"a check needs at least {_FEWEST} points, one row of X for each; got {X.shape} and {y.shape}")
    noise_variance = least_noise(signal_variance, noise_variance)
    rng = np.random.default_rng(random_seed)
    with one_blas_thread():
        K = signal_variance * squared_exponential(np.square(X[:, None] - X).sum(-1))
        K = with_noise(K, noise_variance)
        residual = whitened_differences(K, y)[0]
        draws = rng.normal(size=(_DRAWS, len(y))) @ Factor(K, y).L.T
    square, n = float(residual @ residual), len(residual)
    scale_p = 2 * min(chdtr(n, square), chdtrc(n, square))
    flat_p = (1 + np.sum(_flatness(draws) >= _flatness(y))) / (1 + _DRAWS)
    return AssumptionCheck(residual, float(min(scale_p, 1.0)), float(shapiro(residual).pvalue), float(flat_p))


def _flatness(y: np.ndarray) -> np.ndarray:
    low, high = np.quantile(y, [0.25, 0.75], axis=-1)
    return y.std(-1) / np.maximum(high - low, np.finfo(float).tiny)


def whitened_differences(K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardised residuals (n - 1,) of y with covariance K, the mean integrated out, and the factor L behind them."""
    # Differences to the first observation do not depend on the mean. Rounding leaves their covariance asymmetric:
    # its lower triangle counts.
    K = K[1:, 1:] - K[1:, :1] - K[:1, 1:] + K[0, 0]
    factor = Factor(K.T, y[1:] - y[0])
    return factor.half_solve(factor.residual), factor.L
