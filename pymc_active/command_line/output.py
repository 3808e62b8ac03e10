"""What the command line says: tables for people and for programs, notes, pictures, sheets to be filled in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pymc_active.command_line.records import LINE
from pymc_active.command_line.settings import Settings
from pymc_active.command_line.tables import Table, is_missing, read_table, write_number, write_rows
from pymc_active.criteria.base import Criterion
from pymc_active.learner.learner import Learner
from pymc_active.support.numbers import plus_minus

# More inputs than this make a table that nobody can read.
SHOWN = 6


class Suggestion(NamedTuple):
    """A point to measure.

    ``label`` is that of the pool's row; ``mean`` and ``sd`` are those of the measurement that is expected there.
    """

    label: str
    x: np.ndarray
    score: float = np.nan
    mean: float = np.nan
    sd: float = np.nan


class Console:
    """Results to standard output; notes and progress to standard error, unless ``quiet``."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet

    def note(self, text: str) -> None:
        """Something that is good to know."""
        if not self.quiet:
            print(f"note: {text}", file=sys.stderr)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show that something goes on, where somebody is watching."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console as RichConsole

        with RichConsole(stderr=True).status(f"{what} ..."):
            yield

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
        """A table with rules on a terminal, else columns between blanks."""
        if sys.stdout.isatty():
            from rich.console import Console as RichConsole
            from rich.table import Table as RichTable
            from rich.text import Text

            shown = RichTable(title=Text(title) if title else None, title_justify="left")
            for column in columns:
                shown.add_column(Text(column), justify="left" if column == columns[0] else "right")
            for row in rows:
                shown.add_row(*(Text(cell) for cell in row))
            RichConsole().print(shown)
            return
        if title:
            print(title)
        widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
        for row in [columns, *rows]:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
            cells[0] = row[0].ljust(widths[0])
            print("  ".join(cells).rstrip())


def show(found: Sequence[Suggestion], settings: Settings, learner: Learner | None, console: Console) -> None:
    """A table of suggestions, the first the most wanted."""
    inputs = settings.inputs or []
    shown = range(len(inputs)) if len(inputs) <= SHOWN else range(0)
    has_label = any(one.label for one in found) and settings.bounds is None
    columns = ["#", *([settings.id or LINE] if has_label else []), *(inputs[i] for i in shown)]
    criterion = None if learner is None else learner.criterion
    if learner is not None:
        columns.append(f"predicted {settings.target}")
    if criterion is not None:
        units = criterion.units if isinstance(criterion, Criterion) else "score"
        columns.append(f"{learner.criterion_name} ({units.replace('units of y', settings.target)})" if learner else "")
    rows = []
    for number, one in enumerate(found, start=1):
        row = [str(number), *([one.label] if has_label else []), *(f"{one.x[i]:g}" for i in shown)]
        if learner is not None:
            row.append(plus_minus(one.mean, one.sd, digits=2))
        if criterion is not None:
            row.append(f"{one.score:.3g}")
        rows.append(row)
    console.table(columns, rows)


def check_sheet(path: str | os.PathLike, settings: Settings) -> None:
    """Refuse to write over results.

    Raises
    ------
    ValueError
        If there is a file that is no table, no sheet of this target, or one that was filled in.
    """
    if not Path(path).exists():
        return
    name = Path(path).name
    try:
        sheet = read_table(path, settings.style)
    except ValueError:
        raise ValueError(f"{name} exists and is no table: name another --output") from None
    if settings.target not in sheet.columns:
        raise ValueError(f"{name} exists and is no sheet of suggestions for {settings.target}: name another --output")
    if not all(is_missing(cell) for cell in sheet.text(settings.target, "target")):
        raise ValueError(
            f"{name} holds results of {settings.target}: add them to the measurements first and take the file away, or "
            "name another --output"
        )


def write_sheet(
    path: str | os.PathLike, settings: Settings, measured: Table, candidates: Table | None, found: Sequence[Suggestion]
) -> None:
    """Rows with the columns of the table of measurements, the target's empty.

    Columns that are no inputs are copied from the table of candidates, where it has them.
    """
    style = settings.style
    labels: dict[str, list[str]] = {}
    if candidates is not None:
        by = map(str, candidates.lines) if settings.id is None else candidates.text(settings.id, "--id")
        labels = dict(zip(by, candidates.rows, strict=True))
    rows = []
    for one in found:
        values = dict(zip(candidates.columns, labels.get(one.label, ()), strict=False)) if candidates else {}
        values |= {name: write_number(x, style) for name, x in zip(settings.inputs or (), one.x, strict=True)}
        if settings.id is not None:
            values[settings.id] = one.label if settings.bounds is None else ""
        values[settings.target] = ""
        rows.append([values.get(column, "") for column in measured.columns])
    write_rows(path, measured.columns, rows, style)
