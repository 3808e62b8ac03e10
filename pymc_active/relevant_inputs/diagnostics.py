"""Whether data, or what a search saw, look like a draw from the Gaussian process that was assumed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import chdtr, chdtrc

from pymc_active.posterior.factor import Factor
from pymc_active.relevant_inputs.covariance import least_noise, squared_exponential, with_noise
from pymc_active.relevant_inputs.settings import Settings, read_bandwidth
from pymc_active.support.arguments import checked
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_inputs, read_outputs
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulSearchWarning, warn_user

# p-value at which the data count as unlike the assumed process.
_SURPRISING_P = 1e-3
_FEWEST = 8
# Draws of the assumed process with which the flatness of the data is compared.
_DRAWS = 1999
# Half the χ² quantile at p = 1e-4 with two degrees of freedom: evaluations are many, and small misfits do no harm.
_SURPRISING_RATIO = 9.2
# Scales that are wrong by smaller factors do no harm either.
_SIGNAL_FACTOR, NOISE_FACTOR = 4.0, 2.0
# Sds between the largest and the smallest y: a thousand values of a Gaussian process hardly ever span more.
_WIDEST = 10.0
# Later evaluations are left out: those before are a fair sample, whatever made the search ask for them.
_MOST = 1000
# Ends of the search for factors.
_LARGEST_LOG = np.log(1e4)


@dataclass(frozen=True, repr=False, eq=False)
class AssumptionCheck(Summarized):
    """How surprising the data are under the assumed process.

    The ``residual``, (n - 1,), of each observation after prediction from all data before, the mean unknown, is
    independent standard normal if the assumptions hold. ``scale_p`` is the two-sided p-value of the sum of squares
    (χ²): small if the scales are wrong. ``normal_p`` is that of normality (Shapiro and Wilk): small with outliers or
    jumps. ``flat_p`` is the share of 1,999 draws of the process that are as flat as the data (sd of y over its
    interquartile range): small for a function that is almost constant but for rare large changes.
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
        return min(self.scale_p, self.normal_p, self.flat_p) > _SURPRISING_P

    def warn(self) -> None:
        """Warn once if the assumptions look wrong."""
        if self.is_plausible:
            return
        reasons = {
            "mostly flat with rare large changes": self.flat_p,
            "with jumps or outliers": self.normal_p,
            "scaled differently": self.scale_p,
        }
        what, p = next((reason, p) for reason, p in reasons.items() if p <= _SURPRISING_P)
        warn_user(
            f"the data are unlike the assumed Gaussian process: {what} (p = {p:.1g}). "
            "Inputs may be missed. Transform y (log, ranks), or check bandwidth, signal_variance and noise_variance.",
            DoubtfulSearchWarning,
        )


@checked
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

    X, (n, d), are the active inputs and y, (n,), the observations, at least eight (ValueError). The scales are as in
    :class:`HDSLearner`; ``random_seed`` is that of the draws behind ``flat_p``.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 9, 30)[:, None]
    >>> y = np.where(np.arange(30) == 7, 50.0, 0.01 * np.sin(x[:, 0]))
    >>> check_assumptions(x, y, bandwidth=1.0, signal_variance=80.0, noise_variance=1.0).is_plausible
    False
    """
    from scipy.stats import shapiro

    X = read_inputs(X)
    y = read_outputs(y, len(X))
    if len(y) < _FEWEST:
        raise ValueError(f"a check needs at least {_FEWEST} points, one row of X for each; got {X.shape} and {y.shape}")
    X = X / read_bandwidth(bandwidth, X.shape[1])
    noise_variance = least_noise(signal_variance, noise_variance)
    rng = np.random.default_rng(random_seed)
    with one_blas_thread():
        K = with_noise(signal_variance * squared_exponential(np.square(X[:, None] - X).sum(-1)), noise_variance)
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


class SearchDiagnostics(Summarized):
    """The evaluations of a search beside the Gaussian process that it assumed, on the inputs found.

    U, (n, d), are the inputs found, in the unit box, in the order of evaluation. Unless all nodes are decided, inputs
    not found yet may explain a misfit, and only ``spread`` is judged.
    """

    def __init__(self, U: np.ndarray, y: np.ndarray, settings: Settings, is_decided: bool):
        self.U, self.y = U[:_MOST], y[:_MOST]
        self.settings, self.is_decided = settings, is_decided

    def _summary(self) -> Summary:
        facts = {
            "verdict": "plausible" if self.is_plausible else "DOUBTFUL, inputs may be missed or found without cause",
            "signal variance": f"{self.signal_variance:.3g} most likely, {self.settings.signal_variance:.3g} assumed",
            "noise variance": f"{self.noise_variance:.3g} most likely, {self.settings.noise_variance:.3g} assumed",
            "spread of y": f"{self.spread:.1f} assumed sds",
        }
        return Summary(f"SearchDiagnostics of {len(self.y)} evaluations", facts)

    @property
    def spread(self) -> float:
        """Largest less smallest y, in the sds that were assumed for y."""
        if not len(self.y):
            return 0.0
        return float(np.ptp(self.y) / np.sqrt(self.settings.signal_variance + self.settings.noise_variance))

    @property
    def signal_variance(self) -> float:
        """The most likely value, if only the inputs found matter; as assumed, if there are none."""
        return self._fitted[0]

    @property
    def noise_variance(self) -> float:
        """The most likely value, at least as assumed; what the inputs found do not explain counts as noise."""
        return self._fitted[1]

    @property
    def log_ratio(self) -> float:
        """Log likelihood of these variances less that of the assumed ones, nats."""
        return self._fitted[2]

    @property
    def is_plausible(self) -> bool:
        """Whether the evaluations look like the assumed process.

        Not if y spans more than ten sds, or if a signal variance that differs by more than a factor of four, or a noise
        variance more than twice as large, is much more likely (9.2 nats).
        """
        if self.spread > _WIDEST or not self.is_decided or self.log_ratio <= _SURPRISING_RATIO:
            return self.spread <= _WIDEST
        signal = abs(np.log(self.signal_variance / self.settings.signal_variance))
        noise = np.log(self.noise_variance / self.settings.noise_variance)
        return bool(signal <= np.log(_SIGNAL_FACTOR) and noise <= np.log(NOISE_FACTOR))

    def warn(self) -> None:
        """Warn once if they do not."""
        if self.is_plausible:
            return
        settings = self.settings
        seen = f"y is spread over {self.spread:.0f} of the sds that were assumed for it"
        if self.is_decided:
            seen = (
                f"on the inputs found, the evaluations look like a signal variance of {self.signal_variance:.3g} and a "
                f"noise variance of {self.noise_variance:.3g}, but {settings.signal_variance:.3g} and "
                f"{settings.noise_variance:.3g} were assumed"
            )
        warn_user(
            f"{seen}: inputs may be missed, or found without cause. Take scales from estimate_scales, or check "
            "bandwidth, signal_variance and noise_variance.",
            DoubtfulSearchWarning,
        )

    @cached_property
    def _fitted(self) -> tuple[float, float, float]:
        """Signal and noise variance at the largest likelihood, and its log ratio."""
        settings, n = self.settings, len(self.y)
        assumed = np.array([settings.signal_variance, settings.noise_variance])
        if n < _FEWEST:
            return float(assumed[0]), float(assumed[1]), 0.0
        K = squared_exponential(np.square(self.U[:, None] - self.U).sum(-1) / settings.bandwidth**2)
        K -= K.mean(0)
        K -= K.mean(1)[:, None]
        # The mean of f is unknown: the constant vector gets the largest eigenvalue, and is left out.
        with one_blas_thread():
            values, vectors = eigh(K + 2.0)
        values, power = np.maximum(values[:-1], 0), np.square(self.y @ vectors[:, :-1])

        def cost(log_factors: np.ndarray) -> float:
            signal, noise = assumed * np.exp(log_factors)
            variance = signal * values + noise
            return float(0.5 * (np.log(variance) + power / variance).sum())

        here = cost(np.zeros(2))
        grid = [np.array([s, e]) for s in np.log([0.05, 0.3, 1, 4, 20, 100]) for e in np.log([1, 5, 30, 200])]
        start = min(grid, key=cost)
        limits = [(-_LARGEST_LOG, _LARGEST_LOG), (0.0, _LARGEST_LOG)]
        found = minimize(cost, start, method="Nelder-Mead", bounds=limits, options={"xatol": 1e-3, "fatol": 1e-4})
        # Without an active input nothing depends on the signal.
        signal = assumed[0] * (np.exp(found.x[0]) if self.U.shape[1] else 1.0)
        return float(signal), float(assumed[1] * np.exp(found.x[1])), float(here - found.fun)
