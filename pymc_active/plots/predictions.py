"""Plot data and predictions along one input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.plots.axes import Axes, new_axes, plain_ticks, show_legend
from pymc_active.plots.marks import dots, draw_band, ring
from pymc_active.plots.measurements import band, box_of, column_of, data_of, name_slice, reach_beyond, steepest_input
from pymc_active.plots.style import CYCLE, INK, VERMILION
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.model_average import ModelAverage, check_one_fit
from pymc_active.predictions.predict import predict
from pymc_active.support.options import count
from pymc_active.support.tables import read_inputs

# Models of smaller weight are not drawn: they would not show in the average either.
_COUNTS = 0.02


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
    either side; ``n_points`` are those of the grid. The rest is as in :mod:`pymc_active.plots`.
    """
    is_average = isinstance(fit, ModelAverage)
    if not is_average:
        check_one_fit(fit, "plot_predictions")
    elif trace is not None:
        raise ValueError("a trace belongs to one model: plot average.best with it, or leave it out")
    if target not in ("f", "y"):
        raise ValueError(f"target must be 'f' or 'y'; got {target!r}")
    gpm = fit.gpm
    if trace is not None and not (np.array_equal(gpm.X, fit.X) and np.array_equal(gpm.y, fit.y)):
        raise ValueError("the model's data changed since this fit: fit again, or leave out the trace")
    X, y = data_of(fit, X, y)
    if at is None:
        held = np.median(X, axis=0)
    else:
        held = read_inputs(at if isinstance(at, pd.DataFrame) else np.atleast_2d(at), "at", inputs=gpm.inputs)[0]
    ends = box_of(gpm, X)
    column, name = column_of(gpm.inputs, steepest_input(fit, held, ends) if input is None else input)
    limits = tuple(ends[column]) if limits is None else limits
    if not -np.inf < limits[0] < limits[1] < np.inf:
        raise ValueError(f"limits must be two finite numbers, the lower one first; got {limits!r}")
    grid = np.tile(held, (count("n_points", n_points), 1))
    grid[:, column] = x = np.linspace(*limits, n_points)
    others: list[tuple[str, str, tuple[np.ndarray, ...]]] = []
    if not is_average and as_ensemble(fit).is_gaussian:
        others.append(("hyperparameters fixed", INK, band(fit, grid, target, method="map")))
    if trace is not None:
        others.append(("MCMC", VERMILION, band(trace, grid, target, model=gpm)))
    ax = new_axes(ax, (6.4, 4.4))
    draw_band(ax, x, band(fit, grid, target), target)
    if isinstance(fit, ModelAverage):
        _draw_members(ax, fit, x, grid)
    for what, color, (_, low, high) in others:
        ax.plot(x, low, color=color, lw=1.3, ls="--", label=f"89 % interval of {target}, {what}")
        ax.plot(x, high, color=color, lw=1.3, ls="--")
    label, alpha = ("data off the slice", 0.35) if X.shape[1] > 1 else ("data", 1.0)
    places = X[:, column]
    clip_on = reach_beyond([limits], places[:, None])
    dots(ax, places, y, label, alpha=alpha, clip_on=clip_on)
    ax.set(xlabel=name, ylabel=gpm.output, xlim=limits)
    plain_ticks(ax, "x", 8)
    ring(ax, np.column_stack([places, y]), highlight, number, clip_on)
    name_slice(ax, gpm.inputs, column, grid[0], ends, "the median of the data" if at is None else "the given point")
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
        mean = predict(average[labels[i]], grid).f_mean
        ax.plot(x, mean, color=color, lw=1.3, ls=line, label=f"{labels[i]}, weight {average.weights[i]:.2f}")
