"""The settings of a search: checked once, before anything is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.covariance import VAGUE, least_noise
from pymc_active.relevant_inputs.guarantees import thresholds
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


def read_settings(n_dims: Any, bounds: Any, recovery: float, **given: Any) -> Settings:
    """Check what :class:`HDSLearner` was given, but the name of the test; ``given`` are fields of the settings."""
    n_dims = count("n_dims, the number of inputs,", n_dims)
    has_none = given["test"] == "bisection" and given["bandwidth"] is given["signal_variance"] is None
    if missing := [name for name in SCALES if given[name] is None and not has_none]:
        raise ValueError(
            f"a test compares f with noise, so it needs {', '.join(missing)}: pass numbers, a fitted model as model=, "
            "or the result of estimate_scales; or none of them, for a bisection"
        )
    low, high = read_box(bounds, n_dims)
    offset = given["offset_variance"] = not_negative("offset_variance", given["offset_variance"])
    if has_none:
        noise = given["noise_variance"]
        given |= dict.fromkeys(SCALES, np.nan)
        if noise is not None:
            given["noise_variance"] = not_negative("noise_variance", noise)
    else:
        given["bandwidth"] = relative_bandwidth(given["bandwidth"], low, high, n_dims)
        signal = given["signal_variance"] = positive("signal_variance", given["signal_variance"])
        # The offset is part of the covariances as well.
        noise = not_negative("noise_variance", given["noise_variance"])
        given["noise_variance"] = least_noise(max(signal, offset / VAGUE), noise)
    share, budget = given["share"], given["budget"]
    if not (isinstance(share, int | float | np.number) and 0 < share <= 1):
        raise ValueError(f"share, a part of the variance, must be above 0 and at most 1; got {share!r}")
    if not isinstance(budget, int | np.integer) or isinstance(budget, bool):
        raise TypeError(f"budget must be a whole number of evaluations; got {budget!r}")
    for name, default in thresholds(n_dims, min(given["n_active"], n_dims), recovery)._asdict().items():
        given[name] = default if given[name] is None else given[name]
    if not (0 < given["accept"] < np.inf and -np.inf < given["reject"] < 0):
        got = f"got accept={given['accept']!r}, reject={given['reject']!r}"
        raise ValueError(f"thresholds of the log likelihood ratio need accept > 0 > reject; {got}")
    # NumPy's numbers may have less precision.
    kinds = {"accept": float, "reject": float, "budget": int, "retest": bool, "n_active": int, "share": float}
    kinds |= {"check": bool}
    given |= {name: kind(given[name]) for name, kind in kinds.items()}
    return Settings(n_dims, **given, low=low, high=high)


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
    values = read_numbers(bandwidth, "bandwidth")
    if values.ndim == 0:
        return np.asarray(positive("bandwidth", bandwidth))
    if values.shape != (n_dims,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"bandwidth must be positive, a number or an array of shape ({n_dims},)")
    return values


def relative_bandwidth(bandwidth: Any, low: Any, high: Any, n_dims: int) -> float:
    """The smallest bandwidth as a fraction of its input's interval."""
    return float((read_bandwidth(bandwidth, n_dims) / (np.asarray(high) - np.asarray(low))).min())
