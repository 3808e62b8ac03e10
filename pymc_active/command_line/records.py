"""Measurements and candidates as arrays, and what is new in a table of measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_active.command_line.options import Settings
from pymc_active.command_line.tables import Table, is_missing, listing
from pymc_active.support.numbers import coordinate

# Spreadsheets drop digits: numbers that differ by less than this part of a column's range are the same.
_SAME = 1e-6
# The index of a pool without a column of ids: its lines in the file.
LINE = "line"


class Measurements(NamedTuple):
    """Rows with a result: X (n, D), y (n,), ids if there are any, names for messages; and names of rows without one.

    The result of an experiment that failed is NaN; see :meth:`only`.
    """

    X: np.ndarray
    y: np.ndarray
    ids: list[str] | None
    names: list[str]
    waiting: list[str]

    def only(self, rows: np.ndarray) -> Measurements:
        """Some of the rows with a result, by a mask (n,)."""
        ids = None if self.ids is None else list(compress(self.ids, rows))
        return self._replace(X=self.X[rows], y=self.y[rows], ids=ids, names=list(compress(self.names, rows)))


def find_inputs(settings: Settings, measured: Table, candidates: Table | None) -> list[str]:
    """Names of the inputs: those given, those of the box, or else the columns that both tables share."""
    box = [name for name, _, _ in settings.bounds or ()]
    if box and settings.inputs is not None and set(settings.inputs) != set(box):
        given = f"--inputs {','.join(settings.inputs)} and --bounds of {','.join(box)}"
        raise ValueError(f"{given} differ: a box needs bounds for every input, and --inputs is not needed then")
    if box or settings.inputs is not None:
        return box or settings.inputs or []
    assert candidates is not None, "there is a pool or a box"
    taken = {settings.target, settings.id}
    shared = [column for column in candidates.cells if column in measured.cells and column not in taken]
    remarks = [column for column in shared if candidates.is_empty(column) and measured.is_text(column)]
    shared = [column for column in shared if column not in remarks]
    if not shared:
        both = " and ".join(f"{table.name} ({listing(table.cells, 8)})" for table in (measured, candidates))
        raise ValueError(f"{both} share no column beside target and id, so there are no inputs")
    rest = {_folded(column): column for column in measured.cells if column not in {*taken, *shared}}
    for column in candidates.cells:
        if column not in {*taken, *shared, *remarks} and (like := rest.get(_folded(column))) is not None:
            names = f"{like!r} in {measured.name} and {column!r} in {candidates.name}"
            raise ValueError(
                f"{names} differ only by case or blanks: write them alike, or choose the inputs by --inputs"
            )
    return shared


def _folded(column: str) -> str:
    return "".join(column.casefold().split())


def read_measurements(settings: Settings, table: Table, inputs: Sequence[str]) -> Measurements:
    """The rows with a result; a ValueError for missing columns, text for numbers, missing inputs and repeated ids."""
    failed = table.failed(settings.target, "target")
    y = np.full(len(failed), np.nan)
    y[~failed] = table._replace(cells=table.cells[~failed]).numbers([settings.target], "target")[:, 0]
    lines = [f"line {line}" for line in table.cells.index]
    labels = [""] * len(lines) if settings.id is None else table.text(settings.id, "--id").tolist()
    waiting = [line if is_missing(label) else label for line, label in zip(lines, labels, strict=True)]
    names = [f"{label} ({line})" if label else line for line, label in zip(lines, labels, strict=True)]
    has_result = np.isfinite(y) | failed
    complete = table._replace(cells=table.cells[has_result])
    X = _inputs(complete, inputs, "has a result but no value of")
    ids = _ids(complete, settings.id, "give each repeat an id of its own, as an average would count as one measurement")
    return Measurements(X, y[has_result], ids, list(compress(names, has_result)), list(compress(waiting, ~has_result)))


def read_candidates(settings: Settings, table: Table, inputs: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """The pool, labelled by ids or by lines of the file; and how many rows repeat others and are left out."""
    if not len(table.cells):
        raise ValueError(f"{table.name} has no rows under its header: there is nothing to choose from")
    X = _inputs(table, inputs, "has no value of")
    ids = _ids(table, settings.id, "every candidate needs an id of its own")
    pool = labelled(X, inputs, table.cells.index if ids is None else ids, settings.id)
    # Without ids nothing tells equal rows apart.
    once = pool[~pool.duplicated()] if ids is None else pool
    return once, len(pool) - len(once)


def labelled(X: np.ndarray, inputs: Sequence[str], labels: Any, id_column: str | None) -> pd.DataFrame:
    """A pool with the ids of its rows, or with their lines in the file."""
    # Files of runs do not know pandas' own type for text.
    index = pd.Index(labels, dtype=None if id_column is None else object, name=id_column or LINE)
    return pd.DataFrame(X, columns=list(inputs), index=index)


def align(measured: Measurements, pool: pd.DataFrame) -> Measurements:
    """Take a candidate's own inputs for rows that are candidates, so that these are not offered again."""
    values, X = pool.to_numpy(), measured.X.copy()
    close = _SAME * _span(np.concatenate([values, X]))
    position = {} if measured.ids is None else {label: row for row, label in enumerate(pool.index)}
    for i, x in enumerate(X):
        row = None if measured.ids is None else position.get(measured.ids[i])
        is_close = np.abs((values if row is None else values[row]) - x) <= close
        if row is None:
            same = np.flatnonzero(is_close.all(1))
            X[i] = values[same[0]] if len(same) else x
            continue
        if not is_close.all():
            column = int(np.argmin(is_close))
            here = f"{measured.names[i]} has {pool.columns[column]} = {coordinate(x[column])}"
            there = f"but the candidate of that id has {coordinate(values[row, column])}"
            raise ValueError(f"{here}, {there}: give a row measured elsewhere another id")
        X[i] = values[row]
    return measured._replace(X=X)


def find_new(
    X: np.ndarray,
    y: np.ndarray,
    ids: Sequence[str | None] | None,
    measured: Measurements,
    failed: Measurements,
    target: str,
) -> tuple[list[int], list[str]]:
    """Rows of the table that are not known yet, by id or else by values; and which known rows are gone or changed."""
    known, now = np.column_stack([X, y]), np.column_stack([measured.X, measured.y])
    close = _SAME * _span(np.concatenate([known, now]))
    labels = [None] * len(known) if ids is None or measured.ids is None else ids
    row_of = {label: row for row, label in enumerate(measured.ids or ())}
    # Row of each known one in the table: by id, else by all its values, else by its inputs alone.
    found = {i: row_of.get(label) for i, label in enumerate(labels) if label is not None}
    left = sorted(set(range(len(now))) - set(found.values()))
    nameless = [i for i, label in enumerate(labels) if label is None]
    for columns in (slice(None), slice(-1)):
        for i in nameless:
            if found.get(i) is None:
                agrees = (row for row in left if (np.abs(now[row] - known[i]) <= close)[columns].all())
                found[i] = next(agrees, None)
                left = [row for row in left if row != found[i]]
    problems = []
    for i, row in found.items():
        if row is None:
            has_failed = (np.abs(failed.X - known[i, :-1]) <= close[:-1]).all(1).any()
            called = labels[i] or f"the row with {target} = {known[i, -1]:.6g}"
            problems.append(f"{called} {'has failed now' if has_failed else 'is gone'}")
        elif abs(now[row, -1] - known[i, -1]) > close[-1]:
            problems.append(f"{measured.names[row]} has {target} = {now[row, -1]:.6g}, which was {known[i, -1]:.6g}")
        elif (np.abs(now[row] - known[i]) > close).any():
            problems.append(f"{measured.names[row]} has other inputs than before")
    return left, problems


def find_new_failures(known: np.ndarray, failed: Measurements) -> tuple[np.ndarray, list[str]]:
    """Failed experiments of the table that are not known yet (k, D), and which known ones (m, D) are gone."""
    close = _SAME * _span(np.concatenate([known, failed.X])) if len(known) else np.zeros(failed.X.shape[1])
    same = (np.abs(failed.X[:, None] - known) <= close).all(2)
    gone = known[~same.any(0)]
    problems = [f"the failure at ({', '.join(map(coordinate, x))}) is gone" for x in gone]
    return failed.X[~same.any(1)], problems


def _span(values: np.ndarray) -> np.ndarray:
    span = np.ptp(values, axis=0)
    return np.where(span > 0, span, np.abs(values[0]))


def _inputs(table: Table, inputs: Sequence[str], problem: str) -> np.ndarray:
    X = table.numbers(inputs, "input")
    bad = np.argwhere(np.isnan(X))
    if len(bad):
        row, column = bad[0]
        what = f"{problem} {inputs[column]!r} ({len(bad)} empty cell(s) in all)"
        raise ValueError(f"{table.name}, line {table.cells.index[row]} {what}: fill it in, or take the row out")
    return X


def _ids(table: Table, column: str | None, advice: str) -> list[str] | None:
    if column is None:
        return None
    ids = table.text(column, "--id")
    for line in ids.index[ids == ""]:
        raise ValueError(f"{table.name}, line {line} has no {column!r}, which --id says names the rows: give it one")
    for label in ids[ids.duplicated()]:
        first, second, *_ = ids.index[ids == label]
        raise ValueError(f"{table.name} has the {column} {label!r} in lines {first} and {second}: {advice}")
    return ids.tolist()
