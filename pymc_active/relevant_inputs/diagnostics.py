"""Whether what a search saw looks like a draw from the Gaussian process that was assumed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from pymc_active.relevant_inputs.likelihood_ratio import squared_exponential
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulSearchWarning, warn_user

_FEWEST = 8
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
class SearchDiagnostics(Summarized):
    """The evaluations of a search beside the Gaussian process that it assumed, on the inputs found.

    ``spread`` is the largest less the smallest y, in the sds that were assumed for y. ``signal_variance`` and
    ``noise_variance`` are the most likely values, if only the inputs found matter; what these do not explain counts as
    noise. Without inputs the signal variance is as assumed; the noise variance always is at least as assumed.
    ``log_ratio`` is the log likelihood of these variances less that of the assumed ones, nats. Unless all nodes are
    decided, inputs not found yet may explain a misfit, and only ``spread`` is judged.
    """

    settings: Settings
    spread: float
    signal_variance: float
    noise_variance: float
    log_ratio: float
    is_decided: bool

    def _summary(self) -> Summary:
        facts = {
            "verdict": "plausible" if self.is_plausible else "DOUBTFUL, inputs may be missed or found without cause",
            "signal variance": f"{self.signal_variance:.3g} most likely, {self.settings.signal_variance:.3g} assumed",
            "noise variance": f"{self.noise_variance:.3g} most likely, {self.settings.noise_variance:.3g} assumed",
            "spread of y": f"{self.spread:.1f} assumed sds",
        }
        return Summary("SearchDiagnostics", facts)

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


def diagnose(U: np.ndarray, y: np.ndarray, settings: Settings, is_decided: bool) -> SearchDiagnostics:
    """Judge evaluations y (n,) in their order; U, (n, d), are the inputs found, in the unit box."""
    U, y = U[:_MOST], y[:_MOST]
    assumed = np.array([settings.signal_variance, settings.noise_variance])
    spread = float(np.ptp(y) / np.sqrt(assumed.sum())) if len(y) else 0.0
    if len(y) < _FEWEST:
        return SearchDiagnostics(settings, spread, float(assumed[0]), float(assumed[1]), 0.0, is_decided)
    K = squared_exponential(np.square(U[:, None] - U).sum(-1) / settings.bandwidth**2)
    K -= K.mean(0)
    K -= K.mean(1)[:, None]
    # The mean of f is unknown: the constant vector gets the largest eigenvalue, and is left out.
    with one_blas_thread():
        values, vectors = eigh(K + 2.0)
    values, power = np.maximum(values[:-1], 0), np.square(y @ vectors[:, :-1])

    def cost(log_factors: np.ndarray) -> float:
        signal, noise = assumed * np.exp(log_factors)
        variance = signal * values + noise
        return float(0.5 * (np.log(variance) + power / variance).sum())

    grid = [np.array([s, e]) for s in np.log([0.05, 0.3, 1, 4, 20, 100]) for e in np.log([1, 5, 30, 200])]
    limits = [(-_LARGEST_LOG, _LARGEST_LOG), (0.0, _LARGEST_LOG)]
    options = {"xatol": 1e-3, "fatol": 1e-4}
    found = minimize(cost, min(grid, key=cost), method="Nelder-Mead", bounds=limits, options=options)
    signal, noise = assumed * np.exp(found.x)
    # Without an active input nothing depends on the signal.
    signal = signal if U.shape[1] else assumed[0]
    log_ratio = cost(np.zeros(2)) - float(found.fun)
    return SearchDiagnostics(settings, spread, float(signal), float(noise), log_ratio, is_decided)
