"""Whether what a search saw agrees with the Gaussian process that it assumed."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from pymc_active.relevant_inputs.covariance import squared_exponential
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulSearchWarning, warn_user

# Half the χ² quantile at p = 1e-4 with two degrees of freedom: evaluations are many, and small misfits do no harm.
_SURPRISING = 9.2
# Scales that are wrong by smaller factors do no harm either.
_SIGNAL_FACTOR, _NOISE_FACTOR = 4.0, 2.0
# Sds between the largest and the smallest y: a thousand values of a Gaussian process hardly ever span more.
_WIDEST = 10.0
# Later evaluations are left out: those before are a fair sample, whatever made the search ask for them.
_MOST = 1000
_FEWEST = 8
# Ends of the search for factors.
_LARGEST_LOG = np.log(1e4)


class SearchDiagnostics(Summarized):
    """The evaluations of a search beside the Gaussian process that it assumed, on the inputs found.

    U, (n, d), are the inputs found, in the unit box, at all evaluations in the order in which they were told. Unless
    all nodes are decided, inputs not found yet may explain a misfit, and only ``spread`` is judged.
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

        They do not if y spans more than ten sds, or if other variances are much more likely (9.2 nats): a signal
        variance that differs by more than a factor of four, or a noise variance more than twice as large. Less noise
        than assumed does no harm.
        """
        if self.spread > _WIDEST or not self.is_decided or self.log_ratio <= _SURPRISING:
            return self.spread <= _WIDEST
        signal = abs(np.log(self.signal_variance / self.settings.signal_variance))
        noise = np.log(self.noise_variance / self.settings.noise_variance)
        return bool(signal <= np.log(_SIGNAL_FACTOR) and noise <= np.log(_NOISE_FACTOR))

    def warn(self) -> None:
        """Warn once if they do not."""
        if self.is_plausible:
            return
        settings = self.settings
        if not self.is_decided:
            seen = f"y is spread over {self.spread:.0f} of the sds that were assumed for it"
        else:
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
