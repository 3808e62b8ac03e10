"""The settings of a search: checked once, before anything is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.covariance import VAGUE, least_noise
from pymc_active.relevant_inputs.guarantees import thresholds
from pymc_active.support.options import count, not_negative, positive
from pymc_active.support.tables import read_bounds


@dataclass(frozen=True)
class Settings:
    """See :class:`HDSLearner`; ``bandwidth`` is that of z, which runs from 0 to 1."""

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
    n_dims: Any,
    *,
    test: str,
    bandwidth: Any,
    signal_variance: Any,
    noise_variance: Any,
    accept: float | None,
    reject: float | None,
    budget: Any,
    retest: bool,
    offset_variance: float,
    recovery: float,
    n_active: int,
    share: float,
    bounds: Any,
) -> Settings:
    """Check everything but the name of the test; see :class:`HDSLearner`."""
    n_dims = count("n_dims, the number of inputs,", n_dims)
    given = {"bandwidth": bandwidth, "signal_variance": signal_variance, "noise_variance": noise_variance}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise ValueError(
            f"a test compares f with noise, so it needs {', '.join(missing)}: pass numbers, a fitted model as model=, "
            "or the result of estimate_scales"
        )
    signal_variance = positive("signal_variance", signal_variance)
    noise_variance = not_negative("noise_variance", noise_variance)
    low, high = read_box(bounds, n_dims)
    offset_variance = not_negative("offset_variance", offset_variance)
    if not (isinstance(share, int | float | np.number) and 0 < share <= 1):
        raise ValueError(f"share, a part of the variance, must be above 0 and at most 1; got {share!r}")
    # The offset is part of the covariances as well.
    noise_variance = least_noise(max(signal_variance, offset_variance / VAGUE), noise_variance)
    default = thresholds(n_dims, min(n_active, n_dims), recovery)
    accept, reject = default.accept if accept is None else accept, default.reject if reject is None else reject
    if not (0 < accept < np.inf and -np.inf < reject < 0):
        raise ValueError(
            f"thresholds of the log likelihood ratio need accept > 0 > reject; got accept={accept!r}, reject={reject!r}"
        )
    if not isinstance(budget, int | np.integer) or isinstance(budget, bool):
        raise TypeError(f"budget must be a whole number of evaluations; got {budget!r}")
    scales = relative_bandwidth(bandwidth, low, high, n_dims), signal_variance, noise_variance
    limits, budget, retest, n_active = (float(accept), float(reject)), int(budget), bool(retest), int(n_active)
    return Settings(n_dims, test, *scales, *limits, budget, retest, offset_variance, n_active, float(share), low, high)


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


def read_bandwidth(bandwidth: Any, n_dims: int) -> np.ndarray:
    """One number for all inputs, shape (), or one for each."""
    if np.ndim(bandwidth) == 0:
        return np.asarray(positive("bandwidth", bandwidth))
    values = np.asarray(bandwidth, float)
    if values.shape != (n_dims,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"bandwidth must be positive, a number or an array of shape ({n_dims},)")
    return values


def relative_bandwidth(bandwidth: Any, low: Any, high: Any, n_dims: int) -> float:
    """The smallest bandwidth as a fraction of its input's interval."""
    return float((read_bandwidth(bandwidth, n_dims) / (np.asarray(high) - np.asarray(low))).min())
