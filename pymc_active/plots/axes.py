"""The Axes of all pictures: frames, legends, scales and rows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pymc_active.plots.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    # Importing Matplotlib takes long, and it is an extra.
    Axes = Any


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The Axes given, or a new one, as :func:`new_grid` makes them."""
    return new_grid((1, 1), size, ax)[0, 0]


def new_grid(shape: tuple[int, int], size: tuple[float, float], axes: Any = None, **keywords: Any) -> np.ndarray:
    """The Axes given, or Axes of a new figure, (rows, columns); without the right and upper sides of their frames.

    Keywords go to ``plt.subplots``.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'pymc-active[plots]'") from None
    if axes is None:
        axes = plt.subplots(*shape, figsize=size, layout="constrained", **keywords)[1]
    grid = np.atleast_1d(np.asarray(axes, dtype=object))
    if grid.size != np.prod(shape):
        raise ValueError(f"this picture needs {np.prod(shape)} Axes, shape {shape}; got {grid.size}")
    for ax in grid.flat:
        ax.spines[["right", "top"]].set_visible(False)
    return grid.reshape(shape)


def small_title(ax: Axes, text: str) -> None:
    """A title at the left, in as many lines as the frame needs."""
    n_letters = int(17.4 * ax.bbox.width / ax.figure.dpi)
    ax.set_title(textwrap.fill(text, n_letters), fontsize=9, loc="left", color=INK)


def show_legend(ax: Axes, is_below: bool = False) -> None:
    """A legend, if anything has a label: where it covers the least, or below the frame if the layout makes room."""
    place: dict[str, Any] = {"loc": "best", "framealpha": 0.8, "edgecolor": "none"}
    if is_below and ax.figure.get_layout_engine() is not None:
        # The pad is what ticks and a label need.
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 4.2, "ncols": 2, "frameon": False}
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=9, **{"frameon": True} | place)


def name_rows(ax: Axes, labels: Sequence[str]) -> None:
    """Rows 0, 1, ... from the top, by name."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def plain_ticks(ax: Axes, which: Literal["both", "x", "y"] = "both", nbins: int = 4) -> None:
    """Coordinates in full, such as 5412135, without a common offset or power of ten; few enough to have room."""
    ax.ticklabel_format(axis=which, style="plain", useOffset=False)
    ax.locator_params(axis=which, nbins=nbins)


def check_result(result: Any, kind: type | tuple[type, ...], plot: str, source: str) -> None:
    """Refuse what a picture is not made for."""
    if not isinstance(result, kind):
        raise TypeError(f"{plot} takes {source}; got {type(result).__name__}")
