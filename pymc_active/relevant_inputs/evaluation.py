"""Evaluations of the function: where, what for, what came out, and what is kept when it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_active.support.user_warnings import EvaluationWarning, warn_user

if TYPE_CHECKING:
    from pymc_active.relevant_inputs.learner import HDSLearner
    from pymc_active.relevant_inputs.search import HDSResult

# So many failed evaluations in a row, and whoever asks gives up.
MOST_FAILURES = 20
QUEUED, ASKED, TOLD, FAILED = range(4)


@dataclass(slots=True)
class Evaluation:
    """One point of a search, from its plan to its result.

    Attributes
    ----------
    trial : int
        The test that it is for; -1 for what belongs to a background and not to a test.
    node, background : int
    z, rest : float
        Places of the node's inputs and of the others on the background, from 0 to 1.
    partner : int
        The other end of a difference, -1 for single points.
    state : {QUEUED, ASKED, TOLD, FAILED}
    y : float
        NaN until it is told, and where it failed.
    """

    trial: int
    node: int
    background: int
    z: float
    rest: float
    partner: int = -1
    state: int = QUEUED
    y: float = np.nan


class EvaluationError(RuntimeError):
    """The function could not be evaluated; nothing that it returned before is lost.

    Attributes
    ----------
    learner : HDSLearner or None
        The search for relevant inputs, if it was that: it holds everything told before and can go on.
    selection : HDSResult or None
        What was found before, if f failed in the search for the maximum of :func:`hds_then_optimize`.
    X, y : ndarray, shapes (k, d) and (k,), or None
        Evaluations of a search for the maximum that succeeded, in the user's units, with the inputs that it searches:
        data for :func:`gp_ucb`.
    """

    # With defaults an error can be pickled, as by a pool of processes.
    def __init__(self, message: str, learner: HDSLearner | None = None):
        super().__init__(message)
        self.learner = learner
        self.selection: HDSResult | None = None
        self.X: np.ndarray | None = None
        self.y: np.ndarray | None = None


def evaluate(f: Callable[[np.ndarray], Any], X: np.ndarray, remedy: str) -> np.ndarray:
    """Values (k,) of f at points (k, D), NaN where it failed.

    Raises
    ------
    EvaluationError
        If f raises, and then with ``remedy``, or returns another shape than (k,).
    """
    try:
        # A copy: an f that writes into it must not change what was asked.
        y = np.asarray(f(X.copy()), float)
    except Exception as error:
        raise EvaluationError(f"f raised {type(error).__name__}: {error}. {remedy}") from error
    if y.shape != (len(X),):
        raise EvaluationError(f"f must return one number for each row of x, shape ({len(X)},); got shape {y.shape}")
    return np.where(np.isfinite(y), y, np.nan)


def warn_of_failures(n_failed: int) -> None:
    """One warning, if evaluations failed."""
    if n_failed:
        warn_user(
            f"f returned NaN or infinity at {n_failed} point(s); others were evaluated in their place",
            EvaluationWarning,
        )


class Record:
    """Evaluations one after another, on some inputs: a context that hands them to whatever error ends it.

    Parameters
    ----------
    f : callable
    inputs : list of int
        What is searched.
    others : ndarray, shape (D,)
        Where the other inputs stay.
    """

    def __init__(self, f: Callable[[np.ndarray], Any], inputs: list[int], others: np.ndarray):
        self._f, self._inputs, self._others = f, inputs, others
        self._X: list[np.ndarray] = []
        self._y: list[float] = []

    @property
    def X(self) -> np.ndarray:
        """The inputs searched, (k, d)."""
        return np.array(self._X, float).reshape(-1, len(self._inputs))

    @property
    def y(self) -> np.ndarray:
        """Values (k,), NaN where an evaluation failed."""
        return np.array(self._y, float)

    def evaluate(self, x: np.ndarray) -> float:
        """The value of f where the inputs searched are x, (d,); NaN if it failed.

        Raises
        ------
        EvaluationError
            If f raises or returns the wrong shape, or after 20 failures in a row.
        """
        point = self._others.copy()
        point[self._inputs] = x
        value = float(evaluate(self._f, point[None], "Nothing is lost: error.X and error.y are data for gp_ucb.")[0])
        self._X.append(x)
        self._y.append(value)
        if len(self._y) >= MOST_FAILURES and np.isnan(self._y[-MOST_FAILURES:]).all():
            raise EvaluationError(f"f returned NaN or infinity {MOST_FAILURES} times in a row")
        return value

    def __enter__(self) -> Record:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is not None:
            succeeded = np.isfinite(self.y)
            error.X, error.y = self.X[succeeded], self.y[succeeded]  # type: ignore[attr-defined]
