"""Shared by pictures of fits: the data to show, the input to show them along, rings, and bands."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel
from pymc_active.plots.axes import Axes, small_title
from pymc_active.plots.marks import note_on_map
from pymc_active.plots.style import VERMILION
from pymc_active.predictions.ensembles import Source, as_ensemble
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import predict
from pymc_active.support.numbers import QUANTILES, coordinate
from pymc_active.support.tables import read_inputs, read_outputs

# Points between two numbers, to the side and up: as much as one of three digits needs.
_ROOM = (16, 11)
# Part of the height of an axes above which a number is below its point.
_TOP = 0.94
# Points along an input at which its effect is looked for.
_STEPS = 12
# A slice through more other inputs does not name them.
_NAMED = 3


def data_of(fit: Fit | ModelAverage, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The data given, or the fit's."""
    if (X is None) != (y is None):
        raise ValueError("pass both X and y, or neither")
    if X is None:
        return fit.X, fit.y
    points = read_inputs(X, "X", inputs=fit.gpm.inputs)
    return points, read_outputs(y, len(points), X)


def names_of(inputs: list) -> list[str]:
    """Labels of the inputs for the axes."""
    return [label if isinstance(label, str) else "x" if len(inputs) == 1 else f"input {label}" for label in inputs]


def column_of(inputs: list, input: Any) -> tuple[int, str]:
    """Position and name of an input, given by its label or, if there is no such label, by its position."""
    if isinstance(input, Hashable) and input in inputs:
        column = inputs.index(input)
    elif isinstance(input, int | np.integer) and 0 <= input < len(inputs):
        column = int(input)
    else:
        raise ValueError(f"input must be one of {', '.join(map(str, inputs))} or a position; got {input!r}")
    return column, names_of(inputs)[column]


def around(values: np.ndarray) -> tuple[float, float]:
    """The range of values, and a tenth more on either side."""
    low, high = values.min(), values.max()
    margin = 0.1 * (high - low) or 1.0
    return low - margin, high + margin


def box_of(gpm: GPModel, X: np.ndarray) -> np.ndarray:
    """Ends (D, 2) of what a picture shows: the model's box, else a tenth beyond X (n, D)."""
    return np.array([around(x) for x in X.T] if gpm.box is None else np.transpose(gpm.box), float)


def steepest_input(fit: Fit | ModelAverage, held: np.ndarray, limits: np.ndarray) -> int:
    """The input along which the predicted mean changes most, the others ``held`` (D,), between ``limits`` (D, 2)."""
    D = len(held)
    grid = np.tile(held, (D, _STEPS, 1))
    grid[np.arange(D), :, np.arange(D)] = np.linspace(limits[:, 0], limits[:, 1], _STEPS, axis=1)
    mean = predict(fit, grid.reshape(-1, D)).f_mean.to_numpy()
    return int(np.ptp(mean.reshape(D, _STEPS), axis=1).argmax())


def name_slice(
    ax: Axes,
    inputs: list,
    shown: Collection[int],
    at: np.ndarray,
    limits: np.ndarray,
    what: str = "the median of the data",
) -> None:
    """Say in the title where the inputs that are not shown are held, ``at`` (D,), in a box of ``limits`` (D, 2).

    ``what`` says it for many inputs.
    """
    places = zip(names_of(inputs), map(coordinate, at, np.ptp(limits, axis=1)), strict=True)
    others = [f"{name} = {value}" for i, (name, value) in enumerate(places) if i not in shown]
    if others:
        where = ", ".join(others) if len(others) <= _NAMED else f"{what} in the other inputs"
        small_title(ax, f"slice at {where}")


def band(
    source: Source, X: np.ndarray, target: str = "f", **keywords: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of f, and the ends of the central 89 % interval of f or y, by ``predict(source, X, **keywords)``."""
    prediction = predict(source, X, quantiles=(QUANTILES[0], QUANTILES[-1]), **keywords)
    return prediction.f_mean.to_numpy(), *prediction[f"{target}_quantile"].to_numpy()


def name_of(source: Any) -> str:
    """What the predictions of a source are called in pictures."""
    if isinstance(source, ModelAverage):
        return "average"
    ensemble = as_ensemble(source)
    return ensemble.method.upper() if ensemble.is_gaussian else "posterior"


def ring(ax: Axes, x: np.ndarray, y: np.ndarray, highlight: Any, number: bool, clip_on: bool = True) -> None:
    """Ring points, and number them in the order given; of numbers that would overlap, the last is shown."""
    if highlight is None:
        return
    rows = np.asarray(highlight)
    rows = np.flatnonzero(rows) if rows.dtype == bool and rows.shape == (len(x),) else rows
    if rows.size == 0:
        return
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(x):
        raise ValueError(
            f"highlight must hold rows of X, 0 to {len(x) - 1}, or be a mask of length {len(x)}; got {highlight!r}"
        )
    style: dict[str, Any] = {"facecolors": "none", "edgecolors": VERMILION, "linewidths": 1.4, "clip_on": clip_on}
    ax.scatter(x[rows], y[rows], s=95, zorder=4, label="asked", **style)
    if number:
        # Otherwise the limits would still be those of an empty frame.
        ax.autoscale_view()
        ax.apply_aspect()
        pixels = ax.transData.transform(np.column_stack([x[rows], y[rows]]))
        # Above the ring, since neighbours of an optimum are beside it, but not over the legend.
        up = np.where(ax.transAxes.inverted().transform(pixels)[:, 1] > _TOP, -15, 7)
        at = pixels * 72 / ax.figure.dpi + np.column_stack([np.zeros(len(up)), up])
        shown: list[int] = []
        for i in reversed(range(len(rows))):
            if (np.abs(at[shown] - at[i]) > _ROOM).any(axis=1).all():
                shown.append(i)
        for i in reversed(shown):
            note_on_map(ax, str(i + 1), (x[rows[i]], y[rows[i]]), (0, int(up[i])), ha="center", fontsize=8)
