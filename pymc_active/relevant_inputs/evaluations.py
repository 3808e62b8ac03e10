"""Evaluations of f, and how nothing observed is lost when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from pymc_active.support.tables import LARGEST, read_numbers
from pymc_active.support.user_warnings import ActiveError

_HINT = " (if f takes a single point, pass vectorized=False)"


class EvaluationError(ActiveError, RuntimeError):
    """The search cannot go on; ``learner``, an :class:`HDSLearner`, holds everything observed before, and can go on."""

    learner: Any = None


class EvaluationInterrupt(KeyboardInterrupt):
    """An interrupt with the ``learner`` of :class:`EvaluationError`; at a prompt, it is ``sys.last_value``."""

    learner: Any = None


@contextmanager
def keeping(learner: Any) -> Iterator[None]:
    """Every error or interrupt becomes one with the learner."""
    try:
        yield
    except EvaluationError as error:
        error.learner = learner
        raise
    except (Exception, KeyboardInterrupt) as error:
        kind = EvaluationInterrupt if isinstance(error, KeyboardInterrupt) else EvaluationError
        kept = kind(f"the search ended with {type(error).__name__} {error}. Nothing is lost: see error.learner")
        kept.learner = learner
        raise kept from error


def of_rows(f: Callable[[np.ndarray], Any], vectorized: bool) -> Callable[[np.ndarray], Any]:
    """A function of points (k, D): f, or if it is not ``vectorized``, f of one point (D,) after another."""
    if not callable(f):
        raise TypeError(f"f must be callable, taking (k, D) and returning (k,); got {type(f).__name__}")
    return f if vectorized else partial(_one_by_one, f)


def _one_by_one(f: Callable[[np.ndarray], Any], X: np.ndarray) -> list[float]:
    return [float(np.asarray(f(x), float).reshape(())) for x in X]


def evaluate(f: Callable[[np.ndarray], Any], X: np.ndarray) -> np.ndarray:
    """Values (k,) of f at points (k, D), NaN if an evaluation failed; an f that raises is an EvaluationError."""
    try:
        # A copy: an f that writes into it must not change what was asked.
        y = f(X.copy())
    except Exception as error:
        hint = "" if getattr(f, "func", None) is _one_by_one else _HINT
        raise EvaluationError(f"f raised {type(error).__name__}: {error}{hint}") from error
    try:
        y = read_numbers(y, "what f returns")
    except TypeError as error:
        raise EvaluationError(str(error)) from None
    values = np.atleast_1d(np.squeeze(y))
    if values.shape != (len(X),):
        shapes = f"shape ({len(X)},); got shape {y.shape}"
        raise EvaluationError(f"f must return one number for each row of x, {shapes}{_HINT}")
    return np.where(np.abs(values) <= LARGEST, values, np.nan)
