"""Plot data and predictions, along one input or as maps of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.plots.axes import Axes, new_axes, new_grid, plain_ticks, show_legend, small_title
from pymc_active.plots.marks import dots, draw_band, ring
from pymc_active.plots.measurements import (
    are_decades,
    band,
    box_of,
    column_of,
    data_of,
    has_slices,
    names_of,
    output_of,
    possible,
    reach_beyond,
    steepest_input,
)
from pymc_active.plots.style import CYCLE, INK, VERMILION
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.model_average import ModelAverage, check_one_fit
from pymc_active.predictions.predict import predict
from pymc_active.support.numbers import coordinate
from pymc_active.support.options import count
from pymc_active.support.tables import read_inputs

# Models of smaller weight are not drawn: they would not show in the average either.
_COUNTS = 0.02
# A slice through more other inputs does not name them.
_NAMED = 3


def plot_predictions(
    fit: Fit | ModelAverage,
    *,
    input: Any = None,
    at: Any = None,
    limits: tuple[float, float] | None = None,
    n_points: int = 200,
    target: str = "f",
    trace: xr.DataTree | None = None,
    X: Any = None,
    y: Any = None,
    highlight: Any = None,
    number: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Data and predictions along one input: what ``predict(fit, grid)`` returns.

    The band is the central 89 % interval of f or y, the ``target``. Dashed lines are the interval of a LaplaceFit with
    hyperparameters fixed at the mode, and of a ``trace`` with MCMC draws of the same model. For several models: the
    band of their average, and the mean of each model with a weight of at least 0.02 if there is more than one.

    ``input`` is by default the one along which the mean changes most. The others are held ``at`` (D,), by default at
    the median of the data; these are drawn faintly because they do not lie on this slice, and the title says where it
    is. ``limits`` (low, high) of that input are by default the model's box or, without one, a tenth beyond the data on
    either side; ``n_points`` make the grid. Without a box, positive data that span decades have a logarithmic axis. The
    rest is as in :mod:`pymc_active.plots`.
    """
    is_average = isinstance(fit, ModelAverage)
    if not is_average:
        check_one_fit(fit, "plot_predictions")
    elif trace is not None:
        raise ValueError("a trace belongs to one model: plot average.best with it, or leave it out")
    if target not in ("f", "y"):
        raise ValueError(f"target must be 'f' or 'y'; got {target!r}")
    gpm = fit.gpm
    if has_slices(fit):
        raise ValueError("labels and parts of an equation cannot change alone: see plot_slices")
    if trace is not None and not (np.array_equal(gpm.X, fit.X) and np.array_equal(gpm.y, fit.y)):
        raise ValueError("the model's data changed since this fit: fit again, or leave out the trace")
    X, y = data_of(fit, X, y)
    if at is None:
        held = np.median(X, axis=0)
    else:
        held = read_inputs(at if isinstance(at, pd.DataFrame) else np.atleast_2d(at), "at", inputs=gpm.inputs)[0]
    held, ends = possible(fit, held[None])[0], box_of(gpm, X)
    column, name = column_of(gpm.inputs, steepest_input(fit, held, ends) if input is None else input)
    low, high = read_limits([ends[column] if limits is None else limits], 1)[0]
    grid = np.tile(held, (count("n_points", n_points), 1))
    is_log = gpm.box is None and are_decades(X[:, column], low, high)
    grid[:, column] = x = (np.geomspace if is_log else np.linspace)(low, high, n_points)
    others: list[tuple[str, str, tuple[np.ndarray, ...]]] = []
    if not is_average and as_ensemble(fit).is_gaussian:
        others.append(("hyperparameters fixed", INK, band(fit, grid, target, method="map")))
    if trace is not None:
        others.append(("MCMC", VERMILION, band(trace, grid, target, model=gpm)))
    ax = new_axes(ax, (6.4, 4.4))
    draw_band(ax, x, band(fit, grid, target), target)
    if isinstance(fit, ModelAverage):
        _draw_members(ax, fit, x, grid)
    for what, color, (_, lower, upper) in others:
        ax.plot(x, lower, color=color, lw=1.3, ls="--", label=f"89 % interval of {target}, {what}")
        ax.plot(x, upper, color=color, lw=1.3, ls="--")
    label, alpha = ("data off the slice", 0.35) if X.shape[1] > 1 else ("data", 1.0)
    places = X[:, column]
    clip_on = reach_beyond([(low, high)], places[:, None])
    dots(ax, places, y, label, alpha=alpha, clip_on=clip_on)
    ax.set(xlabel=name, ylabel=output_of(fit), xlim=(low, high))
    if is_log:
        ax.set_xscale("log")
    else:
        plain_ticks(ax, "x", 8)
    ring(ax, np.column_stack([places, y]), highlight, number, clip_on)
    _name_slice(ax, gpm.inputs, column, grid[0], ends, "the median of the data" if at is None else "the given point")
    show_legend(ax, is_below=True)
    return ax


def _draw_members(ax: Axes, average: ModelAverage, x: np.ndarray, grid: np.ndarray) -> None:
    """Means of the models with a relevant weight, the largest weight first."""
    styles = zip(CYCLE[1:], ("--", "-.", ":", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 3))), strict=True)
    labels = list(average)
    counting = [i for i in np.argsort(-average.weights, kind="stable") if average.weights[i] >= _COUNTS]
    if len(counting) == 1:
        return  # its mean is the average
    for i, (color, line) in zip(counting, styles, strict=False):
        mean = predict(average[labels[i]], possible(average, grid)).f_mean
        ax.plot(x, mean, color=color, lw=1.3, ls=line, label=f"{labels[i]}, weight {average.weights[i]:.2f}")


def _name_slice(ax: Axes, inputs: list, column: int, at: np.ndarray, limits: np.ndarray, what: str) -> None:
    """Say in the title where the inputs not shown are held, ``at`` (D,), in a box of ``limits`` (D, 2).

    ``what`` says it for many inputs.
    """
    places = zip(names_of(inputs), map(coordinate, at, np.ptp(limits, axis=1)), strict=True)
    others = [f"{name} = {value}" for i, (name, value) in enumerate(places) if i != column]
    where = ", ".join(others) if len(others) <= _NAMED else f"{what} in the other inputs"
    if others:
        small_title(ax, f"slice at {where}")


def plot_map(
    fit: Fit | ModelAverage,
    *,
    X: Any = None,
    y: Any = None,
    highlight: Any = None,
    number: bool = False,
    limits: Any = None,
    n_points: int = 60,
    axes: Any = None,
) -> np.ndarray:
    """Mean and standard deviation of f over two inputs, side by side, (2,) Axes: what ``predict(fit, grid)`` returns.

    The data are coloured on the scale of the mean: a point that stands out is far from what the model makes of it. On
    the right they are small dots. ``limits`` are pairs (low, high) of the two inputs, by default the model's box or,
    without one, a tenth beyond the data on either side; ``n_points`` the grid along each input. The colour
    bars have the figure's last two Axes. The rest is as in :mod:`pymc_active.plots`.
    """
    if not isinstance(fit, ModelAverage):
        check_one_fit(fit, "plot_map")
    inputs, output = fit.gpm.inputs, output_of(fit)
    if len(inputs) != 2 or has_slices(fit):
        what = "labels or parts of an equation" if has_slices(fit) else len(inputs)
        raise ValueError(f"plot_map draws models with two inputs; this one has {what}: see pymc_active.plots.plot")
    X, y = data_of(fit, X, y)
    count("n_points", n_points, least=2)
    ends = read_limits(box_of(fit.gpm, X) if limits is None else limits)
    sides, grid = grid_of(ends, n_points)
    left, right = axes = new_grid((1, 2), (10.5, 4.3), axes)[0]
    prediction = predict(fit, possible(fit, grid))
    drawn = draw_map(left, sides, prediction.f_mean.to_numpy(), f"mean of f: {output}", y)
    draw_map(right, sides, np.sqrt(prediction.f_variance.to_numpy()), f"sd of f: {output}", cmap="Purples")
    clip_on = reach_beyond(ends, X)
    coloured_dots(left, drawn, X, y, clip_on)
    dots(right, *X.T, ms=3.5, clip_on=clip_on)
    ring(left, X, highlight, number, clip_on)
    for ax in axes:
        ax.set(**dict(zip(("xlabel", "ylabel"), names_of(inputs), strict=True)))
        plain_ticks(ax)
    show_legend(left, is_below=True)
    return axes


def grid_of(limits: np.ndarray, n_points: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The sides of a grid between ``limits`` (2, 2), a row for each input; and its points (n_points², 2)."""
    sides = [np.linspace(low, high, n_points) for low, high in limits]
    return sides, np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def draw_map(
    ax: Axes, sides: list[np.ndarray], values: np.ndarray, label: str, others: Any = (), cmap: str = "Blues"
) -> Any:
    """Filled contours of values at the points of :func:`grid_of`, with their colour bar, which spans ``others`` too."""
    import matplotlib as mpl

    # Pale enough for what is drawn on it.
    pale = mpl.colors.ListedColormap(mpl.colormaps[cmap](np.linspace(0.02, 0.72, 256)))
    everything = np.concatenate([values, others])
    levels = mpl.ticker.MaxNLocator(20).tick_values(everything.min(), everything.max())
    table = values.reshape(len(sides[1]), len(sides[0]))
    filled = ax.contourf(*sides, table, levels=levels, cmap=pale, vmin=levels[0], vmax=levels[-1])
    ax.figure.colorbar(filled, ax=ax, label=label)
    ax.set(xlim=sides[0][[0, -1]], ylim=sides[1][[0, -1]])
    return filled


def coloured_dots(ax: Axes, drawn: Any, X: np.ndarray, y: np.ndarray, clip_on: bool = True) -> None:
    """Measurements at X (n, 2), in the colours of a map."""
    style: dict[str, Any] = {"s": 42, "edgecolors": INK, "linewidths": 0.9, "zorder": 3, "label": "data"}
    ax.scatter(X[:, 0], X[:, 1], c=y, cmap=drawn.cmap, norm=drawn.norm, clip_on=clip_on, **style)


def read_limits(limits: Any, n: int = 2) -> np.ndarray:
    """Pairs (low, high) of the n axes of a picture, (n, 2), or a ValueError."""
    pairs = np.asarray(limits, float)
    if pairs.shape != (n, 2) or not (np.isfinite(pairs).all() and (pairs[:, 0] < pairs[:, 1]).all()):
        what = "two pairs" if n == 2 else "one pair"
        raise ValueError(f"limits must be {what} of finite numbers (low, high), low < high; got {limits!r}")
    return pairs
