"""Advice on the data and priors of a model: sentences that change no number, asked for once, by its builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_active.models.blueprint import Blueprint
from pymc_active.models.gpmodel import GPModel
from pymc_active.support.scaling import penalties, spread
from pymc_active.support.tables import name_of_input
from pymc_active.support.user_warnings import ConfoundedInputsWarning, ScaleWarning, warn_user

# Sizes beyond which no parameter of scaled data is meant to be, in extents of the inputs, sds of y, or sds per extent:
# guesses. Such a noise leaves nothing else of y.
_LARGEST = {
    "log_lengthscale": 5.0, "log_width": 5.0, "log_period": 2.0, "location": 5.0, "mean_slope": 10.0,
    "mean_constant": 5.0, "log_outputscale": 10.0, "log_noise": 3.0,
}  # fmt: skip
# As parts of the same: shorter ones are as strange, if a reading in the user's units is not below the second (guesses).
_SMALLEST, _SENSIBLE = 1e-3, 1e-2
# Codes for missing values in use: whole numbers from this down, such as -200, rows of nines, and so many times what all
# others are at most. So many different values of an input are no levels of a design (guesses).
_CODE, _HUGE, _LEVELS = -99.0, 1e3, 5
# Share of the variance of an input that others leave open, below which it counts as none: numbers may be rounded.
_DEPENDENT = 1e-4
# What arithmetic rounds, in parts of the range of a column.
_ROUNDING = 1e-9


def advise[Model: GPModel](model: Model) -> Model:
    """The model, after all warnings that its data and priors call for."""
    for ask, category in _ADVICE:
        if message := ask(model):
            warn_user(message, category)
    return model


def _prior_in_other_units(model: GPModel) -> str | None:
    """A prior that is far off on the scaled data, and would suit them if it were stated in the user's units."""
    if not isinstance(model, Blueprint):
        return None
    for name in model.parameters.priors:
        kind = next((kind for kind in _LARGEST if name.startswith(kind)), None)
        if kind is None:
            continue
        is_log, is_noise = kind.startswith("log_"), kind == "log_noise"
        # The data choose the lower half of a vague prior of the noise.
        stated = model.parameters.quantile(name, 0.025 if is_noise else 0.5)
        if stated is None:
            continue
        size, shift, unit = _units(model, name, kind)
        value = np.exp(stated) if is_log else stated
        reading, most = (value - shift) / unit, _LARGEST[kind] * size
        fits = (np.abs(reading) <= most) & (not is_log or is_noise or reading >= _SENSIBLE * size)
        is_large, is_small = np.abs(value) > most, is_log and not is_noise and value < _SMALLEST * size
        strange = np.atleast_1d(((is_large & (fits | is_noise)) | (is_small & fits)) & (size > 0))
        if strange.any():
            k, log = int(np.argmax(strange)), "log " if is_log else ""
            stated, yours, scaled, could_be = (
                np.broadcast_to(of, strange.shape)[k] for of in (value, value * unit + shift, reading, fits)
            )
            remedy = f"if you mean {stated:.4g} in your units, write {log}{scaled:.3g}" if could_be else "lower it"
            remedy += ", or the noise in units of y as priors={'noise': its sd}" if is_noise else ""
            return (
                f"the prior of {name} is around {log}{stated:.4g}, {yours:.4g} in your units, far from anything that "
                f"the data show: priors are of scaled data, so {remedy}"
            )
    return None


def _units(model: Blueprint, name: str, kind: str) -> tuple[Any, Any, Any]:
    """For a kind of parameter the size of the scaled data to compare it with, and the shift and scale of its unit."""
    on, X = model.inputs_of(name), model.X if model.box is None else np.concatenate([model.X, model.box])
    shift, unit = (np.broadcast_to(of, model.n_inputs)[on] for of in (model.x_map.shift, model.x_map.scale))
    scaled = model.x_map(X)[:, on]
    y, extent = model.y_map, np.ptp(scaled, axis=0)
    # Fewer points do not tell how much y varies.
    y_sd = float(spread(y(model.y))) if len(model.y) > 2 else 0.0
    if kind == "location":
        return np.abs(scaled).max(0).clip(1), shift, unit
    if kind == "mean_slope":
        return y_sd / np.where(extent > 0, extent, np.inf), 0.0, y.scale / unit
    if kind in ("mean_constant", "log_outputscale", "log_noise"):
        return np.array(y_sd), y.shift if kind == "mean_constant" else 0.0, y.scale
    return extent, 0.0, unit


def _output_among_inputs(model: GPModel) -> str | None:
    """A column of X that was computed from y, or y from it: all else then seems not to matter."""
    X, y = model.X - model.X.mean(0), model.y - model.y.mean()
    # A line through the points of the only input is a function like others, and two values lie on one anyway.
    if X.shape[1] < 2 or len(y) < 4 or len(np.unique(y)) < 3:
        return None
    away = np.abs(X - np.outer(y, y @ X / (y @ y))).max(0)
    if not (same := (away <= _ROUNDING * np.abs(X).max(0)) & (np.ptp(X, axis=0) > 0)).any():
        return None
    name = name_of_input(model.inputs[int(np.argmax(same))])
    return f"{name} is a linear function of y at all {len(y)} points: leave it out of X if it was computed from y"


def _code_for_missing_values(model: GPModel) -> str | None:
    return code_for_missing_values(model.X, model.inputs, "X")


def code_for_missing_values(X: np.ndarray, inputs: Sequence, what: str) -> str | None:
    """Two or more rows of X (n, D) with a value of an input, such as -999 or 9999, that says that there is none."""
    for name, x in zip(inputs, X.T, strict=True):
        for code in (x.min(), x.max()):
            others = x[x != code]
            if not 1 < (k := len(x) - len(others)) <= len(others) or not np.ptp(others) > 0:
                continue
            is_nines = set(f"{abs(code):.10g}") <= {"9", "."} and abs(code) > 10
            if not (is_nines or code == np.round(code) <= _CODE or abs(code) > _HUGE * np.abs(others).max()):
                continue
            # Far away, or of a quantity that has no other negative values, unless these are levels.
            if code in x[penalties(x)] or (code < 0 < others.min() and len(np.unique(others)) >= _LEVELS):
                return (
                    f"{k} of {len(x)} rows of {what} have {name_of_input(name)} = {code:g}, far from all others, "
                    f"{others.min():g} to {others.max():g}: if it stands for a missing value, leave these rows out"
                )
    return None


def dependent_inputs(X: np.ndarray) -> np.ndarray:
    """Positions of inputs (n, D) each of which can be computed from the others: the points lie on a plane."""
    n, varied = len(X), np.flatnonzero(np.ptp(X, axis=0) > 0)
    # So few points always do.
    if n < len(varied) + 2 or len(varied) < 2:
        return np.empty(0, int)
    Z = (X - X.mean(0))[:, varied] / X.std(0)[varied]
    values, vectors = np.linalg.eigh(Z.T @ Z / n)
    # The smallest eigenvalue of independent inputs is about the square (Marchenko & Pastur 1967).
    if values[0] >= _DEPENDENT * (1 - np.sqrt(len(varied) / (n - 1))) ** 2:
        return np.empty(0, int)
    return varied[np.abs(vectors[:, 0]) > np.sqrt(_DEPENDENT)]


_ADVICE = (
    (_prior_in_other_units, ScaleWarning),
    (_code_for_missing_values, ScaleWarning),
    (_output_among_inputs, ConfoundedInputsWarning),
)
