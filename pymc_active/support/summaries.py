"""Results at a glance: one list of facts, shown as text at a prompt and as escaped HTML in a notebook."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import pandas as pd

# What a longer table is cut to: a summary fits beside the next cell.
_MOST_ROWS = 12


class Summary(NamedTuple):
    """What there is to say of a result.

    Attributes
    ----------
    title : str
    facts : mapping
        What it says -> value; values that are None are left out.
    tables : sequence of DataFrame
        Shown below the facts.
    remarks : sequence of str
        What the reader must know before relying on it.
    """

    title: str
    facts: Mapping[str, Any] = {}
    tables: Sequence[pd.DataFrame] = ()
    remarks: Sequence[str] = ()

    def text(self) -> str:
        """``<Title: fact value; ...>`` on one line, then the tables, then the remarks."""
        facts = "; ".join(f"{name} {value}" for name, value in self.facts.items() if value is not None)
        tables = [table.to_string(index=not isinstance(table.index, pd.RangeIndex)) for table in self.tables]
        remarks = [textwrap.fill(remark, 110, subsequent_indent="   ") for remark in self.remarks]
        return "\n".join([f"<{self.title}{': ' if facts else ''}{facts}>", *tables, *remarks])


class Summarized:
    """Base of results that say what they hold: one :class:`Summary` for the prompt and for notebooks."""

    @abstractmethod
    def _summary(self) -> Summary:
        """The facts. Nothing is computed or fitted for it that would take longer than a blink."""

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        title, facts, tables, remarks = self._summary()
        return html_summary(title, facts, *tables, remarks=remarks)


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
