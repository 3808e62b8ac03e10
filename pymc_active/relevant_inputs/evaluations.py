"""Evaluations of f, and how nothing observed is lost when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pymc_active.support.options import check_flag
from pymc_active.support.user_warnings import EvaluationWarning, warn_user

_HINT = " (if f takes a single point, pass vectorized=False)"
# A search ends after this number of failed evaluations in a row.
MOST_FAILURES = 20


class _Keeps:
    learner: Any = None
    selection: Any = None


class EvaluationError(_Keeps, RuntimeError):
    """The search cannot go on; the error keeps everything observed before.

    ``learner`` holds everything told, and can go on: an :class:`HDSLearner`, or in the search for the maximum of
    :func:`hds_then_optimize` a :class:`Learner`. ``selection``, an :class:`HDSResult`, is what that search followed.
    """


class EvaluationInterrupt(_Keeps, KeyboardInterrupt):
    """An interrupt with the attributes of :class:`EvaluationError`; at a prompt, it is ``sys.last_value``."""


@contextmanager
def keeping(observed: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Context whose errors, an EvaluationError or EvaluationInterrupt, keep what ``observed`` returns as attributes."""
    try:
        yield
    except (EvaluationError, EvaluationInterrupt) as error:
        vars(error).update(observed())
        raise
    except (Exception, KeyboardInterrupt) as error:
        kept = observed()
        kind = EvaluationInterrupt if isinstance(error, KeyboardInterrupt) else EvaluationError
        what = f"{type(error).__name__}{': ' if str(error) else ''}{error}"
        failed = kind(f"the search ended with {what}. Nothing is lost: see error.{', error.'.join(kept)}")
        vars(failed).update(kept)
        raise failed from error


def of_rows(f: Callable[[np.ndarray], Any], vectorized: bool) -> Callable[[np.ndarray], Any]:
    """A function of points (k, D): f, or if it is not ``vectorized``, f of one point (D,) after another."""
    if not callable(f):
        raise TypeError(f"f must be callable, taking (k, D) and returning (k,); got {type(f).__name__}")
    if check_flag("vectorized", vectorized):
        return f
    return lambda X: [float(np.asarray(f(x), float).reshape(())) for x in X]


def evaluate(f: Callable[[np.ndarray], Any], X: np.ndarray, remedy: str = "") -> np.ndarray:
    """Values (k,) of f at points (k, D), NaN if an evaluation failed; an f that raises is an EvaluationError."""
    try:
        # A copy: an f that writes into it must not change what was asked.
        y = np.asarray(f(X.copy()), float)
    except Exception as error:
        hint = _HINT if isinstance(error, IndexError | ValueError | TypeError) else ""
        raise EvaluationError(f"f raised {type(error).__name__}: {error}{hint}{remedy and '. '}{remedy}") from error
    values = np.atleast_1d(np.squeeze(y))
    if values.shape != (len(X),):
        raise EvaluationError(
            f"f must return one number for each row of x, shape ({len(X)},); got shape {y.shape}{_HINT}"
        )
    return np.where(np.isfinite(values), values, np.nan)


def warn_of_failures(y: np.ndarray) -> None:
    """One warning if any evaluation failed."""
    if n_failed := int(np.isnan(y).sum()):
        message = f"f returned NaN or infinity at {n_failed} point(s); others were evaluated in their place"
        warn_user(message, EvaluationWarning)
