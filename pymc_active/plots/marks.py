"""What pictures share inside the frame: notes, measurements, curves and the labels at their ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.plots.axes import Axes
from pymc_active.plots.style import BLUE, DOT, NOTE, PAPER, RESULT, VERMILION


def note(ax: Axes, text: str, at: tuple[Any, Any], offset: tuple[float, float] = (0, 0), **style: Any) -> Any:
    """Text at a point of the data, moved by an offset in points."""
    return ax.annotate(text, at, xytext=offset, textcoords="offset points", **NOTE | style)


def note_on_map(ax: Axes, text: str, at: tuple[Any, Any], offset: tuple[float, float], **style: Any) -> None:
    """A red note with a white rim, legible on all colours of a map."""
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=2, foreground="white")]
    note(ax, text, at, offset, **{"color": VERMILION, "path_effects": rim, "zorder": 7} | style)


def note_in_row(ax: Axes, text: str, x: float, y: Any, **style: Any) -> None:
    """Text at a height of the data; x is 0 at the left and 1 at the right of the frame."""
    note(ax, text, (x, y), **{"xycoords": ("axes fraction", "data"), "va": "center"} | style)


def dots(ax: Axes, x: Any, y: Any, label: str = "data", **style: Any) -> None:
    """Measurements."""
    ax.plot(x, y, "o", label=label, **DOT | style)


def doubtful_dots(ax: Axes, x: np.ndarray, y: np.ndarray, is_doubtful: np.ndarray, **style: Any) -> None:
    """Blue points, hollow where doubtful."""
    for hollow in (False, True):
        shown = is_doubtful == hollow
        ax.plot(x[shown], y[shown], "o", color="white" if hollow else BLUE, **RESULT | style)


def medians(ax: Axes, x: Any, y: Any, color: str = BLUE, label: str = "median") -> None:
    """Hollow dots, over the lines of their intervals."""
    ax.plot(x, y, "o", ms=5, color="white", mec=color, mew=1.6, label=label, zorder=3)


def curve(ax: Axes, x: np.ndarray, y: np.ndarray, color: str, label: str) -> list[tuple[str, float, float, str]]:
    """A line through dots; returns its last finite point, if any, for :func:`label_ends`."""
    ax.plot(x, y, color=color, lw=1.8, marker="o", ms=3, label=label)
    known = np.flatnonzero(np.isfinite(y))[-1:]
    return [(label, float(x[i]), float(y[i]), color) for i in known if label]


def probability(p: float) -> str:
    """With two decimals."""
    return f"{p:.2f}" if p >= 0.005 else "< 0.01"


def label_ends(ax: Axes, ends: list[tuple[str, float, float, str]]) -> None:
    """Names at the right ends of lines, moved apart if they overlap; a change of scale places them again."""
    gap = 12.0
    style: dict[str, Any] = {"va": "center", "fontsize": 9.5, "annotation_clip": False, "bbox": PAPER}
    texts = [note(ax, name, (x, y), (6, 0), color=color, **style) for name, x, y, color in ends]

    def separate(axes: Axes) -> None:
        points = 72 / axes.figure.dpi
        at = np.array([axes.transData.transform((x, y))[1] * points for _, x, y, _ in ends])
        order = np.argsort(at)
        # Merge neighbours that are too close into blocks around their common middle.
        blocks: list[list[float]] = []
        for position in at[order]:
            blocks.append([position, 1])
            while len(blocks) > 1 and blocks[-1][0] - blocks[-2][0] < gap * (blocks[-1][1] + blocks[-2][1]) / 2:
                (a, k), (b, m) = blocks[-2:]
                blocks[-2:] = [[(k * a + m * b) / (k + m), k + m]]
        placed = (middle + gap * (i - (k - 1) / 2) for middle, k in blocks for i in range(int(k)))
        for i, target in zip(order, placed, strict=True):
            texts[i].xyann = (6, target - at[i])

    ax.callbacks.connect("ylim_changed", separate)
    separate(ax)
