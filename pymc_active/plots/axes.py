"""The Axes of all pictures: frames, scales, legends and colour bars."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_active.plots.style import INK, LEGEND
from pymc_active.support.numbers import coordinate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox
else:
    # Importing Matplotlib takes long, and it is an extra.
    Axes = Bbox = Any


def pyplot() -> Any:
    """Matplotlib, or an error that names the extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'pymc-active[plots]'") from None
    return plt


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The Axes given, or a new one; without the frame's right and upper side."""
    return new_grid((1, 1), size)[0, 0] if ax is None else read_axes(ax, (1,))[0]


def new_grid(shape: tuple[int, int], size: tuple[float, float], **keywords: Any) -> np.ndarray:
    """Axes (rows, columns) in a new figure; keywords are those of ``plt.subplots``."""
    return read_axes(pyplot().subplots(*shape, figsize=size, squeeze=False, layout="constrained", **keywords)[1], shape)


def read_axes(axes: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The Axes given, in the shape that the picture needs; without the right and upper sides of their frames."""
    given = np.atleast_1d(np.asarray(axes, dtype=object))
    if given.size != np.prod(shape):
        raise ValueError(f"this picture needs {np.prod(shape)} Axes, shape {shape}; got {given.size}")
    for ax in given.flat:
        ax.spines[["right", "top"]].set_visible(False)
    return given.reshape(shape)


def small_title(ax: Axes, text: str) -> None:
    """A title at the left, in as many lines as the frame needs."""
    n_letters = int(17.4 * ax.bbox.width / ax.figure.dpi)
    ax.set_title(textwrap.fill(text, n_letters), fontsize=9, loc="left", color=INK)


def legend_above(ax: Axes) -> None:
    """A legend above the frame, in as many columns as fit, and any title above it; inside if the figure ends there."""
    n = len(ax.get_legend_handles_labels()[0])
    if not n:
        return
    # A common power of ten moves to the left, out of the legend.
    ax.yaxis.get_offset_text().set_horizontalalignment("right")
    # Layouts make a frame wider than it is at first, but never beyond the figure.
    room = min(1.15 * ax.bbox.width, ax.figure.bbox.x1 - ax.bbox.x0)
    for ncols in range(n if n <= 4 else 3, 0, -1):
        legend = ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=ncols, borderaxespad=0.2, **LEGEND)
        if legend.get_window_extent().width <= room:
            break
    if legend.get_window_extent().y1 > ax.figure.bbox.y1 and ax.figure.get_layout_engine() is None:
        ax.legend(loc="best", **LEGEND)
        return
    # Matplotlib moves titles above insets, but not above legends: an empty inset takes the legend's place.
    inset = ax.inset_axes((0, 1, 1, 0))
    inset.set_axis_off()
    inset.set_axes_locator(partial(_place_of_legend, ax))


def _place_of_legend(ax: Axes, _: Axes, renderer: Any) -> Bbox:
    """In parts of the figure; the frame itself once the legend is gone."""
    legend = ax.get_legend()
    extent = ax.bbox if legend is None else legend.get_window_extent(renderer)
    return extent.transformed(ax.figure.transSubfigure.inverted())


def name_rows(ax: Axes, labels: Sequence[str], above: float = 0.6) -> None:
    """Rows 0, 1, ... from the top, by name, with some room above the first."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -above)
    ax.tick_params(axis="y", length=0)


def log_axis(ax: Axes, which: str) -> None:
    """A logarithmic axis with plain numbers, even if it spans less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set(**{f"{which}scale": "log"})
    axis = getattr(ax, f"{which}axis")
    low, high = getattr(ax, f"get_{which}lim")()
    decades = np.log10(high / low)
    steps = (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.6 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    if decades <= 6:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def coordinate_axis(ax: Axes, which: str) -> None:
    """An axis of an input, its limits set: numbers in full, such as 5412135, and no more of them than have room."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = getattr(ax, f"{which}axis")

    def text(x: float, _: Any = None) -> str:
        return coordinate(x, np.ptp(axis.get_view_interval())).replace("-", "\N{MINUS SIGN}")

    # In letters, 6.5 points wide, with two between numbers; above one another numbers need the room of five.
    size = (ax.bbox.width if which == "x" else ax.bbox.height) * 72 / ax.figure.dpi / 6.5
    room = max(len(text(end)) for end in axis.get_view_interval()) + 2 if which == "x" else 5
    axis.set_major_locator(MaxNLocator(int(np.clip(size / room, 2, 8)), steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(text))


def nats_axis(ax: Axes, which: str, low: float) -> None:
    """An axis of nats below the best: linear down to ten, then logarithmic, with plain numbers."""
    getattr(ax, f"set_{which}scale")("symlog", linthresh=10.0)
    halves, ones = (0, -0.5, -1, -1.5, -2, -2.5), range(0, -7, -1)
    coarse = (0, -2, -5, -10, -20, -50, -100, -300, -1000, -3000, -10000)
    # The axis reaches to -1 at least.
    end = min(1.2 * low, -1.0)
    ticks = [tick for tick in (halves if end > -3 else ones if end > -7 else coarse) if tick >= end]
    getattr(ax, f"set_{which}ticks")(ticks, [f"{tick:g}" for tick in ticks])
    getattr(ax, f"set_{which}ticks")([], minor=True)


def color_bar(ax: Axes, drawn: Any, label: str) -> Any:
    """The colour bar of what was drawn, beside the frame."""
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02, aspect=28)
    bar.outline.set_visible(False)
    bar.set_label(label)
    return bar


def check_result(result: Any, kind: type | tuple[type, ...], plot: str, source: str) -> None:
    """Refuse what a picture is not made for."""
    if not isinstance(result, kind):
        raise TypeError(f"{plot} takes {source}; got {type(result).__name__}")
