"""Find the inputs that matter, then the maximum on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_active.relevant_inputs.evaluation import Record, warn_of_failures
from pymc_active.relevant_inputs.gp_ucb import check_beta, gp_ucb, value_range
from pymc_active.relevant_inputs.search import HDSResult, hds
from pymc_active.relevant_inputs.settings import read_box
from pymc_active.support.summaries import html_summary

METHODS = ("expected_improvement", "gp_ucb", "pes")


class Regret(NamedTuple):
    """How far evaluations were from the maximum, (n,) each, in units of y.

    Evaluations that failed are NaN in ``instantaneous`` and left out of the others, which are NaN (``cumulative`` 0)
    before the first that succeeded.

    Attributes
    ----------
    instantaneous : ndarray
        Maximum minus f at each evaluation.
    cumulative : ndarray
        Its running sum, the paper's R_T.
    average : ndarray
        R_T / T, over evaluations that succeeded.
    minimum : ndarray
        The smallest so far.
    """

    instantaneous: np.ndarray
    cumulative: np.ndarray
    average: np.ndarray
    minimum: np.ndarray

    def __repr__(self) -> str:
        if not len(self.minimum):
            return "<Regret of 0 evaluations>"
        return (
            f"<Regret of {len(self.minimum)} evaluations: smallest {self.minimum[-1]:.4g}, "
            f"average {self.average[-1]:.4g}>"
        )

    def _repr_html_(self) -> str:
        last = {"smallest": self.minimum, "average": self.average, "cumulative": self.cumulative}
        facts = {name: f"{values[-1]:.4g}" for name, values in last.items() if len(values)}
        return html_summary(f"Regret of {len(self.minimum)} evaluations", facts)


def regret(values: np.ndarray, optimum: float, *, minimize: bool = False) -> Regret:
    """Regret of evaluations, best from f without noise.

    Parameters
    ----------
    values : array_like, shape (n,)
        NaN where an evaluation failed.
    optimum : float
        The largest (smallest) value of f.
    minimize : bool

    Examples
    --------
    >>> regret([1.0, 3.0, 2.0], 3.5).minimum
    array([2.5, 0.5, 0.5])
    """
    step = (np.asarray(values, float) - optimum) * (1 if minimize else -1)
    cumulative = np.nancumsum(step)
    count = (~np.isnan(step)).cumsum()
    average = np.where(count > 0, cumulative / np.maximum(count, 1), np.nan)
    return Regret(step, cumulative, average, np.fmin.accumulate(step))


class HDSOptimization(NamedTuple):
    """A search for relevant inputs, then for the maximum.

    Attributes
    ----------
    selection : HDSResult
    X : ndarray, shape (n, d)
        Inputs found, at the evaluations made for the maximum, in the user's units.
    y : ndarray, shape (n,)
        NaN where an evaluation failed.
    best : ndarray, shape (D,)
        Where f is thought to be largest; inputs that do not matter stay in the middle of their intervals.
    values : ndarray
        y of all evaluations, those of the selection first: what :func:`regret` takes, unless f
        without noise is known.
    """

    selection: HDSResult
    X: np.ndarray
    y: np.ndarray
    best: np.ndarray
    values: np.ndarray

    def __repr__(self) -> str:
        return f"<HDSOptimization: best {self._place}; {len(self.values)} evaluations>\n{self.selection!r}"

    def _repr_html_(self) -> str:
        facts = {
            "best": self._place,
            "evaluations": f"{len(self.values)}, of which {len(self.y)} for the optimum",
            "y at these": value_range(self.y),
            "selection": repr(self.selection)[1:-1],
        }
        return html_summary("HDSOptimization", facts)

    @property
    def _place(self) -> str:
        return ", ".join(f"input {i} = {self.best[i]:.4g}" for i in self.selection.active)

    def points(self) -> np.ndarray:
        """All points evaluated, (N, D), those of the selection first."""
        X = np.tile(self.best, (len(self.y), 1))
        X[:, self.selection.active] = self.X
        return np.concatenate([self.selection.history.X(), X])


def hds_then_optimize(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n: int,
    method: str = "gp_ucb",
    beta: float | Callable[[int], float] | None = None,
    minimize: bool = False,
    random_seed: int | np.random.Generator | None = None,
    bounds: Any = None,
    **keywords: Any,
) -> HDSOptimization:
    """Hierarchical diagonal sampling, then a search for the maximum on the inputs found; all samples are used.

    Parameters
    ----------
    f : callable
        Takes (k, D), returns (k,), of which NaN says that the evaluation failed: it counts, and another point is asked.
    n_dims : int
    n : int
        Evaluations after the selection.
    method : {"gp_ucb", "expected_improvement", "pes"}
        GP-UCB with the scales that the selection was given, see :func:`gp_ucb`; or a :class:`Learner` on
        :meth:`HDSResult.to_model`, which fits them.
    beta : float or callable, optional
        Of GP-UCB.
    minimize : bool
    random_seed, bounds
        As in :func:`hds`.
    **keywords
        For :func:`hds`: bandwidth, signal_variance, noise_variance, budget, ...

    Returns
    -------
    HDSOptimization

    Raises
    ------
    EvaluationError
        If f raises or keeps returning NaN. In the search for the inputs its ``learner`` holds everything evaluated so
        far; in that for the maximum ``selection``, ``X`` and ``y`` do.
    ValueError
        For an unknown method or a negative ``beta``, or if no active input was found: the selection is spent then, but
        is part of the error (``selection``).

    Warns
    -----
    UserWarning
        As :func:`hds`, and once if f returned NaN in the search for the maximum.

    Examples
    --------
    >>> def f(X):
    ...     return -np.square(X[:, 7] - 0.3) * 4
    >>> found = hds_then_optimize(
    ...     f, 50, n=8, beta=2.0, bandwidth=1.0, signal_variance=5.0, noise_variance=0.001, random_seed=1
    ... )
    >>> found.selection.active, abs(found.best[7] - 0.3) < 0.1
    ([7], np.True_)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if beta is not None and method != "gp_ucb":
        raise ValueError("beta belongs to method='gp_ucb'")
    if not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n must be a positive whole number; got {n!r}")
    check_beta(beta)
    rng = np.random.default_rng(random_seed)
    selection = hds(f, n_dims, bounds=bounds, random_seed=rng, **keywords)
    try:
        return _optimize(f, selection, n, method, beta, minimize, bounds, rng)
    except BaseException as error:
        # It is paid for, also if the user interrupts.
        error.selection = selection  # type: ignore[attr-defined]
        raise


def _optimize(
    f: Callable[[np.ndarray], Any],
    selection: HDSResult,
    n: int,
    method: str,
    beta: float | Callable[[int], float] | None,
    minimize: bool,
    bounds: Any,
    rng: np.random.Generator,
) -> HDSOptimization:
    """The maximum on the inputs found."""
    if not selection.active:
        raise ValueError(f"no active input was found in {selection.n_evaluations} evaluations: nothing to optimise")
    low, high = (np.broadcast_to(end, selection.settings.n_dims) for end in read_box(bounds, selection.settings.n_dims))
    best = (low + high) / 2
    active = selection.active
    if method == "gp_ucb":
        X, y = selection.data()
        settings = selection.settings
        run = gp_ucb(
            f,
            settings.n_dims,
            n=n,
            bandwidth=settings.bandwidth * (high - low)[active],
            signal_variance=settings.signal_variance,
            noise_variance=settings.noise_variance,
            inputs=active,
            X=X,
            y=y,
            beta=beta,
            minimize=minimize,
            bounds=bounds,
            random_seed=rng,
        )
        X, y, best[active] = run
    else:
        X, y, best[active] = _learn(f, selection, n, method, minimize, low, high, rng)
    values = np.concatenate([selection.history.y, y])
    return HDSOptimization(selection, X, y, best, values)


def _learn(
    f: Callable[[np.ndarray], Any],
    selection: HDSResult,
    n: int,
    method: str,
    minimize: bool,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The maximum by a learner that fits the scales."""
    # The learner imports what this module's users may not need.
    from pymc_active.learner.learner import Learner

    active = selection.active
    learner = Learner(
        selection.to_model(),
        "maximum" if method == "pes" else "function",
        criterion=method,
        bounds=[(low[i], high[i]) for i in active],
        minimize=minimize,
        random_seed=int(rng.integers(2**32)),
    )
    with Record(f, active, (low + high) / 2) as record:
        for _ in range(n):
            x = np.asarray(learner.ask())
            value = record.evaluate(x[0])
            # What failed stays pending: the learner takes it to be as predicted, and asks for another point.
            if np.isfinite(value):
                learner.tell(x, value)
        best = np.asarray(learner.recommend())[0]
    warn_of_failures(int(np.isnan(record.y).sum()))
    return record.X, record.y, best
