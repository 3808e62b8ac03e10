"""The settings of a search: checked once, before anything is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.guarantees import threshold
from pymc_active.relevant_inputs.likelihood_ratio import VAGUE, least_noise
from pymc_active.support.options import count, not_negative, positive
from pymc_active.support.tables import read_bounds, read_numbers

SCALES = ("bandwidth", "signal_variance", "noise_variance")


@dataclass(frozen=True)
class Settings:
    """See :class:`HDSLearner`; ``bandwidth`` is that of z, which runs from 0 to 1. Scales not given are NaN."""

    n_dims: int
    test: str
    bandwidth: float
    signal_variance: float
    noise_variance: float
    accept: float
    reject: float
    budget: int
    retest: bool
    offset_variance: float
    n_active: int
    share: float
    # Numbers if every input has the same interval, so that many inputs cost nothing; else (D,).
    low: Any
    high: Any
    check: bool = False

    @property
    def scales(self) -> tuple[float, float, float]:
        """Bandwidth, signal and noise variance."""
        return self.bandwidth, self.signal_variance, self.noise_variance

    def scale(self, unit: np.ndarray, inputs: Any = slice(None)) -> np.ndarray:
        """From the unit box to the user's."""
        low, high = self._ends(inputs)
        return low + (high - low) * unit

    def unscale(self, X: np.ndarray, inputs: Any = slice(None)) -> np.ndarray:
        """From the user's box to the unit box."""
        low, high = self._ends(inputs)
        return (X - low) / (high - low)

    def _ends(self, inputs: Any) -> tuple[Any, Any]:
        low, high = (end[inputs] if isinstance(end, np.ndarray) else end for end in (self.low, self.high))
        return low, high


def read_settings(
    n_dims: int,
    bounds: Any,
    scales: tuple[Any, Any, Any],
    levels: tuple[float | None, float | None, float],
    test: str,
    budget: int,
    n_active: int,
    share: float,
    retest: bool,
    offset_variance: float,
    check: bool,
) -> Settings:
    """Check what :class:`HDSLearner` was given, but the name of the test."""
    n_dims, n_active = count("n_dims, the number of inputs,", n_dims), count("n_active", n_active)
    low, high = read_box(bounds, n_dims)
    offset = not_negative("offset_variance", offset_variance)
    bandwidth, signal, noise = scales
    if test == "bisection" and bandwidth is signal is None:
        bandwidth = signal = np.nan
        noise = np.nan if noise is None else not_negative("noise_variance", noise)
    elif missing := [name for name, value in zip(SCALES, scales, strict=True) if value is None]:
        raise ValueError(
            f"a test compares f with noise, so it needs {', '.join(missing)}: pass numbers, a fitted model as model=, "
            "or the result of estimate_scales; or none of them, for a bisection"
        )
    else:
        bandwidth, signal = relative_bandwidth(bandwidth, low, high, n_dims), positive("signal_variance", signal)
        # The offset is part of the covariances as well.
        noise = least_noise(max(signal, offset / VAGUE), not_negative("noise_variance", noise))
    if not (isinstance(share, int | float | np.number) and 0 < share <= 1):
        raise ValueError(f"share, a part of the variance, must be above 0 and at most 1; got {share!r}")
    accept, reject, recovery = levels
    default = threshold(n_dims, n_active, recovery)
    # NumPy's numbers may have less precision.
    accept, reject = default if accept is None else float(accept), -default if reject is None else float(reject)
    if not (0 < accept < np.inf and -np.inf < reject < 0):
        got = f"got accept={accept!r}, reject={reject!r}"
        raise ValueError(f"thresholds of the log likelihood ratio need accept > 0 > reject; {got}")
    budget, share, retest, check = count("budget", budget), float(share), bool(retest), bool(check)
    told = test, bandwidth, signal, noise, accept, reject, budget, retest, offset, n_active, share, low, high, check
    return Settings(n_dims, *told)


def read_box(bounds: Any, n_dims: int) -> tuple[Any, Any]:
    """Lower and upper ends: numbers if every input has the same interval, else (D,) each."""
    if bounds is None:
        return -1.0, 1.0
    if np.shape(bounds) == (2,):
        bounds = [bounds]
    low, high = read_bounds(bounds)
    if len(low) == 1:
        return float(low[0]), float(high[0])
    if len(low) != n_dims:
        raise ValueError(f"bounds must be one pair (low, high) or {n_dims}, one for each input; got {len(low)}")
    return low, high


def relative_bandwidth(bandwidth: Any, low: Any, high: Any, n_dims: int) -> float:
    """The smallest bandwidth, of all inputs or one for each, as a fraction of its input's interval."""
    values = read_numbers(bandwidth, "bandwidth")
    if values.ndim == 0:
        values = np.asarray(positive("bandwidth", bandwidth))
    elif values.shape != (n_dims,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"bandwidth must be positive, a number or an array of shape ({n_dims},)")
    return float((values / (np.asarray(high) - np.asarray(low))).min())
