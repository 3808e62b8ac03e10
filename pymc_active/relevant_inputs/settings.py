"""The settings of a search: checked once, before anything is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.support.options import count, not_negative, positive
from pymc_active.support.tables import read_bounds, read_numbers

SCALES = ("bandwidth", "signal_variance", "noise_variance")
# With less noise, in signal variances, the covariance of the observations is singular to rounding.
_LEAST_NOISE = 1e-10
# Prior variance of the mean of f, in signal variances, where nothing is known about it.
_OFFSET = 10.0


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
    check: bool
    # Numbers if every input has the same interval, so that many inputs cost nothing; else (D,).
    low: Any
    high: Any

    @property
    def scales(self) -> tuple[float, float, float]:
        """Bandwidth, signal and noise variance."""
        return self.bandwidth, self.signal_variance, self.noise_variance

    def scale(self, unit: np.ndarray) -> np.ndarray:
        """From the unit box to the user's."""
        return self.low + (self.high - self.low) * unit


def least_noise(signal_variance: float, noise_variance: float) -> float:
    """The noise variance, at least 1e-10 of the signal variance."""
    return max(noise_variance, _LEAST_NOISE * signal_variance)


def threshold(n_dims: int, n_active: int, recovery: float) -> float:
    r"""Log likelihood ratio (nats) at which tests accept, and reject with the other sign, by default.

    By Wald's inequality a test with it errs with a probability of at most :math:`\varepsilon / (2 d (\lceil \log_2 D
    \rceil + 1))`, with :math:`\varepsilon` = 1 - recovery: a union bound over the nodes that a search without errors
    visits. (With what the paper's theorem 3.2 prints, the probability of finding all active inputs can be 0.)
    """
    if not 0 < recovery < 1:
        raise ValueError(f"recovery, a probability, must be between 0 and 1; got {recovery!r}")
    nodes = min(n_active, n_dims) * (int(np.ceil(np.log2(n_dims))) + 1)
    return float(np.log(2 * nodes / (1 - recovery)))


def read_settings(
    n_dims: int,
    bounds: Any,
    test: str | None,
    scales: tuple[Any, ...],
    levels: tuple[Any, ...],
    others: tuple[Any, ...],
) -> Settings:
    """Check what :class:`HDSLearner` was given, but the name of the test."""
    n_dims = count("n_dims, the number of inputs,", n_dims)
    low, high = read_box(bounds, n_dims)
    bandwidth, signal, noise = scales
    budget, retest, offset_variance, check = others
    # What nobody chose must not be silently wrong: beyond the paper, it knows no mean and tests twice, and is checked.
    is_careful, has_none = test is None, bandwidth is signal is None
    test = test or ("bisection" if has_none else "gpt")
    offset = None if offset_variance is None else not_negative("offset_variance", offset_variance)
    if test == "bisection" and has_none:
        bandwidth = signal = np.nan
        noise = np.nan if noise is None else not_negative("noise_variance", noise)
    elif missing := [name for name, value in zip(SCALES, scales, strict=True) if value is None]:
        raise ValueError(
            f"a test compares f with noise, so it needs {', '.join(missing)}: pass numbers, or a fitted model as "
            "model=; or neither bandwidth nor signal_variance, for a bisection"
        )
    else:
        bandwidth, signal = relative_bandwidth(bandwidth, low, high, n_dims), positive("signal_variance", signal)
        offset = _OFFSET * signal * is_careful if offset is None else offset
        noise = least_noise(signal + offset, not_negative("noise_variance", noise))
    accept, reject, recovery, n_active = levels
    default = threshold(n_dims, count("n_active", n_active), recovery)
    # NumPy's numbers may have less precision.
    accept, reject = default if accept is None else float(accept), -default if reject is None else float(reject)
    if not (0 < accept < np.inf and -np.inf < reject < 0):
        raise ValueError(f"thresholds need accept > 0 > reject; got accept={accept!r}, reject={reject!r}")
    retest = is_careful if retest is None else bool(retest)
    check = test == "bisection" or (is_careful if check is None else bool(check))
    scales, levels = (bandwidth, signal, noise), (accept, reject, count("budget", budget))
    return Settings(n_dims, test, *scales, *levels, retest, offset or 0.0, check, low, high)


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
