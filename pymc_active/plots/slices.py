"""Predictions along each input of a space, through one point."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.plots.axes import new_grid, plain_ticks
from pymc_active.plots.marks import dots, draw_band, intervals
from pymc_active.plots.measurements import band, output_of
from pymc_active.plots.style import INK
from pymc_active.predictions.model_average import ModelAverage, check_one_fit
from pymc_active.spaces.space import Space
from pymc_active.support.tables import read_inputs

# Points along a number, and panels in a row.
_POINTS, _COLUMNS = 100, 4


def plot_slices(fit: Fit | ModelAverage, at: Any = None, *, axes: Any = None) -> np.ndarray:
    """Predictions along each input of a :class:`~pymc_active.Space`, the others held ``at`` a point.

    Numbers have a band, the central 89 % interval of f, steps and labels an interval each; the point, a row of a table,
    is by default the best one measured, and marked by a dashed line. Where an equation holds, the other parts of it
    make room in proportion (Cox 1971). Data are faint, because they do not lie on these lines. The Axes have the shape
    (rows, 4), or (1, D) of up to four inputs.
    """
    if not isinstance(fit, ModelAverage):
        check_one_fit(fit, "plot_slices")
    if (space := fit.gpm.space) is None:
        raise ValueError("plot_slices is for models with a space: see plot_predictions")
    X, y = fit.X, fit.y / fit.data.sizes if fit.gpm.likelihood is not None else fit.y
    held = X[np.argmax(y)] if at is None else read_inputs(at, "at", inputs=fit.gpm.inputs)[0]
    variables, n_columns = space.variables, min(len(space.variables), _COLUMNS)
    shape = -(-len(variables) // n_columns), n_columns
    axes = new_grid(shape, (1.2 + 2.6 * n_columns, 0.4 + 2.6 * shape[0]), axes, sharey=True)
    data, here = space.decode(X), space.decode(held[None])
    for ax in axes.flat[len(variables) :]:
        ax.set_axis_off()
    for ax, variable in zip(axes.flat, variables, strict=False):
        name = variable.name
        values = np.linspace(variable.low, variable.high, _POINTS) if variable.levels is None else variable.levels
        grid = np.tile(held, (len(values), 1))
        grid[:, space.columns[name]] = values
        if variable.levels is None:
            _make_room(grid, space, name)
        drawn = band(fit, grid)
        is_number = not hasattr(variable, "labels")
        shown = values[:, 0] if is_number else np.arange(len(values))
        places = data[name].to_numpy() if is_number else _rows(X[:, space.columns[name]], values)
        mark = here[name].iloc[0] if is_number else _rows(held[None, space.columns[name]], values)[0]
        dots(ax, places, y, "data off the slice", alpha=0.35)
        if variable.levels is None:
            draw_band(ax, shown, drawn)
        else:
            intervals(ax, shown, np.stack([drawn[1], drawn[0], drawn[2]]), "mean and 89 % interval of f")
        ax.axvline(mark, color=INK, lw=1.0, ls="--")
        ax.set_xlabel(name)
        if is_number:
            plain_ticks(ax, "x", 4)
        else:
            labels = [str(label) for label in space.decode(_levels(space, name, held))[name]]
            ax.set_xticks(shown, labels, rotation=30 * (len("".join(labels)) > 16), ha="center")
            ax.margins(x=0.15)
    for row in axes:
        row[0].set_ylabel(output_of(fit))
    _legend(axes)
    return axes


def _rows(Z: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The level of each row of columns (n, k)."""
    return np.square(Z[:, None] - levels).sum(2).argmin(1)


def _levels(space: Space, name: str, held: np.ndarray) -> np.ndarray:
    """The point with each level of an input."""
    [levels] = [v.levels for v in space.variables if v.name == name and v.levels is not None]
    rows = np.tile(held, (len(levels), 1))
    rows[:, space.columns[name]] = levels
    return rows


def _make_room(grid: np.ndarray, space: Space, name: str) -> None:
    """Change the other parts of an equation so that it holds along an input."""
    [column] = space.columns[name]
    for row, limit, is_equality in space.polytope_rows:
        others = np.flatnonzero(row * (np.arange(len(row)) != column))
        if is_equality and row[column] and len(others):
            rest = grid[:, others] @ row[others]
            wanted = limit - row[column] * grid[:, column]
            even = np.tile(1 / (len(others) * row[others]), (len(grid), 1))
            parts = np.where(np.abs(rest)[:, None] > 0, grid[:, others] / np.where(rest == 0, 1, rest)[:, None], even)
            grid[:, others] = parts * wanted[:, None]


def _legend(axes: np.ndarray) -> None:
    named: dict[str, Any] = {}
    for ax in axes.flat:
        handles, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    axes[0, 0].figure.legend(named.values(), named.keys(), fontsize=9, loc="outside upper left", ncols=4, frameon=False)
