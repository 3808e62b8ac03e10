"""Advice on the data and priors of a model: sentences that change no number, for ``fit`` and a run's first fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_active.kernels.periodic import highest_frequency
from pymc_active.models.blueprint import Blueprint
from pymc_active.models.composite import CompositeGP, known_periods
from pymc_active.models.gpmodel import GPModel
from pymc_active.support.numbers import coordinate
from pymc_active.support.scaling import penalties, spread
from pymc_active.support.tables import name_of_input
from pymc_active.support.user_warnings import warn_if

# All limits below are guesses, unless they say more.
# Sizes beyond which no parameter of scaled data is meant to be, in extents of the inputs, sds of y, or sds per extent.
# Such a noise leaves nothing else of y.
_LARGEST = {
    "log_lengthscale": 5.0, "log_width": 5.0, "log_period": 2.0, "location": 5.0, "mean_slope": 10.0,
    "mean_constant": 5.0, "log_outputscale": 10.0, "log_noise": 3.0,
}  # fmt: skip
# As parts of the same: shorter ones are as strange, if a reading in the user's units is not below the second.
_SMALLEST, _SENSIBLE = 1e-3, 1e-2
# Codes for missing values in use: whole numbers from this down, such as -200, rows of nines, and so many times what all
# others are at most. So many different values of an input are no levels of a design.
_CODE, _HUGE, _LEVELS = -99.0, 1e3, 5
# Share of the variance of an input that others leave open, below which it counts as none: numbers may be rounded.
_DEPENDENT = 1e-4
# What arithmetic rounds, in parts of the range of a column.
_ROUNDING = 1e-9
# Widths of a box beyond its faces at which a measured point is taken for a mistake. Distance between candidates and
# data, relative to the larger range of the two, that is more than going on from the data.
_FAR, _APART = 1.0, 0.5
# As many different points tell that all lie outside; by more than a part of the width.
_SEVERAL, _BESIDE = 3, 0.1
# Part of the bounds of an input that data hardly fill.
_EMPTY = 1e-3
# Decades between positive bounds from which an input most likely acts by its logarithm, and the share of a range in
# which most points of an input lie that is spread evenly in its logarithm.
_DECADES, _LOW = 3.0, 0.1
# Values that are equal to the largest or smallest one from which y seems to be cut off there, and their share.
_FEWEST_CUT, _SHARE_CUT = 5, 0.2
# As many zeros and ones, and nothing else, are hardly measured.
_FEWEST_LABELS = 4
# Share of outputs at different inputs that differ, with which equal ones are no matter of rounding.
_DIFFERENT = 0.9
# Fewer points show no season anyway; so many cycles are not looked at; so many points show whether they are a lattice.
_FEW, _CYCLES, _ENOUGH = 8, 500, 1000


def advise_on(model: GPModel, is_asked: bool = False) -> list[str]:
    """What the data and priors of a model call for, in words; ``is_asked`` if a run asked for the points."""
    if not is_asked and (text := _missing_values(model)):
        # Such numbers look like other units and far points, too.
        return [text]
    questions = _QUESTIONS if is_asked else (*_QUESTIONS, *_OF_TABLES)
    if model.likelihood is not None:
        # Others are of measurements in units of y.
        questions = tuple(question for question in questions if question in _OF_INPUTS)
    return [text for question in questions if (text := question(model))]


def warn_of_data(*models: GPModel, is_asked: bool = False) -> None:
    """A DataWarning for each sentence of :func:`advise_on`, of several models of the same data once."""
    for text in dict.fromkeys(text for model in models for text in advise_on(model, is_asked)):
        warn_if(text)


def _points_and_box(model: GPModel) -> str | None:
    if model.box is None:
        return None
    return far_outside(model.X, *model.box, model.inputs) or _hardly_filled(model)


def _decades(model: GPModel) -> str | None:
    return None if model.box is None else decades(*model.box, model.inputs, model.X)


def _hardly_filled(model: GPModel) -> str | None:
    """All points lie within a thousandth of the bounds of an input, without being equal there."""
    assert model.box is not None
    (low, high), X = model.box, model.X
    share = np.ptp(X, axis=0) / (high - low)
    tiny = np.flatnonzero((share > 0) & (share < _EMPTY))
    if len(X) < 3 or not tiny.size:
        return None
    k, remedy = int(tiny[0]), "give both in the same unit"
    # Of two inputs, corners (x, y) of a map look like pairs (low, high).
    if len(low) == 2 and (np.diff([low, high]) > 0).all():
        ends = np.array([low, high])
        if ((ends[:, 0] <= X) & (ends[:, 1] >= X)).all():
            remedy = "bounds are a pair (low, high) for each input, not two corners: write list(zip(*corners))"
    first, last = X[:, k].min(), X[:, k].max()
    return (
        f"all {len(X)} points have {name_of_input(model.inputs[k])} from {first:.12g} to {last:.12g}, within "
        f"{share[k]:.1g} of its bounds, {low[k]:.12g} to {high[k]:.12g}: {remedy}"
    )


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
        x = np.unique(model.X[:, k])
        for period in periods if len(x) >= _FEW else []:
            span = np.ptp(x) if model.box is None else model.box[1][k] - model.box[0][k]
            step = np.diff(x).min()
            # Rounding of dates makes some steps a little shorter. Uneven points show shorter periods than a lattice.
            is_shown = period > 1.9 * step or (
                _CYCLES * period > np.ptp(x) and highest_frequency(x[:_ENOUGH], 1 / period) >= 1 / period
            )
            if not is_shown or period > 1.1 * span:
                return (
                    f"period={period:g} is in the units of {label}, which spans {span:.3g} in steps of {step:.3g} and "
                    "more: no repetition can be seen. If it is in other units, give it in these"
                )
    return None


def _repeats(model: GPModel) -> str | None:
    """Rows that repeat others to the last digit, while no replicates differ and the noise is to be learned."""
    X, y = model.X, model.y
    places, rows = (len(np.unique(values, axis=0)) for values in (X, np.c_[X, y]))
    if "log_noise" not in model.shapes or rows == len(y) or places != rows or len(np.unique(y)) <= _DIFFERENT * places:
        return None
    return (
        f"{len(y) - rows} of {len(y)} rows repeat others, outputs included, to the last digit, so that the noise looks "
        "like zero, and a fit may take long or fail. If they were entered twice, leave them out "
        "(data.drop_duplicates()); a simulator without noise need not be run twice"
    )


def _missing_values(model: GPModel) -> str | None:
    return code_for_missing_values(model.X, model.inputs, "X")


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
    X: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    inputs: Sequence,
    what: str = "X",
    result: str = "the model learns from it",
    *,
    may_all_be: bool = False,
) -> str | None:
    """Advice on a point (n, D) that lies more than a width away from a box: a slip of the pen, most likely.

    Unless they ``may_all_be`` outside, also of three or more different points of which none lies near the range of an
    input.
    """
    away = np.maximum(low - X, X - high) / np.where(high > low, high - low, np.inf)
    all_outside = not may_all_be and bool((away > _BESIDE).all(0).any()) and len(np.unique(X, axis=0)) >= _SEVERAL
    if not all_outside and not away.max(initial=0.0) > _FAR:
        return None
    k = int(np.argmax(away.min(0) if all_outside else away.max(0)))
    row, least = int(np.argmax(away[:, k])), _BESIDE if all_outside else _FAR
    name, n_far = name_of_input(inputs[k]), int((away[:, k] > least).sum())
    first, last, x = (coordinate(value, high[k] - low[k]) for value in (low[k], high[k], X[row, k]))
    where = f"{'far ' if away[row, k] > _FAR else ''}outside {first} to {last}, where measurements are made"
    if n_far == 1:
        return f"row {row} of {what} has {name} = {x}, {where}: if it is a slip, correct it, since {result}"
    return (
        f"{n_far} of {len(X)} rows of {what} have {name} {where}, such as {x}: give both in the same unit, and columns "
        "in the same order"
    )


def apart(model: GPModel, low: np.ndarray, high: np.ndarray) -> str | None:
    """Advice on candidates, between two limits (D,), that are elsewhere than the data of a model and its box.

    In other units, most likely, or in another order. Without a box, going on from the data is no mistake.
    """
    X, box = model.X, model.box
    X = X if box is None else np.concatenate([X, np.stack(box)])
    first, last = X.min(0), X.max(0)
    gap = np.maximum(low - last, first - high) / np.maximum(high - low, last - first).clip(min=1e-300)
    if len(X) < 2 or not (gap > (_APART if box is None else 0.0)).any():
        return None
    k = int(np.argmax(gap))
    here, there = (
        f"from {coordinate(a[k], b[k] - a[k])} to {coordinate(b[k], b[k] - a[k])}"
        for a, b in ((low, high), (first, last))
    )
    return (
        f"the candidates have {name_of_input(model.inputs[k])} {here}, the data{'' if box is None else ' and bounds'} "
        f"of the model {there}: give both in the same unit, and inputs in the same order"
    )


_QUESTIONS: tuple[Callable[[GPModel], str | None], ...] = (
    _points_and_box,
    _outputs,
    _scale,
    _prior_in_other_units,
    _known_period,
)
# Points that were asked for are no slips, and do not come from y; and a run speaks of its box before it asks.
_OF_TABLES = (_decades, _output_among_inputs, _repeats)
_OF_INPUTS = (_points_and_box, _known_period, _decades)
