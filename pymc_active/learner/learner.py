"""The loop: fit, score, ask, tell."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.criteria.base import Criterion, is_lazy
from pymc_active.criteria.by_name import FUNCTIONS, make_criterion
from pymc_active.criteria.improvement import UpperConfidenceBound
from pymc_active.criteria.maximum.base import OptimumCriterion
from pymc_active.criteria.maximum.domain import Domain, check_data
from pymc_active.criteria.screening import AnyCriterion, prepare, screened
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.learner.candidates import Box, Candidates, Choice, Pool
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.learner.models_followed import ONLY, OneModel, SeveralModels, read_models
from pymc_active.learner.optimum import Optimum, find_optimum
from pymc_active.learner.saved import FORMAT_VERSION, KIND, from_contents, to_contents
from pymc_active.learner.verification import PLACES, Verification, over_draws, regret_ratio, trace_datatree
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.mixtures import mixture
from pymc_active.predictions.model_average import ModelAverage, Prior, prior_weights
from pymc_active.predictions.predict import posterior_mean
from pymc_active.support.files import read, write
from pymc_active.support.progress import progress
from pymc_active.support.summaries import html_summary
from pymc_active.support.tables import read_inputs, read_outputs
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import (
    ActiveWarning,
    DoubtfulEvidenceWarning,
    DoubtfulFitWarning,
    SamplingWarning,
    ScaleWarning,
    ignoring,
    warn_user,
)

GOALS = {"function": "uncertainty", "hyperparameters": "bald_draws", "model": "bams", "maximum": "pes"}
# Models of less probability are not verified.
_UNLIKELY = 0.05
# Rows and inputs of a summary: what was told last.
_SHOWN = 5
# Spans that no scaling meant for the candidates has: on the scale of the priors (where those of standardised inputs are
# below ten), and beside that of the data.
_WIDEST, _WIDER = 12.0, 5.0
# Draws of the hyperparameters that a marginal posterior mean is the mean over.
_DRAWS = 32


class Learner:
    """Ask for the next measurement, tell its result.

    Parameters
    ----------
    gpm : GPModel, or a list or dict of GPModels
        With the data measured so far (at least one point). The learner owns its data from now on. Several models must
        hold the same data; a list of them is labelled by their kernel expressions.
    learn : {"function", "hyperparameters", "model", "maximum"}
        The goal, which chooses a criterion: :func:`uncertainty`; :func:`bald` with ``method="draws"``, which decides
        most like MCMC (``criterion="bald"`` is the marginal GP's, many times faster); :func:`bams`, which of several
        models is the right one (``criterion="bams_draws"`` decides more like the exact posterior on few data, and takes
        far longer); or :func:`pes`, where the maximum (or minimum) is. Several models may also learn the function or
        its maximum, by their average.
    criterion : str or callable, optional
        Another one: ``"bald"``, ``"bald_f"``, ``"bald_modes"``, ``"bald_draws"``, ``"uncertainty"``,
        ``"expected_improvement"``, ``"upper_confidence_bound"``, ``"pes"``, ``"pes_map"`` (hyperparameters fixed at the
        mode), ``"max_value_entropy"``, ``"joint_entropy_search"``, ``"entropy_search"`` (at the mode), ``"thompson"``,
        ``"random"``; with several models, which these then average, also ``"bams"``, ``"bams_tempered"``,
        ``"bams_uniform"``, ``"bams_modes"``, ``"bams_draws"``, ``"committee"``; or ``criterion(fit, X)`` giving one
        number for each row of X, larger is better.
    pool : ndarray, DataFrame or dask array, shape (m, D)
        Candidates in the user's units. Rows of a data frame come back with their labels. A dask array is read and
        scored block by block at every :meth:`ask`, by dask's scheduler, and never held; criteria that look for the
        place of the maximum need all candidates at once and refuse it.
    bounds : list of (low, high)
        Instead of a pool: any point of this box, in the user's units. The criterion is maximised from the best of
        about a thousand seeds by L-BFGS-B, with exact gradients where criterion and model have them. For a linear
        embedding the seeds include corners of the box that reach the boundary of the embedded box.
    repeat : bool
        Offer a point again after it was asked. By default each is offered once.
    minimize : bool
        For :meth:`recommend` and the criteria that look for the maximum.
    prior : dict or sequence, optional
        Prior weights of several models, by label or in their order; default equal.
    explore_every : int
        With several models: every so many told points a step of compositional kernel search. Up to 12 neighbours of
        kernel expressions join, each fitted from its parent's modes: parents are drawn by their posterior probability,
        and a base kernel more makes a neighbour a quarter as likely. Then models with a posterior probability below
        1e-4 leave, but for the best five, and so do those behind the best 25. 0: never. See also :meth:`add_model`.
    executor : concurrent.futures.Executor, optional
        Runs the restarts of full mode searches, or the fits of several models. Results do not depend on it, nor on
        processes that are killed; the attribute ``executor`` may be set to a new one.
    verify : {"never", "sometimes"} or int
        Whether to ask on the way if the Laplace fit can be trusted, by the Pareto k of draws from it, which takes a
        second and no MCMC: at the first fit and then at every k-th point told (``verify=k``), or when there are half as
        many points again as at the last time (``"sometimes"``). Above 0.7 the run *escalates*: two short chains of
        NUTS are drawn from the exact posterior of the same model, which takes a few seconds or, with many points or
        parameters, minutes, and the criterion is computed over their draws (with ``method="draws"``, whatever method
        it had) until a fit passes; until then every fit is verified, and has a trace of its own. One warning says so
        when it happens first. ``"random"`` and criteria of your own take no draws: for them it is noted and nothing
        else. Of several models those of a probability above 0.05 are verified, and the draws of a doubtful one
        replaced; their probabilities stay those of Laplace's evidences. See :attr:`verification`, :attr:`traces` and,
        for a full comparison, :func:`pymc_active.check`.
    random_seed : int or Generator, optional
        The same seed, data and answers give the same questions, bit for bit. With None they cannot be had again.

    Attributes
    ----------
    notes : dict
        Whatever you want to find again beside the run, such as units or the name of an instrument: :meth:`save` writes
        it, :meth:`load` brings it back. JSON must be able to hold it.

    Raises
    ------
    TypeError, ValueError
        For both or neither of pool and bounds, an empty pool, one of the wrong width or with NaN, malformed bounds,
        an unknown goal, criterion or ``verify``; fewer than two models, equal ones, or models of different data.

    Warns
    -----
    UserWarning
        Once when a run first escalates, and once if the sampler fails; the fit is then used as it is.

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
        gpm: GPModel | Sequence[GPModel] | Mapping[Any, GPModel],
        learn: str = "function",
        *,
        criterion: str | AnyCriterion | None = None,
        pool: Any = None,
        bounds: Any = None,
        repeat: bool = False,
        minimize: bool = False,
        prior: Prior = None,
        explore_every: int = 0,
        executor: Executor | None = None,
        verify: Literal["never", "sometimes"] | int = "never",
        random_seed: int | np.random.Generator | None = 0,
    ):
        if learn not in GOALS:
            raise ValueError(f"learn must be one of {', '.join(sorted(GOALS))}; got {learn!r}")
        self.learn, self.repeat, self.minimize = learn, repeat, minimize
        self._subject = _read_subject(gpm, learn, prior, explore_every)
        if (pool is None) == (bounds is None):
            raise ValueError(
                "a learner chooses from a pool or from a box: pass either pool=X_pool or bounds=[(low, high), ...]"
            )
        if isinstance(random_seed, int | np.integer) and random_seed >= 0:
            self.random_seed = int(random_seed)
        else:
            # What seeds nothing is refused by NumPy, which says why.
            self.random_seed = int(np.random.default_rng(random_seed).integers(2**31))
        self._verification = Verification(verify, len(self.y), self.random_seed)
        if executor is not None and not isinstance(executor, Executor):
            raise TypeError(f"executor must be a concurrent.futures.Executor; got {type(executor).__name__}")
        self.executor = executor
        self._candidates = _read_candidates(pool, bounds, self._inputs, repeat)
        _warn_about_scale(self._subject.models, self._candidates)
        if criterion is None:
            criterion = GOALS[learn]
        elif callable(criterion):
            criterion = FUNCTIONS.get(criterion, criterion)
        # Only these can be made again from a file.
        self.criterion_is_named = isinstance(criterion, str)
        self.criterion, self.criterion_name = _read_criterion(criterion, self, isinstance(self._subject, SeveralModels))
        self._over_draws = over_draws(self.criterion)
        self._rng = np.random.default_rng(self.random_seed)
        self.n_start = len(self.y)
        for x, row in zip(self.X, self._candidates.find(self.X), strict=True):
            self._candidates.reserve(Choice(x, row, np.nan))
        self._pending: list[Choice] = []
        self._told: list[Choice] = []
        self.notes: dict[str, Any] = {}
        # As the search left it, and once verified.
        self._searched: LaplaceFit | ModelAverage | None = None
        self._fit: LaplaceFit | ModelAverage | None = None

    def __repr__(self) -> str:
        return (
            f"<Learner learn={self.learn!r}, criterion {self.criterion_name}: {len(self.y)} points, "
            f"{len(self._told)} asked, {self._candidates!r}>"
        )

    def _repr_html_(self) -> str:
        # Nothing is fitted to be shown.
        fit, start = self._fit, max(self.n_start, len(self.y) - _SHOWN)
        gpm = next(iter(self._subject.models.values()))
        inputs = [str(name) for name in gpm.inputs[:_SHOWN]]
        values = np.column_stack([self.X[start:, :_SHOWN], self.y[start:]])
        told = pd.DataFrame(values, columns=[*inputs, gpm.name], index=np.arange(start, len(self.y)) + 1)
        facts = {
            "goal": self.learn,
            "criterion": self.criterion_name,
            "points": f"{len(self.y)}, of which {len(self._told)} were told after the start",
            "asked and not told yet": len(self._pending) or None,
            "candidates": repr(self._candidates),
            "fit": "not yet: made when first asked for" if fit is None else repr(fit).splitlines()[0],
        }
        return html_summary("Learner", facts, *([told.map("{:.4g}".format)] if len(told) else []))

    @property
    def _inputs(self) -> list:
        """Names of the inputs."""
        return next(iter(self._subject.models.values())).inputs

    @property
    def asked_labels(self) -> np.ndarray:
        """Pool labels (positions for an array) of what was told after the start, in order; foreign points left out."""
        return self._candidates.labels_of([choice.row for choice in self._told if choice.row >= 0])

    @property
    def pending(self) -> Any:
        """Points asked and not told yet, in the order asked and as :meth:`ask` shows them.

        Returns
        -------
        ndarray or DataFrame, shape (k, D)
            Every :meth:`ask` takes them for measured, with the values predicted, until they are told or forgotten.
        """
        return self._candidates.show(self._pending)

    @property
    def n_left(self) -> float:
        """How many points can still be asked for; infinite for a box."""
        return self._candidates.n_left(self._pending)

    @property
    def domain(self) -> Domain:
        """Where the maximum is looked for: the box, or all rows of the pool."""
        return self._candidates.domain

    @property
    def X(self) -> np.ndarray:
        """Inputs measured so far (n, D), in the user's units."""
        return self._subject.X

    @property
    def y(self) -> np.ndarray:
        """Outputs measured so far (n,)."""
        return self._subject.y

    @property
    def gpm(self) -> GPModel:
        """The model; of several, the most probable one."""
        return self._subject.gpm if isinstance(self._subject, OneModel) else self.fit.gpm

    @property
    def fit(self) -> LaplaceFit | ModelAverage:
        """The fit to everything told so far; with several models a :class:`ModelAverage` of their fits.

        While a run is escalated (see ``verify``), its :meth:`LaplaceFit.particles` are draws of the trace.
        """
        if self._searched is None:
            self._check_data()
            with ignoring(DoubtfulFitWarning, DoubtfulEvidenceWarning):
                self._searched = self._subject.fit(self.random_seed, self.executor)
        if self._fit is None:
            self._fit = self._verified(self._searched)
        return self._fit

    def _check_data(self) -> None:
        """Refuse to go on with data that somebody else gave to the model."""
        known = self.n_start + len(self._told)
        if len(self.y) != known:
            raise ValueError(
                f"the model has {len(self.y)} points, and this learner knows of {known}: another learner has the same "
                "model, or its data were set. Make a model for each learner, and tell results to the learner"
            )

    def _verified(self, searched: LaplaceFit | ModelAverage) -> LaplaceFit | ModelAverage:
        """The fit with draws of a trace where it is doubtful and it is time to ask."""
        if not self._verification.is_due(len(self.y)):
            return searched
        if isinstance(searched, LaplaceFit):
            fits = {ONLY: searched}
        else:
            probability = searched.probability.to_numpy()
            fits = {label: fit for (label, fit), p in zip(searched.items(), probability, strict=True) if p > _UNLIKELY}
        replaced = self._verification.verify(fits, self._candidates.places(PLACES), self._over_draws is not None)
        if not replaced:
            return searched
        if isinstance(self._subject, OneModel):
            return replaced[ONLY]
        with ignoring(DoubtfulFitWarning, DoubtfulEvidenceWarning):
            return self._subject.average(replaced)

    @property
    def verification(self) -> xr.Dataset:
        """What was found so far by ``verify``, one row for each time that it was asked.

        Returns
        -------
        xarray.Dataset
            Over ``n_observations``; of several models all but ``regret_ratio`` also over ``model``, NaN for those that
            were not verified.

            * ``pareto_k``: shape of the tail of the importance weights of draws from the Laplace approximation.
            * ``escalated``: whether the criterion took draws of a trace, and of that trace ``rhat`` and ``ess_bulk``
              (the worst of its predictive means at a hundred candidates) and ``divergences``, their number.
            * ``sampler_failed``: whether there was none although there should have been.
            * ``regret_ratio``: by the criterion over the trace, the utility of the candidate that would have been asked
              for without it, over that of the best candidate, as in :func:`pymc_active.check`; 1 is perfect. NaN until
              asked, for boxes and dask arrays, and for ``thompson``.
        """
        return self._verification.dataset(isinstance(self._subject, OneModel))

    @property
    def traces(self) -> dict[Any, xr.DataTree]:
        """The traces that the criterion is computed over, by model (a single one is ``"model"``); empty otherwise."""
        fit = self.fit
        fits = {ONLY: fit} if isinstance(fit, LaplaceFit) else fit
        return {label: trace_datatree(fits[label], chains) for label, chains in self._verification.chains.items()}

    @property
    def models(self) -> dict[Any, GPModel]:
        """Several models by label."""
        return dict(self._several("models").models)

    @property
    def model_history(self) -> xr.DataArray:
        """Posterior probabilities of several models at each fit, (n_observations, model); NaN before one joined."""
        several = self._several("model_history")
        self.fit  # noqa: B018
        return several.history()

    def add_model(self, gpm: GPModel, label: Any = None) -> None:
        """Let another model join; it gets the data told so far.

        Parameters
        ----------
        gpm : GPModel
        label : optional
            Default: its kernel expression.
        """
        self._several("add_model").join(gpm, label)
        self._searched = self._fit = None

    def remove_model(self, label: Any) -> None:
        """Let a model leave; two must stay."""
        self._several("remove_model").leave(label)
        self._searched = self._fit = None

    def search(self, n_restarts: int = 20) -> ModelAverage:
        """Search the modes of all models anew, with many fresh starts, before anything is concluded.

        While data come in, each of several models is followed from its last modes with one fresh start an ask.
        """
        # That of the most probable model matters, of which the average warns.
        with ignoring(DoubtfulFitWarning):
            self._searched = self._several("search").search(n_restarts, self.random_seed, self.executor)
        self._fit = average = self._verified(self._searched)
        assert isinstance(average, ModelAverage)
        return average

    def _several(self, what: str) -> SeveralModels:
        if not isinstance(self._subject, SeveralModels):
            raise ValueError(f"{what} is for learners of several models: Learner([gpm, other], ...)")
        return self._subject

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
        if n > self.n_left:
            raise ValueError(
                f"the pool has {self.n_left} candidate(s) left and {n} were asked for; "
                + ("" if self.repeat else "add candidates, pass repeat=True, or ")
                + "forget() those asked that will not be measured"
            )
        if isinstance(self.criterion, OptimumCriterion):
            check_data(self.y)
        if self._verification.is_due(len(self.y)):
            self.fit  # noqa: B018
        criterion = self.criterion
        if self._verification.chains:
            self._look_back()
            criterion = self._over_draws
        choices = []
        for _ in range(n):
            with ignoring(SamplingWarning):
                scorer = None if criterion is None else prepare(criterion, self._conditioned_fit())
                choice = self._candidates.choose(scorer, self.X, self._pending, self._rng)
            self._candidates.reserve(choice)
            self._pending.append(choice)
            choices.append(choice)
        return self._candidates.show(choices)

    def _conditioned_fit(self) -> LaplaceFit | ModelAverage:
        """The fit as it would be if pending points had come out as predicted."""
        fit = self.fit
        if not self._pending:
            return fit
        X = np.stack([choice.x for choice in self._pending])
        with one_blas_thread():
            if self._verification.chains:
                p = mixture(as_ensemble(fit, method="draws", random_seed=0), X)
                imagined = p.weights @ p.means
            else:
                imagined = posterior_mean(fit, X)
            new = np.concatenate([self.X, X]), np.concatenate([self.y, imagined])
            # What is imagined says nothing about which model is right.
            return fit.given(*new, reweigh=False) if isinstance(fit, ModelAverage) else fit.given(*new)

    def _look_back(self) -> None:
        """Note how good the choice of the unverified fit would have been, judged over the trace."""
        n, pool = len(self.y), self._candidates
        if not isinstance(pool, Pool) or n in self._verification.regret or not len(left := pool.left(self._pending)):
            return
        assert isinstance(self.criterion, Criterion)
        assert self._over_draws is not None
        assert self._searched is not None
        # Whatever there is to say of the fit that is not used.
        with ignoring(ActiveWarning):
            chosen = screened(self.criterion.prepare(self._searched), pool.X[left])
            true = screened(self._over_draws.prepare(self.fit), pool.X[left])
        self._verification.regret[n] = regret_ratio(self.criterion, chosen, true)

    def tell(self, x: Any, y: Any, *, asked: Any = None) -> None:
        """Add measurements, asked for or not.

        Parameters
        ----------
        x : array_like or DataFrame, shape (k, D) or (D,)
            What was measured. Points that are pending are no longer.
        y : array_like, shape (k,), or a number
        asked : array_like or DataFrame, shape (k, D) or (D,), optional
            The pending points that these answer, where settings were rounded or missed: what was asked is not pending
            any more, and the model learns what was measured.

        Raises
        ------
        ValueError
            For NaN or wrong shapes, or if ``asked`` is not pending; nothing is added then, and what was told before is
            kept.
        """
        X, labels = self._read_points(x, "x")
        self._check_data()
        told = read_outputs(y if isinstance(y, pd.Series) else np.atleast_1d(np.squeeze(y)), len(X), x)
        positions: Sequence[int | None] = self._find(X, labels) if asked is None else self._find_pending(asked, "asked")
        if len(positions) != len(X):
            raise ValueError(f"asked must have a row for each point told; got {len(positions)} row(s) for {len(X)}")
        unasked = [i is None for i in positions]
        rows = iter(self._candidates.find(X[unasked]))
        self._subject.set_data(np.concatenate([self.X, X]), np.concatenate([self.y, told]))
        for point, i in zip(X, positions, strict=True):
            if i is None:
                self._told.append(Choice(point, next(rows), np.nan))
                self._candidates.reserve(self._told[-1])
            else:
                self._told.append(self._pending[i]._replace(x=point))
        self._drop(positions)
        self._searched = self._fit = None

    def forget(self, x: Any = None) -> None:
        """Give up points that are pending: nothing is expected of them any more, and they may be asked for again.

        Parameters
        ----------
        x : array_like or DataFrame, shape (k, D) or (D,), optional
            Some of :attr:`pending`; default all. Equal rows of a pool are told apart by their labels.

        Raises
        ------
        ValueError
            If one of them is not pending; none is given up then.

        Examples
        --------
        >>> import numpy as np
        >>> import pymc_active as pma
        >>> pool = np.linspace(-3, 3, 50)[:, None]
        >>> gpm = pma.ard_gp(pool[[10, 30]], np.sin(pool[[10, 30], 0]))
        >>> learner = pma.active.Learner(gpm, pool=pool, criterion="random")
        >>> x = learner.ask(3)
        >>> learner.forget(x[1])
        >>> np.array_equal(learner.pending, x[[0, 2]])
        True
        """
        positions = range(len(self._pending)) if x is None else self._find_pending(x, "x")
        given_up = [self._pending[i] for i in positions]
        self._drop(positions)
        others = np.concatenate([self.X, *(choice.x[None] for choice in self._pending)])
        for choice in given_up:
            self._candidates.release(choice, others)

    def expect(self, x: Any) -> None:
        """Take note that points are being measured which were not asked for here: they are pending from now on.

        Parameters
        ----------
        x : array_like or DataFrame, shape (k, D) or (D,)
            Candidates, such as those that another learner of the same measurements asked for.

        Raises
        ------
        ValueError
            If one of them is no row of the pool; none is expected then.
        """
        X, _ = self._read_points(x, "x")
        rows = self._candidates.find(X)
        if -1 in rows and not isinstance(self._candidates, Box):
            i = rows.index(-1)
            raise ValueError(f"only rows of the pool can be pending, and row {i} of x is none: tell its result")
        for row, point in zip(rows, X, strict=True):
            self._pending.append(Choice(point, row, np.nan))
            self._candidates.reserve(self._pending[-1])

    def _read_points(self, x: Any, what: str) -> tuple[np.ndarray, list | None]:
        """A matrix, and the labels of the rows of a data frame."""
        if isinstance(x, pd.Series):
            # One row of a data frame.
            x = x.to_frame().T
        elif not isinstance(x, pd.DataFrame | xr.DataArray):
            x = np.asarray(x)
            x = x[:, None] if x.ndim == 1 and len(self._inputs) == 1 else np.atleast_2d(x)
        X = read_inputs(x, what, inputs=self._inputs)
        return X, list(x.index) if isinstance(x, pd.DataFrame) else None

    def _find(self, X: np.ndarray, labels: list | None) -> list[int | None]:
        """Where among what is pending points are, each once; None for those that are not."""
        found: list[int | None] = []
        for row, x in enumerate(X):
            same = [i for i, choice in enumerate(self._pending) if i not in found and np.array_equal(choice.x, x)]
            if labels is not None:
                called = self._candidates.labels_of([self._pending[i].row for i in same])
                # The first that is called so, else the first.
                same = [i for i, label in zip(same, called, strict=True) if label == labels[row]] or same
            found.append(same[0] if same else None)
        return found

    def _find_pending(self, x: Any, what: str) -> list[int]:
        """As :meth:`_find`, for points that all must be."""
        X, labels = self._read_points(x, what)
        positions = []
        for row, i in enumerate(self._find(X, labels)):
            if i is None:
                point = ", ".join(f"{value:g}" for value in X[row])
                raise ValueError(
                    f"{what} must be among the {len(self._pending)} point(s) asked and not told yet, learner.pending; "
                    f"row {row}, ({point}), is not"
                )
            positions.append(i)
        return positions

    def _drop(self, positions: Sequence[int | None]) -> None:
        self._pending = [choice for i, choice in enumerate(self._pending) if i not in positions]

    def run(
        self,
        oracle: Callable[[Any], Any],
        n: int,
        progressbar: bool = True,
        *,
        save_to: str | os.PathLike | None = None,
    ) -> None:
        """Ask and tell ``n`` times.

        Parameters
        ----------
        oracle : callable
            Takes one point, shape (1, D) (a data frame if the pool is one), and returns its y.
        n : int
            At least 0.
        progressbar : bool
        save_to : path, optional
            Where to :meth:`save` after every answer, before the next question. A run that was killed goes on from
            there and asks what it would have asked.

        Notes
        -----
        If the oracle raises or returns NaN, everything told before is kept, and the point stays pending.
        """
        if not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n must be a whole number >= 0; got {n!r}")
        if save_to is not None:
            self.save(save_to)
        with progress(f"Learning the {self.learn}", n, progressbar) as advance:
            for _ in range(n):
                x = self.ask()
                # An oracle may write into what it is given.
                self.tell(x, oracle(x.copy()))
                if save_to is not None:
                    self.save(save_to)
                advance()

    def save(self, path: str | os.PathLike) -> None:
        """Write everything that :meth:`load` needs to go on, bit for bit, and your ``notes``.

        Nothing is fitted for it, and nothing in the file can run code. ArviZ opens it: ``observed_data``,
        ``constant_data``, ``design`` as in :meth:`to_datatree`, the candidates, what is pending and the modes of each
        model. Draws from the posterior are not in it: :meth:`to_datatree` makes them.

        Parameters
        ----------
        path : path
            netCDF; zarr if it ends in ``.zarr``. A file that is there stays as it is until the new one is complete. Of
            several processes that save to one netCDF file the last wins; a zarr file has one writer.

        Raises
        ------
        ValueError
            If columns or rows of the pool have labels that are neither text, numbers nor dates, or if JSON cannot hold
            the ``notes``: the entry is named.
        ModuleNotFoundError
            For zarr where it is not installed.
        """
        write(path, to_contents(self), KIND, FORMAT_VERSION)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        model: GPModel | Mapping[Any, GPModel] | None = None,
        *,
        criterion: str | AnyCriterion | None = None,
        pool: Any = None,
        executor: Executor | None = None,
    ) -> Self:
        """The learner of a file, which asks the same next points, bit for bit.

        Parameters
        ----------
        path : path
        model : GPModel, or dict of label -> GPModel, optional
            Made as before, where a file cannot hold it: a model that no builder made, one with more in it than the
            builder put there, or with a mean function or priors that are more than a name with numbers. It gets the
            data of the file.
        criterion : callable, optional
            Where it was one of your own, which a file cannot hold either.
        pool : dask array, optional
            Where the candidates were one: the same.
        executor : concurrent.futures.Executor, optional
            As for a new learner.

        Raises
        ------
        FileNotFoundError
        ValueError
            If a model, criterion or pool must be passed; if the model has other parameters than the one saved; for a
            file of something else, of a newer version, or one that is damaged.
        """
        return from_contents(cls, read(path, KIND, FORMAT_VERSION), model, criterion, pool, executor)

    def recommend(self) -> Any:
        """What was to be found.

        Returns
        -------
        ndarray, DataFrame or label
            With ``learn="model"`` the label of the most probable model, after a :meth:`search` of all modes; if its fit
            is doubtful, a warning says so. Otherwise the point of the pool or box with the best posterior mean:
            largest, or smallest with ``minimize=True``; with ``learn="maximum"`` the mean over draws of the
            hyperparameters. How sure that is, and where else the maximum may be, tells :meth:`optimum`.
        """
        if self.learn == "model":
            return self.search().probability.idxmax().item()
        return self._candidates.show([self._best()])

    def _best(self) -> Choice:
        method = "draws" if self.learn == "maximum" else "map"
        mean = UpperConfidenceBound(0.0, self.minimize, method, draws=_DRAWS, random_seed=0)
        return self._candidates.maximum(mean.prepare(self.fit))

    def optimum(self, n_optima: int = 200) -> Optimum:
        """The recommended point with its uncertainty, and the distribution of the maximum's (or minimum's) place.

        Parameters
        ----------
        n_optima : int
            Sample paths whose maximisers show that distribution; the hyperparameters are 20 draws from the fit.
        """
        best = self._best()
        return find_optimum(
            self.fit, best.x, self._candidates.show([best]), self.domain, self.minimize, n_optima, self.random_seed
        )

    def to_datatree(self, draws: int = 1000) -> xr.DataTree:
        """Everything as ArviZ reads it.

        Returns
        -------
        xarray.DataTree
            The groups of :meth:`LaplaceFit.to_datatree` (of the most probable of several models), and ``design``: over
            ``step``, what was asked (``pool_row``, -1 for points nobody asked for; ``label``; the ``score`` it had)
            and what was told. With several models also ``models``: their probabilities now and at each fit. With
            ``verify`` also :attr:`verification`.
        """
        fit = self.fit.best if isinstance(self.fit, ModelAverage) else self.fit
        tree = fit.to_datatree(draws=draws, random_seed=self.random_seed)
        tree["design"] = self.design()
        if isinstance(self.fit, ModelAverage):
            now, history = self.fit.probability, self.model_history
            # Models that left are in the history only.
            tree["models"] = xr.Dataset({"probability": now, "history": history.sel(model=now.model)})
        if self._verification.verdicts:
            tree["verification"] = self.verification
        return tree

    def design(self, pending: bool = False) -> xr.Dataset:
        """The group ``design`` of :meth:`to_datatree`.

        Parameters
        ----------
        pending : bool
            Append what was asked and not told yet, with NaN for ``y``.
        """
        self._check_data()
        choices = [*self._told, *(self._pending if pending else [])]
        missing = choices[len(self._told) :]
        X = np.concatenate([self.X[self.n_start :], *(choice.x[None] for choice in missing)])
        rows = np.array([choice.row for choice in choices], int)
        labels = [
            str(label) if row >= 0 else "" for row, label in zip(rows, self._candidates.labels_of(rows), strict=True)
        ]
        return xr.Dataset(
            {
                "x": (("step", "input"), X),
                "y": ("step", np.append(self.y[self.n_start :], np.full(len(missing), np.nan))),
                "pool_row": ("step", rows),
                "label": ("step", np.array(labels, dtype=str)),
                "score": ("step", np.array([choice.score for choice in choices], float)),
            },
            attrs={"criterion": self.criterion_name, "learn": self.learn, "n_start": self.n_start},
        )


def _read_candidates(pool: Any, bounds: Any, inputs: list, repeat: bool) -> Candidates:
    if pool is None:
        return Box(bounds, len(inputs), repeat)
    return LazyPool(pool, len(inputs), repeat) if is_lazy(pool) else Pool(pool, inputs, repeat)


def _read_subject(gpm: Any, learn: str, prior: Prior, explore_every: int) -> OneModel | SeveralModels:
    if not isinstance(explore_every, int | np.integer) or explore_every < 0:
        raise ValueError(f"explore_every must be a whole number >= 0; got {explore_every!r}")
    if isinstance(gpm, GPModel):
        if learn == "model":
            raise ValueError("learn='model' chooses between models: pass at least two, in a list or a dict")
        if prior is not None or explore_every:
            raise ValueError("prior and explore_every are for several models")
        if learn == "hyperparameters" and not gpm.shapes:
            raise ValueError(
                "learn='hyperparameters': every parameter of this model is fixed, so nothing can be learned"
            )
        return OneModel(gpm)
    if not isinstance(gpm, Sequence | Mapping) or isinstance(gpm, str):
        raise TypeError(f"Learner takes a GPModel, or a list or dict of them; got {type(gpm).__name__}")
    if learn == "hyperparameters":
        raise ValueError("learn='hyperparameters' is about one model: pass it alone, or learn='model'")
    models = read_models(gpm)
    prior_weights(prior, list(models))  # refused before anything long is run
    if explore_every and any(gpm.expression is None for gpm in models.values()):
        raise ValueError("explore_every changes kernel expressions, so every model must come from composite_gp")
    if explore_every and not all(isinstance(label, str) for label in models):
        raise ValueError(
            "explore_every names new models by their kernel expressions, so the labels of the others must be text; got "
            f"{list(models)}"
        )
    return SeveralModels(models, prior, int(explore_every))


def _warn_about_scale(models: Mapping[Any, GPModel], candidates: Candidates) -> None:
    """Warn if the inputs were scaled by data that span a small part of the candidates."""
    if isinstance(candidates, LazyPool):
        return
    domain = candidates.domain
    corners = np.stack([domain.low, domain.high] if domain.pool is None else [domain.pool.min(0), domain.pool.max(0)])
    for label, gpm in models.items():
        scaled = gpm.x_map(corners)
        if np.array_equal(scaled, corners):
            continue
        spans = np.ptp(scaled, axis=0)
        if (wide := (spans > _WIDEST) & (spans > _WIDER * np.ptp(gpm.x_map(gpm.X), axis=0))).any():
            span = spans[wide].max()
            what = "" if label == ONLY else f" of {label!r} (the first such model)"
            return warn_user(
                f"on the scale of the priors{what} the candidates span {span:.3g}, so that lengthscales and periods of "
                "about one are short there: the inputs were scaled by data that span little of them. Pass "
                "x_scale=(low, high - low) of the candidates",
                ScaleWarning,
            )


def _read_criterion(criterion: str | AnyCriterion, learner: Learner, several: bool) -> tuple[AnyCriterion | None, str]:
    if criterion == "random":
        return None, "random"
    if isinstance(criterion, str):
        return make_criterion(
            criterion,
            domain=lambda: learner.domain,
            minimize=learner.minimize,
            random_seed=learner.random_seed,
            several_models=several,
        ), criterion
    if not callable(criterion) and not isinstance(criterion, Criterion):
        raise ValueError(f"criterion must be callable or a name; got {criterion!r}")
    return criterion, getattr(criterion, "name", getattr(criterion, "__name__", "custom"))
