"""Advice on the data and priors of a model: sentences that change no number, for ``fit`` and a run's first fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_active.kernels.periodic import lattice_step
from pymc_active.models.blueprint import Blueprint
from pymc_active.models.composite import CompositeGP, known_periods
from pymc_active.models.gpmodel import GPModel
from pymc_active.support.numbers import coordinate
from pymc_active.support.scaling import penalties, spread
from pymc_active.support.tables import name_of_input
from pymc_active.support.user_warnings import warn_if

# All limits below are guesses, unless they say more.
# Sizes beyond which no parameter of scaled data is meant to be, in extents of the inputs or sds of y.
_LARGEST = {
    "log_lengthscale": 5.0, "log_width": 5.0, "log_period": 2.0, "location": 5.0,
    "mean_constant": 5.0, "log_outputscale": 10.0, "log_noise": 3.0,
}  # fmt: skip
# As parts of the same: shorter ones are as strange, if a reading in the user's units is not below the second.
_SMALLEST, _SENSIBLE = 1e-3, 1e-2
# Codes for missing values in use: whole numbers from this down, such as -200, rows of nines, and so many times what all
# others are at most. So many different values of an input are no levels of a design.
_CODE, _HUGE, _LEVELS = -99.0, 1e3, 5
# Share of the variance of an input that others leave open, below which it counts as none: numbers may be rounded.
_DEPENDENT = 1e-4
# Inputs with the correlations of so much fewer independent ones, beside as many independent inputs, are confounded.
_SEPARATE = 0.6
# What arithmetic rounds, in parts of the range of a column.
_ROUNDING = 1e-9
# Widths of a box beyond its faces at which a measured point is taken for a mistake.
_FAR = 1.0
# Distance between two ranges of an input, relative to the larger one, that is more than going on from the data; between
# so many different points and the bounds of a model less is. A part of the other range is as strange.
_APART, _BESIDE, _SEVERAL, _SLIVER = 0.5, 0.1, 3, 1e-3
_REMEDY = "give both in the same units, inputs in the same order, and bounds as a pair (low, high) for each input"
# Decades between positive bounds from which an input most likely acts by its logarithm, and the share of a range in
# which most points of an input lie that is spread evenly in its logarithm.
_DECADES, _LOW = 3.0, 0.1
# Values that are equal to the largest or smallest one from which y seems to be cut off there, and their share.
_FEWEST_CUT, _SHARE_CUT = 5, 0.2
# As many zeros and ones, and nothing else, are hardly measured; fewer different outcomes for each row are coarse.
_FEWEST_LABELS, _COARSE = 4, 0.8
# Fewer points show no season anyway.
_FEW = 8


def advise_on(model: GPModel, is_asked: bool = False) -> list[str]:
    """What the data and priors of a model call for, in words; ``is_asked`` if a run asked for the points."""
    if not is_asked and (text := code_for_missing_values(model.X, model.inputs, "X")):
        # Such numbers look like other units and far points, too.
        return [text]
    questions = _OF_INPUTS if model.likelihood is not None else (*_OF_INPUTS, *_OF_OUTPUTS)
    # A run speaks of its box before it asks, and of what breaks its constraints when that is told.
    asked = (question for question in questions if not (is_asked and question in (_decades, _broken, _copies)))
    return [text for question in asked if (text := question(model))]


def warn_of_data(*models: GPModel, is_asked: bool = False) -> None:
    """A DataWarning for each sentence of :func:`advise_on`, of several models of the same data once."""
    for text in dict.fromkeys(text for model in models for text in advise_on(model, is_asked)):
        warn_if(text)


def _points_and_box(model: GPModel) -> str | None:
    X, box = model.X, model.box
    if box is None:
        return None
    are_several = len(np.unique(X, axis=0)) >= _SEVERAL
    text = _elsewhere(f"all {len(X)} points", X, "its bounds", np.stack(box), model) if are_several else None
    return text or far_outside(X, *box, model.inputs)


def _broken(model: GPModel) -> str | None:
    broken = None if model.space is None else model.space.broken(model.X)
    return broken and f"{broken}: the model learns it all the same. If it is a slip, correct X"


def _decades(model: GPModel) -> str | None:
    return None if model.box is None else decades(*model.box, model.inputs, model.X)


def _outputs(model: GPModel) -> str | None:
    """Equal outputs, or many at one end that are no penalties, while no other value is as frequent."""
    y, n = model.y, len(model.y)
    values, counts = np.unique(y, return_counts=True)
    remedy = "give the builder, or Learner(None, ...), likelihood='bernoulli'"
    # Error bars are of measurements.
    if values.tolist() == [0, 1] and n >= _FEWEST_LABELS and not model.data.errors.any():
        return (
            f"all {n} values of y are 0 or 1. If these stand for no and yes, a model of continuous outputs is the "
            f"wrong one: {remedy}"
        )
    # Of a model without bounds the user has stated the scale of y.
    if model.box is None:
        return None
    if n > 1 and len(values) == 1:
        return (
            f"all {n} values of y are {y[0]:g}, which does not tell how much y varies: until one differs, predictions "
            "are of no use. Is it a limit of detection? Else measure where y differs, or pass y_scale=(level, scale)"
        ) + (f". If it stands for {'yes' if y[0] else 'no'}, {remedy}" if y[0] in (0, 1) else "")
    if n < 2 or len(penalties(y)):
        return None
    for end, what in ((-1, "largest"), (0, "smallest")):
        others = np.delete(counts, end)
        if counts[end] >= max(_FEWEST_CUT, _SHARE_CUT * n) and counts[end] >= 3 * others.max(initial=1):
            return (
                f"{counts[end]} of {n} values of y are {values[end]:g}, the {what}. If measurements end there, as "
                "percentages and detection limits do, the model does not know it, and predicts values beyond: model a "
                "related quantity without a limit, if there is one. If the number stands for experiments that failed, "
                "tell NaN in its place"
            )
    return None


def _copies(model: GPModel) -> str | None:
    """Rows that were entered twice, since measured ones would differ, unless outcomes are coarse."""
    X, y, n = model.X, model.y, len(model.y)
    n_rows = len(np.unique(np.column_stack([X, y]), axis=0))
    if n_rows == n or len(np.unique(X, axis=0)) < n_rows or len(np.unique(y)) < _COARSE * n_rows:
        return None
    return (
        f"{n - n_rows} of {n} rows have the X and y of another, which makes the noise look like zero: if they were "
        "entered twice, leave them out; a simulator without noise need not be run twice"
    )


def _scale(model: GPModel) -> str | None:
    """Default priors, which are stated for scaled data, on data that are not."""
    if not isinstance(model, Blueprint) or not model.parameters.has_defaults or len(model.y) < 3:
        return None
    # Bounds that scale the inputs are compared with them elsewhere.
    fills_box = model.box is not None and np.abs(model.x_map(np.stack(model.box))).max() <= 1 + _ROUNDING
    # Priors for [0, 1] expect several lengthscales in it.
    largest = 10 if model.scaled_inputs == "unit" else 100
    problems = []
    for what, values, most, remedy in (
        ("X", model.x_map(model.X[:0] if fills_box else model.X), largest, f"x_scale={model.scaled_inputs!r}"),
        ("y", model.y_map(model.y)[:, None], 100, "y_scale='standardize'"),
    ):
        size = np.abs(values).max(0, initial=0.0)
        # Years, pascals or counts; or values that are all tiny beside the unit of the priors.
        if (size > most).any() or 0 < size.max() < 0.01:
            problems.append(f"{remedy} ({what} reaches {size.max():.3g})")
    if not problems:
        return None
    bounds = "" if model.box is not None else "bounds=[(low, high), ...] of where you will measure, or "
    return (
        "the default priors assume data of roughly unit scale, centred near zero; these are not. Pass "
        f"{bounds}{' and '.join(problems)}, or your own priors"
    )


def _known_period(model: GPModel) -> str | None:
    """A known period that no part of the kernel has, or that the data cannot show."""
    if not isinstance(model, CompositeGP):
        return None
    for k, periods in enumerate(known_periods(model.period, model.inputs)):
        label, wanted = name_of_input(model.inputs[k]), "PER" if model.n_inputs == 1 else f"PER[{k}]"
        if periods and not model.n_periodic(k):
            return (
                f"period={periods[0]:g} has no effect on {model.expression}: PER and PER0 have it, so add one, as in "
                f"{model.expression} + {wanted}"
            )
        x, step = model.X[:, k], lattice_step(model.X[:, k])
        for period in periods if len(np.unique(x)) >= _FEW else []:
            span = np.ptp(x) if model.box is None else model.box[1][k] - model.box[0][k]
            if period < 1.9 * step or period > 1.1 * span:
                return (
                    f"period={period:g} is in the units of {label}, which spans {span:.3g}"
                    f"{f' in steps of {step:.3g}' if step else ''}: no repetition can be seen. If it is in other "
                    "units, give it in these"
                )
    return None


def _prior_in_other_units(model: GPModel) -> str | None:
    """A prior that is far off on the scaled data, and would suit them if it were stated in the user's units."""
    if not isinstance(model, Blueprint):
        return None
    for name in model.parameters.priors:
        kind = next((kind for kind in _LARGEST if name.startswith(kind)), None)
        if kind is None or (value := model.parameters.quantile(name, 0.5)) is None:
            continue
        size, shift, unit = _units(model, name, kind)
        smallest, log = -np.inf, ""
        if kind.startswith("log_"):
            value, smallest, log = np.exp(value), size, "log "
        reading, most = (value - shift) / unit, _LARGEST[kind] * size
        is_strange = (np.abs(value) > most) | (value < _SMALLEST * smallest)
        odd = np.atleast_1d(is_strange & (np.abs(reading) <= most) & (reading >= _SENSIBLE * smallest) & (size > 0))
        if odd.any():
            k = int(np.argmax(odd))
            stated, yours, scaled = (np.broadcast_to(of, odd.shape)[k] for of in (value, value * unit + shift, reading))
            return (
                f"the prior of {name} is around {log}{stated:.4g}, {yours:.4g} in your units, far from anything that "
                f"the data show: priors are of scaled data, so if you mean {stated:.4g} in your units, write "
                f"{log}{scaled:.3g}"
            )
    return None


def _units(model: Blueprint, name: str, kind: str) -> tuple[Any, Any, Any]:
    """For a kind of parameter the size of the scaled data to compare it with, and the shift and scale of its unit."""
    if kind in ("mean_constant", "log_outputscale", "log_noise"):
        # Fewer points do not tell how much y varies.
        y, size = model.y_map, float(spread(model.y_map(model.y))) if len(model.y) > 2 else 0.0
        return np.array(size), y.shift if kind == "mean_constant" else 0.0, y.scale
    on, X = model.inputs_of(name), model.X if model.box is None else np.concatenate([model.X, model.box])
    shift, unit = (np.broadcast_to(of, model.n_inputs)[on] for of in (model.x_map.shift, model.x_map.scale))
    scaled = model.x_map(X)[:, on]
    if kind == "location":
        return np.abs(scaled).max(0).clip(1), shift, unit
    return np.ptp(scaled, axis=0), 0.0, unit


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


def confounded(X: np.ndarray, inputs: Sequence) -> str | None:
    """Advice on inputs (n, D) that never vary, that depend on each other exactly, or that vary together."""
    # The last by the participation ratio of the eigenvalues of their correlations.
    (n, D), varied = X.shape, np.ptp(X, axis=0) > 0
    if n < 2 or not varied.any():
        return None
    Z = (X - X.mean(0))[:, varied] / X.std(0)[varied]
    # The Gram matrix has the same eigenvalues, but for zeros.
    C = (Z @ Z.T if n < len(Z.T) else Z.T @ Z) / n
    separate, by_chance = np.trace(C) ** 2 / np.square(C).sum(), D / (1 + (D - 1) / (n - 1))
    if n <= D or separate < _SEPARATE * by_chance:
        return (
            f"the {D} inputs of the {n} points vary together, as {separate:.2g} independent ones would, so what is "
            "said of each of them comes from the prior of the model, and intervals do not show this. Measure points "
            "that vary them separately, such as pma.active.latin_hypercube(bounds, n=...), or ask for combinations: "
            "pma.subspace_angles of an embedding"
        )
    if not (involved := np.union1d(np.flatnonzero(~varied), dependent_inputs(X))).size:
        return None
    names = ", ".join(name_of_input(inputs[k]) for k in involved.tolist())
    return (
        f"{names}: in the {n} points each of these inputs never varies or can be computed from the others, as where "
        "fractions add up to one, so what is said of each of them comes from the prior of the model, and intervals do "
        "not show this. Leave one of them out of the model, such as a solvent, or one column of a category"
    )


def decades(low: np.ndarray, high: np.ndarray, inputs: Sequence, X: np.ndarray) -> str | None:
    """Advice on an input that spans decades: nearly all of its range is the last one.

    Either its lower bound was chosen, a round number, or most of the points X (n, D) lie near it. The smallest of many
    evenly spread points, as of a pool, may be near zero as well.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        n_decades = np.where(low > 0, np.log10(high / low), 0.0)
    is_round = np.array([float(f"{end:.2g}") == end for end in low])
    is_low = np.median(X, axis=0) < low + _LOW * (high - low) if len(X) > 2 else np.zeros(len(low), bool)
    if not (wide := np.flatnonzero((n_decades >= _DECADES) & (is_round | is_low))).size:
        return None
    k, names = int(wide[0]), " and ".join(name_of_input(inputs[k]) for k in wide.tolist())
    return (
        f"{names}: from {low[k]:g} to {high[k]:g} are {n_decades[k]:.2g} decades, but equal steps of an input count "
        f"alike, and nine tenths of this range lies beyond {high[k] / 10:g}. If ratios matter, as with doses and "
        f"rates, pass log10 of the input in X, and ({np.log10(low[k]):.3g}, {np.log10(high[k]):.3g}) as its bounds"
    )


def far_outside(
    X: np.ndarray, low: np.ndarray, high: np.ndarray, inputs: Sequence, what: str = "X", result: str = "it is learned"
) -> str | None:
    """Advice on a point (n, D) that lies more than a width away from a box: a slip of the pen, most likely."""
    away = np.maximum(low - X, X - high) / np.where(high > low, high - low, np.inf)
    if not away.max(initial=0.0) > _FAR:
        return None
    k = int(np.argmax(away.max(0)))
    row, n_far, name = int(np.argmax(away[:, k])), int((away[:, k] > _FAR).sum()), name_of_input(inputs[k])
    first, last, x = (coordinate(value, high[k] - low[k]) for value in (low[k], high[k], X[row, k]))
    where = f"far outside {first} to {last}, where measurements are made"
    if n_far == 1:
        return f"row {row} of {what} has {name} = {x}, {where}: if it is a slip, correct it, since {result}"
    return f"{n_far} of {len(X)} rows of {what} have {name} {where}, such as {x}: {_REMEDY}"


def apart(model: GPModel, low: np.ndarray, high: np.ndarray) -> str | None:
    """Advice on candidates, between two limits (D,), that are elsewhere than the data of a model and its box."""
    known, of, beyond = model.X, "the data of the model", _APART
    if model.box is not None:
        # Without a box, going on from the data is no mistake.
        known, of, beyond = np.concatenate([known, np.stack(model.box)]), "the data and bounds of the model", 0.0
    return _elsewhere("the candidates", np.stack([low, high]), of, known, model, beyond) if len(model.X) > 1 else None


def _elsewhere(
    what: str, X: np.ndarray, of: str, others: np.ndarray, model: GPModel, beyond: float = _BESIDE
) -> str | None:
    """Advice on points (n, D) with a range elsewhere than others, or a sliver of theirs: in other units, likely."""
    here, there = ((points.min(0), points.max(0)) for points in (X, others))
    width, other = here[1] - here[0], there[1] - there[0]
    gap = np.maximum(here[0] - there[1], there[0] - here[1]) / np.maximum(width, other).clip(min=1e-300)
    if not (strange := (gap > beyond) | ((width > 0) & (width < _SLIVER * other))).any():
        return None
    k = int(np.argmax(strange))
    ranges = [f"{coordinate(a[k], b[k] - a[k])} to {coordinate(b[k], b[k] - a[k])}" for a, b in (here, there)]
    return f"{what} have {name_of_input(model.inputs[k])} from {ranges[0]}, {of} from {ranges[1]}: {_REMEDY}"


type Question = Callable[[GPModel], str | None]
_OF_INPUTS: tuple[Question, ...] = (_points_and_box, _broken, _known_period, _decades)
# Of measurements in units of y.
_OF_OUTPUTS: tuple[Question, ...] = (_outputs, _copies, _scale, _prior_in_other_units)
