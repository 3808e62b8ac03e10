"""Products of base kernels in plain words, with their numbers in the user's units.

After the Automatic Statistician (Lloyd et al. 2014), whose rules these follow in spirit, not in wording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from pymc_active.kernels.arrays import Linear, Node, Periodic, RationalQuadratic, Stationary
from pymc_active.laplace.expansion import Expansion
from pymc_active.posterior.array import KernelPosterior
from pymc_active.support.numbers import _two_digits, plus_minus

# Its square is nothing beside one.
_COMPLEX_STEP = 1e-30
# A log-normal wider than this is told by its central 89 % interval, 1.6 sds either way, instead of a ± sd.
_WIDE, _Z89 = 0.3, 1.598
# A function that forgets over more than so many ranges of the data does not change among them.
_CONSTANT = 5.0
# Distances between data are even if they are whole multiples of their median to this fraction of it.
_EVEN = 0.1
# So many periods among the data show that something comes again.
_REPEATED = 1.5
# Within this fraction of their range the end of the data is reached.
_AT_THE_END = 0.05
# A rational quadratic with more than this alpha looks like a squared exponential.
_ONE_SCALE = 5.0


class Words:
    """Describes kernels at one mode.

    Parameters
    ----------
    expansion : Expansion
        Of a :class:`~pymc_active.posterior.array.KernelPosterior`; gives values and their covariance.
    inputs : sequence
        Labels of the input columns.
    units : sequence of str
        Unit of each input; empty where it has none.
    """

    def __init__(self, expansion: Expansion, inputs: Sequence[Any], units: Sequence[str]):
        posterior = expansion.posterior
        assert isinstance(posterior, KernelPosterior), "only these have kernels to describe"
        self.posterior, self.units = posterior, units
        self.theta = posterior._extend(expansion.theta)
        self.covariance = expansion.covariance
        scaled = posterior.X
        self.range = np.ptp(scaled, axis=0)
        shape = (posterior.X.shape[1],)
        # Affine for composite and ARD models; user's units are shift + scale * scaled.
        self.scale = np.broadcast_to(posterior.x_map.scale, shape)  # type: ignore[attr-defined]
        self.shift = np.broadcast_to(posterior.x_map.shift, shape)  # type: ignore[attr-defined]
        self.names = [label if isinstance(label, str) else f"input {label}" for label in inputs]
        if len(self.names) == 1 and not isinstance(inputs[0], str):
            self.names = ["x"]

    def product(self, leaves: Sequence[Node]) -> str:
        """What functions drawn from a product of base kernels look like."""
        periodic = [leaf for leaf in leaves if isinstance(leaf, Periodic)]
        linear = [leaf for leaf in leaves if isinstance(leaf, Linear)]
        smooth = [leaf for leaf in leaves if isinstance(leaf, Stationary)]
        if not periodic and not smooth:
            return self._polynomial(linear)
        text = self._periodic(periodic, smooth) if periodic else self._smooth(smooth)
        if linear:
            growth = {1: "linearly", 2: "quadratically"}.get(len(linear), f"like a polynomial of degree {len(linear)}")
            origins = list(dict.fromkeys(self._origin(leaf) for leaf in linear))
            change = f"falls {growth} towards" if all(map(self._ends_the_data, linear)) else f"grows {growth} away from"
            text += f", with an amplitude that {change} {' and '.join(origins)}"
        if any(self._is_hardly_repeated(leaf) for leaf in periodic):
            text += "; the data span not much more than one period, so that none was seen to come again"
        if any(self._has_longer_aliases(leaf) for leaf in periodic):
            text += "; below two spacings of the data, a period can hardly be told from a longer alias"
        return text

    def noise(self, log_noise: int, scale: float, unit: str = "") -> str:
        """Sd of the noise, ``scale`` times that in the units of the priors."""
        return self._positive(itemgetter(log_noise), [log_noise], scale) + (f" {unit}" if unit else "")

    def _polynomial(self, linear: Sequence[Linear]) -> str:
        nouns = {1: "a linear function", 2: "a quadratic polynomial", 3: "a cubic polynomial"}
        noun = nouns.get(len(linear), f"a polynomial of degree {len(linear)}")
        columns = sorted({int(column) for leaf in linear for column in leaf.columns})
        return noun + self._of(columns)

    def _periodic(self, periodic: Sequence[Periodic], smooth: Sequence[Stationary]) -> str:
        first = periodic[0]
        period = np.exp(self.theta[first.log_period])
        text = f"periodic function{self._of(first.columns)} with period {self._length(first.log_period, first.columns)}"
        for other in periodic[1:]:
            text += f", times one with period {self._length(other.log_period, other.columns)}"
        changes, is_forgetful = [], False
        for columns, leaves in self._by_columns(smooth):
            lengthscale = self._shortest(leaves)
            same_input = np.array_equal(columns, first.columns)
            if len(columns) == 1 and lengthscale > _CONSTANT * self.range[columns[0]]:
                continue
            is_forgetful = is_forgetful or (same_input and lengthscale < 0.5 * period)
            how = "on many scales around" if self._many_scales(leaves) else "over"
            if len(columns) == 1 and lengthscale > self.range[columns[0]]:
                how = f"slowly, {how}"
            along = "" if same_input else f" along {' and '.join(self.names[c] for c in columns)}"
            changes.append(f"{how} {self._combined(leaves, columns)}{along}")
        if is_forgetful:
            return f"a weakly {text}, forgotten {' and '.join(changes)}"
        if changes:
            return f"an approximately {text}, whose shape changes {' and '.join(changes)}"
        return f"a {text}"

    def _ends_the_data(self, leaf: Linear) -> bool:
        """Whether a line of one input comes to zero at the upper end of the data, or beyond it."""
        if len(leaf.columns) > 1:
            return False
        column = int(leaf.columns[0])
        location = 0.0 if leaf.location is None else self.theta[int(leaf.location[0])]
        return bool(location > self.posterior.X[:, column].max() - _AT_THE_END * self.range[column])

    def _is_hardly_repeated(self, leaf: Periodic) -> bool:
        period = np.exp(self.theta[leaf.log_period])
        return len(leaf.columns) == 1 and bool(_REPEATED * period > self.range[int(leaf.columns[0])])

    def _has_longer_aliases(self, leaf: Periodic) -> bool:
        """Whether the period is below two distances of data at even ones, where a longer period has the same values."""
        if len(leaf.columns) > 1 or not self.range[leaf.columns[0]] > 0:
            return False
        column = int(leaf.columns[0])
        # Repeats that differ by rounding are one.
        distances = np.diff(np.unique(np.round(self.posterior.X[:, column] / self.range[column], 8)))
        typical = np.median(distances)
        multiples = distances / typical
        is_even = np.abs(multiples - np.round(multiples)).max() < _EVEN
        return bool(is_even and np.exp(self.theta[leaf.log_period]) < 2 * typical * self.range[column])

    def _smooth(self, smooth: Sequence[Stationary]) -> str:
        parts = []
        for columns, leaves in self._by_columns(smooth):
            lengthscale = self._shortest(leaves)
            length = self._combined(leaves, columns)
            noun = "a rough function" if any(leaf.profile.__name__ == "matern12" for leaf in leaves) else ""
            if self._many_scales(leaves):
                parts.append(f"a function{self._of(columns)} that varies on many scales around {length}")
                continue
            if not noun:
                is_slow = len(columns) == 1 and lengthscale > self.range[columns[0]]
                noun = "a slowly varying function" if is_slow else "a smooth function"
            parts.append(f"{noun}{self._of(columns)} with a typical lengthscale of {length}")
        return ", times ".join(parts)

    @staticmethod
    def _by_columns(smooth: Sequence[Stationary]) -> list[tuple[np.ndarray, list[Stationary]]]:
        groups: dict[tuple[int, ...], list[Stationary]] = {}
        for leaf in smooth:
            groups.setdefault(tuple(int(c) for c in leaf.columns), []).append(leaf)
        return [(np.array(columns), leaves) for columns, leaves in groups.items()]

    def _many_scales(self, leaves: Sequence[Stationary]) -> bool:
        mixed = [leaf for leaf in leaves if isinstance(leaf, RationalQuadratic)]
        return any(np.exp(self.theta[leaf.log_alpha]) < _ONE_SCALE for leaf in mixed)

    def _shortest(self, leaves: Sequence[Stationary]) -> float:
        """Lengthscale of a product of stationary kernels: the curvatures at zero distance add."""
        return float(np.exp(self._log_combined(self.theta, leaves)))

    @staticmethod
    def _log_combined(theta: np.ndarray, leaves: Sequence[Stationary]) -> np.ndarray:
        return -0.5 * np.log(sum(np.exp(-2 * theta[leaf.groups[0][0]]) for leaf in leaves))

    def _combined(self, leaves: Sequence[Stationary], columns: np.ndarray) -> str:
        if len(leaves) == 1 and len(leaves[0].groups) > 1:
            parts = [f"{self._length(index, own)}" for index, own in leaves[0].groups]
            return ", ".join(parts)
        indices = [leaf.groups[0][0] for leaf in leaves]
        return self._with_unit(
            self._positive(lambda theta: self._log_combined(theta, leaves), indices, self._unit_scale(columns)), columns
        )

    def _length(self, index: int, columns: np.ndarray) -> str:
        text = self._positive(itemgetter(index), [index], self._unit_scale(columns))
        return self._with_unit(text, columns)

    def _unit_scale(self, columns: np.ndarray) -> float:
        # Several columns share a length in the units of the priors.
        return float(self.scale[columns[0]]) if len(columns) == 1 else 1.0

    def _with_unit(self, text: str, columns: np.ndarray) -> str:
        if len(columns) == 1:
            column = int(columns[0])
            if self.units[column]:
                return f"{text} {self.units[column]}"
            return text if len(self.names) > 1 or self.names[column] == "x" else f"{text} in {self.names[column]}"
        is_scaled = not np.array_equal(self.scale, np.ones_like(self.scale))
        return f"{text} on the scaled inputs" if is_scaled else text

    def _of(self, columns: Sequence[int] | np.ndarray) -> str:
        if len(self.names) == 1:
            return ""
        return " of " + " and ".join(self.names[int(column)] for column in columns)

    def _origin(self, leaf: Linear) -> str:
        texts = []
        for d, column in enumerate(leaf.columns):
            scale, shift = float(self.scale[column]), float(self.shift[column])
            value, sd = shift, 0.0
            if leaf.location is not None:
                index = int(leaf.location[d])
                value += scale * float(self.theta[index])
                sd = scale * self._sd(itemgetter(index), [index])
            unit = f" {self.units[int(column)]}" if self.units[int(column)] else ""
            texts.append(f"{self.names[int(column)]} = {plus_minus(value, sd)}{unit}")
        return ", ".join(texts)

    def _positive(self, log_value: Callable[[np.ndarray], Any], indices: Sequence[int], scale: float) -> str:
        """A positive number with its uncertainty, by the delta method on the log scale."""
        value, sd = scale * float(np.exp(log_value(self.theta))), self._sd(log_value, indices)
        if sd <= _WIDE:
            return plus_minus(value, value * sd)
        low, high = value * np.exp(-_Z89 * sd), value * np.exp(_Z89 * sd)
        return f"{_two_digits(value)} ({_two_digits(low)} to {_two_digits(high)})"

    def _sd(self, function: Callable[[np.ndarray], Any], indices: Sequence[int]) -> float:
        gradient = np.zeros(len(self.covariance))
        # What the user fixed sits behind the free parameters and is known.
        for index in {int(i) for i in indices if i < len(gradient)}:
            turned = self.theta.astype(complex)
            turned[index] += 1j * _COMPLEX_STEP
            gradient[index] = np.imag(function(turned)) / _COMPLEX_STEP
        return float(np.sqrt(gradient @ self.covariance @ gradient))
