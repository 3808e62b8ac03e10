"""Refuse what is not an option, and name what came in place of a fit or a model."""

from __future__ import annotations

import reprlib
from concurrent.futures import Executor
from typing import Any

import numpy as np


def check_flags(**flags: Any) -> None:
    """Raise a TypeError by name for what is neither True nor False: the text "no" would count as True."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} must be True or False; got {reprlib.repr(value)}")


def check_executor(executor: Any) -> None:
    """Raise a TypeError for what is no executor, such as a number of workers."""
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(f"executor must be a concurrent.futures.Executor; got {type(executor).__name__}")


# Named by text: these classes are built on top of what refuses them.
_INSTEAD = {
    "GPModel": ": fit it first, pma.fit(gpm)",
    "Learner": ": pass learner.fit, or learner.fit.best of several models",
    "Process": ": fit it first, pma.fit(model)",
    "Model": ", a pm.Model: fit it first, pma.fit(model); one with a pm.gp.Marginal is a GPModel by pma.from_marginal",
    "StructureSearch": ": take found.best, found.average, or found.predict(X_new); found.best.gpm is a model",
}


def kind_of(value: Any) -> str:
    """The type of what was passed in place of a fit or a model, and what to do about it."""
    names = [cls.__name__ for cls in type(value).__mro__]
    # Of a subclass the name that users know.
    name = next((name for name in names if name in _INSTEAD), names[0])
    return name + _INSTEAD.get(name, "")
