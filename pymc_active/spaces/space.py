"""A space of inputs: numbers, steps, categories, and the combinations of these that can be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd

from pymc_active.spaces.constraints import ROUNDING, Polytope, holds, parse
from pymc_active.spaces.variables import Categorical, Group, Ordered, Ordinal, make_variable, of_column
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary

# Combinations of levels that are looked at, and of which a list is kept as a pool: more are searched like a box.
_COMBINATIONS, _LISTED = 300_000, 20_000
# How often points are drawn, twice as many each time up to the second number, until enough can be made.
_TRIES, _MOST_DRAWN = 16, 8_192
# What weighing may add to a linear constraint, as a share of its terms, before a measured point seems a slip: a guess.
_WEIGHED = 0.01
# Random sets, one of which is a first design.
_SETS = 100

type Constraint = str | Callable[[pd.DataFrame], Any]


class Inputs(list):
    """Names of the columns of a space: tables of its inputs become columns where a model reads them."""

    def __init__(self, space: Space):
        super().__init__(column for variable in space.variables for column in variable.columns)
        self.space = space


class Space(Summarized):
    """The inputs of experiments, and which combinations of them can be made.

    Pass it as ``space=`` wherever ``bounds=`` is: to a builder, and to a :class:`Learner`.

    Parameters
    ----------
    variables : dict or DataFrame
        By name, what an input can be:

        * ``(low, high)``: any number between
        * ``pma.Steps(low, high, step)``, a ``range``, or a list of numbers: these numbers only
        * a list of labels, texts or bools: one of them, all pairs equally far apart
        * an ordered ``pd.CategoricalDtype``: labels as equally spaced steps
        * a DataFrame whose index has the labels: the same, with descriptors. How much these matter is learned, beside
          what is particular to each label

        Of a table of candidates: columns of text, categories and bools are labels, all others numbers in their range.
    constraints : list of str or callable
        What must hold of every point: a linear equation or inequality of numbers, such as ``"a + b + c == 1"`` or
        ``"2 * x1 + x2 <= 100"`` (a name that is not plain between backticks), or a function of a DataFrame that returns
        True for the rows that can be made. Numbers in an equation must be real, unless all inputs have few values.

    Raises
    ------
    TypeError, ValueError
        For other descriptions and constraints, and if no point fulfils the constraints.

    Notes
    -----
    Labels become columns of ones and zeros with a lengthscale together, descriptors further columns with another. Up to
    20,000 combinations are listed, and scored one by one; larger spaces are searched from many random points: real
    numbers along the gradient, all others by changes of one input.

    Examples
    --------
    >>> import pymc_active as pma
    >>> space = pma.Space({"T": (40, 120), "stir": range(100, 601, 50), "solvent": ["DMF", "MeCN", "water"]})
    >>> space.sample(2, random_seed=1).columns.tolist()
    ['T', 'stir', 'solvent']
    """

    def __init__(self, variables: Mapping[str, Any] | pd.DataFrame, constraints: Sequence[Constraint] = ()):
        if not isinstance(variables, pd.DataFrame | Mapping) or not len(variables):
            raise TypeError(f"a Space takes a dict, name -> what it can be, or a table; got {type(variables).__name__}")
        names, make = list(variables), of_column if isinstance(variables, pd.DataFrame) else make_variable
        if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"inputs of a Space need different texts as names: table.rename(columns=str); got {names}")
        self.variables = [make(name, variables[name]) for name in names]
        if isinstance(constraints, str) or callable(constraints):
            constraints = [constraints]
        numbers = [variable.name for variable in self.variables if not hasattr(variable, "labels")]
        self.linear = [parse(one, numbers) for one in constraints if isinstance(one, str)]
        self.functions = [one for one in constraints if not isinstance(one, str)]
        if strange := [one for one in self.functions if not callable(one)]:
            raise TypeError(f"a constraint must be a text or a function of a table; got {strange[0]!r}")
        self.inputs = Inputs(self)
        if len(set(self.inputs)) < len(self.inputs):
            raise ValueError(f"names of inputs, and of labels, must differ; got {', '.join(self.inputs)}")
        if self.listed is None:
            stepped = {variable.name for variable in self.variables if isinstance(variable, Ordered)}
            for one in self.linear:
                if one.is_equality and (both := stepped & {name for name, value in one.coefficients.items() if value}):
                    raise ValueError(
                        f"the equation {one.text!r} has {min(both)}, which has steps, in a space of more than "
                        f"{_LISTED:,} points: make it (low, high), or list the points in a pool"
                    )
        elif not len(self.listed):
            raise ValueError("no point of the space fulfils all constraints")
        self.draw(1, np.random.default_rng(0))

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [variable.name for variable in self.variables]

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """Positions of the columns of each input."""
        ends = np.cumsum([0, *(len(variable.columns) for variable in self.variables)]).tolist()
        parts = (np.arange(*end) for end in pairwise(ends))
        return dict(zip(self.names, parts, strict=True))

    @cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each column (D,)."""
        low, high = ([getattr(variable, end) for variable in self.variables] for end in ("low", "high"))
        return np.concatenate(low), np.concatenate(high)

    @property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Shift and scale of the columns (D,), to where default priors are stated."""
        shift, scale = zip(*(variable.scale for variable in self.variables), strict=True)
        return np.concatenate(shift), np.concatenate(scale)

    @cached_property
    def groups(self) -> list[Group]:
        """The columns that share a lengthscale."""
        return [
            Group(name, self.columns[variable.name][columns], unit)
            for variable in self.variables
            for name, columns, unit in variable.groups
        ]

    @cached_property
    def is_real(self) -> np.ndarray:
        """Which columns (D,) may have any value between their ends."""
        return np.concatenate([np.full(len(v.columns), v.levels is None) for v in self.variables])

    @property
    def has_labels(self) -> bool:
        """Whether an input has labels in place of numbers."""
        return any(hasattr(variable, "labels") for variable in self.variables)

    def table(self, values: Any, what: str = "X") -> Any:
        """A table with the inputs as columns, in their order; arrays, and tables of the columns, as they are."""
        if not isinstance(values, pd.DataFrame) or self._has_columns(values):
            if getattr(values, "ndim", 0) == 2 and values.shape[1] != len(self.inputs):
                raise ValueError(f"{what} must be a DataFrame with the columns {', '.join(self.names)}")
            return values
        if wrong := [name for name in self.names if list(values.columns).count(name) != 1]:
            raise ValueError(f"{what} must have a column {wrong[0]}; it has {', '.join(map(str, values.columns))}")
        if more := [name for name in values.columns if name not in self.names]:
            raise ValueError(f"{what} has the column {more[0]}, which is no input: write {what}[{self.names}]")
        return values[self.names]

    def _has_columns(self, table: pd.DataFrame) -> bool:
        """Whether a table is one of columns already; inputs that are numbers have columns of the same names."""
        is_number = [pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]
        return list(table.columns) == list(self.inputs) and all(is_number)

    def encode(self, values: Any, what: str = "X") -> Any:
        """The columns (n, D) of a table of inputs; arrays, and tables of the columns, as they are."""
        table = self.table(values, what)
        if not isinstance(table, pd.DataFrame) or self._has_columns(table):
            return table
        return np.hstack([variable.encode(table[variable.name]) for variable in self.variables])

    def decode(self, Z: np.ndarray) -> pd.DataFrame:
        """The table of inputs of columns (n, D)."""
        return pd.DataFrame({v.name: v.decode(Z[:, self.columns[v.name]]) for v in self.variables})

    def fixed(self, values: Mapping[str, Any]) -> dict[int, float]:
        """Values of columns that give inputs these values."""
        fixed: dict[int, float] = {}
        for name, value in values.items():
            variable = self.variables[self.names.index(name)]
            part = variable.encode(pd.Series([value], name=name))[0]
            if variable.levels is None or isinstance(variable, Ordered):
                if not variable.low[0] <= part[0] <= variable.high[0]:
                    ends = f"from {variable.low[0]:g} to {variable.high[0]:g}"
                    raise ValueError(f"fixed has {name} = {value}, outside the space, {ends}")
            if isinstance(variable, Ordered) and variable.levels is not None:
                near = variable.levels[np.abs(variable.levels[:, 0] - part[0]).argmin()]
                part = near if np.abs(near - part) <= ROUNDING * (variable.high - variable.low) else part
            fixed |= dict(zip(self.columns[name].tolist(), part.tolist(), strict=True))
        return fixed

    @cached_property
    def polytope_rows(self) -> list[tuple[np.ndarray, float, bool]]:
        """Linear constraints over the columns: coefficients (D,), a limit, and whether it is an equation."""
        rows = []
        for one in self.linear:
            row = np.zeros(len(self.inputs))
            for name, value in one.coefficients.items():
                row[self.columns[name]] = value
            rows.append((row, one.limit, one.is_equality))
        return rows

    @cached_property
    def polytope(self) -> Polytope:
        """All linear constraints, over the columns."""
        return Polytope(*self.limits, self.polytope_rows)

    def can_be(self, Z: np.ndarray, rounding: float = ROUNDING) -> np.ndarray:
        """Whether points (n, D) fulfil all constraints, (n,), linear ones up to a share of their terms."""
        possible = self.polytope.holds(Z, rounding)
        if self.functions and possible.any():
            table, rows = self.decode(Z[possible]), np.flatnonzero(possible)
            for function in self.functions:
                possible[rows] &= holds(function, table, getattr(function, "__name__", "function"))
        return possible

    def broken(self, Z: np.ndarray) -> str | None:
        """That a point of Z (n, D) cannot be made, nor one that was weighed like it, in words, if so."""
        if (wrong := np.flatnonzero(~self.can_be(Z, _WEIGHED))).size == 0:
            return None
        row, z = int(wrong[0]), self.decode(Z[wrong[:1]])
        values = z[self.names].iloc[0]
        for one, (coefficients, limit, is_equality) in zip(self.linear, self.polytope_rows, strict=True):
            if not Polytope(*self.limits, [(coefficients, limit, is_equality)]).holds(Z[row : row + 1], _WEIGHED)[0]:
                terms = ", ".join(f"{name} = {values[name]:.6g}" for name in one.coefficients)
                return f"row {row} of x has {terms}, and the space says {one.text!r}"
        shown = ", ".join(f"{name} = {values[name]}" for name in self.names)
        return f"row {row} of x is a combination that the space forbids: {shown}"

    @cached_property
    def listed(self) -> np.ndarray | None:
        """All points (m, D), if they are few."""
        levels = [variable.levels for variable in self.variables if variable.levels is not None]
        if len(levels) < len(self.variables):
            return None
        listed, most = np.empty((1, 0)), _COMBINATIONS if self.linear or self.functions else _LISTED
        for some in levels:
            # Constraints may leave fewer.
            if len(listed) * len(some) > most:
                return None
            listed = np.hstack([np.repeat(listed, len(some), axis=0), np.tile(some, (len(listed), 1))])
            listed = listed[self._may_become(listed)]
        listed = listed[self.can_be(listed)] if len(listed) else listed
        return listed if len(listed) <= _LISTED else None

    def _may_become(self, first: np.ndarray) -> np.ndarray:
        """Whether points with these ``first`` columns (n, k) may fulfil all linear constraints, (n,)."""
        k, keep = first.shape[1], np.ones(len(first), bool)
        ends = np.stack(self.limits)[:, k:]
        for row, limit, is_equality in self.polytope_rows:
            sum_, rest = first @ row[:k], row[k:] * ends
            rounding = ROUNDING * (np.abs(first) @ np.abs(row[:k]) + np.abs(rest).max(0).sum() + abs(limit))
            keep &= sum_ + rest.min(0).sum() <= limit + rounding
            if is_equality:
                keep &= sum_ + rest.max(0).sum() >= limit - rounding
        return keep

    def draw(self, n: int, rng: np.random.Generator, fixed: Mapping[int, float] | None = None) -> np.ndarray:
        """Random points (n, D), with values of some columns; a ValueError if hardly any fulfils the constraints."""
        fixed = fixed or {}
        if self.listed is not None:
            rows = self.listed[(self.listed[:, list(fixed)] == list(fixed.values())).all(1)] if fixed else self.listed
            if not len(rows):
                raise ValueError("no point of the space has the fixed values")
            return rows[rng.integers(len(rows), size=n)]
        real, walk = np.flatnonzero(self.is_real), self._walk(fixed) if fixed else self._free_walk
        drawn: list[np.ndarray] = []
        for k in range(_TRIES):
            size = max(2 * (n - sum(map(len, drawn))), min(32 << k, _MOST_DRAWN))
            Z = self.at(rng.uniform(size=(size, len(self.variables))))
            if walk is not None:
                Z[:, real] = walk.draw(size, rng)
            Z[:, list(fixed)] = list(fixed.values())
            drawn.append(Z[self.can_be(Z)])
            if sum(map(len, drawn)) >= n:
                return np.concatenate(drawn)[:n]
        if fixed:
            one = self.decode(Z[-1:]).iloc[0]
            shown = " and ".join(f"{name} = {one[name]}" for name in self.names if self.columns[name][0] in fixed)
            raise ValueError(f"hardly any point with {shown} fulfils the constraints of the space, or none")
        raise ValueError("hardly any point of the space fulfils all constraints: list those that can be made in a pool")

    def _walk(self, fixed: Mapping[int, float]) -> Polytope | None:
        """The linear constraints among real numbers, with values of some columns."""
        low, high = (end.copy() for end in self.limits)
        low[list(fixed)] = high[list(fixed)] = list(fixed.values())
        real = self.is_real
        rows = [(row[real], limit, kind) for row, limit, kind in self.polytope_rows if not row[~real].any()]
        return Polytope(low[real], high[real], rows) if rows else None

    @cached_property
    def _free_walk(self) -> Polytope | None:
        return self._walk({})

    def at(self, u: np.ndarray) -> np.ndarray:
        """Points (n, D) at parts u (n, inputs) of the way from the first value of each input to its last."""
        return np.hstack([variable.at(u[:, k]) for k, variable in enumerate(self.variables)])

    def near(self, Z: np.ndarray, step: float, rng: np.random.Generator, fixed: Mapping[int, float]) -> np.ndarray:
        """Points (n, D), each within some ``step``, a part of the space, of one of Z, or with another level besides.

        Those that cannot be made stay what they are.
        """
        low, high = self.limits
        near, is_free = Z.copy(), ~np.isin(np.arange(len(low)), list(fixed))
        real = self.is_real & is_free
        moves = step * (high - low) * rng.normal(size=Z.shape) * real
        if len(E := self.polytope.E * real):
            # Along the equations.
            moves -= moves @ np.linalg.pinv(E) @ E
        near += moves
        near[:, real] = np.clip(near[:, real], low[real], high[real])
        changes = [v for v in self.variables if v.levels is not None and is_free[self.columns[v.name]].all()]
        which = rng.integers(2 * len(changes), size=len(Z)) if changes else np.empty(0, int)
        for k, variable in enumerate(changes):
            rows = np.flatnonzero(which == k)
            near[np.ix_(rows, self.columns[variable.name])] = variable.at(rng.uniform(size=len(rows)))
        return np.where(self.can_be(near)[:, None], near, Z)

    def moves(self, fixed: Mapping[int, float]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The columns of each input with levels that is not fixed, and the levels (L, columns)."""
        moves = [(self.columns[v.name], v.levels) for v in self.variables]
        return [(columns, levels) for columns, levels in moves if levels is not None and not set(columns) & set(fixed)]

    def snap(self, Z: np.ndarray, fixed: Mapping[int, float] = MappingProxyType({})) -> np.ndarray:
        """Points (n, D) moved to the next levels, into the ends, and to the ``fixed`` values of some columns."""
        snapped = np.clip(Z, *self.limits)
        for variable in self.variables:
            if variable.levels is not None:
                columns = self.columns[variable.name]
                away = np.square(snapped[:, None, columns] - variable.levels).sum(2)
                snapped[:, columns] = variable.levels[away.argmin(1)]
        snapped[:, list(fixed)] = list(fixed.values())
        return snapped

    def spread(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Points (n, D): of several Latin hypercubes, or random sets that can be made, the one that is spread most."""
        ranks = rng.permuted(np.tile(np.arange(n)[:, None], (_SETS, 1, len(self.variables))), axis=1)
        cubes = self.at(((ranks + rng.random(ranks.shape)) / n).reshape(_SETS * n, -1))
        sets = (self.draw(_SETS * n, rng) if self.linear or self.functions else cubes).reshape(_SETS, n, -1)
        scaled = sets / self.scale[1]
        apart = np.square(scaled[:, :, None] - scaled[:, None]).sum(-1) + np.where(np.eye(n), np.inf, 0.0)
        return sets[apart.min((1, 2)).argmax()]

    def sample(self, n: int, random_seed: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Random points that can be made, a table with a column for each input."""
        return self.decode(self.draw(count("n", n), np.random.default_rng(random_seed)))

    def points(self) -> pd.DataFrame:
        """All points that can be made; a ValueError if there are more than 20,000, or any between two numbers."""
        if self.listed is None:
            raise ValueError(f"the space has more than {_LISTED:,} points: draw some by sample(n)")
        return self.decode(self.listed)

    def to_json(self) -> dict[str, Any]:
        """Everything but functions among the constraints, and how many these are."""
        variables = {variable.name: variable.to_json() for variable in self.variables}
        texts = [one.text for one in self.linear]
        return {"variables": variables, "constraints": texts, "n_functions": len(self.functions)}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """The space of :meth:`to_json`, without functions."""
        specs: dict[str, Any] = {}
        for name, one in saved["variables"].items():
            if "labels" in one:
                more = pd.DataFrame(one["descriptors"], index=one["labels"]) if "descriptors" in one else None
                specs[name] = Categorical(name, one["labels"], more)
            elif "ordered" in one:
                specs[name] = Ordinal(name, one["ordered"])
            else:
                specs[name] = one["levels"] if "levels" in one else (one["low"], one["high"])
        return cls(specs, saved["constraints"])

    def _summary(self) -> Summary:
        facts: dict[str, Any] = {}
        for variable in self.variables:
            if isinstance(variable, Categorical | Ordinal):
                of = getattr(variable, "descriptors", None)
                more = "" if of is None else f", {len(of.columns)} descriptors"
                more = ", in order" if isinstance(variable, Ordinal) else more
                facts[variable.name] = f"{len(variable.labels)} labels{more}"
            else:
                steps = "" if variable.levels is None else f", {len(variable.levels)} values"
                facts[variable.name] = f"{variable.low[0]:g} to {variable.high[0]:g}{steps}"
        named = [one.text for one in self.linear] + [getattr(f, "__name__", "function") for f in self.functions]
        facts["constraints"] = "; ".join(named) or None
        facts["points"] = None if self.listed is None else len(self.listed)
        return Summary("Space", facts)


def read_space(space: Any) -> Space:
    """A space, or the space of a table of candidates."""
    if isinstance(space, Space):
        return space
    if isinstance(space, pd.DataFrame | Mapping):
        return Space(space)
    raise TypeError(f"space must be a pma.Space, a dict for one, or a table; got {type(space).__name__}")
