"""Plot a criterion over a pool: along an input, as a map, or as a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.plots.axes import Axes, name_rows, new_axes, plain_ticks, show_legend
from pymc_active.plots.marks import note
from pymc_active.plots.measurements import column_of, names_of
from pymc_active.plots.style import BLUE, CYCLE, INK, LIMIT, PAPER, VERMILION
from pymc_active.support.arguments import checked
from pymc_active.support.tables import input_labels, read_inputs

# Candidates in a ranking.
_SHOWN = 12
_ACRONYMS = {"bald", "bams", "pes"}
# Picks.
_PICK: dict[str, Any] = {"marker": "v", "ls": "none", "ms": 9, "color": VERMILION, "mec": "white", "zorder": 5}

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
    Axes. More, or no ``X``, give a ranking of the best dozen candidates by their labels.

    ``utility`` is what a criterion such as :func:`pymc_active.active.bald` returns for the candidates ``X`` (m, D), in
    the user's units; a dict of several with the same units compares them along one input. ``data`` are points measured
    already (k, D), or an object with such an ``X``, as a fit or a :class:`Learner`. ``picks`` says how many of the best
    to mark, or which rows, which are then numbered. ``input`` and ``ax`` are as in :mod:`pymc_active.plots`.

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
    known = values[:0] if data is None else read_inputs(getattr(data, "X", data), "data", width=values.shape[1])
    if values.shape[1] == 1 or input is not None:
        column, name = column_of(labels, labels[0] if input is None else input)
        return _plot_along(utilities, values, column, name, known, picks, ax)
    if values.shape[1] == 2:
        return _plot_map(_the_only(utilities, "a map"), values, names_of(labels), known, picks, ax)
    return _plot_ranking(_the_only(utilities, "a ranking"), picks, ax)


def _plot_along(
    utilities: Utilities, X: np.ndarray, column: int, name: str, data: np.ndarray, picks: Any, ax: Axes | None
) -> Axes:
    """Curves along the only input, or clouds along one of several."""
    chosen = [_read_picks(picks, utility.to_numpy()) for utility in utilities.values()]
    ax = new_axes(ax, (6.8, 3.6))
    x, at = X[:, column], data[:, column]
    order, line = np.argsort(x, kind="stable"), "-" if X.shape[1] == 1 else ""
    for i, ((label, utility), rows) in enumerate(zip(utilities.items(), chosen, strict=True)):
        color, u = CYCLE[i % len(CYCLE)], utility.to_numpy()
        style: dict[str, Any] = {"lw": 1.8} if line else {"marker": "o", "ms": 4, "alpha": 0.5, "mew": 0}
        ax.plot(x[order], u[order], color=color, ls=line or "none", label=label or None, **style)
        _mark(ax, x[rows], u[rows], picks, None if i else _pick_label(picks), **{"color": color} if label else {})
    if len(at):
        ticks: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot(at, np.zeros(len(at)), "|", ms=11, mew=1.6, color=INK, label="data", zorder=3, **ticks)
    ends = np.concatenate([x, at])
    margin = 0.02 * np.ptp(ends) or 1.0
    ax.set(xlabel=name, ylabel=_axis_label(utilities), xlim=(ends.min() - margin, ends.max() + margin))
    show_legend(ax)
    return ax


def _plot_map(
    utility: xr.DataArray, X: np.ndarray, names: list[str], data: np.ndarray, picks: Any, ax: Axes | None
) -> Axes:
    """Over two inputs: contours of a grid, or points."""
    u = utility.to_numpy()
    rows = _read_picks(picks, u)
    ax = new_axes(ax, (6.4, 4.8))
    sides = [np.unique(column) for column in X.T]
    is_grid = len(X) == len(sides[0]) * len(sides[1]) > 3 and len(np.unique(X, axis=0)) == len(X)
    if is_grid and np.isfinite(u).all():
        # By the first input within the second.
        table = u[np.lexsort(X.T)].reshape(len(sides[1]), len(sides[0]))
        drawn: Any = ax.contourf(*sides, table, levels=14, cmap="viridis")
    else:
        drawn = ax.scatter(X[:, 0], X[:, 1], c=u, cmap="viridis", s=30, linewidths=0)
    ax.figure.colorbar(drawn, ax=ax, label=_axis_label({"": utility}))
    if len(data):
        # White shows on every colour of the map; the frame must not clip points that lie on it.
        ax.plot(*data.T, "s", ms=6, color="white", mec=INK, mew=1.4, label="data", zorder=4, clip_on=False)
    _mark(ax, X[rows, 0], X[rows, 1], picks, _pick_label(picks), clip_on=False)
    ax.set(xlabel=names[0], ylabel=names[1])
    plain_ticks(ax)
    show_legend(ax, is_below=True)
    return ax


def _plot_ranking(utility: xr.DataArray, picks: Any, ax: Axes | None) -> Axes:
    """The best candidates in order, by their labels, and below them picks that are not among them."""
    u = utility.to_numpy()
    marked = _read_picks(picks, u)
    best = np.argsort(-np.where(np.isfinite(u), u, -np.inf), kind="stable")[:_SHOWN].tolist()
    rows = np.array(list(dict.fromkeys([*best, *marked.tolist()])))
    labels = utility.point.to_numpy() if "point" in utility.coords else np.arange(len(u))
    ax = new_axes(ax, (6.4, 1.0 + 0.3 * len(rows)))
    at, is_marked = np.arange(len(rows)), np.isin(rows, marked)
    ax.plot(u[rows][~is_marked], at[~is_marked], "o", ms=6, color=BLUE)
    ax.plot(u[rows][is_marked], at[is_marked], label=_pick_label(picks), **_PICK)
    if np.isfinite(u).any():
        ax.axvline(float(np.median(u[np.isfinite(u)])), label="median", **LIMIT)
    name_rows(ax, [str(labels[row]) for row in rows])
    ax.set(xlabel=_axis_label({"": utility}), ylabel=f"candidate, of {len(u):,}")
    show_legend(ax)
    return ax


def _mark(ax: Axes, x: np.ndarray, y: np.ndarray, picks: Any, label: str | None, **style: Any) -> None:
    """The picks, numbered if their order means something."""
    if len(x):
        ax.plot(x, y, label=label, **_PICK | style)
    for i, place in enumerate(zip(x, y, strict=True) if np.ndim(picks) and len(x) > 1 else (), 1):
        # Dark numbers need a light box on a dark map.
        note(ax, str(i), place, (8, 5), bbox=PAPER, zorder=6)


def _read_utilities(utility: Any) -> Utilities:
    utilities = dict(utility) if isinstance(utility, Mapping) else {"": utility}
    if not utilities:
        raise ValueError("utility must hold at least one criterion; got an empty dict")
    for name, values in utilities.items():
        if not isinstance(values, xr.DataArray):
            got = type(values).__name__ + (f" for {name!r}" if name else "")
            raise TypeError(f"utility must be a DataArray over point, as pma.active.bald(fit, X) returns it; got {got}")
        if values.ndim != 1:
            raise ValueError(f"utility must have one dimension, point; got {', '.join(map(str, values.dims))}")
    # In a check, candidates have another dim.
    utilities = {name: values.rename({values.dims[0]: "point"}) for name, values in utilities.items()}
    if len({values.sizes["point"] for values in utilities.values()}) > 1:
        raise ValueError("criteria in one picture must be over the same candidates")
    if len(units := {str(values.attrs.get("units")) for values in utilities.values()}) > 1:
        raise ValueError(f"criteria on one axis must have the same units; got {', '.join(sorted(units))}")
    return utilities


def _the_only(utilities: Utilities, picture: str) -> xr.DataArray:
    if len(utilities) > 1:
        raise ValueError(f"{picture} shows one criterion; to compare several along one input, pass input=")
    return next(iter(utilities.values()))


def _read_picks(picks: Any, utility: np.ndarray) -> np.ndarray:
    """Rows to mark."""
    n = len(utility)
    if isinstance(picks, int | np.integer) and not isinstance(picks, bool) and picks >= 0:
        finite = np.flatnonzero(np.isfinite(utility))
        return finite[np.argsort(-utility[finite], kind="stable")][:picks]
    rows = np.asarray(picks)
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n)):
        raise ValueError(f"picks must be a number of candidates, or rows from 0 to {n - 1}; got {picks!r}")
    return rows.astype(int)


def _pick_label(picks: Any) -> str:
    return "best" if isinstance(picks, int | np.integer) else "picked"


def _axis_label(utilities: Utilities) -> str:
    first = next(iter(utilities.values()))
    names, units = {str(values.name or "utility") for values in utilities.values()}, first.attrs.get("units")
    name = " ".join(word.upper() if word in _ACRONYMS else word for word in names.pop().split("_"))
    name = "utility" if names else name
    return f"{name} ({units})" if units else name
