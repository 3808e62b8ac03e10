"""Tables from a laboratory: read strictly, with complaints that name file, row and column."""

import io
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pymc_active.spaces.space import Space
from pymc_active.spaces.variables import NAMES, Categorical

# What a cell without a result looks like, and the cell of an experiment that failed, in lower case.
_EMPTY = ("", "-", "?", "n/a", "#n/a", "na", "nan", "nd", "n.d.", "none", "null")
_FAILED = ("fail", "failed", "failure")
# How numbers begin, with units or without, but not the names of compounds such as 1,4-dioxane.
_BEGINS = r"(?!\d+(,\d+)*-[^\W\d])[-+]?\d"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


class Table(NamedTuple):
    """The cells of a file, text without blanks around it, by row as spreadsheets count them: the header is row 1."""

    name: str
    cells: pd.DataFrame
    separator: str
    decimal: str

    def column(self, name: str, what: str) -> pd.Series:
        """Cells of a column; a ValueError that lists the columns if there is none of this name."""
        if name not in self.cells:
            raise ValueError(f"{self.name} has no column {name!r} ({what}); it has {listing(self.cells, 12)}")
        return self.cells[name]

    def numbers(self, columns: Iterable[str], what: str) -> pd.DataFrame:
        """Some columns as numbers, NaN where a cell is empty; a ValueError for text that is not a number."""
        series = {}
        for name in columns:
            cells = self.column(name, what)
            filled = cells[~is_empty(cells)]
            # With decimal commas, points would separate thousands.
            plain = filled if self.decimal == "." else filled.str.replace(".", "?").str.replace(",", ".")
            for row, cell in filled[~plain.str.fullmatch(_NUMBER)].items():
                problem = f"{self.name}, row {row}: {what} {name!r} holds {cell!r}, which is no number"
                raise ValueError(f"{problem}{self._advice(cell, what)}")
            series[name] = pd.Series(map(float, plain), filled.index, float)
        return pd.DataFrame(series, index=self.cells.index)

    def labels(self, columns: Sequence[str]) -> dict[str, set[str]]:
        """The cells of columns of text in which none looks like a number; a ValueError if each is another one."""
        cells = {name: self.column(name, "input") for name in columns}
        filled = {name: column[~is_empty(column)] for name, column in cells.items()}
        texts = {name: one for name, one in filled.items() if len(one) and not one.str.match(_BEGINS).any()}
        if names := [name for name, one in texts.items() if len(one) > NAMES and one.is_unique]:
            remedy = f"if it names the rows, pass --id {names[0]}; if it is an input, --categorical {names[0]}"
            raise ValueError(f"{self.name} has another {names[0]} in each row: {remedy}")
        return {name: set(one) for name, one in texts.items()}

    def inputs(self, columns: Sequence[str], label: str | None, space: Space | None = None) -> pd.DataFrame:
        """The inputs, or the columns of a space, by ``label`` or else by row; raises if one, or a label, is missing."""
        texts = {} if space is None else {v.name: v.labels for v in space.variables if isinstance(v, Categorical)}
        X = self.numbers([name for name in columns if name not in texts], "input")
        for name in texts:
            X[name] = spelled_as(self.column(name, "input"), texts[name]).where(~is_empty(self.cells[name]))
        X, ids = X[list(columns)], self.cells.index if label is None else self.column(label, "--id")
        for row, column in zip(*np.nonzero(X.isna()), strict=True):
            where = f"{self.name}, row {X.index[row]} has no value of {columns[column]!r}"
            raise ValueError(f"{where}: fill it in, or take the row out")
        for row in X.index[(ids == "") | ids.duplicated()]:
            problem = f"{self.name}, row {row}: the {label} {ids[row]!r} is missing or repeated"
            raise ValueError(f"{problem}: give each row an id of its own, repeated measurements as well")
        if space is not None:
            try:
                X = pd.DataFrame(np.asarray(space.encode(X)), X.index, list(space.inputs))
            except ValueError as error:
                raise ValueError(f"{self.name}: {error}; --rebuild takes in new labels") from None
        # Files of runs do not know pandas' own type for text.
        return X.set_axis(pd.Index(ids.tolist(), dtype=None if label is None else object, name=label or "row"))

    def _advice(self, cell: str, what: str) -> str:
        if _NUMBER.fullmatch(cell.replace(",", ".")):
            return f"; with a decimal {'comma pass' if ',' in cell else 'point leave out'} --decimal ,"
        if cell.startswith(("<", ">")):
            return "; of a detection limit write about half of it"
        unit = "; write the number alone, without its unit, and dates as days since the first"
        unit = unit if re.match(_BEGINS, cell) else ""
        if what == "input":
            return f"{unit}; of labels pass --categorical and the column, or --id; or choose the inputs with --inputs"
        return unit or "; leave the cell empty if there is no result yet, or write 'failed' if there never will be"


def same(rows: np.ndarray, one: np.ndarray) -> np.ndarray:
    """Which rows are one, but for digits that spreadsheets drop."""
    return np.isclose(rows, one, rtol=1e-9, atol=0, equal_nan=True).all(1)


def spelled_as(cells: pd.Series, labels: Collection[str]) -> pd.Series:
    """Cells as the labels that they are but for case, or as numbers: programs write TRUE and 1 in their own way."""

    def key(cell: str) -> str:
        return str(float(cell)) if _NUMBER.fullmatch(cell) else cell.lower()

    same = {key(label): label for label in labels}
    return cells.where(cells.isin(labels), cells.map(lambda cell: same.get(key(cell), cell)))


def is_empty(cells: pd.Series) -> pd.Series:
    """Which cells hold nothing."""
    return cells.str.lower().isin(_EMPTY)


def read_table(path: str, decimal: str) -> Table:
    """Read a file with a header; a ValueError, OSError or ImportError says what is wrong with it."""
    name, separator, how = Path(path).name, ",", {"header": None, "dtype": str, "keep_default_na": False}
    try:
        if Path(path).suffix.lower() in (".ods", ".xls", ".xlsm", ".xlsx"):
            cells = pd.read_excel(path, **how)
        else:
            content = Path(path).read_bytes()
            text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
            separator = _separator(text)
            cells = pd.read_csv(io.StringIO(text), sep=separator, skipinitialspace=True, skip_blank_lines=False, **how)
    except (UnicodeDecodeError, pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        advice = "save it as 'CSV UTF-8', with ';' between columns if commas are decimal points"
        raise ValueError(f"{name} cannot be read as a table: {str(error).strip()}; {advice}") from None
    cells = cells.fillna("").apply(lambda column: column.astype(str).str.strip())
    # Spreadsheets leave separators behind where a column was deleted.
    cells = cells.loc[:, (cells != "").any()].set_axis(cells.index + 1)
    header = cells.iloc[0].tolist()
    for column in header:
        if not column or header.count(column) > 1:
            raise ValueError(f"{name}: the name {column!r} of a column is missing or repeated (in pandas: index=False)")
    cells = cells.iloc[1:].set_axis(header, axis=1)
    return Table(name, cells[(cells != "").any(axis=1)], separator, decimal)


def _separator(text: str) -> str:
    """What separates the columns: of comma, semicolon and tab the most frequent in the header, or else blanks."""
    header = text.partition("\n")[0]
    counts = {len(line.split()) for line in text.splitlines() if line.strip()}
    return r"\s+" if len(counts) == 1 and not re.search("[;\t,]", header) else max(";\t,", key=header.count)


def read_measurements(
    table: Table, target: str, error: str | None, label: str | None, inputs: Sequence[str], pool: pd.DataFrame,
    space: Space | None = None,
) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:  # fmt: skip
    """Rows with a result: inputs (n, D) by label, of a candidate from the pool; results by name, NaN: failed.

    The last are standard deviations of the results (n,), 0 where the column ``error`` has none.
    """
    results = table.column(target, "--target")
    done, worked = ~is_empty(results), ~results.str.lower().isin(_FAILED)
    y = table._replace(cells=table.cells[worked]).numbers([target], "target")[target].reindex(results.index)[done]
    X = table._replace(cells=table.cells[done]).inputs(inputs, label, space)
    for i, one in enumerate(X.index):
        own = pool.loc[[one]] if label is not None and one in pool.index else pool
        rows = own.to_numpy()[same(own.to_numpy(float), X.iloc[i].to_numpy())]
        if own is not pool and not len(rows):
            raise ValueError(f"{table.name} has other inputs of {one} than the candidates: give it another {label}")
        X.iloc[i] = rows[0] if len(rows) else X.iloc[i]
    names = [f"row {row}" if label is None else f"{one} (row {row})" for row, one in zip(y.index, X.index, strict=True)]
    sd = 0.0 * y if error is None else table.numbers([error], "--error")[error].reindex(y.index)
    return X, y.set_axis(names), np.where(y.isna(), 0.0, sd.fillna(0.0))


def listing(names: Iterable[object], most: int = 6) -> str:
    """Names with commas between them; only the first ones of many."""
    text = list(map(str, names))
    return ", ".join(text[:most]) + (f" and {len(text) - most} more" if len(text) > most else "")
