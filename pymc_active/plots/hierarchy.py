"""Plot f against the inputs that a search for relevant inputs found."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.plots.axes import check_result, new_grid, read_axes, small_title
from pymc_active.plots.style import BLUE
from pymc_active.relevant_inputs.search import HDSResult
from pymc_active.support.options import count


def plot_active_inputs(result: HDSResult, *, n_inputs: int = 6, axes: Any = None) -> np.ndarray:
    """All evaluations of :func:`pymc_active.active.hds` against each input found, up to ``n_inputs``: (1, k) Axes.

    Those inputs come first between whose values the mean of f varies most.
    """
    check_result(result, HDSResult, "plot_active_inputs", "the result of hds")
    X, y = result.data()
    # Of ten groups of equally many evaluations.
    means = [[part.mean() for part in np.array_split(y[np.argsort(x)], 10) if len(part)] for x in X.T]
    shown = sorted(range(len(means)), key=lambda k: -np.std(means[k]))[: count("n_inputs", n_inputs)]
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
