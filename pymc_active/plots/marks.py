"""What pictures share inside the frame: notes, dots, medians, bands and rings."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.plots.axes import Axes
from pymc_active.plots.style import BLUE, DOT, INK, VERMILION

# Points between two numbers, to the side and up: as much as one of three digits needs.
_ROOM = (16, 11)
_NOTE: dict[str, Any] = {"fontsize": 9, "color": INK}


def note(ax: Axes, text: str, at: tuple[Any, Any], offset: tuple[float, float] = (0, 0), **style: Any) -> Any:
    """Text at a point of the data, moved by an offset in points."""
    return ax.annotate(text, at, xytext=offset, textcoords="offset points", **_NOTE | style)


def note_in_row(ax: Axes, text: str, row: Any, **style: Any) -> None:
    """Text at the right of a row."""
    note(ax, text, (1.0, row), (4, 0), **{"xycoords": ("axes fraction", "data"), "va": "center"} | style)


def dots(ax: Axes, x: Any, y: Any, label: str = "data", **style: Any) -> None:
    """Measurements."""
    ax.plot(x, y, "o", label=label, **DOT | style)


def intervals(ax: Axes, at: np.ndarray, values: Any, label: str) -> None:
    """Hollow dots at medians, over the lines of their intervals: lower ends, medians and upper ends (3, n)."""
    low, middle, high = values
    ax.vlines(at, low, high, color=BLUE, lw=1.4)
    ax.plot(at, middle, "o", ms=5, color="white", mec=BLUE, mew=1.6, label=label, zorder=3)


def draw_band(ax: Axes, x: np.ndarray, moments: tuple[np.ndarray, ...], target: str = "f") -> None:
    """A mean of f, and the band between the ends of the 89 % interval of f or y."""
    mean, low, high = moments
    ax.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0, label=f"89 % interval of {target}")
    ax.plot(x, mean, color=BLUE, lw=1.8, label="mean of f")


def read_rows(name: str, rows: Any, n: int) -> np.ndarray:
    """Rows of n points, from their numbers or a mask, or a ValueError."""
    numbers = np.asarray(rows)
    if numbers.dtype == bool and numbers.shape == (n,):
        return np.flatnonzero(numbers)
    are_rows = numbers.size == 0 or (numbers.dtype.kind in "iu" and 0 <= numbers.min() <= numbers.max() < n)
    if numbers.ndim != 1 or not are_rows:
        raise ValueError(f"{name} must hold rows of X, 0 to {n - 1}, or be a mask of length {n}; got {rows!r}")
    return numbers.astype(int)


def ring(ax: Axes, points: np.ndarray, highlight: Any, number: bool, clip_on: bool = True) -> None:
    """Ring rows of points (n, 2), and number them in their order; of numbers that would overlap, the last is shown."""
    rows = read_rows("highlight", [] if highlight is None else highlight, len(points))
    if rows.size == 0:
        return
    style: dict[str, Any] = {"facecolors": "none", "edgecolors": VERMILION, "linewidths": 1.4, "clip_on": clip_on}
    ax.scatter(points[rows, 0], points[rows, 1], s=95, zorder=4, label="asked", **style)
    if number:
        # Otherwise the limits would still be those of an empty frame.
        ax.autoscale_view()
        ax.apply_aspect()
        at = ax.transData.transform(points[rows]) * 72 / ax.figure.dpi
        shown: list[int] = []
        for i in reversed(range(len(rows))):
            if (np.abs(at[shown] - at[i]) > _ROOM).any(axis=1).all():
                shown.append(i)
                note(ax, str(i + 1), tuple(points[rows[i]]), (0, 7), ha="center", fontsize=8, color=VERMILION, zorder=7)
