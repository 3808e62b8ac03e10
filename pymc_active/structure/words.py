"""Kernels in plain words, with their numbers in the user's units.

A component is a product of base kernels. Its sentence is the first row of a table whose condition holds; the limits
of these conditions stand in one place below. After the Automatic Statistician (Lloyd et al. 2014), in spirit if not
in wording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import ive

from pymc_active.kernels.linear import Linear
from pymc_active.kernels.node import Node
from pymc_active.kernels.periodic import Periodic, ZeroMeanPeriodic
from pymc_active.kernels.rational_quadratic import RationalQuadratic
from pymc_active.kernels.stationary import Stationary
from pymc_active.kernels.step import Step
from pymc_active.laplace.expansion import Expansion
from pymc_active.posterior.array import KernelPosterior
from pymc_active.support.numbers import Z89, _two_digits, plus_minus
from pymc_active.support.scaling import Affine

# Limits. "Range" is the range of the data along an input.
_SLOW = 1.0  # A lengthscale above this many ranges is called slow,
_CONSTANT = 5.0  # and above this many the function does not change among the data.
_MANY_SCALES = 5.0  # A rational quadratic with a larger alpha looks like a squared exponential.
_ONE_PERIOD = 1.5  # Fewer periods in the range do not show that the function repeats.
_REPEATS = float(np.exp(-0.5))  # Correlation of values that repeat: SE after one lengthscale.
_PARTNERS = 0.5  # If fewer of the data have another in its phase, half a period away or more, no repetition is seen.
_LEVEL = 0.99  # A product with more of its prior variance in the average over a period is not periodic.
_SMALL_SHARE = 0.001  # Smaller shares of the variance are told as "less than".
_TREND = 0.01  # A trend with less of the variance is not told.
_EVEN = 0.1  # Data are evenly spaced if all distances are multiples of their median to this fraction of it.
_RISE = 4.0  # Widths in which a step goes from an eighth to seven eighths of its height, which "over" tells.
_AT_THE_END = 0.05  # Within this fraction of the range a line reaches zero at the end of the data.
_WIDE = 0.3  # A log-normal with a larger sd is given by its 89 % interval, not by ± its sd.
# Of units of time; the "s" of others may be none of a plural, as in "Celsius" or "m/s".
_TIMES = "nanosecond microsecond millisecond second sec minute min hour hr day week month quarter year yr decade"
_SINGULAR = {f"{unit}s": unit for unit in _TIMES.split()} | {"centuries": "century", "millennia": "millennium"}

# Stationary factors on the same inputs, by the first condition that holds.
_SMOOTH = {
    "many scales": "a function{of} that varies on many scales around {length}",
    "rough": "a rough function{of} with a typical lengthscale of {length}",
    "slow": "a slowly varying function{of} with a typical lengthscale of {length}",
    "smooth": "a smooth function{of} with a typical lengthscale of {length}",
}
# Periodic factors, by what the stationary factors beside them do to them.
_PERIODIC = {
    "changing": "an approximately periodic function{of} with period {period}, whose shape changes {changes}",
    "lasting": "a periodic function{of} with period {period}",
}
# Periodic factors that do not repeat themselves among the data; what remains is a smooth function, or a level.
_NOMINAL = {
    "long": "; its period of {period} is too long for the data to show a repetition",
    "alias": "; its period of {period} cannot be told here from one too long to show a repetition",
    "forgotten": "; it forgets its shape within its period of {period}, so nothing repeats",
    "unseen": "; its period of {period} is nominal, since few of the data share a phase",
    "level": "; only {share} of its prior variance repeats, with period {period}",
}
_TREND_FIRST = "mostly a trend: its average over a period is {share} of the variance; around that, "
_TREND_NOTE = "; it carries a trend too: its average over a period is {share} of the variance"
_POLYNOMIALS = {1: "a linear function", 2: "a quadratic polynomial", 3: "a cubic polynomial"}
_GROWTH = {1: "linearly", 2: "quadratically"}
_AMPLITUDE = {"grows": "grows {growth} away from {origin}", "falls": "falls {growth} towards {origin}"}
_STEP = "a step{of} at {place}"
_BEGINNING = ", which begins at {places}"
_SPREAD = ", over {length}"
_ALIAS_NOTE = "; a period below two spacings of the data can hardly be told from a longer alias"

# Its square vanishes beside one.
_COMPLEX_STEP = 1e-30


class _Factors(NamedTuple):
    """The stationary factors on the same inputs, which act as one kernel."""

    columns: list[int]
    kind: str
    length: str
    is_slow: bool
    is_constant: bool


class Words:
    """Describes kernels at one mode, an expansion of a :class:`~pymc_active.posterior.array.KernelPosterior`.

    ``inputs`` labels the input columns; ``units`` has the unit of each, empty for none.
    """

    def __init__(self, expansion: Expansion, inputs: Sequence[Any], units: Sequence[str]):
        posterior = expansion.posterior
        assert isinstance(posterior, KernelPosterior), "only these have kernels to describe"
        self.theta, self.covariance = posterior._extend(expansion.theta), expansion.covariance
        self.X, self.range, self.units = posterior.X, np.ptp(posterior.X, axis=0), units
        # Affine for composite and ARD models.
        x_map = cast("Affine", posterior.x_map)
        self.scale, self.shift = (np.broadcast_to(part, len(self.range)) for part in (x_map.scale, x_map.shift))
        self.names = [label if isinstance(label, str) else f"input {label}" for label in inputs]
        if len(self.names) == 1 and not isinstance(inputs[0], str):
            self.names = ["x"]

    def product(self, leaves: Sequence[Node]) -> str:
        """What functions drawn from a product of base kernels look like."""
        linear = [leaf for leaf in leaves if isinstance(leaf, Linear)]
        steps = self.steps(leaves)
        stationary = [leaf for leaf in leaves if isinstance(leaf, Stationary)]
        nominal = {leaf: self._nominal(leaf, leaves) for leaf in leaves if isinstance(leaf, Periodic)}
        periodic = [leaf for leaf, why in nominal.items() if not why]
        locally = [leaf for leaf, why in nominal.items() if why not in ("", "level", "alias")]
        factors = self._factors([*stationary, *locally])
        changing = [one for one in factors if not one.is_constant]
        if periodic:
            text = self._periodic(periodic, changing)
        elif factors and (changing or not (linear or steps)):
            shown = changing or factors[:1]
            texts = [_SMOOTH[one.kind].format(of=self._of(one.columns), length=one.length) for one in shown]
            text = ", times ".join(texts)
        elif "alias" in nominal.values():
            text = "a function that does not repeat among the data"
        elif linear:
            text = self._polynomial(linear)
        elif steps:
            return " times ".join(self._step(leaf) for leaf in steps)
        else:
            text = "a constant"
        if steps:
            text += _BEGINNING.format(places=" and ".join(self._place(leaf) for leaf in steps))
        if linear and (periodic or changing or "alias" in nominal.values()):
            text += self._amplitude(linear)
        for leaf, why in nominal.items():
            if why:
                period, share = self._length(leaf.log_period, leaf.columns), percent(1 - self.level(leaf))
                text += _NOMINAL[why].format(period=period, share=share)
        if any(self._has_longer_aliases(leaf) for leaf in periodic):
            text += _ALIAS_NOTE
        return text

    def repeating(self, leaves: Sequence[Node]) -> list[Periodic]:
        """The periodic factors of a product that repeat themselves while others change; their average makes a trend.

        None if that average is zero.
        """
        if any(isinstance(leaf, ZeroMeanPeriodic) for leaf in leaves):
            return []
        if not self._has_changing_factors(leaves):
            return []
        return [leaf for leaf in leaves if isinstance(leaf, Periodic) and not self._nominal(leaf, leaves)]

    def noise(self, log_noise: int, scale: float, unit: str = "") -> str:
        """Sd of the noise, ``scale`` times its value in the units of the priors."""
        return self._positive(itemgetter(log_noise), [log_noise], scale) + (f" {unit}" if unit else "")

    def _polynomial(self, linear: Sequence[Linear]) -> str:
        """A product of lines; those of different inputs are an interaction."""
        groups = _by_columns(linear)
        texts = [
            _POLYNOMIALS.get(len(lines), f"a polynomial of degree {len(lines)}") + self._of(columns)
            for columns, lines in groups.items()
        ]
        is_interaction = len(texts) > 1 and len(set(sum(groups, ()))) == len(sum(groups, ()))
        return ("an interaction: " if is_interaction else "") + ", times ".join(texts)

    def _amplitude(self, linear: Sequence[Linear]) -> str:
        ways = []
        for lines in _by_columns(linear).values():
            way = "falls" if all(map(self._ends_the_data, lines)) else "grows"
            growth = _GROWTH.get(len(lines), f"like a polynomial of degree {len(lines)}")
            origins = dict.fromkeys(self._origin(leaf) for leaf in lines)
            ways.append(_AMPLITUDE[way].format(growth=growth, origin=" and ".join(origins)))
        return f", with an amplitude that {' and '.join(ways)}"

    def steps(self, leaves: Sequence[Node]) -> list[Step]:
        """The last step of each input of a product, without those that rise before the data."""
        last: dict[int, Step] = {}
        for leaf in leaves:
            if isinstance(leaf, Step):
                column, centre, width = leaf.factor(self.theta)
                before = last.get(column)
                rises = centre + _RISE * width > self.X[:, column].min()
                if rises and (before is None or before.factor(self.theta).centre < centre):
                    last[column] = leaf
        return list(last.values())

    def _step(self, leaf: Step) -> str:
        return _STEP.format(of=self._of(leaf.columns), place=self._place(leaf))

    def _place(self, leaf: Step) -> str:
        """Where a step is and, if the data show that it is not abrupt, over which length it rises."""
        column, centre, width = leaf.factor(self.theta)
        sd = self._sd(itemgetter(leaf.log_width), [leaf.log_width])
        if _RISE * width * np.exp(-Z89 * sd) > np.median(self._distances(column)):
            rise = self._positive(itemgetter(leaf.log_width), [leaf.log_width], _RISE * float(self.scale[column]))
            return self._value(column, leaf.location) + _SPREAD.format(length=self._with_unit(rise, leaf.columns))
        # An abrupt step may be anywhere between two of the data.
        x = np.unique(self.X[:, column])
        after = int(np.clip(np.searchsorted(x, centre), 1, len(x) - 1))
        return self._value(column, leaf.location, (x[after] - x[after - 1]) / np.sqrt(12))

    def _nominal(self, leaf: Periodic, leaves: Sequence[Node]) -> str:
        """Why a periodic factor of a product does not make it periodic, a key of the table; empty if it does."""
        if self._has_changing_factors(leaves) and self.level(leaf) > _LEVEL:
            return "level"
        if len(leaf.columns) > 1:
            return ""
        column, period = int(leaf.columns[0]), np.exp(self.theta[leaf.log_period])
        if _ONE_PERIOD * period > self.range[column]:
            return "long"
        if self._has_longer_aliases(leaf) and _ONE_PERIOD * self._alias(period, column) > self.range[column]:
            return "alias"
        here, later = np.zeros((2, 1, self.X.shape[1]))
        later[:, column] = period
        # How much alike values one period apart are.
        left = [self._correlation(other, here, later) for other in leaves if isinstance(other, Stationary)]
        if np.prod(left) < _REPEATS * (1 - 1e-9):
            return "forgotten"
        is_far = np.abs(np.subtract.outer(self.X[:, column], self.X[:, column])) > 0.5 * period
        has_partner = (is_far & (self._correlation(leaf, self.X, self.X) > _REPEATS)).any(axis=1)
        return "unseen" if has_partner.mean() < _PARTNERS else ""

    def _has_changing_factors(self, leaves: Sequence[Node]) -> bool:
        """Whether a factor that is not periodic changes among the data."""
        factors = self._factors([leaf for leaf in leaves if isinstance(leaf, Stationary)])
        return any(isinstance(leaf, Linear | Step) for leaf in leaves) or not all(one.is_constant for one in factors)

    def _correlation(self, leaf: Node, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Of a stationary or periodic kernel."""
        return leaf.at(self.theta, X, Z).K / leaf.diagonal(self.theta, X)[0][:, None]

    def level(self, leaf: Periodic) -> float:
        """Share of the prior variance in the average over a period, exp(-w) I₀(w) for each input."""
        if isinstance(leaf, ZeroMeanPeriodic):
            return 0.0
        return float(ive(0, np.exp(-2 * self.theta[leaf.log_lengthscale]))) ** len(leaf.columns)

    def _factors(self, smooth: Sequence[Stationary | Periodic]) -> list[_Factors]:
        """Stationary factors, and periodic ones that act like these, grouped by their inputs."""
        found = []
        for key, leaves in _by_columns(smooth).items():
            columns = list(key)
            log_lengthscale = partial(_log_lengthscale, leaves)
            groups = [getattr(leaf, "groups", []) for leaf in leaves]
            if len(leaves) == 1 and len(groups[0]) > 1:
                length = ", ".join(self._length(index, own) for index, own in groups[0])
            else:
                indices = [index for leaf in leaves for index in leaf.roles.values()]
                length = self._with_unit(self._positive(log_lengthscale, indices, self._unit_scale(columns)), columns)
            lengthscale = float(np.exp(log_lengthscale(self.theta)))
            span = self.range[columns[0]] if len(columns) == 1 else np.inf
            is_slow, is_constant = lengthscale > _SLOW * span, lengthscale > _CONSTANT * span
            mixtures = [leaf for leaf in leaves if isinstance(leaf, RationalQuadratic)]
            if any(np.exp(self.theta[leaf.log_alpha]) < _MANY_SCALES for leaf in mixtures):
                kind = "many scales"
            elif any(isinstance(leaf, Stationary) and leaf.profile.__name__ == "matern12" for leaf in leaves):
                kind = "rough"
            else:
                kind = "slow" if is_slow else "smooth"
            found.append(_Factors(columns, kind, length, is_slow, is_constant))
        return found

    def _periodic(self, periodic: Sequence[Periodic], changing: Sequence[_Factors]) -> str:
        first, *rest = periodic
        own = [int(column) for column in first.columns]
        changes = []
        for one in changing:
            over = "on many scales around" if one.kind == "many scales" else "over"
            along = "" if one.columns == own else f" along {' and '.join(self.names[c] for c in one.columns)}"
            changes.append(f"{'slowly, ' if one.is_slow else ''}{over} {one.length}{along}")
        period = self._length(first.log_period, first.columns)
        for leaf in rest:
            of = "" if np.array_equal(leaf.columns, first.columns) else self._of(leaf.columns)
            period += f", times one{of} with period {self._length(leaf.log_period, leaf.columns)}"
        kind = "changing" if changes else "lasting"
        return _PERIODIC[kind].format(of=self._of(own), period=period, changes=" and ".join(changes))

    def _ends_the_data(self, leaf: Linear) -> bool:
        """Whether a line of one input reaches zero at the upper end of the data, or beyond it."""
        if len(leaf.columns) > 1:
            return False
        column = int(leaf.columns[0])
        location = 0.0 if leaf.location is None else self.theta[int(leaf.location[0])]
        return bool(location > self.X[:, column].max() - _AT_THE_END * self.range[column])

    def _has_longer_aliases(self, leaf: Periodic) -> bool:
        """Whether the period is below two distances of evenly spaced data: a longer one takes the same values there."""
        if len(leaf.columns) > 1 or not self.range[leaf.columns[0]] > 0:
            return False
        column = int(leaf.columns[0])
        distances = self._distances(column)
        typical = np.median(distances)
        multiples = distances / typical
        is_even = np.abs(multiples - np.round(multiples)).max() < _EVEN
        return bool(is_even and np.exp(self.theta[leaf.log_period]) < 2 * typical)

    def _alias(self, period: float, column: int) -> float:
        """The longest period that takes the same values at even distances."""
        spacing = np.median(self._distances(column))
        cycles = spacing / period
        # Whole cycles between the data cannot be seen.
        return float(spacing / max(abs(cycles - np.round(cycles)), np.finfo(float).eps))

    def _distances(self, column: int) -> np.ndarray:
        """Between neighbours among the data; repeats may differ by rounding."""
        width = self.range[column]
        return np.diff(np.unique(np.round(self.X[:, column] / width, 8))) * width

    def _of(self, columns: Sequence[int] | np.ndarray) -> str:
        return "" if len(self.names) == 1 else " of " + " and ".join(self.names[column] for column in columns)

    def _origin(self, leaf: Linear) -> str:
        """Where a line is zero."""
        indices = [None] * len(leaf.columns) if leaf.location is None else map(int, leaf.location)
        return ", ".join(self._value(int(column), index) for column, index in zip(leaf.columns, indices, strict=True))

    def _value(self, column: int, index: int | None, more_sd: float = 0.0) -> str:
        """A value of an input, given by a parameter; zero on the scaled inputs without one."""
        scale, value, sd = float(self.scale[column]), float(self.shift[column]), 0.0
        if index is not None:
            value += scale * float(self.theta[index])
            sd = scale * np.hypot(self._sd(itemgetter(index), [index]), more_sd)
        unit = f" {self.units[column]}" if self.units[column] else ""
        return f"{self.names[column]} = {plus_minus(value, sd)}{unit}"

    def _length(self, index: int, columns: Sequence[int] | np.ndarray) -> str:
        """A lengthscale or period, given by its logarithm."""
        return self._with_unit(self._positive(itemgetter(index), [index], self._unit_scale(columns)), columns)

    def _unit_scale(self, columns: Sequence[int] | np.ndarray) -> float:
        # Several columns share a length in the units of the priors.
        return float(self.scale[columns[0]]) if len(columns) == 1 else 1.0

    def _with_unit(self, text: str, columns: Sequence[int] | np.ndarray) -> str:
        if len(columns) > 1:
            return text if (self.scale == 1).all() else f"{text} on the scaled inputs"
        column = int(columns[0])
        if self.units[column]:
            return f"{text} {self.units[column]}"
        return text if len(self.names) > 1 or self.names[column] == "x" else f"{text} in {self.names[column]}"

    def _positive(self, log_value: Callable[[np.ndarray], Any], indices: Sequence[int], scale: float) -> str:
        """A positive number with its uncertainty, by the delta method on the log scale."""
        value, sd = scale * float(np.exp(log_value(self.theta))), self._sd(log_value, indices)
        if sd <= _WIDE:
            return plus_minus(value, value * sd)
        low, high = value * np.exp(-Z89 * sd), value * np.exp(Z89 * sd)
        return f"{_two_digits(value)} ({_two_digits(low)} to {_two_digits(high)})"

    def _sd(self, function: Callable[[np.ndarray], Any], indices: Sequence[int]) -> float:
        gradient = np.zeros(len(self.covariance))
        # Parameters that the user fixed come behind the free ones and are known.
        for index in {int(i) for i in indices if i < len(gradient)}:
            turned = self.theta.astype(complex)
            turned[index] += 1j * _COMPLEX_STEP
            gradient[index] = np.imag(function(turned)) / _COMPLEX_STEP
        return float(np.sqrt(gradient @ self.covariance @ gradient))


def _by_columns(leaves: Sequence[Any]) -> dict[tuple[int, ...], list[Any]]:
    """Base kernels by the input columns on which they act."""
    groups: dict[tuple[int, ...], list[Any]] = {}
    for leaf in leaves:
        groups.setdefault(tuple(int(column) for column in leaf.columns), []).append(leaf)
    return groups


def _log_lengthscale(leaves: Sequence[Stationary | Periodic], theta: np.ndarray) -> Any:
    """Of a product: the curvatures at zero distance add. Near zero, sin²(π r / period) is (π r / period)²."""
    curvature = 0.0
    for leaf in leaves:
        if isinstance(leaf, Periodic):
            stretch = leaf.stretch(theta[leaf.log_lengthscale])[0] if isinstance(leaf, ZeroMeanPeriodic) else 1.0
            log_length = theta[leaf.log_lengthscale] + theta[leaf.log_period] - np.log(2 * np.pi)
            curvature = curvature + stretch * np.exp(-2 * log_length)
        else:
            curvature = curvature + np.exp(-2 * theta[leaf.groups[0][0]])
    return -0.5 * np.log(curvature)


def percent(share: float) -> str:
    """A share of the variance; undefined where y does not vary."""
    if np.isnan(share):
        return "an undefined part"
    value = 100 * share
    if abs(share) < _SMALL_SHARE:
        return "less than 0.1 %"
    return f"{value:.0f} %" if abs(value) >= 9.5 else f"{value:.2g} %"


def share_of_variance(share: float) -> str:
    """A share that a component has of the variance of y, which is its covariance with y."""
    against = ", since it runs against the other components" if share < -_SMALL_SHARE else ""
    return f"{percent(share)} of the variance{against}"


def with_trend(text: str, average: float, share: float) -> str:
    """What a periodic component is, with the share of the variance of its average over a period, and with its own."""
    if share > _TREND and 0.5 * share < average < 1.1 * share:
        return _TREND_FIRST.format(share=percent(average)) + text
    return text + (_TREND_NOTE.format(share=percent(average)) if abs(average) > _TREND else "")


def slope(value: float, sd: float, y_unit: str, x_unit: str) -> str:
    """How steep a linear component is."""
    per = _SINGULAR.get(x_unit, x_unit) or "unit of the input"
    size = plus_minus(abs(value), sd) + (f" {y_unit}" if y_unit else "")
    return f", {'rising' if value > 0 else 'falling'} by {size} per {per}"


def height(value: float, sd: float, y_unit: str) -> str:
    """How far a step goes up or down."""
    return f", {'up' if value > 0 else 'down'} by {plus_minus(abs(value), sd)}" + (f" {y_unit}" if y_unit else "")


def mean_function(offset: np.ndarray, at_data: np.ndarray, share: float, centred: bool, y_unit: str) -> str:
    """What is added to the components. Whether it varies is decided at the data, since there may be one new point."""
    unit = f" {y_unit}" if y_unit else ""
    what = "the mean function and the components' averages over the data" if centred else "the mean function"
    if np.ptp(at_data) <= 1e-9 * (np.abs(at_data).max() + np.finfo(float).tiny):
        return f"{what}, a constant {offset[0]:.4g}{unit}"
    span = f"from {offset.min():.4g} to {offset.max():.4g}{unit}"
    return f"{what}, which varies {span} here ({percent(share)} of the variance)"
