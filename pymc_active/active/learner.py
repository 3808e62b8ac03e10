"""The loop: fit, score, ask, tell."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.active.bald import Bald, Uncertainty, bald, uncertainty
from pymc_active.active.candidates import AnyCriterion, Box, Candidates, Choice, Pool
from pymc_active.active.criterion import Criterion
from pymc_active.active.improvement import (
    ExpectedImprovement,
    UpperConfidenceBound,
    expected_improvement,
    upper_confidence_bound,
)
from pymc_active.laplace.fit import LaplaceFit, fit_laplace
from pymc_active.models.data import read_inputs, read_outputs
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.factor import one_blas_thread
from pymc_active.progress import progress

GOALS = {"function": "uncertainty", "hyperparameters": "bald_draws"}
# By name; all are told whether the goal is to minimize.
CRITERIA: dict[str, Callable[[bool], Criterion]] = {
    "bald": lambda minimize: Bald(),
    "bald_f": lambda minimize: Bald("f"),
    "bald_modes": lambda minimize: Bald(method="modes"),
    "bald_draws": lambda minimize: Bald(method="draws"),
    "uncertainty": lambda minimize: Uncertainty(),
    "expected_improvement": lambda minimize: ExpectedImprovement(minimize),
    "upper_confidence_bound": lambda minimize: UpperConfidenceBound(minimize=minimize),
}
# The public functions stand for the criteria of their name, which know their gradients.
_FUNCTIONS: dict[Callable, str] = {
    f: f.__name__ for f in (bald, uncertainty, expected_improvement, upper_confidence_bound)
}
# A full mode search every so many told points; between them the modes are followed.
_SEARCH_EVERY = 15
# With fewer points several wide modes share the posterior, and none deserves the expensive part of the search.
_SMALL = 30


class Learner:
    """Ask for the next measurement, tell its result.

    Parameters
    ----------
    gpm : GPModel
        With the data measured so far (at least one point). The learner owns its data from now on.
    learn : {"function", "hyperparameters"}
        The goal, which chooses a criterion: :func:`uncertainty`, or :func:`bald` with ``method="draws"``, which
        decides most like MCMC. ``criterion="bald"`` is the marginal GP's, ten times faster on large pools.
    criterion : str or callable, optional
        Another one: ``"bald"``, ``"bald_f"``, ``"bald_modes"``, ``"bald_draws"``, ``"uncertainty"``,
        ``"expected_improvement"``, ``"upper_confidence_bound"``, ``"random"``, or ``criterion(fit, X)`` giving one
        number for each row of X, larger is better.
    pool : ndarray or DataFrame, shape (m, D)
        Candidates in the user's units. Rows of a data frame come back with their labels.
    bounds : list of (low, high)
        Instead of a pool: any point of this box, in the user's units. The criterion is maximised from the best of
        about a thousand seeds by L-BFGS-B, with exact gradients where criterion and model have them. For a linear
        embedding the seeds include corners of the box that reach the boundary of the embedded box.
    repeat : bool
        Offer a point again after it was asked. By default each is offered once.
    minimize : bool
        For :meth:`recommend` and the criteria that look for the maximum.
    executor : concurrent.futures.Executor, optional
        Runs the restarts of full mode searches.
    verify : {"never"}
        Checking against MCMC on the way is not there yet; use :func:`pymc_active.check` on ``learner.fit``.
    random_seed : int
        The same seed, data and answers give the same questions, bit for bit.

    Raises
    ------
    ValueError
        For both or neither of pool and bounds, an empty pool, one of the wrong width or with NaN, malformed bounds,
        or an unknown goal or criterion.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> pool = np.linspace(-3, 3, 50)[:, None]
    >>> gpm = pma.ard_gp(pool[[10, 30]], np.sin(pool[[10, 30], 0]))
    >>> learner = pma.active.Learner(gpm, "function", pool=pool, random_seed=1)
    >>> x = learner.ask()
    >>> learner.tell(x, np.sin(x[:, 0]))
    >>> learner
    <Learner learn='function', criterion uncertainty: 3 points, 1 asked, 47 left in the pool>
    """

    def __init__(
        self,
        gpm: GPModel,
        learn: str = "function",
        *,
        criterion: str | AnyCriterion | None = None,
        pool: Any = None,
        bounds: Any = None,
        repeat: bool = False,
        minimize: bool = False,
        executor: Executor | None = None,
        verify: str = "never",
        random_seed: int = 0,
    ):
        if not isinstance(gpm, GPModel):
            raise TypeError(f"Learner takes a GPModel; got {type(gpm).__name__}")
        if learn not in GOALS:
            raise ValueError(f"learn must be one of {', '.join(sorted(GOALS))}; got {learn!r}")
        if (pool is None) == (bounds is None):
            raise ValueError(
                "a learner chooses from a pool or from a box: pass either pool=X_pool or bounds=[(low, high), ...]"
            )
        if verify != "never":
            raise ValueError(f"verify must be 'never'; got {verify!r}. Call pymc_active.check(learner.fit) instead.")
        self.executor = executor
        self.gpm, self.learn, self.repeat, self.minimize = gpm, learn, repeat, minimize
        self.criterion, self.criterion_name = _read_criterion(criterion, learn, minimize)
        width = gpm.X.shape[1]
        self._candidates: Candidates = Box(bounds, width, repeat) if pool is None else Pool(pool, width, repeat)
        self.random_seed = random_seed
        self._rng = np.random.default_rng(random_seed)
        self._n_start = len(gpm.y)
        for x in gpm.X:
            self._candidates.mark(x)
        self._pending: list[Choice] = []
        self._told: list[Choice] = []
        self._fit: LaplaceFit | None = None
        self._starts: list | None = None
        self._last_search = -_SEARCH_EVERY

    def __repr__(self) -> str:
        return (
            f"<Learner learn={self.learn!r}, criterion {self.criterion_name}: {len(self.gpm.y)} points, "
            f"{len(self._told)} asked, {self._candidates!r}>"
        )

    @property
    def asked_labels(self) -> np.ndarray:
        """Pool labels (positions for an array) of what was told after the start, in order; foreign points left out."""
        rows = [choice.row for choice in self._told if choice.row >= 0]
        return self._candidates.labels[rows] if isinstance(self._candidates, Pool) else np.array(rows, int)

    @property
    def fit(self) -> LaplaceFit:
        """The fit to everything told so far."""
        n = len(self.gpm.y)
        if self._fit is None:
            is_full, is_small = n - self._last_search >= _SEARCH_EVERY, n < _SMALL
            # A seed of its own for each n, so that the order of questions does not matter to the search.
            seed = np.random.default_rng((self.random_seed, n))
            with warnings.catch_warnings():
                # Doubtful fits are normal with few data; the fit's diagnostics keep what they said.
                warnings.filterwarnings("ignore", message="the Laplace fit is doubtful")
                self._fit = fit_laplace(
                    self.gpm,
                    start=self._starts,
                    n_restarts=2 if not is_full else 6 if is_small else 12,
                    population=None if is_full and not is_small else 0,
                    random_seed=seed,
                    progressbar=False,
                    executor=self.executor,
                )
            if is_full:
                self._last_search = n
            self._starts = [mode.point for mode in self._fit.modes]
        return self._fit

    def ask(self, n: int = 1) -> Any:
        """The next ``n`` points to measure.

        Each further point, and each asked before but not yet told, is conditioned on as if its predicted value had
        been observed: a batch is chosen greedily.

        Returns
        -------
        ndarray or DataFrame, shape (n, D)

        Raises
        ------
        ValueError
            If fewer than ``n`` candidates are left.
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n must be a positive whole number; got {n!r}")
        self._candidates.check(n, self._pending)
        choices = []
        for _ in range(n):
            fit = None if self.criterion is None else self._conditioned_fit()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="the draws from the posterior hardly move")
                choice = self._candidates.choose(self.criterion, fit, self.gpm.X, self._pending, self._rng)
            self._candidates.mark(choice.x)
            self._pending.append(choice)
            choices.append(choice)
        return self._candidates.show(choices)

    def _conditioned_fit(self) -> LaplaceFit:
        """The fit as it would be if pending points had come out as predicted."""
        fit = self.fit
        if not self._pending:
            return fit
        X = np.stack([choice.x for choice in self._pending])
        with one_blas_thread():
            y = fit.best.moments(X).mean
            return fit.given(np.concatenate([self.gpm.X, X]), np.concatenate([self.gpm.y, y]))

    def tell(self, x: Any, y: Any) -> None:
        """Add measurements, asked for or not.

        Parameters
        ----------
        x : array_like or DataFrame, shape (k, D) or (D,)
        y : array_like, shape (k,), or a number

        Raises
        ------
        ValueError
            For NaN or wrong shapes; nothing is added then, and what was told before is kept.
        """
        values = x if isinstance(x, pd.DataFrame | xr.DataArray) else np.atleast_2d(np.asarray(x, float))
        X = read_inputs(values, "x", width=self.gpm.X.shape[1])
        told = read_outputs(np.atleast_1d(np.asarray(y, float).squeeze()), len(X))
        self.gpm.set_data(np.concatenate([self.gpm.X, X]), np.concatenate([self.gpm.y, told]))
        self._told += [self._settle(point) for point in X]
        self._fit = None

    def _settle(self, x: np.ndarray) -> Choice:
        """The pending choice that a told point answers, or a choice that nobody asked for."""
        for i, choice in enumerate(self._pending):
            if np.array_equal(choice.x, x):
                return self._pending.pop(i)
        return Choice(x, self._candidates.mark(x), np.nan)

    def run(self, oracle: Callable[[Any], Any], n: int, progressbar: bool = True) -> None:
        """Ask and tell ``n`` times.

        Parameters
        ----------
        oracle : callable
            Takes one point, shape (1, D) (a data frame if the pool is one), and returns its y.
        n : int
        progressbar : bool

        Notes
        -----
        If the oracle raises or returns NaN, everything told before is kept, and the point stays pending.
        """
        with progress(f"Learning the {self.learn}", n, progressbar) as advance:
            for _ in range(n):
                x = self.ask()
                self.tell(x, oracle(x))
                advance()

    def recommend(self) -> Any:
        """The point of the pool or box with the best posterior mean: largest, or smallest with ``minimize=True``."""
        return self._candidates.best_mean(self.fit, self.minimize)

    def plot(self, **keywords: Any) -> Any:
        """The fit (see :meth:`LaplaceFit.plot`), with the points told after the start ringed and numbered."""
        if "X" not in keywords:
            keywords = {"highlight": np.arange(self._n_start, len(self.gpm.y)), "number": True} | keywords
        return self.fit.plot(**keywords)

    def to_datatree(self, draws: int = 1000) -> xr.DataTree:
        """Everything as ArviZ reads it.

        Returns
        -------
        xarray.DataTree
            The groups of :meth:`LaplaceFit.to_datatree`, and ``design``: over ``step``, what was asked (``pool_row``,
            -1 for points nobody asked for; ``label``; the ``score`` it had) and what was told.
        """
        tree = self.fit.to_datatree(draws=draws, random_seed=self.random_seed)
        rows = np.array([choice.row for choice in self._told], int)
        pool = self._candidates if isinstance(self._candidates, Pool) else None
        labels = [str(pool.labels[row]) if pool is not None and row >= 0 else "" for row in rows]
        tree["design"] = xr.Dataset(
            {
                "x": (("step", "input"), self.gpm.X[self._n_start :]),
                "y": ("step", self.gpm.y[self._n_start :]),
                "pool_row": ("step", rows),
                "label": ("step", np.array(labels, dtype=str)),
                "score": ("step", np.array([choice.score for choice in self._told], float)),
            },
            attrs={"criterion": self.criterion_name, "learn": self.learn, "n_start": self._n_start},
        )
        return tree


def _read_criterion(
    criterion: str | AnyCriterion | None, learn: str, minimize: bool
) -> tuple[AnyCriterion | None, str]:
    if criterion is None:
        criterion = GOALS[learn]
    if callable(criterion):
        criterion = _FUNCTIONS.get(criterion, criterion)
    if criterion == "random":
        return None, "random"
    if isinstance(criterion, str):
        if criterion not in CRITERIA:
            known = ", ".join(sorted([*CRITERIA, "random"]))
            raise ValueError(f"criterion must be callable or one of {known}; got {criterion!r}")
        return CRITERIA[criterion](minimize), criterion
    if not callable(criterion) and not isinstance(criterion, Criterion):
        raise ValueError(f"criterion must be callable or a name; got {criterion!r}")
    return criterion, getattr(criterion, "name", getattr(criterion, "__name__", "custom"))
