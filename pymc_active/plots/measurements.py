"""Shared by pictures of fits: the data to show, the input to show them along, and where."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import Source
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import predict
from pymc_active.support.numbers import QUANTILES
from pymc_active.support.tables import read_inputs, read_outputs

# Points along an input at which its effect is looked for.
_STEPS = 12


def data_of(fit: Fit | ModelAverage, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The data given, or the fit's."""
    if (X is None) != (y is None):
        raise ValueError("pass both X and y, or neither")
    if X is None:
        X, y = fit.X, fit.y
    points = read_inputs(X, "X", inputs=fit.gpm.inputs)
    values = read_outputs(y, len(points), X)
    # Successes a trial, counts an exposure of one, as predictions are.
    is_of_sizes = fit.gpm.likelihood is not None and np.array_equal(values, fit.y)
    return points, values / fit.data.sizes if is_of_sizes else values


def output_of(fit: Fit | ModelAverage) -> str:
    """What the outputs are called."""
    likelihood, sizes = fit.gpm.likelihood, fit.data.y_sd
    return f"{fit.gpm.output} / {likelihood.size_name}" if likelihood and sizes is not None else fit.gpm.output


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


def are_decades(values: np.ndarray, low: float, high: float) -> bool:
    """Whether values need a logarithmic scale: half lie in the lowest tenth (a guess) of what is positive."""
    return low > 0 and bool(np.median(values) < low + 0.1 * (high - low))


def around(values: np.ndarray) -> tuple[float, float]:
    """The range of values, and a tenth more on either side."""
    low, high = values.min(), values.max()
    if are_decades(values, low, high):
        return low * (low / high) ** 0.1, high * (high / low) ** 0.1
    margin = 0.1 * (high - low) or 1.0
    return low - margin, high + margin


def box_of(gpm: GPModel, X: np.ndarray) -> np.ndarray:
    """Ends (D, 2) of what a picture shows: the model's box, else a tenth beyond X (n, D)."""
    ends = np.array([around(x) for x in X.T] if gpm.box is None else np.transpose(gpm.box), float)
    whole = _whole_columns(gpm)
    ends[whole] = np.stack([X.min(0), X.max(0)], axis=1)[whole]
    return ends


def _whole_columns(gpm: Any) -> list[int]:
    """Inputs that are whole numbers, such as the index of a group, beyond whose last one there may be none."""
    return [gpm.inputs.index(name) for name in getattr(gpm, "whole_inputs", ())]


def has_slices(fit: Fit | ModelAverage) -> bool:
    """Whether there are columns that cannot change alone: labels, or parts of an equation."""
    space = fit.gpm.space
    return space is not None and (space.has_labels or any(is_equality for _, _, is_equality in space.polytope_rows))


def possible(source: Source, X: np.ndarray) -> np.ndarray:
    """Points (m, D) with the nearest whole numbers of inputs that have no others."""
    whole, X = _whole_columns(getattr(source, "gpm", None)), X.copy()
    X[:, whole] = np.rint(X[:, whole])
    return X


def reach_beyond(ends: Any, X: np.ndarray) -> bool:
    """Whether points (n, D) lie beyond the frame (D, 2), which then clips them; it must not clip points on its edge."""
    low, high = np.transpose(ends)
    return bool(((X < low) | (high < X)).any())


def steepest_input(fit: Fit | ModelAverage, held: np.ndarray, limits: np.ndarray) -> int:
    """The input along which the predicted mean changes most, the others ``held`` (D,), between ``limits`` (D, 2)."""
    D = len(held)
    grid = np.tile(held, (D, _STEPS, 1))
    grid[np.arange(D), :, np.arange(D)] = np.linspace(limits[:, 0], limits[:, 1], _STEPS, axis=1)
    mean = predict(fit, possible(fit, grid.reshape(-1, D))).f_mean.to_numpy()
    return int(np.ptp(mean.reshape(D, _STEPS), axis=1).argmax())


def band(
    source: Source, X: np.ndarray, target: str = "f", **keywords: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of f, and the ends of the central 89 % interval of f or y, by ``predict(source, X, **keywords)``."""
    prediction = predict(source, possible(source, X), quantiles=(QUANTILES[0], QUANTILES[-1]), **keywords)
    return prediction.f_mean.to_numpy(), *prediction[f"{target}_quantile"].to_numpy()
