"""Evaluations of f, and how nothing observed is lost when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    except (Exception, KeyboardInterrupt) as error:
        kind = EvaluationInterrupt if isinstance(error, KeyboardInterrupt) else EvaluationError
        kept = kind(f"the search ended with {type(error).__name__} {error}. Nothing is lost: see error.learner")
        kept.learner = learner
        raise kept from error


def of_rows(f: Callable[[np.ndarray], Any], vectorized: bool) -> Callable[[np.ndarray], Any]:
    """A function of points (k, D): f, or if it is not ``vectorized``, f of one point (D,), or row, after another."""
    if not callable(f):
        raise TypeError(f"f must be callable, taking (k, D) and returning (k,); got {type(f).__name__}")
    # Iterating over a table gives names.
    each = lambda X: X if isinstance(X, np.ndarray) else [X[k : k + 1] for k in range(len(X))]  # noqa: E731
    return f if vectorized else lambda X: [float(np.asarray(f(x), float).reshape(())) for x in each(X)]


def evaluate(f: Callable[[np.ndarray], Any], X: np.ndarray) -> np.ndarray:
    """Values (k,) of f at points (k, D), NaN if an evaluation failed."""
    # A copy: an f that writes into it must not change what was asked.
    try:
        y = read_numbers(f(X.copy()), "what f returns")
    except IndexError as error:
        raise ValueError(f"f raised IndexError: {error}{_HINT}") from error
    values = np.atleast_1d(np.squeeze(y))
    if values.shape != (len(X),):
        shapes = f"shape ({len(X)},); got shape {y.shape}"
        raise ValueError(f"f must return one number for each row of x, {shapes}{_HINT}")
    return np.where(np.abs(values) <= LARGEST, values, np.nan)
