"""Plot a criterion over a pool: along an input, as a map, or as a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.plots.axes import Axes, check_result, name_rows, new_axes, plain_ticks, show_legend
from pymc_active.plots.marks import read_rows
from pymc_active.plots.measurements import are_decades, names_of
from pymc_active.plots.style import BLUE, INK, LIMIT, VERMILION
from pymc_active.support.options import count
from pymc_active.support.tables import input_labels, read_inputs

# Candidates in a ranking.
_SHOWN = 12
_ACRONYMS = {"bald", "bams", "pes"}
# Picks.
_PICK: dict[str, Any] = {"marker": "v", "ls": "none", "ms": 9, "color": VERMILION, "mec": "white", "zorder": 5}


def plot_utility(
    utility: xr.DataArray,
    X: Any = None,
    *,
    data: Any = None,
    picks: int | Sequence[int] = 1,
    ax: Axes | None = None,
) -> Axes:
    """Utility of each candidate by a criterion, with the best candidates and the data marked.

    One input gives a curve, with data as ticks along the bottom. Two inputs give a filled contour map if the candidates
    are a grid, else coloured points; the colour bar is the figure's last Axes. More, or no ``X``, give a ranking of the
    best dozen candidates by their labels.

    ``utility`` is what a criterion such as :func:`pymc_active.active.bald` returns for the candidates ``X`` (m, D), in
    the user's units. ``data`` are points measured already (k, D), or an object with such an ``X``, as a fit or a
    :class:`Learner`. ``picks`` says how many of the best to mark, or which rows. ``ax`` is as
    in :mod:`pymc_active.plots`.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 8)[:, None]
    >>> fit = pma.fit(pma.ard_gp(x, np.sin(x[:, 0])), random_seed=1, progressbar=False)
    >>> grid = np.linspace(-4, 4, 50)[:, None]
    >>> pma.plots.plot_utility(pma.active.bald(fit, grid), grid, data=fit).get_ylabel()
    'BALD (nats)'
    """
    check_result(utility, xr.DataArray, "plot_utility", "what a criterion, such as pma.active.bald(fit, X), returns")
    if utility.ndim != 1:
        raise ValueError(f"utility must have one dimension, point; got {', '.join(map(str, utility.dims))}")
    ranks = np.argsort(-utility.to_numpy(), kind="stable")[: np.isfinite(utility).sum().item()]
    if isinstance(picks, int | np.integer):
        rows, label = ranks[: count("picks", picks, least=0)], "best"
    else:
        rows, label = read_rows("picks", picks, len(utility)), "picked"
    if X is None:
        if data is not None:
            raise ValueError("pass the candidates as X to mark the data")
        return _plot_ranking(utility, ranks, rows, label, ax)
    X = pd.DataFrame(X) if isinstance(X, dict) else X
    values = read_inputs(X, "X")
    D = values.shape[1]
    labels = input_labels(X, D)
    # Names may come from the model if X has none.
    labels = data.gpm.inputs if hasattr(data, "gpm") and labels == list(range(D)) else labels
    if len(values) != len(utility):
        raise ValueError(f"X must have one row for each of the {len(utility)} candidates; got {len(values)}")
    measured = values[:0] if data is None else read_inputs(getattr(data, "X", data), "data", width=D)
    if D > 2:
        return _plot_ranking(utility, ranks, rows, label, ax)
    ax = (_plot_along if D == 1 else _plot_map)(utility, values, names_of(labels), measured, ax)
    if len(rows):
        places = values[rows] if D == 2 else np.c_[values[rows], utility[rows]]
        # The frame must not clip points that lie on it.
        ax.plot(*places.T, label=label, clip_on=False, **_PICK)
    show_legend(ax, is_below=D == 2)
    return ax


def _plot_along(utility: xr.DataArray, X: np.ndarray, names: list[str], data: np.ndarray, ax: Axes | None) -> Axes:
    """A curve along the only input."""
    ax = new_axes(ax, (6.8, 3.6))
    x, at, u = X[:, 0], data[:, 0], utility.to_numpy()
    order = np.argsort(x, kind="stable")
    ax.plot(x[order], u[order], color=BLUE, lw=1.8)
    if len(at):
        ticks: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot(at, np.zeros(len(at)), "|", ms=11, mew=1.6, color=INK, label="data", zorder=3, **ticks)
    ax.margins(x=0.02)
    ax.set_xscale("log" if are_decades(x, x.min(), x.max()) else "linear")
    ax.set(xlabel=names[0], ylabel=_axis_label(utility))
    return ax


def _plot_map(utility: xr.DataArray, X: np.ndarray, names: list[str], data: np.ndarray, ax: Axes | None) -> Axes:
    """Over two inputs: contours of a grid, or points."""
    ax = new_axes(ax, (6.4, 4.8))
    u, sides = utility.to_numpy(), [np.unique(column) for column in X.T]
    is_grid = len(X) == len(sides[0]) * len(sides[1]) > 3 and len(np.unique(X, axis=0)) == len(X)
    if is_grid and np.isfinite(u).all():
        # By the first input within the second.
        table = u[np.lexsort(X.T)].reshape(len(sides[1]), len(sides[0]))
        drawn: Any = ax.contourf(*sides, table, levels=14, cmap="viridis")
    else:
        drawn = ax.scatter(X[:, 0], X[:, 1], c=u, cmap="viridis", s=30, linewidths=0)
    ax.figure.colorbar(drawn, ax=ax, label=_axis_label(utility))
    if len(data):
        # White shows on every colour of the map.
        ax.plot(*data.T, "s", ms=6, color="white", mec=INK, mew=1.4, label="data", zorder=4, clip_on=False)
    ax.set(xlabel=names[0], ylabel=names[1])
    plain_ticks(ax)
    return ax


def _plot_ranking(utility: xr.DataArray, ranks: np.ndarray, marked: np.ndarray, label: str, ax: Axes | None) -> Axes:
    """The best candidates in order, by their labels, and below them picks that are not among them."""
    u = utility.to_numpy()
    rows = np.array(list(dict.fromkeys([*ranks[:_SHOWN].tolist(), *marked.tolist()])), int)
    labels = utility[utility.dims[0]].to_numpy()
    ax = new_axes(ax, (6.4, 1.0 + 0.3 * len(rows)))
    at, is_marked = np.arange(len(rows)), np.isin(rows, marked)
    ax.plot(u[rows][~is_marked], at[~is_marked], "o", ms=6, color=BLUE)
    ax.plot(u[rows][is_marked], at[is_marked], label=label, **_PICK)
    if np.isfinite(u).any():
        ax.axvline(float(np.median(u[np.isfinite(u)])), label="median", **LIMIT)
    name_rows(ax, [str(labels[row]) for row in rows])
    ax.set(xlabel=_axis_label(utility), ylabel=f"candidate, of {len(u):,}")
    show_legend(ax)
    return ax


def _axis_label(utility: xr.DataArray) -> str:
    words = str(utility.name or "utility").split("_")
    name, units = " ".join(word.upper() if word in _ACRONYMS else word for word in words), utility.attrs.get("units")
    return f"{name} ({units})" if units else name
