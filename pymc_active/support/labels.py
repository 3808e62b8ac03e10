"""Encode and decode pandas row and column labels as JSON, so that saving needs no pickle.

Unlike ``DataFrame.to_json``, this keeps time zones, tuples and labels of mixed types.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd


def write_label(label: Any) -> Any:
    """Encode a label; raises a ValueError for anything but text, numbers, None, dates and tuples of these."""
    if isinstance(label, datetime | np.datetime64):
        stamp = pd.Timestamp(label)
        return {"timestamp": stamp.isoformat(), "zone": None if stamp.tz is None else str(stamp.tz)}
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, tuple):
        return {"tuple": [write_label(part) for part in label]}
    if label is None or isinstance(label, str | bool | int | float):
        return label
    expected, advice = "text, numbers, dates or tuples of these", "pool.index = pool.index.astype(str)"
    raise ValueError(f"labels in a file are {expected}; got {label!r}, a {type(label).__name__}. Write e.g. {advice}")


def read_label(value: Any) -> Any:
    """Decode what :func:`write_label` wrote."""
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(read_label(part) for part in value["tuple"])
    stamp = pd.Timestamp(value["timestamp"])
    return stamp if value["zone"] is None else stamp.tz_convert(value["zone"])


def write_index(index: pd.Index) -> dict[str, Any]:
    """Encode an index of rows or columns; raises as :func:`write_label` does."""
    parts = {"labels": index, "names": index.names}
    # The dtype None stands for levels.
    dtype = None if isinstance(index, pd.MultiIndex) else str(index.dtype)
    return {**{name: [write_label(label) for label in part] for name, part in parts.items()}, "dtype": dtype}


def read_index(value: dict[str, Any]) -> pd.Index:
    """Decode what :func:`write_index` wrote."""
    labels, names = ([read_label(label) for label in value[part]] for part in ("labels", "names"))
    if value["dtype"] is None:
        return pd.MultiIndex.from_tuples(labels, names=names)
    # Here tuples are labels, not levels.
    return pd.Index(labels, dtype=object, tupleize_cols=False, name=names[0]).astype(value["dtype"])


def write_table(table: pd.DataFrame) -> dict[str, Any]:
    """Encode a data frame without its values; raises as :func:`write_label` does."""
    dtypes = [str(k) if k == "category" or pd.api.types.is_numeric_dtype(k) else "float64" for k in table.dtypes]
    return {"index": write_index(table.index), "columns": write_index(table.columns), "dtypes": dtypes}


def read_table(value: dict[str, Any], X: np.ndarray) -> pd.DataFrame:
    """Decode what :func:`write_table` wrote, with the values (m, D)."""
    table = pd.DataFrame(X, index=read_index(value["index"])).astype(dict(enumerate(value["dtypes"])))
    return table.set_axis(read_index(value["columns"]), axis=1)
