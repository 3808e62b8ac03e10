"""Results at a glance: one list of facts, shown as text at a prompt and as escaped HTML in a notebook."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import pandas as pd

# Longer tables are cut, so that a summary fits beside the next cell.
_MOST_ROWS = 12


class Summary(NamedTuple):
    """The contents of a summary; facts that are None, and table rows after the first dozen, are not shown.

    Remarks tell what the reader must know before relying on the result.
    """

    title: str
    facts: Mapping[str, Any] = {}
    tables: Sequence[pd.DataFrame] = ()
    remarks: Sequence[str] = ()

    def text(self) -> str:
        """``<Title: fact value; ...>`` on one line, then the tables, then the remarks."""
        facts = "; ".join(f"{name} {value}" for name, value in self._known())
        lines = [f"<{self.title}{': ' if facts else ''}{facts}>"]
        for shown, is_named, more in self._cut():
            lines += [shown.to_string(index=is_named), *more]
        lines += [textwrap.fill(remark, 110, subsequent_indent="   ") for remark in self.remarks]
        return "\n".join(lines)

    def html(self) -> str:
        """Well-formed HTML, all text escaped.

        Examples
        --------
        >>> Summary("a < b", {"points": 3}).html()[:36]
        '<div><p><strong>a &lt; b</strong></p'
        """
        parts = [f"<p><strong>{escape(self.title)}</strong></p>"]
        cell = ' style="text-align: left"'
        entries = [(escape(str(name)), escape(str(value))) for name, value in self._known()]
        rows = [f"<tr><th{cell}>{name}</th><td{cell}>{value}</td></tr>" for name, value in entries]
        if rows:
            parts.append(f"<table><tbody>{''.join(rows)}</tbody></table>")
        for shown, is_named, more in self._cut():
            parts += [shown.to_html(index=is_named, border=0), *(f"<p>{text}</p>" for text in more)]
        parts += [f"<p>{escape(remark)}</p>" for remark in self.remarks]
        return f"<div>{''.join(parts)}</div>"

    def _known(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in self.facts.items() if value is not None]

    def _cut(self) -> Iterator[tuple[pd.DataFrame, bool, list[str]]]:
        """Each table cut to a dozen rows, whether its rows have names, and how many rows are missing."""
        for table in self.tables:
            more = [f"and {len(table) - _MOST_ROWS} more"] if len(table) > _MOST_ROWS else []
            yield table.head(_MOST_ROWS), not isinstance(table.index, pd.RangeIndex), more


def formatted(frame: pd.DataFrame, formats: Mapping[str, str]) -> pd.DataFrame:
    """The table with some columns as text, such as ``{"log_evidence": "{:.2f}"}``."""
    return frame.assign(**{name: frame[name].map(form.format) for name, form in formats.items()})


class Summarized:
    """Base of results that describe themselves: one :class:`Summary` for the prompt and for notebooks."""

    __slots__ = ()

    @abstractmethod
    def _summary(self) -> Summary:
        """What to show. It must be cheap: nothing is fitted for it."""

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()
