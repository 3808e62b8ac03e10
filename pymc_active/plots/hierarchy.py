"""Plot a search for relevant inputs: its tree, or f against the inputs that it found."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_active.plots.axes import check_result, new_axes, new_grid, read_axes, small_title
from pymc_active.plots.style import BLUE, GREY, INK
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.support.arguments import checked
from pymc_active.support.options import count as positive

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Distance from the middle of the colour map, from 0 to 1, beyond which letters are white.
_DARK = 0.62
# Widths in inches of a letter, and of the margins around a box.
_LETTER, _MARGIN = 0.075, 0.16


@checked
def plot_search_tree(result: HDSResult, *, max_depth: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the nodes of :func:`pymc_active.active.hds`, down to ``max_depth``, coloured by their log likelihood ratio.

    Each box has a node's inputs and, below, its number of evaluations. Red boxes are active and blue ones inactive,
    on a scale that ends at the thresholds. Thick frames are inputs found; dashed frames are undecided or contradicted
    nodes. As in Chen, Castro & Krause (2012), figure 1.
    """
    check_result(result, HDSResult, "plot_search_tree", "the result of hds")
    table = result.tree_table()
    if max_depth is not None:
        table = table[table.depth <= max_depth]
    across = _places(table.parent.to_dict())
    n_leaves = max(across.values()) + 1
    depth = int(table.depth.max())
    unit = _inches_per_leaf(table, across)
    ax = new_axes(ax, (max(4.5, unit * n_leaves + 1.6), 1.0 + 0.62 * (depth + 1)))
    accept, reject = result.settings.accept, result.settings.reject
    import matplotlib as mpl

    norm = mpl.colors.TwoSlopeNorm(0.0, reject, accept)
    colors = mpl.colormaps["RdBu_r"]
    for number, row in table.iterrows():
        x, y = across[number], -row.depth
        if row.parent >= 0:
            ax.plot([across[row.parent], x], [y + 1, y], color=GREY, lw=0.9, zorder=1)
        share = float(np.clip(norm(row.llr), 0, 1))
        is_found = row.status == "active" and row.stop - row.start == 1
        is_doubtful = row.status in ("open", "contradicted")
        ax.text(
            x,
            y,
            f"{row.inputs}\n{row.n_evaluations}",
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold" if is_found else "normal",
            color="white" if abs(share - 0.5) * 2 > _DARK else INK,
            bbox={
                "boxstyle": "round,pad=0.3",
                "facecolor": colors(0.08 + 0.84 * share),
                "edgecolor": INK if is_found or is_doubtful else GREY,
                "linewidth": 2.2 if is_found else 0.9,
                "linestyle": "--" if is_doubtful else "-",
            },
            zorder=2,
        )
    ax.set(xlim=(-0.7, n_leaves - 0.3), ylim=(-depth - 0.6, 0.6), xticks=[], yticks=[])
    ax.spines[["left", "bottom"]].set_visible(False)
    scale = mpl.cm.ScalarMappable(norm, mpl.colors.ListedColormap(colors(0.08 + 0.84 * np.linspace(0, 1, 256))))
    bar = ax.figure.colorbar(scale, ax=ax, shrink=0.7, pad=0.02, aspect=25, ticks=[reject, 0, accept])
    bar.ax.set_yticklabels([f"{reject:.3g}\ninactive", "0", f"{accept:.3g}\nactive"], fontsize=8)
    bar.set_label("log likelihood ratio (nats)", fontsize=9)
    bar.outline.set_visible(False)
    found = ", ".join(map(str, result.active[:12])) + (", …" if len(result.active) > 12 else "")
    ax.set_title(
        f"{result.settings.n_dims:,} inputs, {result.n_evaluations} evaluations; found: {found or 'none'}\n"
        "Each box: inputs of the node, and its number of evaluations",
        fontsize=9,
        loc="left",
        color=INK,
    )
    return ax


@checked
def plot_active_inputs(result: HDSResult, *, n_inputs: int = 6, axes: Any = None) -> np.ndarray:
    """All evaluations of :func:`pymc_active.active.hds` against each input found, up to ``n_inputs``: (1, k) Axes.

    Those inputs come first between whose values the mean of f varies most.
    """
    check_result(result, HDSResult, "plot_active_inputs", "the result of hds")
    X, y = result.data()
    # Of ten groups of equally many evaluations.
    means = [[part.mean() for part in np.array_split(y[np.argsort(x)], 10) if len(part)] for x in X.T]
    shown = sorted(range(len(means)), key=lambda k: -np.std(means[k]))[: positive("n_inputs", n_inputs)]
    shape = (1, max(len(shown), 1))
    grid = new_grid(shape, (1.2 + 2.0 * shape[1], 2.8), sharey=True) if axes is None else read_axes(axes, shape)
    for ax, k in zip(grid[0], shown, strict=False):
        ax.plot(X[:, k], y, "o", ms=3, color=BLUE, alpha=0.5, mew=0)
        ax.set_xlabel(f"input {result.active[k]}")
    grid[0, 0].set_ylabel("f")
    rest = len(result.active) - len(shown)
    found = f"{len(result.active)} found" + (f", {rest} not shown" if rest else "")
    small_title(grid[0, 0], f"{result.settings.n_dims:,} inputs, {result.n_evaluations} evaluations: {found}")
    return grid


def _inches_per_leaf(table: pd.DataFrame, across: dict[int, float]) -> float:
    """The smallest width at which neighbours in a row do not touch."""
    unit = 0.2
    for _, row in table.groupby("depth"):
        places = np.array([across[node] for node in row.index])
        order = np.argsort(places)
        width = _LETTER * np.maximum(row.inputs.str.len().to_numpy(), 2)[order] + _MARGIN
        if len(row) > 1:
            unit = max(unit, float(((width[1:] + width[:-1]) / 2 / np.diff(places[order])).max()))
    return unit


def _places(parents: dict[int, int]) -> dict[int, float]:
    """Place leaves side by side, and parents above the middle of their children."""
    children: dict[int, list[int]] = {}
    for node, parent in parents.items():
        children.setdefault(parent, []).append(node)
    places: dict[int, float] = {}
    leaves = count()

    def place(node: int) -> None:
        below = children.get(node, [])
        for child in below:
            place(child)
        places[node] = float(np.mean([places[child] for child in below]) if below else next(leaves))

    for root in children.get(-1, []):
        place(root)
    return places
