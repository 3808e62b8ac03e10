"""Measurements and candidates as arrays, and what is new in a table of measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pymc_active.command_line.settings import Settings
from pymc_active.command_line.tables import Table, is_missing, listing

# Spreadsheets drop digits: numbers that differ by less than this part of a column's range are the same.
_SAME = 1e-6
# The index of a pool without a column of ids: its lines in the file.
LINE = "line"


@dataclass(frozen=True)
class Measurements:
    """Rows with a result.

    Attributes
    ----------
    X : ndarray, shape (n, D)
    y : ndarray, shape (n,)
    ids : list of str or None
    lines : list of int
        Of the file.
    waiting : list of str
        Names of the rows that have no result yet.
    """

    X: np.ndarray
    y: np.ndarray
    ids: list[str] | None
    lines: list[int]
    waiting: list[str]

    def name(self, row: int) -> str:
        """How a message calls a row."""
        return f"line {self.lines[row]}" if self.ids is None else f"{self.ids[row]} (line {self.lines[row]})"


def find_inputs(settings: Settings, measured: Table, candidates: Table | None) -> list[str]:
    """Names of the inputs: those that were given, those of the box, or the columns that both tables share.

    Raises
    ------
    ValueError
        If there are none, or if those of the box are not those given.
    """
    if settings.bounds is not None:
        names = [name for name, _, _ in settings.bounds]
        if settings.inputs is not None and set(settings.inputs) != set(names):
            raise ValueError(
                f"--inputs {','.join(settings.inputs)} and --bounds of {','.join(names)} differ: a box needs bounds "
                "for every input, and --inputs is not needed then"
            )
        return names
    if settings.inputs is not None:
        return settings.inputs
    assert candidates is not None, "there is a pool or a box"
    taken = {settings.target, settings.id}
    shared = [column for column in candidates.columns if column in measured.columns and column not in taken]
    if not shared:
        raise ValueError(
            f"{measured.name} ({listing(measured.columns, 8)}) and {candidates.name} "
            f"({listing(candidates.columns, 8)}) share no column beside target and id, so there are no inputs"
        )
    return shared


def read_measurements(settings: Settings, table: Table, inputs: Sequence[str]) -> Measurements:
    """The rows that have a result.

    Raises
    ------
    ValueError
        For missing columns, cells that are no numbers, results without their inputs, and ids that repeat.
    """
    y = table.numbers([settings.target], "target")[:, 0]
    rows = np.flatnonzero(np.isfinite(y)).tolist()
    names = None if settings.id is None else table.text(settings.id, "--id")
    waiting = [
        f"line {table.lines[row]}" if names is None or is_missing(names[row]) else names[row]
        for row in np.flatnonzero(np.isnan(y))
    ]
    X = table.numbers(inputs, "input", rows)
    lines = [table.lines[row] for row in rows]
    _check_complete(table, X, inputs, lines, "has a result but no value of")
    ids = None if names is None else [names[row] for row in rows]
    _check_ids(table, settings.id, ids, lines, "average repeated measurements, or give each an id of its own")
    return Measurements(X, y[rows], ids, lines, waiting)


def read_candidates(settings: Settings, table: Table, inputs: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """The pool, labelled by ids or by lines of the file; and how many rows repeat others and are left out.

    Raises
    ------
    ValueError
        As :func:`read_measurements`; and for a table without rows.
    """
    if not table.rows:
        raise ValueError(f"{table.name} has no rows under its header: there is nothing to choose from")
    X = table.numbers(inputs, "input")
    _check_complete(table, X, inputs, table.lines, "has no value of")
    if settings.id is None:
        frame = pd.DataFrame(X, columns=list(inputs), index=pd.Index(table.lines, name=LINE))
        # Without ids nothing tells equal rows apart.
        once = frame[~frame.duplicated()]
        return once, len(frame) - len(once)
    ids = table.text(settings.id, "--id")
    _check_ids(table, settings.id, ids, table.lines, "every candidate needs an id of its own")
    # Not pandas' type for text, which files of runs do not know.
    return pd.DataFrame(X, columns=list(inputs), index=pd.Index(ids, dtype=object, name=settings.id)), 0


def align(measured: Measurements, pool: pd.DataFrame) -> Measurements:
    """With the pool's own inputs where a row is one of the pool, so that it is not offered again.

    Raises
    ------
    ValueError
        For a row with the id of a candidate but other inputs.
    """
    values = pool.to_numpy()
    close = _SAME * _span(np.concatenate([values, measured.X]))
    position = {} if measured.ids is None else {label: row for row, label in enumerate(pool.index)}
    X = measured.X.copy()
    for i, x in enumerate(measured.X):
        label = None if measured.ids is None else measured.ids[i]
        if label in position:
            row = position[label]
            wrong = np.flatnonzero(np.abs(values[row] - x) > close)
            if len(wrong):
                column = wrong[0]
                raise ValueError(
                    f"{measured.name(i)} has {pool.columns[column]} = {x[column]:.6g}, but the candidate of that id "
                    f"has {values[row, column]:.6g}: give a row measured elsewhere another id"
                )
            X[i] = values[row]
            continue
        same = np.flatnonzero((np.abs(values - x) <= close).all(1))
        if len(same):
            X[i] = values[same[0]]
    return Measurements(X, measured.y, measured.ids, measured.lines, measured.waiting)


def find_new(
    known_X: np.ndarray,
    known_y: np.ndarray,
    known_ids: Sequence[str | None] | None,
    measured: Measurements,
    target: str,
) -> tuple[list[int], list[str]]:
    """Rows that are not known yet, and what of the known ones is gone or changed, in words.

    Rows are known by their id; without one by their values, in any order.
    """
    known = np.column_stack([known_X, known_y])
    now = np.column_stack([measured.X, measured.y])
    close = _SAME * _span(np.concatenate([known, now]))
    left, problems = dict.fromkeys(range(len(now))), []
    nameless = list(known)
    if known_ids is not None and measured.ids is not None:
        row_of = {label: row for row, label in enumerate(measured.ids)}
        nameless = [values for label, values in zip(known_ids, known, strict=True) if label is None]
        for label, values in zip(known_ids, known, strict=True):
            if label is None:
                continue
            row = row_of.pop(label, None)
            if row is None:
                problems.append(f"{label} is gone")
                continue
            del left[row]
            if (np.abs(now[row] - values) > close).any():
                what = _difference(target, values, now[row], close)
                problems.append(f"{measured.name(row)} has {what}")
    missing = []
    for values in nameless:
        row = next((row for row in left if (np.abs(now[row] - values) <= close).all()), None)
        if row is None:
            missing.append(values)
        else:
            del left[row]
    for values in missing:
        row = next((row for row in left if (np.abs(now[row] - values) <= close)[:-1].all()), None)
        if row is None:
            problems.append(f"the row with {target} = {values[-1]:.6g} is gone")
        else:
            del left[row]
            problems.append(f"{measured.name(row)} has {_difference(target, values, now[row], close)}")
    return list(left), problems


def _difference(target: str, before: np.ndarray, after: np.ndarray, close: np.ndarray) -> str:
    if abs(after[-1] - before[-1]) > close[-1]:
        return f"{target} = {after[-1]:.6g}, which was {before[-1]:.6g}"
    return "other inputs than before"


def _span(values: np.ndarray) -> np.ndarray:
    span = np.ptp(values, axis=0)
    return np.where(span > 0, span, np.abs(values[0]))


def _check_complete(table: Table, X: np.ndarray, inputs: Sequence[str], lines: Sequence[int], problem: str) -> None:
    bad = np.argwhere(np.isnan(X))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{table.name}, line {lines[row]} {problem} {inputs[column]!r} ({len(bad)} empty cell(s) in all): fill it "
            "in, or take the row out"
        )


def _check_ids(table: Table, column: str | None, ids: list[str] | None, lines: Sequence[int], advice: str) -> None:
    if ids is None:
        return
    seen: dict[str, int] = {}
    for label, line in zip(ids, lines, strict=True):
        if label == "":
            raise ValueError(
                f"{table.name}, line {line} has no {column!r}, which --id says names the rows: give it one"
            )
        if label in seen:
            raise ValueError(f"{table.name} has the {column} {label!r} in lines {seen[label]} and {line}: {advice}")
        seen[label] = line
