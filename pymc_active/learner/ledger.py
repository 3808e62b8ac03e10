"""The ledger of a run: points measured, failed and asked for, as a value that never changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.learner.candidates import Box, Candidates, Choice, Pool, is_same, rows_taken
from pymc_active.models.advice import far_outside
from pymc_active.spaces.space import Space
from pymc_active.support.data import Data
from pymc_active.support.numbers import coordinate
from pymc_active.support.tables import name_of_input, read_inputs, read_numbers, read_outputs
from pymc_active.support.user_warnings import RunWarning, warn_if, warn_user

# Points are close to each other if they differ by less, in every input and as a part of its range, as settings do that
# were rounded: the most, and half the share of the box where a point of the user's own would pass for an answer.
_NEAR, _BY_CHANCE = 0.1, 0.02
# Coordinates of a point in a message.
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Ledger:
    """Points measured before the start of a run, told since, failed, and pending, each in order.

    ``inputs`` names the D inputs. Rows of the data are ``start``, then ``told``.
    """

    candidates: Candidates
    inputs: list
    start: tuple[Choice, ...] = ()
    told: tuple[Choice, ...] = ()
    failed: tuple[Choice, ...] = ()
    pending: tuple[Choice, ...] = ()

    @property
    def tried(self) -> tuple[Choice, ...]:
        """The measured points, and those that failed."""
        return *self.start, *self.told, *self.failed

    @property
    def n_left(self) -> float:
        """How many points can still be asked for; infinite for a box."""
        return self.candidates.n_left(self.tried, self.pending)

    def __str__(self) -> str:
        return f"{self.n_left} left in the pool" if len(self.candidates) else repr(self.candidates)

    def matrix(self, choices: Sequence[Choice]) -> np.ndarray:
        """Choices as a matrix (k, D)."""
        return np.reshape([choice.x for choice in choices], (-1, len(self.inputs)))

    def at(self, fixed: Mapping | None) -> Self:
        """The ledger of a question in which some inputs are fixed, by name or number of column."""
        if fixed is None:
            return self
        if not isinstance(fixed, Mapping):
            raise TypeError(f"fixed must be a dict of inputs and their values; got {type(fixed).__name__}")
        self.check_names(fixed, "fixed")
        if (space := self.space) is not None:
            return self._with_fixed(space.fixed(fixed), fixed)
        values = {self.inputs.index(name): read_numbers(value, "fixed") for name, value in fixed.items()}
        for (k, value), name in zip(values.items(), map(name_of_input, fixed), strict=True):
            if value.shape != () or not np.isfinite(value):
                raise ValueError(f"fixed must have one finite number for each input; got {value} for {name}")
            if isinstance(self.candidates, Box):
                low, high = (end[k] for end in self.candidates.limits)
                if not low <= value <= high:
                    raise ValueError(f"fixed has {name} = {value:g}, outside the bounds from {low:g} to {high:g}")
        return self._with_fixed({k: float(value) for k, value in values.items()}, fixed)

    @property
    def space(self) -> Space | None:
        """The space of the inputs, if there is one."""
        return getattr(self.inputs, "space", None)

    def check_names(self, names: Iterable, what: str) -> None:
        """Raise a ValueError if a name, or number of a column, is no input."""
        inputs = self.inputs if self.space is None else self.space.names
        if unknown := [name for name in names if name not in inputs]:
            expected = ", ".join(map(str, inputs))
            raise ValueError(f"{what} has {name_of_input(unknown[0])}, which is none of the inputs {expected}")

    def values(self, choice: Choice, names: Iterable) -> dict[Any, Any]:
        """Values of some inputs of a choice."""
        if self.space is not None:
            return {name: self.space.decode(choice.x[None])[name].iloc[0] for name in names}
        return {name: choice.x[self.inputs.index(name)] for name in names}

    def _with_fixed(self, values: Mapping[int, float], fixed: Mapping) -> Self:
        candidates = copy(self.candidates)
        candidates.fixed = values
        if not candidates.n_left((), ()):
            raise ValueError(f"fixed must have values that a row of the pool has; got {dict(fixed)}, which none has")
        return replace(self, candidates=candidates)

    def check_left(self, n: int, fixed: Mapping | None, repeat: bool) -> None:
        """Raise a ValueError unless ``n`` points can be asked for, with the ``fixed`` values."""
        if n > self.n_left:
            values = " and ".join(f"{name_of_input(name)} = {value}" for name, value in (fixed or {}).items())
            raise ValueError(
                f"the pool has {self.n_left} candidate(s) {values and f'with {values} '}left and {n} were asked for; "
                + ("list rows twice" if repeat else "measured rows are not offered again: add some, pass repeat=True")
                + ", or forget() pending points that will not be measured"
            )

    def sharing(self, n: int, names: Sequence) -> Self:
        """The ledger of a question for ``n`` points with the same values of some inputs: fewer rows are out of it."""
        self.check_names(names, "same")
        if not (names and isinstance(pool := self.candidates, Pool)):
            return self
        own = [[self.inputs.index(name)] if self.space is None else self.space.columns[name] for name in names]
        rows = pool.left(rows_taken(self.tried, self.pending, pool.repeat))
        _, group, n_left = np.unique(pool.X[rows][:, np.concatenate(own)], False, True, True, axis=0)
        if n > n_left.max(initial=0):
            shared = " and ".join(map(name_of_input, names))
            raise ValueError(f"at most {max(n_left)} candidates with the same {shared} are left and {n} were asked for")
        few = rows[n_left[group.ravel()] < n]
        return replace(self, failed=(*self.failed, *(Choice(pool.X[row], int(row), np.nan) for row in few)))

    def read(self, x: Any, what: str) -> tuple[np.ndarray, list | None]:
        """Points as a matrix, and the labels of the rows of a data frame; a dict by input is a point or a table."""
        labels = [x] if isinstance(x, str) else list(x) if isinstance(x, list | tuple | pd.Index) else []
        if labels and all(isinstance(one, str) for one in labels):
            raise TypeError(f"{what} must hold numbers, the inputs of points; got labels: pass pool.loc[{labels!r}]")
        if isinstance(x, Mapping):
            is_point = not any(np.ndim(value) or isinstance(value, Mapping) for value in x.values())
            x = pd.Series(x) if is_point else pd.DataFrame(x)
        if isinstance(x, pd.Series):
            # A row of a data frame.
            x = x.to_frame().T
        elif not isinstance(x, pd.DataFrame | xr.DataArray):
            # Masked arrays stay what they are.
            x = np.asanyarray(x)
            x = x[:, None] if x.ndim == 1 and len(self.inputs) == 1 else np.atleast_2d(x)
        # Copies, because users fill their arrays anew for each experiment.
        X = read_inputs(x, what, inputs=self.inputs).copy()
        return X, list(x.index) if isinstance(x, pd.DataFrame) else None

    def find(self, X: np.ndarray, labels: list | None, choices: Sequence[Choice] | None = None) -> list[int | None]:
        """Positions of points among ``choices``, by default the pending ones, each used once; None for other points."""
        choices = self.pending if choices is None else choices
        points, limits, used = self.matrix(choices), self.candidates.limits, set()
        places: list[int | None] = []
        for row, x in enumerate(X):
            same = [i for i in np.flatnonzero(is_same(points, x, *limits)).tolist() if i not in used]
            if labels is not None:
                called = self.candidates.labels_of([choices[i].row for i in same])
                # Prefer the same label, else take the first.
                same = [i for i, label in zip(same, called, strict=True) if label == labels[row]] or same
            places.append(same[0] if same else None)
            used.update(same[:1])
        return places

    def find_known(self, x: Any, what: str, or_failed: bool = False) -> list[int]:
        """As :meth:`find` among the pending points, then the failed ones; a ValueError for points that are neither."""
        X, labels = self.read(x, what)
        positions = []
        for row, i in enumerate(self.find(X, labels, [*self.pending, *self.failed] if or_failed else self.pending)):
            if i is None:
                more = ", …" if X.shape[1] > _SHOWN else ""
                point = f"({', '.join(map(coordinate, X[row, :_SHOWN]))}{more})"
                failed = f" or the {len(self.failed)} that failed, learner.failures" if or_failed else ""
                raise ValueError(
                    f"{what} must be among the {len(self.pending)} pending point(s), learner.pending{failed}; row {row}"
                    f", {point if labels is None else repr(labels[row])}, is not"
                )
            positions.append(i)
        return positions

    def warn_if_near(self, X: np.ndarray, positions: Sequence[int | None]) -> None:
        """Warn of points (k, D) that may answer others nearby."""
        low, high = self.candidates.limits
        left = [choice for i, choice in enumerate(self.pending) if i not in positions]
        pending, width = self.matrix(left), np.where(high > low, high - low, np.inf)
        rows = [row for row, i in enumerate(positions) if i is None]
        # Other rows of a pool are points of their own.
        rows = [row for row, place in zip(rows, self.candidates.find(X[rows]), strict=True) if place < 0]
        near = min(_NEAR, _BY_CHANCE ** (1 / len(low))) * width
        near = [row for row in rows if (np.abs(pending - X[row]) < near).all(1).any()]
        if near:
            warn_user(
                f"{len(near)} of {len(X)} point(s) told, first row {near[0]} of x, are close to pending ones but not "
                "equal, so these stay pending. If they are the answers, tell(x, y, asked=...) with the points asked",
                RunWarning,
            )

    def warn_if_repeated(self, X: np.ndarray, y: np.ndarray, positions: Sequence[int | None], told: np.ndarray) -> None:
        """Warn of points and outputs (k, D + 1), not asked for, that are rows of those ``told`` before (n, D + 1)."""
        again = [i is None and (told == row).all(1).any() for i, row in zip(positions, np.c_[X, y], strict=True)]
        if any(again):
            warn_user(
                f"{sum(again)} of {len(X)} measurement(s), first row {np.argmax(again)} of x, were told before, to the "
                "last digit, and count again, as replicates",
                RunWarning,
            )

    def ask(self, *choices: Choice) -> Self:
        """Add pending points."""
        return replace(self, pending=(*self.pending, *(choice._replace(is_asked=True) for choice in choices)))

    def tell(self, X: np.ndarray, positions: Sequence[int | None], failed: np.ndarray) -> Self:
        """Add points (k, D), the position of the pending point each answers (None: not asked for), which ``failed``."""
        rows = iter(self.candidates.find(X[[i is None for i in positions]], (*self.tried, *self.pending)))
        choices = [
            Choice(point, next(rows), np.nan) if i is None else self.pending[i]._replace(x=point)
            for point, i in zip(X, positions, strict=True)
        ]
        return replace(
            self,
            told=(*self.told, *(choice for choice, has_failed in zip(choices, failed, strict=True) if not has_failed)),
            failed=(*self.failed, *(choice for choice, has_failed in zip(choices, failed, strict=True) if has_failed)),
            pending=_without(self.pending, positions),
        )

    def fail(self, row: int) -> Self:
        """Count a row of the data as an experiment that failed."""
        failed = (*self.failed, (*self.start, *self.told)[row])
        told = _without(self.told, [row - len(self.start)])
        return replace(self, start=_without(self.start, [row]), told=told, failed=failed)

    def forget(self, x: Any) -> Self:
        """Drop points x that are pending or failed, all pending ones if None."""
        if x is None:
            return replace(self, pending=())
        positions = self.find_known(x, "x", or_failed=True)
        failed = [i - len(self.pending) for i in positions]
        return replace(self, pending=_without(self.pending, positions), failed=_without(self.failed, failed))

    def expect(self, x: Any) -> Self:
        """Add pending points that were not asked for."""
        X, _ = self.read(x, "x")
        rows = self.candidates.find(X, (*self.tried, *self.pending))
        if -1 in rows and len(self.candidates):
            raise ValueError(f"row {rows.index(-1)} of x is not in the pool, so it cannot be pending: tell its result")
        if isinstance(self.candidates, Box):
            low, high = self.candidates.limits
            warn_if(far_outside(X, low, high, self.inputs, "x", "it counts as measured there"))
        return replace(self, pending=(*self.pending, *map(Choice, X, rows, [np.nan] * len(X))))

    def design(self, y: np.ndarray, pending: bool) -> xr.Dataset:
        """The points told since the start with their outputs y (k,), and on request the pending ones with NaN."""
        missing = self.pending if pending else []
        y = np.append(y, np.full(len(missing), np.nan))
        return self.table([*self.told, *missing], "step").assign(y=("step", y))

    def table(self, choices: Sequence[Choice], dim: str) -> xr.Dataset:
        """Choices over a dimension: ``x``, ``pool_row`` (-1 outside), ``label``, ``score`` when asked, if ``asked``."""
        rows = np.array([choice.row for choice in choices], int)
        called = zip(rows, self.candidates.labels_of(rows), strict=True)
        labels = [str(label) if row >= 0 else "" for row, label in called]
        return xr.Dataset(
            {
                "x": ((dim, "input"), self.matrix(choices)),
                "pool_row": (dim, rows),
                "label": (dim, np.array(labels, dtype=str)),
                "score": (dim, np.array([choice.score for choice in choices], float)),
                "asked": (dim, np.array([choice.is_asked for choice in choices], bool)),
            }
        )


def _without(choices: tuple[Choice, ...], positions: Sequence[int | None]) -> tuple[Choice, ...]:
    return tuple(choice for i, choice in enumerate(choices) if i not in positions)


def read_results(X: np.ndarray, y: Any, sizes: np.ndarray | None, failed: Any, x: Any) -> tuple[Data, np.ndarray]:
    """Measurements at X (n, D), given as x, whose y is NaN where one failed, and which rows (n,) are results.

    A row without a number is a failure if ``failed``, a bool or n of them, says so, by default if it is the only row.
    """
    n = len(X)
    if isinstance(y, str):
        raise TypeError(f"y must hold numbers; got {y!r}. Tell float('nan') if the experiment failed")
    if not isinstance(y, pd.Series | pd.DataFrame | xr.DataArray) or y.shape not in ((n,), (n, 1)):
        y = np.atleast_1d(np.squeeze(y))
        if y.dtype == object and (len(y) > 1 or failed is not None):
            # Otherwise a single None comes from a function that returns nothing.
            y = np.where(pd.isna(y), np.nan, y)
    values = read_outputs(y, n, x, may_fail=True)
    has_none, says = np.isnan(values), np.asarray(n == 1 if failed is None else failed)
    if says.dtype != bool or says.shape not in ((), (n,)):
        raise ValueError(f"failed must be True or False, or {n} of them, one for each row of x; got {failed!r}")
    if failed is not None and (wrong := says & ~has_none).any():
        k = int(np.argmax(wrong))
        raise ValueError(f"the y of a failed experiment is NaN, such as failed=np.isnan(y); row {k} has {values[k]:g}")
    is_result = ~has_none | says
    if failed is None and not is_result.all():
        warn_user(
            f"{has_none.sum()} of {n} rows have no y and are left out, as not measured yet: pass failed=np.isnan(y) if "
            "these experiments failed, failed=False if not",
            RunWarning,
        )
    return Data(X, values, sizes), is_result
