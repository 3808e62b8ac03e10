"""The loop: fit, score, ask, tell."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.active.bald import bald, uncertainty
from pymc_active.laplace.fit import LaplaceFit, fit_laplace
from pymc_active.models.data import read_inputs, read_outputs
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.factor import one_blas_thread
from pymc_active.progress import progress

Criterion = Callable[[LaplaceFit, np.ndarray], Any]

GOALS: dict[str, Criterion] = {"function": uncertainty, "hyperparameters": bald}
CRITERIA: dict[str, Criterion] = {
    "bald": bald,
    "bald_f": partial(bald, target="f"),
    "bald_modes": partial(bald, method="modes"),
    "bald_draws": partial(bald, method="draws"),
    "uncertainty": uncertainty,
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
        The goal, which chooses a criterion: :func:`uncertainty` or :func:`bald`.
    criterion : str or callable, optional
        Another one: ``"bald"``, ``"bald_f"``, ``"uncertainty"``, ``"random"``, or ``criterion(fit, X)`` giving one
        number for each row of X, larger is better.
    pool : ndarray or DataFrame, shape (m, D)
        Candidates in the user's units. Rows of a data frame come back with their labels.
    bounds : not supported yet
        Pass a dense pool instead, for example ``latin_hypercube(bounds, 5000)``.
    repeat : bool
        Offer a row again after it was asked. By default each is offered once.
    minimize : bool
        For :meth:`recommend`.
    executor : concurrent.futures.Executor, optional
        Runs the restarts of full mode searches.
    verify : {"never"}
        Checking against MCMC on the way is not there yet; use :func:`pymc_active.check` on ``learner.fit``.
    random_seed : int
        The same seed, data and answers give the same questions, bit for bit.

    Raises
    ------
    ValueError
        For an empty pool, one of the wrong width or with NaN, or an unknown goal or criterion.

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
        criterion: str | Criterion | None = None,
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
        if bounds is not None or pool is None:
            raise ValueError(
                "this learner chooses from a pool: pass pool=X_pool, e.g. "
                "pool=latin_hypercube(bounds, 5000, random_seed)"
            )
        if verify != "never":
            raise ValueError(f"verify must be 'never'; got {verify!r}. Call pymc_active.check(learner.fit) instead.")
        self.executor = executor
        self.gpm, self.learn, self.repeat, self.minimize = gpm, learn, repeat, minimize
        self.criterion, self.criterion_name = _read_criterion(criterion, learn)
        self._pool = pool
        self._candidates = read_inputs(pool, "pool", width=gpm.X.shape[1])
        self.random_seed = random_seed
        self._rng = np.random.default_rng(random_seed)
        self._n_start = len(gpm.y)
        self._offered = np.zeros(len(self._candidates), bool)
        for x in gpm.X:
            self._mark(x)
        self._pending: list[int] = []
        self._scores: dict[int, float] = {}
        self._rows: list[int] = []
        self._fit: LaplaceFit | None = None
        self._starts: list | None = None
        self._last_search = -_SEARCH_EVERY

    def __repr__(self) -> str:
        told = len(self.gpm.y) - self._n_start
        return (
            f"<Learner learn={self.learn!r}, criterion {self.criterion_name}: {len(self.gpm.y)} points, "
            f"{told} asked, {len(self._left())} left in the pool>"
        )

    @property
    def asked_labels(self) -> np.ndarray:
        """Pool labels (positions for an array) of what was told after the start, in order; foreign points left out."""
        return self._index[[row for row in self._rows if row >= 0]]

    @property
    def _index(self) -> np.ndarray:
        return self._pool.index.to_numpy() if isinstance(self._pool, pd.DataFrame) else np.arange(len(self._candidates))

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
        """The next ``n`` rows of the pool to measure.

        Each further row, and each asked before but not yet told, is conditioned on as if its predicted value had
        been observed.

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
        if n > len(self._left()):
            raise ValueError(
                f"the pool has {len(self._left())} candidate(s) left and {n} were asked for; add candidates or pass "
                "repeat=True"
            )
        rows = []
        for _ in range(n):
            row, score = self._choose()
            rows.append(row)
            self._pending.append(row)
            self._offered[row] = True
            self._scores[row] = score
        return self._pool.iloc[rows] if isinstance(self._pool, pd.DataFrame) else self._candidates[rows]

    def _left(self) -> np.ndarray:
        if not self.repeat:
            return np.flatnonzero(~self._offered)
        return np.setdiff1d(np.arange(len(self._candidates)), self._pending)

    def _choose(self) -> tuple[int, float]:
        left = self._left()
        if self.criterion is None:
            return int(self._rng.choice(left)), np.nan
        score = np.asarray(self.criterion(self._conditioned_fit(), self._candidates[left]), float)
        if score.shape != left.shape:
            raise ValueError(f"the criterion must give one number a candidate, shape {left.shape}; got {score.shape}")
        if np.isnan(score).all():
            raise ValueError("the criterion is NaN for every candidate")
        best = int(np.nanargmax(score))
        return int(left[best]), float(score[best])

    def _conditioned_fit(self) -> LaplaceFit:
        """The fit as it would be if pending points had come out as predicted."""
        fit = self.fit
        if not self._pending:
            return fit
        X = self._candidates[self._pending]
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
        for point in X:
            self._rows.append(self._mark(point))
        self._fit = None

    def _mark(self, point: np.ndarray) -> int:
        """Position of a point in the pool, which is then no longer offered; -1 if it is not there."""
        same = np.flatnonzero((self._candidates == point).all(1))
        if not len(same):
            return -1
        pending = [row for row in same if row in getattr(self, "_pending", [])]
        row = int(pending[0] if pending else same[0])
        if pending:
            self._pending.remove(row)
        self._offered[row] = True
        return row

    def run(self, oracle: Callable[[Any], Any], n: int, progressbar: bool = True) -> None:
        """Ask and tell ``n`` times.

        Parameters
        ----------
        oracle : callable
            Takes one row of the pool, shape (1, D) (a data frame if the pool is one), and returns its y.
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
        """The row of the pool with the best posterior mean: largest, or smallest with ``minimize=True``."""
        mean = np.concatenate(
            [
                self.fit.best.moments(part).mean
                for part in np.array_split(self._candidates, len(self._candidates) // 4096 + 1)
            ]
        )
        row = int(np.argmin(mean) if self.minimize else np.argmax(mean))
        return self._pool.iloc[[row]] if isinstance(self._pool, pd.DataFrame) else self._candidates[[row]]

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
        rows = np.array(self._rows, int)
        labels = [str(self._index[row]) if row >= 0 else "" for row in rows]
        tree["design"] = xr.Dataset(
            {
                "x": (("step", "input"), self.gpm.X[self._n_start :]),
                "y": ("step", self.gpm.y[self._n_start :]),
                "pool_row": ("step", rows),
                "label": ("step", np.array(labels, dtype=str)),
                "score": ("step", [self._scores.get(int(row), np.nan) for row in rows]),
            },
            attrs={"criterion": self.criterion_name, "learn": self.learn, "n_start": self._n_start},
        )
        return tree


def _read_criterion(criterion: str | Criterion | None, learn: str) -> tuple[Criterion | None, str]:
    if criterion is None:
        chosen = GOALS[learn]
        return chosen, getattr(chosen, "__name__", "custom")
    if callable(criterion):
        return criterion, getattr(criterion, "__name__", "custom")
    if criterion == "random":
        return None, "random"
    if criterion not in CRITERIA:
        raise ValueError(
            f"criterion must be callable or one of {', '.join(sorted([*CRITERIA, 'random']))}; got {criterion!r}"
        )
    return CRITERIA[criterion], criterion
