"""Tables from a laboratory: CSV files read strictly, and complained of by line and column."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# What an empty cell looks like, in lower case.
_MISSING = frozenset(("", "-", "?", "n/a", "na", "nan", "none", "null"))
_SPREADSHEETS = frozenset((".ods", ".xls", ".xlsm", ".xlsx"))
_SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}


@dataclass(frozen=True)
class CSVFormat:
    """How numbers and columns are written."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"


@dataclass(frozen=True)
class Table:
    """The cells of a CSV file, as text.

    Attributes
    ----------
    name : str
        Of the file.
    columns : list of str
    rows : list of list of str
        As many cells as there are columns, without surrounding blanks.
    lines : list of int
        Where each row stands in the file; the header is line 1, as in a spreadsheet.
    format : CSVFormat
    """

    name: str
    columns: list[str]
    rows: list[list[str]]
    lines: list[int]
    format: CSVFormat

    def place(self, column: str, what: str) -> int:
        """Position of a column.

        Raises
        ------
        ValueError
            If there is none of this name; the ones that there are are listed.
        """
        if column not in self.columns:
            raise ValueError(f"{self.name} has no column {column!r} ({what}); it has {listing(self.columns, 12)}")
        return self.columns.index(column)

    def text(self, column: str, what: str) -> list[str]:
        """Cells of a column."""
        place = self.place(column, what)
        return [row[place] for row in self.rows]

    def numbers(self, columns: Sequence[str], what: str, rows: Sequence[int] | None = None) -> np.ndarray:
        """Cells of some columns, for all rows or some, (m, D); NaN where a cell is empty.

        Raises
        ------
        ValueError
            For a missing column, or a cell that is no finite number: its line and column are named.
        """
        places = [self.place(column, what) for column in columns]
        chosen = range(len(self.rows)) if rows is None else rows
        values = np.empty((len(chosen), len(places)))
        for i, row in enumerate(chosen):
            for j, place in enumerate(places):
                values[i, j] = self._number(row, place, what)
        return values

    def _number(self, row: int, place: int, what: str) -> float:
        cell = self.rows[row][place]
        if cell.lower() in _MISSING:
            return np.nan
        try:
            if self.format.decimal != "." and "." in cell:
                raise ValueError
            value = float(cell.replace(self.format.decimal, "."))
        except ValueError:
            value = np.nan
        if np.isfinite(value):
            return value
        problem = (
            f"{self.name}, line {self.lines[row]}: {what} {self.columns[place]!r} holds {cell!r}, which is no number"
        )
        if self.format.decimal == "." and _is_number(cell.replace(",", ".")):
            problem += "; if commas are decimal points, pass --decimal ,"
        elif self.format.decimal != "." and _is_number(cell):
            problem += f" with --decimal {self.format.decimal}"
        elif what == "input":
            problem += "; name a column of labels with --id, and the inputs with --inputs a,b,c"
        else:
            problem += "; leave the cell empty if there is no result"
        raise ValueError(problem)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is nothing in it."""
    return cell.lower() in _MISSING


def read_table(path: str | os.PathLike, style: CSVFormat) -> Table:
    """Read a CSV file with a header.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        For a spreadsheet, an empty file, nameless or repeated columns, rows longer than the header, another separator
        (it is named) or another encoding.
    """
    name = Path(path).name
    if Path(path).suffix.lower() in _SPREADSHEETS:
        raise ValueError(f"{name} is a spreadsheet: save it as 'CSV UTF-8', and pass that file")
    try:
        with open(path, encoding=style.encoding, newline="") as file:
            reader = csv.reader(file, delimiter=style.separator, skipinitialspace=True)
            records = [(reader.line_num, [cell.strip() for cell in record]) for record in reader]
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder, not a CSV file") from None
    except LookupError as error:
        raise ValueError(f"--encoding {style.encoding}: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(
            f"{name} is not text in {style.encoding.removesuffix('-sig')}: save it as 'CSV UTF-8', or pass --encoding, "
            "e.g. --encoding cp1252 for a file from Excel"
        ) from None
    except csv.Error as error:
        raise ValueError(f"{name} is no CSV file: {error}") from None
    records = [(line, cells) for line, cells in records if any(cells)]
    if not records:
        raise ValueError(f"{name} is empty: its first line must name the columns")
    (_, columns), *body = records
    _check_separator(name, columns, style)
    # Spreadsheets leave separators behind where there once was something.
    width = max(i for i, column in enumerate(columns) if column) + 1
    columns = columns[:width]
    if "" in columns:
        raise ValueError(
            f"{name}: column {columns.index('') + 1} has no name in the first line: name it, or take it out (pandas "
            "writes row numbers so, unless to_csv has index=False)"
        )
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise ValueError(f"{name} has more than one column named {listing(repeated)}")
    for line, cells in body:
        if any(cells[width:]):
            raise ValueError(
                f"{name}, line {line}: {len(cells)} cells under {width} columns; if the commas of decimal numbers were "
                "taken for separators, save the file with ';' between columns and pass --separator ';' --decimal ,"
            )
    rows = [(cells + [""] * width)[:width] for _, cells in body]
    return Table(name, columns, rows, [line for line, _ in body], style)


def write_rows(path: str | os.PathLike, columns: list[str], rows: list[list[str]], style: CSVFormat) -> None:
    """Write a CSV file, whole or not at all."""
    path = Path(path).resolve()
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "w", encoding=style.encoding.removesuffix("-sig"), newline="") as file:
            csv.writer(file, delimiter=style.separator, lineterminator="\n").writerows([columns, *rows])
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_number(value: float, style: CSVFormat) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value)).removesuffix(".0").replace(".", style.decimal)


def listing(names: Sequence[object], most: int = 6) -> str:
    """Names with commas between them; only the first ones of many."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _check_separator(name: str, columns: list[str], style: CSVFormat) -> None:
    if len(columns) > 1:
        return
    for other, spelled in _SEPARATORS.items():
        if other != style.separator and other in columns[0]:
            raise ValueError(
                f"{name} has a single column, {columns[0][:40]!r}: its columns seem to be separated otherwise, pass "
                f"--separator {spelled}"
            )


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
