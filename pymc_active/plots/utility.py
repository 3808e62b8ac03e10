"""Plot a criterion over a pool: along an input, as a map, or as a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.plots.axes import Axes, color_bar, coordinate_axis, legend_above, name_rows, new_axes
from pymc_active.plots.marks import note
from pymc_active.plots.measurements import column_of, names_of
from pymc_active.plots.style import BLUE, CYCLE, GREY, INK, PAPER, VERMILION
from pymc_active.support.arguments import checked
from pymc_active.support.tables import input_labels, read_inputs

# Candidates in a ranking.
_SHOWN = 12
# Marks of the picks, and lines, for each criterion, so that colour is not the only difference.
_MARKS, _LINES = "vD^sPX", ("-", "--", "-.", ":")
_ACRONYMS = {"bald", "bams", "pes"}

Utilities = Mapping[str, xr.DataArray]


@checked
def plot_utility(
    utility: xr.DataArray | Utilities,
    X: Any = None,
    *,
    data: Any = None,
    picks: int | Sequence[int] = 1,
    input: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Utility of each candidate by a criterion, with the best candidates and the data marked.

    One input gives a curve, one ``input`` of several a cloud, both with data as ticks along the bottom. Two inputs
    give a filled contour map if the candidates are a grid, else coloured points; the colour bar is the figure's last
    Axes. More give a ranking of the best dozen candidates by their labels.

    Parameters
    ----------
    utility : xarray.DataArray, or dict of name -> DataArray
        What a criterion such as :func:`pymc_active.active.bald` returns, over ``point``. Several criteria with the
        same units and candidates are compared along one input. ``attrs["units"]`` goes to the axis.
    X : array_like or DataFrame, shape (m, D), optional
        The candidates, in the user's units. Without them the picture is a ranking.
    data : array_like of shape (k, D), or an object with such an ``X``, optional
        Points measured already, such as those of a fit, a :class:`ModelAverage` or a :class:`Learner`.
    picks : int or sequence of int
        How many of the best candidates to mark, or the rows to mark, numbered in their order.
    input, ax : as in :mod:`pymc_active.plots`
        Candidates may differ in the other inputs.

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
    utilities = _read_utilities(utility)
    first = next(iter(utilities.values()))
    n = first.sizes["point"]
    if X is None:
        if input is not None or data is not None:
            raise ValueError("pass the candidates as X to draw along an input or to mark the data")
        return _plot_ranking(_the_only(utilities, "a ranking"), picks, ax)
    values = read_inputs(X, "X")
    labels = input_labels(X, values.shape[1])
    # Names may come from the model if X has none.
    labels = data.gpm.inputs if hasattr(data, "gpm") and labels == list(range(len(labels))) else labels
    if len(values) != n:
        raise ValueError(f"X must have one row for each of the {n} candidates; got {len(values)}")
    known = None if data is None else read_inputs(getattr(data, "X", data), "data", width=values.shape[1])
    if values.shape[1] == 1 or input is not None:
        column, name = column_of(labels, labels[0] if input is None else input)
        return _plot_along(utilities, values, column, name, known, picks, ax)
    if values.shape[1] == 2:
        return _plot_map(_the_only(utilities, "a map"), values, names_of(labels), known, picks, ax)
    return _plot_ranking(_the_only(utilities, "a ranking"), picks, ax)


def _plot_along(
    utilities: Utilities, X: np.ndarray, column: int, name: str, data: np.ndarray | None, picks: Any, ax: Axes | None
) -> Axes:
    """Curves along the only input, or clouds along one of several."""
    ax = new_axes(ax, (6.8, 3.6))
    x, is_curve = X[:, column], X.shape[1] == 1
    order = np.argsort(x, kind="stable")
    for i, (label, utility) in enumerate(utilities.items()):
        color, u = CYCLE[i % len(CYCLE)], utility.to_numpy()
        shown, face = (None, VERMILION) if len(utilities) == 1 else (label, color)
        if is_curve:
            ax.plot(x[order], u[order], color=color, lw=1.8, ls=_LINES[i % len(_LINES)], label=shown)
        else:
            ax.plot(x, u, "o", ms=4, color=color, alpha=0.5, mew=0, label=shown)
        rows, is_ordered = _read_picks(picks, u)
        ax.plot(x[rows], u[rows], _MARKS[i % len(_MARKS)], ms=9, color=face, mec="white", mew=0.8, zorder=4)
        _number(ax, x[rows], u[rows], is_ordered)
    if len(rows):
        face = VERMILION if len(utilities) == 1 else GREY
        ax.plot([], [], "v", ms=9, color=face, mew=0, label=_pick_label(picks))
    if data is not None:
        at = data[:, column]
        ticks: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot(at, np.zeros(len(at)), "|", ms=11, mew=1.6, color=INK, label="data", zorder=3, **ticks)
    ends = x if data is None else np.concatenate([x, data[:, column]])
    margin = 0.02 * np.ptp(ends) or 1.0
    ax.set(xlabel=name, ylabel=_axis_label(utilities), xlim=(ends.min() - margin, ends.max() + margin))
    legend_above(ax)
    return ax


def _plot_map(
    utility: xr.DataArray, X: np.ndarray, names: list[str], data: np.ndarray | None, picks: Any, ax: Axes | None
) -> Axes:
    """Over two inputs: contours of a grid, or points."""
    ax = new_axes(ax, (6.4, 4.8))
    u = utility.to_numpy()
    sides = [np.unique(column) for column in X.T]
    is_grid = len(X) == len(sides[0]) * len(sides[1]) > 3 and len(np.unique(X, axis=0)) == len(X)
    if is_grid and np.isfinite(u).all():
        table = np.empty((len(sides[1]), len(sides[0])))
        table[np.searchsorted(sides[1], X[:, 1]), np.searchsorted(sides[0], X[:, 0])] = u
        drawn: Any = ax.contourf(*sides, table, levels=14, cmap="viridis")
    else:
        drawn = ax.scatter(X[:, 0], X[:, 1], c=u, cmap="viridis", s=30, linewidths=0)
    color_bar(ax, drawn, _axis_label({"": utility}))
    # The frame must not clip points that lie on it.
    shown: dict[str, Any] = {"clip_on": False}
    if data is not None:
        # White shows on every colour of the map.
        ax.plot(data[:, 0], data[:, 1], "s", ms=6.5, color="white", mec=INK, mew=1.4, label="data", zorder=4, **shown)
    rows, is_ordered = _read_picks(picks, u)
    if len(rows):
        x, y = X[rows].T
        ax.plot(x, y, "v", ms=11, color=VERMILION, mec="white", mew=1.0, label=_pick_label(picks), zorder=5, **shown)
        _number(ax, x, y, is_ordered)
    ax.set(xlabel=names[0], ylabel=names[1])
    for which in "xy":
        coordinate_axis(ax, which)
    legend_above(ax)
    return ax


def _plot_ranking(utility: xr.DataArray, picks: Any, ax: Axes | None) -> Axes:
    """The best candidates in order, by their labels; the axis starts at the worst of all."""
    u = utility.to_numpy()
    rows = np.argsort(-np.where(np.isfinite(u), u, -np.inf), kind="stable")[:_SHOWN]
    marked, _ = _read_picks(picks, u)
    # Picks that are not among the best come below them.
    rows = np.concatenate([rows, [row for row in marked if row not in rows]]).astype(int)
    labels = utility.point.to_numpy() if "point" in utility.coords else np.arange(len(u))
    ax = new_axes(ax, (6.4, 1.0 + 0.3 * len(rows)))
    at, finite = np.arange(len(rows)), u[np.isfinite(u)]
    low, middle = (finite.min(), float(np.median(finite))) if len(finite) else (0.0, 0.0)
    ax.hlines(at, low, u[rows], color=GREY, lw=0.8, alpha=0.6)
    is_marked = np.isin(rows, marked)
    ax.plot(u[rows][~is_marked], at[~is_marked], "o", ms=6, color=BLUE, mew=0)
    ax.plot(u[rows][is_marked], at[is_marked], "v", ms=9, color=VERMILION, mew=0, label=_pick_label(picks))
    ax.axvline(middle, color=INK, lw=1.0, ls=(0, (5, 3)), label="median")
    name_rows(ax, [str(labels[row]) for row in rows])
    ax.set(xlabel=_axis_label({"": utility}), ylabel=f"candidate, of {len(u):,}")
    legend_above(ax)
    return ax


def _number(ax: Axes, x: np.ndarray, y: np.ndarray, is_ordered: bool) -> None:
    for i, place in enumerate(zip(x, y, strict=True) if is_ordered else (), 1):
        # Dark numbers need a light box on a dark map.
        note(ax, str(i), place, (8, 5), bbox=PAPER | {"pad": 0.8, "alpha": 0.8}, zorder=6)


def _read_utilities(utility: Any) -> Utilities:
    utilities = dict(utility) if isinstance(utility, Mapping) else {"": utility}
    if not utilities:
        raise ValueError("utility must hold at least one criterion; got an empty dict")
    for name, values in utilities.items():
        if not isinstance(values, xr.DataArray):
            got = type(values).__name__ + (f" for {name!r}" if name else "")
            raise TypeError(
                f"utility must be a DataArray over point, such as what pma.active.bald(fit, X) returns; got {got}"
            )
        if values.ndim != 1:
            raise ValueError(f"utility must have one dimension, point; got {', '.join(map(str, values.dims))}")
    # In a check, candidates have another dim.
    utilities = {name: values.rename({values.dims[0]: "point"}) for name, values in utilities.items()}
    if len({values.sizes["point"] for values in utilities.values()}) > 1:
        raise ValueError("criteria in one picture must be over the same candidates")
    units = {values.attrs.get("units") for values in utilities.values()}
    if len(units) > 1:
        raise ValueError(f"criteria on one axis must have the same units; got {', '.join(sorted(map(str, units)))}")
    return utilities


def _the_only(utilities: Utilities, picture: str) -> xr.DataArray:
    if len(utilities) > 1:
        raise ValueError(f"{picture} shows one criterion; to compare several along one input, pass input=")
    return next(iter(utilities.values()))


def _read_picks(picks: Any, utility: np.ndarray) -> tuple[np.ndarray, bool]:
    """Rows to mark, and whether their order means something."""
    n = len(utility)
    if isinstance(picks, int | np.integer) and not isinstance(picks, bool) and picks >= 0:
        finite = np.flatnonzero(np.isfinite(utility))
        return finite[np.argsort(-utility[finite], kind="stable")][:picks], False
    rows = np.asarray(picks)
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n)):
        raise ValueError(f"picks must be a number of candidates, or rows from 0 to {n - 1}; got {picks!r}")
    return rows.astype(int), len(rows) > 1


def _pick_label(picks: Any) -> str:
    return "best" if isinstance(picks, int | np.integer) else "picked"


def _axis_label(utilities: Utilities) -> str:
    first = next(iter(utilities.values()))
    names = {str(values.name) for values in utilities.values() if values.name is not None}
    names = {" ".join(word.upper() if word in _ACRONYMS else word for word in name.split("_")) for name in names}
    name, units = names.pop() if len(names) == 1 else "utility", first.attrs.get("units")
    return f"{name} ({units})" if units else name
