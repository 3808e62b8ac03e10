"""What a search is told: checked once, before anything is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.cholesky import least_noise
from pymc_active.relevant_inputs.fdt import LONGEST_SPACING, FDTest
from pymc_active.relevant_inputs.gpt import GPTest
from pymc_active.relevant_inputs.guarantees import thresholds
from pymc_active.relevant_inputs.plane import PlaneTest
from pymc_active.support.tables import read_bounds

TESTS = ("anchored", "fdt", "fdt_fixed", "gpt")
# Evaluations of a scan along a diagonal: enough to find a place far from f's mean, at two sds of f in most cases.
_SCAN = 12
# Where so many do not show whether f changes along it, other directions are tried.
_LONGEST_SCAN = 96
# Repeats at the anchor: its error is shared by all tests, and is kept to this fraction of the signal variance.
_ANCHOR_PRECISION, _MOST_REPEATS = 0.05, 20
# Log likelihood ratio at which a node whose sibling is active is set aside. With less evidence active inputs are often
# among those set aside, and finding them in what is left costs another way down the tree.
_SET_ASIDE = -1.0
# Prior variance of f's mean while the diagonal is scanned, in signal variances: nothing is known of it.
_VAGUE = 100.0


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
    # None for the same interval for every input, so that many inputs cost nothing.
    low: Any
    high: Any

    @property
    def is_paired(self) -> bool:
        """Whether evaluations come in pairs."""
        return self.test in ("fdt", "fdt_fixed")

    @property
    def n_scan(self) -> int:
        """Evaluations along the diagonal of an anchored background."""
        return _SCAN

    @property
    def longest_scan(self) -> int:
        """Evaluations along a diagonal, after which other directions are tried."""
        return _LONGEST_SCAN

    @property
    def n_repeats(self) -> int:
        """Further evaluations at its anchor."""
        return min(int(np.ceil(self.noise_variance / (_ANCHOR_PRECISION * self.signal_variance))), _MOST_REPEATS)

    @property
    def set_aside(self) -> float:
        """Log likelihood ratio at which a node whose sibling is active is set aside; -inf for never."""
        return _SET_ASIDE if self.test == "anchored" and self.retest else -np.inf

    @property
    def fewest(self) -> int:
        """Evaluations without which not even the root can be decided."""
        return self.n_scan if self.test == "anchored" else 2 * self.n_pairs if self.is_paired else 2

    @property
    def n_pairs(self) -> int:
        """Pairs of a fixed-sample test; otherwise 1."""
        return self.fdt.fixed_pairs(float(np.exp(-self.accept))) if self.test == "fdt_fixed" else 1

    @property
    def fdt(self) -> FDTest:
        """The finite difference test."""
        spacing = min(3 * self.bandwidth, LONGEST_SPACING)
        return FDTest(self.bandwidth, self.signal_variance, self.noise_variance, spacing)

    @property
    def gpt(self) -> GPTest:
        """The GP test of a node on the paper's background."""
        return GPTest(self.bandwidth, self.signal_variance, self.noise_variance, self.offset_variance)

    def scan_test(self, y: float) -> GPTest:
        """The GP test of the root along the diagonal, where nothing is known of f's mean; y is any observation."""
        return GPTest(self.bandwidth, self.signal_variance, self.noise_variance, _VAGUE * self.signal_variance, y)

    def plane_test(self, y: float) -> PlaneTest:
        """The GP test of other nodes; y is any observation."""
        scales = self.bandwidth, self.signal_variance, self.noise_variance
        return PlaneTest(*scales, _VAGUE * self.signal_variance, y, self.n_active, self.share)

    def scale(self, unit: np.ndarray, inputs: Any = slice(None)) -> np.ndarray:
        """From the unit box to the user's."""
        low, high = (end[inputs] if isinstance(end, np.ndarray) else end for end in (self.low, self.high))
        return low + (high - low) * unit

    def unscale(self, X: np.ndarray, inputs: Any = slice(None)) -> np.ndarray:
        """From the user's box to the unit box."""
        low, high = (end[inputs] if isinstance(end, np.ndarray) else end for end in (self.low, self.high))
        return (X - low) / (high - low)


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
    retest: bool | None,
    offset_variance: float,
    recovery: float,
    n_active: int,
    share: float,
    bounds: Any,
) -> Settings:
    """Check everything; see :class:`HDSLearner`."""
    if not isinstance(n_dims, int | np.integer) or isinstance(n_dims, bool) or n_dims < 1:
        raise ValueError(f"n_dims, the number of inputs, must be a positive whole number; got {n_dims!r}")
    n_dims = int(n_dims)
    if test not in TESTS:
        raise ValueError(f"test must be one of {', '.join(TESTS)}; got {test!r}")
    scales = {"signal_variance": signal_variance, "noise_variance": noise_variance}
    missing = [name for name, value in {"bandwidth": bandwidth, **scales}.items() if value is None]
    if missing:
        raise ValueError(
            f"a test compares f with noise, so it needs {', '.join(missing)}: pass numbers, a fitted model as model=, "
            "or the result of estimate_scales"
        )
    signal_variance = positive("signal_variance", signal_variance)
    noise_variance = not_negative("noise_variance", noise_variance)
    low, high = read_box(bounds, n_dims)
    if not (isinstance(offset_variance, int | float | np.number) and 0 <= offset_variance < np.inf):
        raise ValueError(f"offset_variance must be a number >= 0; got {offset_variance!r}")
    if not (isinstance(share, int | float | np.number) and 0 < share <= 1):
        raise ValueError(f"share, a part of the variance, must be above 0 and at most 1; got {share!r}")
    # The offset is in the covariances as well.
    noise_variance = least_noise(max(signal_variance, offset_variance / _VAGUE), noise_variance)
    default = thresholds(n_dims, min(n_active, n_dims), recovery)
    accept = default.accept if accept is None else accept
    reject = default.reject if reject is None else reject
    if not (0 < accept < np.inf and -np.inf < reject < 0):
        raise ValueError(
            f"thresholds of the log likelihood ratio need accept > 0 > reject; got accept={accept!r}, reject={reject!r}"
        )
    if not isinstance(budget, int | np.integer) or isinstance(budget, bool):
        raise TypeError(f"budget must be a whole number of evaluations; got {budget!r}")
    settings = Settings(
        n_dims,
        test,
        relative_bandwidth(bandwidth, low, high, n_dims),
        signal_variance,
        noise_variance,
        float(accept),
        float(reject),
        int(budget),
        test == "anchored" if retest is None else bool(retest),
        float(offset_variance),
        int(n_active),
        float(share),
        low,
        high,
    )
    if budget < settings.fewest:
        raise ValueError(
            f"budget={budget} is smaller than one test: test={test!r} needs at least {settings.fewest} evaluations"
        )
    return settings


def positive(name: str, value: Any) -> float:
    """The number, refused by name unless it is positive and finite."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive, finite number; got {value!r}")
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """The number, refused by name unless it is 0 or more and finite."""
    return 0.0 if isinstance(value, int | float | np.number) and value == 0 else positive(name, value)


def read_box(bounds: Any, n_dims: int) -> tuple[Any, Any]:
    """Lower and upper ends: numbers where they are the same for every input, else (D,) each."""
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
