"""One input of a space: how its values become columns of numbers, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, override

import numpy as np
import pandas as pd

from pymc_active.support.tables import as_floats, read_inputs, read_numbers

# Levels of one input at most; longer ranges of numbers are better taken for real ones.
_MOST_LEVELS = 10_000
# Longer columns of text without repetition are names of rows (a guess).
NAMES = 20


@dataclass(frozen=True)
class Steps:
    """Numbers from ``low`` to ``high`` in steps, for an input of a :class:`Space` that cannot be set in between.

    Examples
    --------
    >>> Steps(100, 600, 50).levels[:3]
    array([100, 150, 200])
    """

    low: float
    high: float
    step: float

    def __post_init__(self):
        if not (np.isfinite([self.low, self.high, self.step]).all() and self.low < self.high and self.step > 0):
            raise ValueError(f"Steps must have finite low < high and a positive step; got {self}")
        if abs((self.high - self.low) / self.step - (n := self._n)) > 1e-9 * max(n, 1):
            last = self.low + n * self.step
            raise ValueError(f"high must be a whole number of steps above low; got {self}, whose last step is {last:g}")

    @property
    def _n(self) -> int:
        return int(np.floor((self.high - self.low) / self.step * (1 + 1e-12)))

    @property
    def levels(self) -> np.ndarray:
        """All values."""
        values = self.low + self.step * np.arange(self._n + 1)
        # As they are written, so that a table shows what they are.
        return values if values.dtype.kind == "i" else np.array([float(f"{value:.12g}") for value in values])


class Group(NamedTuple):
    """Columns that share a lengthscale: its name, the columns, and the unit of the lengthscale."""

    name: str
    columns: np.ndarray
    unit: float


class Variable:
    """A number between two ends, as it is."""

    def __init__(self, name: str, low: float, high: float):
        self.name, self.columns = name, [name]
        # Ends of the columns; levels (L, k) are all that a value can be, or None.
        self.low, self.high = np.array([low], float), np.array([high], float)
        self.levels: np.ndarray | None = None

    @property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Shift and scale of the columns after which the whole range has the length two."""
        return (self.low + self.high) / 2, (self.high - self.low) / 2

    @property
    def groups(self) -> list[tuple[str, list[int], float]]:
        """Name, columns, and unit of each lengthscale."""
        return [(self.name, [0], float(self.scale[1][0]))]

    def encode(self, values: pd.Series) -> np.ndarray:
        """Columns (n, k) of values (n,)."""
        return read_numbers(values, self.name)[:, None]

    def decode(self, Z: np.ndarray) -> Any:
        """Values (n,) of columns (n, k)."""
        return Z[:, 0]

    def at(self, u: np.ndarray) -> np.ndarray:
        """Columns (n, k) of the values at parts u (n,) of the way, from 0 to below 1."""
        if self.levels is None:
            return self.low + (self.high - self.low) * u[:, None]
        return self.levels[(u * len(self.levels)).astype(int)]

    def to_json(self) -> dict[str, Any]:
        """What makes the variable again."""
        return {"low": float(self.low[0]), "high": float(self.high[0])}


class Ordered(Variable):
    """A few numbers."""

    def __init__(self, name: str, levels: Sequence[float]):
        values = np.unique(np.asarray(levels, float))
        super().__init__(name, values[0], values[-1])
        self.levels = values[:, None]
        self.is_whole = bool((values == np.round(values)).all())

    @override
    def decode(self, Z):
        # A point that was told may lie between.
        values = Z[:, 0]
        return values.astype(int) if self.is_whole and (values == np.round(values)).all() else values

    @override
    def to_json(self):
        assert self.levels is not None
        return {"levels": self.levels[:, 0].tolist()}


class Ordinal(Ordered):
    """Labels in an order, as equally spaced numbers, in a column of another name, since labels may be numbers, too."""

    def __init__(self, name: str, labels: Sequence):
        super().__init__(name, range(len(labels)))
        self.columns, self.labels = [f"level of {name}"], list(labels)

    @override
    def encode(self, values):
        return np.array(_numbers_of(values, self.name, self.labels), float)[:, None]

    @override
    def decode(self, Z):
        return pd.Series(pd.Categorical.from_codes(np.rint(Z[:, 0]).astype(int), self.labels, ordered=True))

    @override
    def to_json(self):
        return {"ordered": [_plain(label) for label in self.labels]}


class Categorical(Variable):
    """Labels: a column of ones and zeros for each, and the descriptors of the labels, if there are any.

    All pairs of labels are equally far apart in the former, which is the covariance of exchangeable categories.
    """

    def __init__(self, name: str, labels: Sequence, descriptors: pd.DataFrame | None = None):
        self.name, self.labels, self.descriptors = name, list(labels), descriptors
        one_hot = np.eye(len(self.labels))
        self.columns = [f"{name}={label}" for label in self.labels]
        self.n_labels = len(self.labels)
        more = np.empty((self.n_labels, 0))
        if descriptors is not None:
            more = as_floats(descriptors)
            self.columns += [f"{name}.{column}" for column in descriptors.columns]
        self.levels = np.hstack([one_hot, more])
        self.low, self.high = self.levels.min(0), self.levels.max(0)

    @property
    @override
    def scale(self):
        shift, width = (self.low + self.high) / 2, (self.high - self.low) / 2
        # Two labels are as far apart as the ends of a number; so are descriptors that differ in all columns.
        shift[: self.n_labels], width[: self.n_labels] = 0.0, np.sqrt(0.5)
        width[self.n_labels :] *= np.sqrt(max(len(width) - self.n_labels, 1))
        return shift, width

    @property
    @override
    def groups(self):
        groups = [(self.name, list(range(self.n_labels)), 1.0)]
        if self.descriptors is not None:
            groups.append((f"{self.name} descriptors", list(range(self.n_labels, len(self.columns))), 1.0))
        return groups

    @override
    def encode(self, values):
        return self.levels[_numbers_of(values, self.name, self.labels)]

    @override
    def decode(self, Z):
        numbers = Z[:, : self.n_labels].argmax(1)
        return pd.Series([self.labels[k] for k in numbers], dtype=None if len(numbers) else object)

    @override
    def to_json(self):
        labels = [_plain(label) for label in self.labels]
        if self.descriptors is None:
            return {"labels": labels}
        return {"labels": labels, "descriptors": self.descriptors.to_dict("list")}


def _numbers_of(values: pd.Series, name: str, labels: list) -> list[int]:
    """Positions of values among the labels; a ValueError for one that is none of them."""
    number_of = {label: k for k, label in enumerate(labels)}
    numbers = [number_of.get(value, -1) for value in values.tolist()]
    if -1 in numbers:
        strange, more = values.iloc[row := numbers.index(-1)], ", …" if len(labels) > 8 else ""
        where = f" in row {values.index[row]!r}" if len(values) > 1 else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, labels[:8]))}{more}; got {strange!r}{where}")
    return numbers


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def make_variable(name: str, spec: Any) -> Variable:
    """The variable of a user's words: ends, steps, a list of numbers or labels, or a table of descriptors."""
    if isinstance(spec, Variable):
        return spec
    kind = spec if isinstance(spec, pd.CategoricalDtype) else getattr(spec, "dtype", None)
    if isinstance(kind, pd.CategoricalDtype) and kind.categories is not None:
        labels = kind.categories.tolist()
        _check_labels(name, labels)
        return Ordinal(name, labels) if kind.ordered else Categorical(name, labels)
    if isinstance(spec, pd.DataFrame):
        _check_labels(name, spec.index.tolist())
        varies = np.ptp(read_inputs(spec, f"the descriptors of {name}"), axis=0) > 0
        return Categorical(name, spec.index.tolist(), spec.loc[:, varies] if varies.any() else None)
    if isinstance(spec, Steps | range):
        levels = spec.levels if isinstance(spec, Steps) else np.array(spec, float)
        if not 2 <= len(levels) <= _MOST_LEVELS:
            raise ValueError(f"{name} must have 2 to {_MOST_LEVELS} steps; got {len(levels)}: write (low, high)")
        return Ordered(name, levels.tolist())
    if isinstance(spec, tuple) and len(spec) == 2 and not any(isinstance(end, str | bool) for end in spec):
        low, high = (float(end) for end in spec)
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(f"{name} must be finite (low, high) with low < high; got {spec!r}")
        return Variable(name, low, high)
    if isinstance(spec, list | tuple | np.ndarray | pd.Index | pd.Series):
        values = spec.tolist() if not isinstance(spec, list | tuple) else list(spec)
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values) and values:
            if len(set(values)) < 2 or not np.isfinite(values).all():
                raise ValueError(f"{name} must have two different finite numbers, or more; got {values!r}")
            return Ordered(name, values)
        _check_labels(name, values)
        return Categorical(name, values)
    raise TypeError(
        f"{name} must be (low, high), pma.Steps(low, high, step), a range, a list of numbers or labels, or a "
        f"DataFrame of descriptors with the labels as its index; got {type(spec).__name__}"
    )


def of_column(name: str, column: pd.Series) -> Variable:
    """The variable that a column of a table of candidates shows."""
    if column.dtype.kind in "mM":
        as_floats(column)  # says what to write in place of dates
    if isinstance(column.dtype, pd.CategoricalDtype):
        return make_variable(name, column.dtype)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        labels = pd.unique(column.dropna())
        if len(labels) == len(column) > NAMES:
            raise ValueError(f"{name} has another label in each row, which tells nothing: table.set_index({name!r})")
        if decimals := [one for one in labels if isinstance(one, str) and re.fullmatch(r"[-+]?\d+,\d+", one)]:
            raise ValueError(f"{name} holds {decimals[0]!r}: read the table with decimal=',', or make it a category")
        return make_variable(name, labels.tolist())
    if pd.api.types.is_bool_dtype(column.dtype):
        return make_variable(name, [False, True])
    low, high = float(column.min()), float(column.max())
    return make_variable(name, (low, high if high > low else low + max(abs(low), 1.0)))


def _check_labels(name: str, labels: list) -> None:
    if len(labels) < 2 or len(set(labels)) < len(labels) or pd.isna(labels).any():
        raise ValueError(
            f"{name} must have two labels or more, all different and none missing, or be left out; got {labels!r}"
        )
    for label in labels:
        if not isinstance(label, str | int | float | bool | np.generic):
            raise TypeError(f"labels of {name} must be text, numbers or bools; got {type(label).__name__}")
