"""From the options to a model that suits the number of inputs, scaled by the candidates, in the user's units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from pymc_active.command_line.options import MANY_INPUTS, Settings
from pymc_active.command_line.tables import listing
from pymc_active.models.builders import ard_gp, composite_gp, embedding_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.support.scaling import spread
from pymc_active.support.tables import warn_if_far_outside
from pymc_active.support.user_warnings import ScaleWarning, ignoring

# The sd of the logarithm of --noise. With few observations, a wider prior would let the data explain the noise away.
_NOISE_SD = 0.1


def default_models(settings: Settings) -> tuple[list[str], str]:
    """The model for this number of inputs; and what it is and why, in words."""
    n = len(settings.inputs or ())
    if n > MANY_INPUTS:
        what = f"a Gaussian process on {settings.components} learned combinations of the inputs (embedding)"
        return ["embedding"], f"{what}, as {n} inputs are too many for a lengthscale each"
    what = "a Gaussian process with a lengthscale for each input (ard)"
    return ["ard"], f"{what}, the default for up to {MANY_INPUTS} inputs"


def make_models(
    settings: Settings,
    X: pd.DataFrame,
    y: np.ndarray,
    pool: np.ndarray | None,
    names: Sequence[str] | None = None,
) -> GPModel | dict[str, GPModel]:
    """A model of the measurements, or several by the text of their ``--model``; a ValueError if it cannot be made.

    Inputs are scaled by the box, or by the pool and the measurements together; the target by the measurements, anew
    when more come in. With ``--target-scale`` or ``--noise`` its scale stays: it is what you say, or that of the first.
    """
    if settings.target_scale is None and not spread(y) > 0:
        advice = "measure another point, or say what to expect, typical value and spread, e.g. --target-scale 18,12"
        told = (
            f"one value of {settings.target} does" if len(y) == 1 else f"{len(y)} equal values of {settings.target} do"
        )
        raise ValueError(f"{told} not tell its scale: {advice}")
    # The bounds of models of a pool include what was measured, slips too.
    everything = X.to_numpy() if pool is None else pool
    low, high = everything.min(0), everything.max(0)
    if settings.bounds is not None:
        low, high = np.array([(first, last) for _, first, last in settings.bounds], float).T
    has_warned = warn_if_far_outside(X.to_numpy(), low, high, list(X.columns), "the measurements", labels=names)
    with ignoring(*[ScaleWarning] * has_warned):
        return _make_models(settings, X, y, pool)


def _make_models(
    settings: Settings, X: pd.DataFrame, y: np.ndarray, pool: np.ndarray | None
) -> GPModel | dict[str, GPModel]:
    scale = settings.target_scale or [float(y.mean()), float(y.std())]
    made, named = {}, pd.Series(y, X.index, name=settings.target)
    for text in settings.models or ():
        is_kernel = text not in ("ard", "embedding")
        bounds = _bounds(settings, X.to_numpy(), pool, is_kernel)
        options: dict[str, Any] = {"bounds": bounds, "y_scale": settings.target_scale}
        if settings.noise is not None:
            options["y_scale"] = scale
            # Each model needs a distribution of its own.
            options["priors"] = {"log_noise": pm.Normal.dist(np.log(settings.noise / scale[1]), _NOISE_SD)}
        if text == "ard":
            made[text] = ard_gp(X, named, **options)
        elif is_kernel:
            made[text] = composite_gp(X, named, _by_position(text, list(X.columns)), **options)
        elif 1 <= (d := settings.components) <= X.shape[1]:
            made[text] = embedding_gp(X, named, n_components=d, **options)
        else:
            raise ValueError(f"--components must be between 1 and the number of inputs, {X.shape[1]}; got {d}")
    return made if len(made) > 1 else next(iter(made.values()))


def _bounds(settings: Settings, X: np.ndarray, pool: np.ndarray | None, is_kernel: bool) -> np.ndarray:
    """Where measurements may be, (D, 2): the box, or what the pool and the measurements cover."""
    everything = X if pool is None else np.concatenate([pool, X])
    if settings.bounds is not None:
        everything = np.array([[low, high] for _, low, high in settings.bounds], float).T
    low, high = everything.min(0), everything.max(0)
    if settings.bounds is None and not is_kernel:
        # The ends of a uniform distribution with this mean and sd depend less on single outliers.
        middle, width = everything.mean(0), np.sqrt(3) * spread(everything)
        low, high = middle - width, middle + width
    return np.column_stack([low, np.where(high > low, high, low + 1.0)])


def _by_position(text: str, inputs: list[str]) -> str:
    """``SE[time]`` as ``SE[1]``, the notation of kernel expressions."""

    def position(found: re.Match) -> str:
        name = found[1].strip()
        if name in inputs:
            return f"[{inputs.index(name)}]"
        if name.isdecimal() and int(name) < len(inputs):
            return f"[{name}]"
        raise ValueError(f"--model {text!r}: there is no input {name!r}; the inputs are {listing(inputs, 12)}")

    # Names may have brackets of their own, as in "binder [%]".
    names = "|".join(re.escape(name) for name in sorted(inputs, key=len, reverse=True))
    return re.sub(rf"\[(\s*(?:{names})\s*|[^\]]*)\]", position, text)
