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
# Default thresholds: ε, the probability of an error, for d active inputs.
_ERROR, _N_ACTIVE = 1 - 0.99, 4


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
    # The ends of each input's interval, (D,).
    low: np.ndarray
    high: np.ndarray

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


def threshold(n_dims: int) -> float:
    r"""Log likelihood ratio (nats) at which tests accept, and reject with the other sign, by default.

    By Wald's inequality a test with it errs with a probability of at most :math:`\varepsilon / (2 d (\lceil \log_2 D
    \rceil + 1))`: a union bound over the nodes that a search for d inputs visits without errors. (With what the paper's
    theorem 3.2 prints, the probability of finding all active inputs can be 0.)
    """
    nodes = min(_N_ACTIVE, n_dims) * (int(np.ceil(np.log2(n_dims))) + 1)
    return float(np.log(2 * nodes / _ERROR))


def read_settings(
    n_dims: int,
    bounds: Any,
    test: str | None,
    scales: tuple[Any, ...],
    thresholds: tuple[Any, ...],
    budget: int,
    retest: bool | None,
    offset_variance: float | None,
    check: bool | None,
) -> Settings:
    """Check what :class:`HDSLearner` was given, but the name of the test."""
    n_dims = count("n_dims, the number of inputs,", n_dims)
    low, high = read_box(bounds, n_dims)
    bandwidth, signal, noise = scales
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
        bandwidth, signal = relative_bandwidth(bandwidth, low, high), positive("signal_variance", signal)
        offset = _OFFSET * signal * is_careful if offset is None else offset
        noise = least_noise(signal + offset, not_negative("noise_variance", noise))
    (accept, reject), default = thresholds, threshold(n_dims)
    # NumPy's numbers may have less precision.
    accept, reject = default if accept is None else float(accept), -default if reject is None else float(reject)
    if not (0 < accept < np.inf and -np.inf < reject < 0):
        raise ValueError(f"thresholds need accept > 0 > reject; got accept={accept!r}, reject={reject!r}")
    retest = is_careful if retest is None else bool(retest)
    check = test == "bisection" or (is_careful if check is None else bool(check))
    scales, budget = (bandwidth, signal, noise), count("budget", budget)
    return Settings(n_dims, test, *scales, accept, reject, budget, retest, offset or 0.0, check, low, high)


def read_box(bounds: Any, n_dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends, (D,) each."""
    bounds = (-1.0, 1.0) if bounds is None else bounds
    return read_bounds([bounds] * n_dims if np.shape(bounds) == (2,) else bounds, n_dims)


def relative_bandwidth(bandwidth: Any, low: np.ndarray, high: np.ndarray) -> float:
    """The smallest bandwidth, of all inputs or one for each, as a fraction of its input's interval."""
    values = read_numbers(bandwidth, "bandwidth")
    if values.shape not in ((), low.shape) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"bandwidth must be positive, a number or an array of shape {low.shape}; got {bandwidth!r}")
    return float((values / (high - low)).min())
