"""What the command line prints and writes: notes, tables, sheets to fill in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd

from pymc_active.command_line.options import Settings
from pymc_active.command_line.records import LINE
from pymc_active.command_line.state import Suggestion
from pymc_active.command_line.tables import Table, is_missing, read_table, write_number, write_table
from pymc_active.criteria.base import Criterion
from pymc_active.learner.learner import Learner
from pymc_active.support.numbers import coordinate, plus_minus

# With more inputs a table is too wide to read.
SHOWN = 6


class Console:
    """Results to standard output; notes and progress to standard error, unless ``quiet``."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        # What warnings call the rows of the table, by their results.
        self.rows: dict[str, str] = {}

    def note(self, text: str) -> None:
        """Something that is good to know."""
        if not self.quiet:
            print(f"note: {text}", file=sys.stderr)

    def working(self, what: str) -> AbstractContextManager:
        """Context that shows, on a terminal, that something goes on."""
        if self.quiet or not sys.stderr.isatty():
            return nullcontext()
        from rich.console import Console as RichConsole

        return RichConsole(stderr=True).status(f"{what} ...")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
        """A table with rules on a terminal, else columns between blanks."""
        from rich import console, table, text

        is_terminal = sys.stdout.isatty()
        shown = table.Table() if is_terminal else table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in columns:
            shown.add_column(text.Text(column), justify="left" if column == columns[0] else "right")
        for row in rows:
            shown.add_row(*map(text.Text, row))
        if title:
            print(title)
        # Elsewhere than on a terminal lines may be of any length.
        console.Console(width=None if is_terminal else 10_000).print(shown)


def show(found: Sequence[Suggestion], settings: Settings, learner: Learner | None, console: Console) -> None:
    """A table of suggestions, the most wanted first; without a learner the points alone."""
    inputs = settings.inputs or []
    columns = {"#": [str(number) for number in range(1, len(found) + 1)]}
    if settings.bounds is None:
        columns[settings.id or LINE] = [one.name for one in found]
    if len(inputs) <= SHOWN:
        columns |= {name: [coordinate(one.x[i]) for one in found] for i, name in enumerate(inputs)}
    if learner is not None:
        columns[f"predicted {settings.target} ± 1 sd"] = [plus_minus(one.mean, one.sd, digits=2) for one in found]
    if learner is not None and learner.criterion is not None:
        units = learner.criterion.units if isinstance(learner.criterion, Criterion) else "score"
        columns[score_title(learner.criterion_name, units, settings.target)] = [f"{one.score:.3g}" for one in found]
    console.table(list(columns), list(zip(*columns.values(), strict=True)))


def score_title(name: str, units: str, target: str) -> str:
    """What a score is and what it is measured in."""
    # "log of fat" would read as if the target had been mapped.
    if units.startswith("log of"):
        return f"log {name.replace('_', ' ')} (larger is better)"
    return f"{name} ({units.replace('units of y', target)})"


def check_sheet(path: str | os.PathLike, settings: Settings) -> None:
    """Refuse to write over results: raise a ValueError unless the file is missing, or a sheet without any result."""
    if not Path(path).exists():
        return
    name, target = Path(path).name, settings.target
    try:
        sheet = read_table(path, settings)
    except ValueError:
        raise ValueError(f"{name} exists and is no table: name another --output") from None
    if target not in sheet.cells:
        raise ValueError(f"{name} exists and is no sheet of suggestions for {target}: name another --output")
    if not sheet.cells[target].map(is_missing).all():
        raise ValueError(f"{name} holds results of {target}: move them to the measurements, or name another --output")


def write_sheet(
    path: str | os.PathLike, settings: Settings, measured: Table, candidates: Table | None, found: Sequence[Suggestion]
) -> None:
    """Rows with the columns of the measurements, the target empty, others as in the table of candidates, if any."""
    sheet = pd.DataFrame("", index=[one.name for one in found], columns=measured.cells.columns, dtype=object)
    if candidates is not None:
        names = candidates.cells.index.map(str) if settings.id is None else candidates.cells[settings.id]
        sheet.update(candidates.cells.set_axis(pd.Index(names)))
    for column, values in zip(settings.inputs or (), np.transpose([one.x for one in found]), strict=True):
        sheet[column] = [write_number(value, settings.decimal) for value in values]
    if settings.id is not None:
        sheet[settings.id] = sheet.index if settings.bounds is None else ""
    sheet[settings.target] = ""
    write_table(path, sheet, settings)
