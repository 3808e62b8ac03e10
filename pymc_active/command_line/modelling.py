"""From the options to a model: one that suits the number of inputs, scaled by the candidates, in the user's units."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

from pymc_active.command_line.settings import MANY_INPUTS, Settings
from pymc_active.command_line.tables import listing
from pymc_active.models.builders import ard_gp, composite_gp, embedding_gp
from pymc_active.models.gpmodel import GPModel

# How sure people are of their own estimate of the noise, as the sd of its logarithm. With more parameters than
# observations a wider prior would let the data explain the noise away.
_NOISE_SD = 0.1


class Scale(NamedTuple):
    """Shift and width of every input (D,), or of the target."""

    shift: Any
    width: Any


def default_models(n_inputs: int) -> tuple[list[str], str]:
    """The model for so many inputs, and why it is chosen."""
    if n_inputs > MANY_INPUTS:
        return ["embedding"], f"{n_inputs} inputs are too many for a lengthscale each"
    return ["ard"], f"{n_inputs} input{'s are' if n_inputs > 1 else ' is'} few enough for a lengthscale each"


def make_models(settings: Settings, X: pd.DataFrame, y: np.ndarray, pool: np.ndarray | None) -> Any:
    """A model of the measurements, or several by the text of their ``--model``.

    Inputs are scaled by the box, or by the pool and the measurements together; the target by ``--target-scale``, or by
    the measurements that there are now. Both stay as they are when more come in.

    Raises
    ------
    ValueError
        For measurements without any difference, an unknown kernel or input, or too many components.
    """
    target = _target_scale(settings, y)
    priors = {}
    if settings.noise is not None:
        priors["log_noise"] = (np.log(settings.noise / target.width), _NOISE_SD)
    assert settings.models, "chosen by default_models"
    made = {}
    for text in settings.models:
        options: dict[str, Any] = {
            "x_scale": _input_scale(settings, X.to_numpy(), pool, of_kernel=text not in ("ard", "embedding")),
            "y_scale": target,
            # A distribution belongs to the model that it is given to.
            "priors": {name: pm.Normal.dist(*prior) for name, prior in priors.items()},
        }
        made[text] = _make(text, settings, X, y, options)
    return made if len(made) > 1 else made[settings.models[0]]


def _make(text: str, settings: Settings, X: pd.DataFrame, y: np.ndarray, options: dict[str, Any]) -> GPModel:
    if text == "ard":
        return ard_gp(X, y, mean="constant", **options)
    if text == "embedding":
        if not 1 <= settings.components <= X.shape[1]:
            raise ValueError(
                f"--components must be between 1 and the number of inputs, {X.shape[1]}; got {settings.components}"
            )
        return embedding_gp(X, y, n_components=settings.components, **options)
    return composite_gp(X, y, _by_position(text, list(X.columns)), **options)


def _target_scale(settings: Settings, y: np.ndarray) -> Scale:
    if settings.target_scale is not None:
        return Scale(*settings.target_scale)
    if not y.std() > 0:
        raise ValueError(
            f"one value of {settings.target} does not tell its scale: measure another point, or say what to expect, "
            "typical value and spread, with --target-scale, e.g. --target-scale 18,12"
        )
    return Scale(float(y.mean()), float(y.std()))


def _input_scale(settings: Settings, X: np.ndarray, pool: np.ndarray | None, *, of_kernel: bool) -> Scale:
    """The scales that the default priors are meant for: [0, 1] for kernel expressions, [-1, 1] for other models."""
    if settings.bounds is not None:
        low, high = np.array([[low, high] for _, low, high in settings.bounds], float).T
    else:
        everything = X if pool is None else np.concatenate([pool, X])
        low, high = everything.min(0), everything.max(0)
    if of_kernel:
        shift, width = low, high - low
    elif settings.bounds is not None:
        shift, width = (low + high) / 2, (high - low) / 2
    else:
        # The half width of a uniform distribution with this sd: single outliers do not count as ends do.
        shift, width = everything.mean(0), np.sqrt(3) * everything.std(0)
    return Scale(shift, np.where(width > 0, width, 1.0))


def _by_position(text: str, inputs: list[str]) -> str:
    """``SE[time]`` as ``SE[1]``, which is what kernel expressions are written in."""

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
