"""The settings of a search: checked once, before anything is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.spaces.space import Space
from pymc_active.support.tables import read_bounds, read_numbers

# With less noise, in signal variances, the covariance of the observations is singular to rounding.
_LEAST_NOISE = 1e-10
# Default thresholds: ε, the probability of an error, for d active inputs.
_ERROR, _N_ACTIVE = 1 - 0.99, 4


@dataclass(frozen=True)
class Settings:
    """See :class:`HDSLearner`; ``bandwidth`` is in units of z, which runs from 0 to 1. Scales not given are NaN."""

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
    # The ends of each input's interval, or of each column of the space, (D,).
    low: np.ndarray
    high: np.ndarray
    space: Space | None = None

    def scale(self, unit: np.ndarray) -> np.ndarray:
        """From the unit box to the user's."""
        if self.space is not None:
            # At 1 is the last level.
            return self.space.at(np.minimum(unit, np.nextafter(1.0, 0.0)))
        return self.low + (self.high - self.low) * unit

    def shown(self, points: list[np.ndarray]) -> Any:
        """Points as the user sees them, (k, D), or a table."""
        X = np.array(points).reshape(-1, len(self.low))
        return X if self.space is None else self.space.decode(X)


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
