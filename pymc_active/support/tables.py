"""Read inputs, outputs, boxes and pools, as users pass them, into checked arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.support.numbers import coordinate

Bounds = Sequence[tuple[float, float]] | Mapping[Any, tuple[float, float]]
# A name of a column that is a number, of no more digits than a float has.
_PLAIN_NUMBER = re.compile(r"-?(?=[\d.]{1,15}$)\d+(\.\d+)?")
# Numbers beyond this have squares that are infinite.
LARGEST = 1e150


def read_inputs(X: Any, what: str = "X", width: int | None = None, inputs: Sequence | None = None) -> np.ndarray:
    """A float matrix (n, D) from an array, a data frame or a DataArray, with the columns ``inputs`` in their order.

    A vector holds one input, unless ``width`` says that there are more. Raises a TypeError if the values are not real
    numbers, and a ValueError if they are not finite, if X is not a matrix of ``width`` columns and at least one row, or
    if its column names are not ``inputs``.
    """
    if isinstance(X, xr.DataArray) and X.ndim == 2 and X.dims[0] == "input":
        raise ValueError(f"{what} must have a row for each point; its dimensions are {X.dims}: write {what}.T")
    if inputs is not None:
        X, width = in_order_of(inputs, X, what), len(inputs)
    try:
        values = as_floats(X)
    except (TypeError, ValueError) as error:
        reason = f"{type(X).__name__}: {error}{_without_numbers(X)}"
        raise TypeError(f"{what} must hold numbers, shape (n, n_inputs); got {reason}") from None
    if values.ndim == 1 and width in (None, 1):
        values = values[:, None]
    if values.ndim != 2:
        hint = "A single point of a data frame is frame.iloc[[row]]." if isinstance(X, pd.Series) else ""
        expected = "a matrix with a row for each point and a column for each input"
        raise ValueError(f"{what} must be {expected}; got shape {values.shape}. {hint}".rstrip())
    if not values.size:
        raise ValueError(f"{what} is empty: expected at least one row and one column; got shape {values.shape}")
    if width is not None and values.shape[1] != width:
        raise ValueError(f"{what} must have {width} columns, one for each input; got shape {values.shape}")
    # Comparing the extremes first takes no memory beside a large pool.
    if not -LARGEST <= values.min() <= values.max() <= LARGEST:
        bad = ~(np.abs(values) <= LARGEST)
        row, column = np.argwhere(bad)[0].tolist()
        name = X.columns[column] if isinstance(X, pd.DataFrame) else column
        if (space := getattr(inputs, "space", None)) is not None:
            [name] = [name for name, own in space.columns.items() if column in own]
        where = f"{bad.sum()} value(s) are {_kind(values[bad])}, the first at row {row}, column {name}"
        raise ValueError(f"{what} must be finite: {where}. Drop or impute these rows.")
    return np.ascontiguousarray(values)


def _kind(bad: np.ndarray) -> str:
    return "NaN or infinite" if not np.isfinite(bad).all() else f"beyond {LARGEST:g}, whose squares are infinite"


def _without_numbers(X: Any) -> str:
    """The columns of a data frame that are neither numbers nor dates, and what to do about them."""
    if not isinstance(X, pd.DataFrame):
        return ""
    is_text = {name: not (_is_date(dtype) or pd.api.types.is_numeric_dtype(dtype)) for name, dtype in X.dtypes.items()}
    text_columns = [name for name in X if is_text[name]]
    columns = ", ".join(map(str, text_columns))
    remedy = "for labels pass space=pma.Space({...}), or a table of all candidates as space=; leave other columns out"
    if text_columns and X[text_columns].astype(str).apply(lambda column: column.str.match(r"\s*[-+]?\d").all()).all():
        remedy = "strip units, and read decimal commas by pd.read_csv(..., decimal=',')"
    return f" (see {columns}: {remedy})" if columns else ""


def as_floats(values: Any) -> np.ndarray:
    """An array of floats; missing values of pandas and masked ones of NumPy become NaN.

    A TypeError for dates, also within objects, for complex numbers, and for None outside of pandas.
    """
    is_frame = isinstance(values, pd.DataFrame)
    for column, dtype in values.dtypes.items() if is_frame else [(None, getattr(values, "dtype", None))]:
        if _is_date(dtype):
            # As floats they would count from 1970, in a unit that depends on the table.
            raise TypeError(f"dates are not numbers; {_as_days(column, isinstance(dtype, pd.PeriodDtype))}")
    # Of a wide table only a few columns, if any, hold objects.
    objects = (
        [values.iloc[:, k] for k, dtype in enumerate(values.dtypes) if dtype.kind == "O"] if is_frame else [values]
    )
    for column in objects:
        _check_objects(column)
    if isinstance(values, pd.DataFrame | pd.Series):
        return np.asarray(values.to_numpy(dtype=float, na_value=np.nan))
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(float), np.nan)
    values = values.to_numpy() if isinstance(values, xr.DataArray) else values
    if np.iscomplexobj(values):
        raise TypeError("complex numbers")
    if getattr(getattr(values, "dtype", None), "kind", "") == "O":
        values = np.where(pd.isna(values), np.nan, values)
    try:
        return np.asarray(values, dtype=float)
    except OverflowError:
        raise ValueError("a whole number is too large") from None


def _is_date(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        return _is_date(dtype.categories.dtype)
    return getattr(dtype, "kind", "") in ("m", "M") or isinstance(dtype, pd.PeriodDtype)


def _check_objects(values: Any) -> None:
    """Raise a TypeError for dates and, outside of pandas, None, which a conversion would take for numbers and NaN."""
    try:
        array = np.asarray(values) if values is None or isinstance(values, list | tuple) else values
    except (TypeError, ValueError):  # of unequal lengths, say, which the conversion refuses
        return
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    elements = np.asarray(array).ravel().tolist() if kind == "O" else []
    dates = date, timedelta, np.datetime64, np.timedelta64
    if kind in ("m", "M") or any(isinstance(one, dates) for one in elements):
        raise TypeError("dates are not numbers; write e.g. days since the first")
    if not isinstance(values, pd.Series) and any(one is None for one in elements):
        raise TypeError("None is no number, and stands for no failed experiment: write float('nan') for one")


def _as_days(column: Any, is_period: bool) -> str:
    """What to write for a column of a data frame, or without one for a Series, an index or an array."""
    date = "date" if column is None else f"frame[{column!r}]"
    first = f"{date} = pd.PeriodIndex({date}).to_timestamp(), then " if is_period else ""
    return f"write {first}e.g. days, {date} = ({date} - {date}.min()) / pd.Timedelta(days=1)"


def read_numbers(values: Any, name: str) -> np.ndarray:
    """A float array of any shape, NaN allowed; a TypeError by name if these are not numbers."""
    try:
        return as_floats(values)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers; got {type(values).__name__}: {error}") from None


def read_outputs(y: Any, n: int, X: Any = None, name: str = "y", *, may_fail: bool = False) -> np.ndarray:
    """A float vector (n,), checked like :func:`read_inputs`; its labels must be the labels of the rows of ``X``.

    A data frame or DataArray of one column is a vector. With ``may_fail``, NaN is a failed measurement and allowed.
    """
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    elif isinstance(y, xr.DataArray) and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    try:
        values = as_floats(y)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers, 1 and 0 for yes and no; got {type(y).__name__}: {error}") from None
    if values.ndim != 1:
        advice = ""
        if values.ndim == 2:
            one = values.shape[1] == 1
            advice = f": write {name}[:, 0]" if one else ": make a model, and a learner, for each output"
        raise ValueError(f"{name} must be a vector with one value for each row of X; got shape {values.shape}{advice}")
    if len(values) != n:
        raise ValueError(
            f"X and {name} must have equally many points; got {n} row(s) of X and {len(values)} value(s) of {name}"
        )
    bad = ~(np.abs(values) <= LARGEST)
    if may_fail:
        bad &= ~np.isnan(values)
    if bad.any():
        advice = "Write NaN for a measurement that failed."
        if not may_fail:
            advice = "Leave these points out here, and tell a Learner of those that failed: tell(x, nan)."
        where = f"{bad.sum()} value(s) are {_kind(values[bad])}, the first at position {np.argmax(bad)}"
        raise ValueError(f"{name} must be finite: {where}. {advice}")
    check_rows(X, y, name)
    return np.ascontiguousarray(values)


def read_error_bars(y_sd: Any, n: int, X: Any = None) -> np.ndarray | None:
    """Standard deviations (n,), from these or one number, checked like :func:`read_outputs`; None stays None."""
    if y_sd is None:
        return None
    sds = read_numbers(y_sd, "y_sd")
    if (bad := ~((sds >= 0) & (sds <= LARGEST))).any():
        raise ValueError(
            f"y_sd must hold standard deviations in units of y, finite and not negative, 0 where none is known; got "
            f"{sds[bad][0]:g}"
        )
    return read_outputs(y_sd if sds.ndim else np.full(n, sds), n, X, "y_sd")


def read_probabilities(quantiles: Sequence[float] | None) -> np.ndarray | None:
    """Numbers between 0 and 1, (k,); a ValueError for others."""
    if quantiles is None:
        return None
    probabilities = np.atleast_1d(read_numbers(quantiles, "quantiles"))
    if probabilities.ndim != 1 or not len(probabilities) or not ((probabilities > 0) & (probabilities < 1)).all():
        raise ValueError(f"quantiles must be probabilities between 0 and 1; got {quantiles!r}")
    return probabilities


def check_rows(X: Any, y: Any, what: str = "y", rows: str = "X") -> None:
    """Raise a ValueError if a data frame and a series have different row labels, or another order of these.

    So do DataArrays with a coordinate of their rows. Counted rows, 0, 1, ..., have no labels, unless the other has the
    same numbers in another order.
    """
    X, y = with_index(X), with_index(y)
    if not isinstance(X, pd.DataFrame) or not isinstance(y, pd.Series) or X.index.equals(y.index):
        return
    counted = pd.RangeIndex(len(y))
    if (y.index.equals(counted) or X.index.equals(counted)) and set(X.index) != set(y.index):
        return
    row = next((row for row, (of_X, of_y) in enumerate(zip(X.index, y.index, strict=True)) if of_X != of_y), None)
    if row is None:
        return
    plain = [one.item() if isinstance(one, np.generic) else one for one in (X.index[row], y.index[row])]
    problem = f"row {row} is {plain[0]!r} in {rows} and {plain[1]!r} in {what}"
    advice = f"Write {what}.loc[{rows}.index], or {what}.to_numpy() if they belong together as they stand."
    raise ValueError(f"the rows of {rows} and of {what} have different labels: {problem}. {advice}")


def with_index(values: Any) -> Any:
    """A DataArray whose rows have a coordinate as a data frame or Series; anything else as it is."""
    if not isinstance(values, xr.DataArray) or not 0 < values.ndim <= 2 or values.dims[0] not in values.coords:
        return values
    rows, numbers = values.indexes[values.dims[0]], values.to_numpy()
    return pd.Series(numbers, rows) if numbers.ndim == 1 else pd.DataFrame(numbers, rows, _column_labels(values))


def read_bounds(bounds: Any, width: int | None = None, inputs: Sequence | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends (D,) of ``width`` finite pairs low < high, or of a dict by ``inputs``; else a ValueError."""
    if (space := getattr(inputs, "space", None)) is not None and space.has_labels:
        raise ValueError("the model has a space with labels, and a box has none: pass a pool, as space.sample(1000)")
    names = inputs
    if isinstance(bounds, Mapping):
        names = list(bounds if inputs is None else inputs)
        if set(names) != set(bounds):
            given_names, known = ", ".join(map(str, bounds)), ", ".join(map(str, names))
            raise ValueError(f"bounds by name must have the inputs {known}; got {given_names}")
        bounds = [bounds[name] for name in names]
    try:
        box = as_floats(bounds)
    except (TypeError, ValueError):
        box = np.empty(0)
    expected = "a list of finite pairs (low, high), low < high, one for each input"
    if box.ndim != 2 or box.shape[1] != 2 or not len(box):
        hint = ": write list(zip(low, high))" if box.ndim == 2 and len(box) == 2 else ""
        raise ValueError(f"bounds must be {expected}{hint}; got {bounds!r}")
    if width is not None and len(box) != width:
        raise ValueError(f"bounds must have {width} pairs, one for each input of the model; got {len(box)}")
    wrong = ~((np.abs(box) <= LARGEST).all(1) & (box[:, 0] < box[:, 1]))
    if wrong.any():
        k = int(np.argmax(wrong))
        low, high = box[k]
        ends = f"({coordinate(low)}, {coordinate(high)})"
        labels, advice = list(range(len(box)) if names is None else names), ""
        which = name_of_input(labels[k])
        if low == high:
            constant = np.flatnonzero(box[:, 0] == box[:, 1]).tolist()
            more = "it" if len(constant) == 1 else ", ".join(str(name_of_input(labels[i])) for i in constant)
            advice = f". An input that never changes tells nothing: leave {more} out of X and of bounds. To "
            advice += "fix an input for a question, give its range here and use learner.ask(fixed={...})"
        raise ValueError(f"bounds must be {expected}; for {which} they are {ends}{advice}")
    return box[:, 0], box[:, 1]


def name_of_input(label: Any) -> str:
    """What a message calls an input."""
    return label if isinstance(label, str) else f"input {label}"


def _column_labels(X: Any) -> list | None:
    """Names of the columns of a data frame or DataArray, or None; of several levels as text."""
    if isinstance(X, pd.DataFrame):
        return [str(name) if isinstance(name, tuple) else name for name in X.columns]
    if isinstance(X, pd.Series):
        return [X.name] if isinstance(X.name, str) else None
    is_named = isinstance(X, xr.DataArray) and X.ndim == 2 and X.dims[-1] in X.coords
    return X[X.dims[-1]].to_numpy().tolist() if is_named else None


def in_order_of(inputs: Sequence, X: Any, what: str = "X") -> Any:
    """X with the columns of a data frame or DataArray in the order of a model's inputs; anything else as it is.

    Raises a ValueError if the names of both differ; numbers as text, as a file has them, are the same names. Counted
    columns, 0, 1, ... or 1, 2, ..., have no names. Tables of a space's inputs become its columns.
    """
    if (space := getattr(inputs, "space", None)) is not None:
        return space.encode(X, what)
    names, expected = _column_labels(X), list(inputs)
    if names is None or names == expected or np.ndim(X) != 2:
        return X
    labels, wanted = names, expected
    if set(names) != set(expected):
        if _are_counted(names) or _are_counted(expected):
            return X
        labels, wanted = _as_text(names), _as_text(expected)
    if len(labels) == len(wanted) and set(labels) == set(wanted):
        order = [labels.index(name) for name in wanted]
        return X.iloc[:, order] if isinstance(X, pd.DataFrame) else X[:, order]
    missing = [name for name in wanted if name not in labels]
    unknown = [name for name in labels if name not in wanted]
    differences = {"missing": missing, "unknown": unknown, "twice": [n for n in wanted if labels.count(n) > 1]}
    listed = "; ".join(f"{word}: {', '.join(map(str, which[:5]))}" for word, which in differences.items() if which)
    remedy = f": write {what}[{expected}]" if not missing and len(expected) <= 5 else ""
    raise ValueError(f"{what} must have the model's inputs as columns, in any order ({listed}){remedy}")


def _are_counted(names: Sequence) -> bool:
    """Whether names are mere positions, from 0 or 1."""
    return any(list(names) == list(range(first, first + len(names))) for first in (0, 1))


def _as_text(names: Sequence) -> list[str]:
    """Names of columns; of numbers the same whether they are whole numbers, floats or text, if they stay distinct."""
    texts = [str(name) for name in names]
    numbers = [f"{float(text):.15g}" if _PLAIN_NUMBER.fullmatch(text) else text for text in texts]
    return numbers if len(set(numbers)) == len(set(names)) else texts


def input_labels(X: Any, n_inputs: int, bounds: Any = None) -> list:
    """Distinct names of the input columns: of a table or DataArray, else of ``bounds`` in their order, or 0, 1, ..."""
    labels = _column_labels(X)
    if labels is None and isinstance(bounds, Mapping) and len(bounds) == n_inputs:
        # Numbers are positions, in any order.
        labels = list(bounds) if all(isinstance(name, str) for name in bounds) else None
    if labels is None:
        return list(range(n_inputs))
    if len(set(labels)) != len(labels):
        repeated = sorted({str(label) for label in labels if labels.count(label) > 1})
        raise ValueError(f"input names must be unique; these repeat: {', '.join(repeated)}")
    return labels


def box_or_pool(where: Any, bounds: Any = None, pool: Any = None) -> tuple[Any, Any]:
    """Bounds and pool, one of them None; a TypeError unless exactly one of the three arguments is given.

    A list ``where`` whose rows are not tuples is a ValueError: they could be intervals or points.
    """
    if sum(given is not None for given in (where, bounds, pool)) != 1:
        raise TypeError("pass one source of points: bounds=[(low, high), ...] or pool=X_pool")
    if where is None:
        return bounds, pool
    if not isinstance(where, list | tuple):
        return None, where
    if all(isinstance(row, tuple) for row in where):
        return where, None
    advice = "pass bounds=... or pool=..., or write bounds as tuples, [(low, high), ...]"
    raise ValueError(f"a list of lists may hold bounds or the rows of a pool: {advice}")


# Numbers in the largest array of one block of candidates.
_BLOCK = 400_000


def blocks(n_points: int, width: int) -> Iterator[slice]:
    """Slices of at most ``_BLOCK / width`` points."""
    step = int(np.clip(_BLOCK // max(width, 1), 64, 8192))
    for start in range(0, n_points, step):
        yield slice(start, min(start + step, n_points))


def point_labels(X: Any) -> np.ndarray:
    """Labels of the rows of a data frame or DataArray, else 0, 1, ..."""
    if isinstance(X, pd.DataFrame):
        return X.index.to_numpy()
    if isinstance(X, xr.DataArray) and X.dims[0] in X.coords:
        return X[X.dims[0]].to_numpy()
    return np.arange(len(X))
