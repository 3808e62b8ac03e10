"""What results look like in a notebook: a title, facts, tables and remarks, as one small piece of escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import pandas as pd

# What a longer table is cut to: a summary fits beside the next cell.
_MOST_ROWS = 12


def html_summary(title: str, facts: Mapping[str, Any], *tables: pd.DataFrame, remarks: Iterable[str] = ()) -> str:
    """A result at a glance.

    Parameters
    ----------
    title : str
    facts : mapping
        What it says -> value, one row each; values that are None are left out.
    *tables : DataFrame
        Below the facts; the first dozen rows of each.
    remarks : iterable of str
        What the reader must know before believing it, below everything.

    Returns
    -------
    str
        Well-formed HTML. All text is escaped.

    Examples
    --------
    >>> html_summary("a < b", {"points": 3})[:36]
    '<div><p><strong>a &lt; b</strong></p'
    """
    parts = [f"<p><strong>{escape(title)}</strong></p>"]
    cell = ' style="text-align: left"'
    rows = [
        f"<tr><th{cell}>{escape(str(name))}</th><td{cell}>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    ]
    if rows:
        parts.append(f"<table><tbody>{''.join(rows)}</tbody></table>")
    parts += [html_table(table) for table in tables]
    parts += [f"<p>{escape(remark)}</p>" for remark in remarks]
    return f"<div>{''.join(parts)}</div>"


def html_table(table: pd.DataFrame) -> str:
    """A data frame's first dozen rows, and how many more there are."""
    # Numbered rows have no names worth a column.
    html = table.head(_MOST_ROWS).to_html(index=not isinstance(table.index, pd.RangeIndex), border=0)
    more = len(table) - _MOST_ROWS
    return html + (f"<p>and {more} more</p>" if more > 0 else "")
