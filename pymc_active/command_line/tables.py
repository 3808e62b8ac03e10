"""Tables from a laboratory: CSV files read strictly, with complaints that name line and column."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pymc_active.command_line.options import Settings

# What an empty cell looks like, in lower case.
_MISSING = frozenset(("", "-", "?", "n/a", "na", "nan", "none", "null"))
# What the cell of an experiment that failed looks like, in lower case.
_FAILED = ("fail", "failed", "failure")
_SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}


class Table(NamedTuple):
    """The cells of a file: text without surrounding blanks, indexed by the line of the file; the header is line 1."""

    name: str
    cells: pd.DataFrame
    decimal: str

    def text(self, column: str, what: str) -> pd.Series:
        """Cells of a column; raises a ValueError that lists the columns if there is none of this name."""
        if column not in self.cells:
            raise ValueError(f"{self.name} has no column {column!r} ({what}); it has {listing(self.cells, 12)}")
        return self.cells[column]

    def failed(self, column: str, what: str) -> np.ndarray:
        """Which cells of a column say that the experiment failed, (m,)."""
        return self.text(column, what).str.lower().isin(_FAILED).to_numpy(bool)

    def numbers(self, columns: Iterable[str], what: str) -> np.ndarray:
        """Cells of some columns, (m, D), NaN where one is empty; raises a ValueError for text that is not a number."""
        cells = pd.concat([self.text(column, what) for column in columns], axis=1)
        values = [
            self._number(cell, line, column, what) for line, row in cells.iterrows() for column, cell in row.items()
        ]
        return np.reshape(values, cells.shape)

    def is_empty(self, column: str) -> bool:
        """Whether there are rows, and none has a value in this column."""
        return len(self.cells) > 0 and bool(self.cells[column].map(is_missing).all())

    def is_text(self, column: str) -> bool:
        """Whether no cell of a column begins as a number does."""
        cells = [cell for cell in self.cells[column] if not is_missing(cell)]
        # A number with its unit is a slip, which is to be told.
        return not any(cell[:1].isdigit() or cell[:1] in "+-." for cell in cells)

    def _number(self, cell: str, line: object, column: object, what: str) -> float:
        if is_missing(cell):
            return math.nan
        # With another decimal point a dot would separate thousands.
        value = math.nan if self.decimal != "." and "." in cell else _number(cell.replace(self.decimal, "."))
        if math.isfinite(value):
            return value
        problem = f"{self.name}, line {line}: {what} {column!r} holds {cell!r}, which is no number"
        if self.decimal == "." and math.isfinite(_number(cell.replace(",", "."))):
            problem += "; if commas are decimal points, pass --decimal ,"
        elif self.decimal != "." and math.isfinite(_number(cell)):
            problem += f" with --decimal {self.decimal}"
        elif what == "input":
            problem += (
                "; name a column of labels with --id, and the inputs with --inputs a,b,c; write dates as numbers, such "
                "as days since the first"
            )
        else:
            problem += (
                "; write a result as a plain number, such as 1234.5; leave the cell empty if there is none yet, or "
                "write 'failed' if there never will be"
            )
            if cell.startswith(("<", ">")):
                problem += "; of a detection limit write about half of it, as a value: a failure would be avoided"
        raise ValueError(problem)


def is_missing(cell: str) -> bool:
    """Whether a cell says that it holds nothing."""
    return cell.lower() in _MISSING


def read_table(path: str | os.PathLike, settings: Settings) -> Table:
    """Read a CSV file with a header, written as the settings say; a ValueError says what is wrong with it."""
    name, encoding = Path(path).name, settings.encoding
    if Path(path).suffix.lower() in (".ods", ".xls", ".xlsm", ".xlsx"):
        raise ValueError(f"{name} is a spreadsheet: save it as 'CSV UTF-8', and pass that file")
    # Unlike pandas' reader, Python's gives the line of each row, and leaves names of columns as they are.
    records, before = [], 0
    try:
        with open(path, encoding=encoding, newline="") as file:
            text = list(file)
        reader = csv.reader(text, delimiter=settings.separator, skipinitialspace=True)
        for record in reader:
            if reader.line_num > before + 1 and "".join(text[before : reader.line_num]).count('"') % 2:
                raise ValueError(f'{name}, line {before + 1}: a quotation mark (") begins a cell, and none ends it')
            records.append((reader.line_num, [cell.strip() for cell in record]))
            before = reader.line_num
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder, not a CSV file") from None
    except LookupError as error:
        raise ValueError(f"--encoding {encoding}: {error}") from None
    except UnicodeDecodeError:
        advice = "save it as 'CSV UTF-8', or pass --encoding, e.g. --encoding cp1252 for a file from Excel"
        raise ValueError(f"{name} is not text in {encoding.removesuffix('-sig')}: {advice}") from None
    except csv.Error as error:
        raise ValueError(f"{name} is no CSV file: {error}") from None
    lines = {line: cells for line, cells in records if any(cells)}
    # Excel's own way to name the separator.
    lines = {line: cells for line, cells in lines.items() if not (line == 1 and cells[0].lower().startswith("sep="))}
    if not lines:
        raise ValueError(f"{name} is empty: its first line must name the columns")
    header = lines.pop(min(lines))
    # Spreadsheets leave separators behind where a column was deleted.
    width = max(i for i, column in enumerate(header) if column) + 1
    _check_header(name, header[:width], settings)
    for line, cells in lines.items():
        if any(cells[width:]):
            advice = "if the commas of decimal numbers split cells, save with ';' and pass --separator ';' --decimal ,"
            raise ValueError(f"{name}, line {line}: {len(cells)} cells under {width} columns; {advice}")
    rows = [(cells + [""] * width)[:width] for cells in lines.values()]
    return Table(name, pd.DataFrame(rows, list(lines), header[:width], dtype=object), settings.decimal)


def write_table(path: str | os.PathLike, cells: pd.DataFrame, settings: Settings) -> None:
    """Write a CSV file, whole or not at all."""
    path = Path(path).resolve()
    part = path.with_name(f".{path.name}.part")
    try:
        cells.to_csv(part, sep=settings.separator, index=False, encoding=settings.encoding.removesuffix("-sig"))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_number(value: float, decimal: str) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value)).removesuffix(".0").replace(".", decimal)


def listing(names: Iterable[object], most: int = 6) -> str:
    """Names with commas between them; only the first ones of many."""
    names = list(names)
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _check_header(name: str, columns: Sequence[str], settings: Settings) -> None:
    for other, spelled in _SEPARATORS.items():
        if len(columns) == 1 and other != settings.separator and other in columns[0]:
            problem = f"{name} has a single column, {columns[0][:40]!r}"
            raise ValueError(f"{problem}: its columns seem to be separated otherwise, pass --separator {spelled}")
    if "" in columns:
        advice = "name it, or take it out (pandas writes row numbers so, unless to_csv has index=False)"
        raise ValueError(f"{name}: column {columns.index('') + 1} has no name in the first line: {advice}")
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise ValueError(f"{name} has more than one column named {listing(repeated)}")


def _number(text: str) -> float:
    """NaN for text that is not a number. Underscores are Python's own."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan
