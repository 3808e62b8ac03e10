"""The loop: fit, score, ask, tell."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.criteria.improvement import UpperConfidenceBound
from pymc_active.criteria.maximum.base import OptimumCriterion
from pymc_active.criteria.maximum.domain import Domain, check_data
from pymc_active.criteria.screening import AnyCriterion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.learner.candidates import Choice
from pymc_active.learner.current_fit import CurrentFit
from pymc_active.learner.models_followed import ONLY, OneModel, SeveralModels
from pymc_active.learner.optimum import Optimum, find_optimum
from pymc_active.learner.saved import FORMAT_VERSION, KIND, from_contents, to_contents
from pymc_active.learner.state import LearnerState, new_state
from pymc_active.learner.verification import trace_datatree
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.model_average import ModelAverage, Prior
from pymc_active.support.files import read, write
from pymc_active.support.progress import progress
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_outputs
from pymc_active.support.user_warnings import (
    DoubtfulFitWarning,
    SamplingWarning,
    ignoring,
)

# Rows and inputs of a summary: the last ones told.
_SHOWN = 5
# Draws of the hyperparameters that a marginal posterior mean averages over.
_DRAWS = 32


class Learner(Summarized):
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
        Another one, by any name of the registry that :func:`pymc_active.check` and the command line share: ``"bald"``
        (with ``_bbq``, ``_modes``, ``_draws`` or ``_cubature`` for the method, and ``_f`` at the end for the latent
        target), ``"uncertainty"``, ``"expected_improvement"``, ``"upper_confidence_bound"``, ``"pes"``, ``"pes_map"``
        (hyperparameters fixed at the mode), ``"max_value_entropy"``, ``"joint_entropy_search"``, ``"entropy_search"``
        (at the mode), ``"thompson"``; with several models, which these then average, also ``"bams"``,
        ``"bams_tempered"``, ``"bams_uniform"``, ``"bams_modes"``, ``"bams_draws"``, ``"committee"``. ``"random"``
        draws points at random. Or ``criterion(fit, X)`` giving one number for each row of X, larger is better.
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
        The same seed, data and answers give the same questions, bit for bit. None, the default, draws a fresh seed,
        which :attr:`random_seed` tells and :meth:`save` keeps.

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
    <Learner: goal function; criterion uncertainty; points 3; told after the start 1; candidates 47 left in the pool>
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
        random_seed: int | np.random.Generator | None = None,
    ):
        state = new_state(
            gpm,
            learn,
            criterion=criterion,
            pool=pool,
            bounds=bounds,
            repeat=repeat,
            minimize=minimize,
            prior=prior,
            explore_every=explore_every,
            verify=verify,
            random_seed=random_seed,
        )
        self._take(state, executor)

    @classmethod
    def from_state(cls, state: LearnerState, executor: Executor | None = None) -> Self:
        """The learner of a state, such as another one's :meth:`state`; it owns the state from now on."""
        learner = cls.__new__(cls)
        learner._take(state, executor)
        return learner

    def state(self) -> LearnerState:
        """Everything that the run is, as :meth:`save` writes it. Not a copy: it changes with the run."""
        return self._state

    def _take(self, state: LearnerState, executor: Executor | None) -> None:
        self._state, self._fits = state, CurrentFit(state, executor)
        self._subject, self._questions, self._verification = state.subject, state.questions, state.verification

    @property
    def executor(self) -> Executor | None:
        """Runs mode searches; may be set to a new one."""
        return self._fits.executor

    @executor.setter
    def executor(self, executor: Executor | None) -> None:
        self._fits.executor = executor

    def _summary(self) -> Summary:
        # Nothing is fitted to be shown.
        fit, start = self._fits.known, max(self.n_start, len(self.y) - _SHOWN)
        gpm = next(iter(self.models.values()))
        values = np.column_stack([self.X[start:, :_SHOWN], self.y[start:]])
        inputs = [str(name) for name in gpm.inputs[:_SHOWN]]
        told = pd.DataFrame(values, columns=[*inputs, gpm.name], index=np.arange(start, len(self.y)) + 1)
        facts = {
            "goal": self.learn,
            "criterion": self.criterion_name,
            "points": len(self.y),
            "told after the start": len(self._questions.told),
            "asked and not told yet": len(self._questions.pending) or None,
            "candidates": repr(self._questions.candidates),
            "fit": None if fit is None else type(fit).__name__,
        }
        return Summary("Learner", facts, [told.map("{:.4g}".format)] if len(told) else [])

    @property
    def learn(self) -> str:
        """The goal."""
        return self._state.learn

    @property
    def criterion(self) -> AnyCriterion | None:
        """The criterion; None for random points."""
        return self._state.criterion

    @property
    def criterion_name(self) -> str:
        """Its name."""
        return self._state.criterion_name

    @property
    def minimize(self) -> bool:
        """Whether the minimum is wanted."""
        return self._state.minimize

    @property
    def repeat(self) -> bool:
        """Whether points may be asked for again."""
        return self._state.repeat

    @property
    def random_seed(self) -> int:
        """The seed of everything random."""
        return self._state.random_seed

    @property
    def n_start(self) -> int:
        """Number of points at the start."""
        return self._state.n_start

    @property
    def notes(self) -> dict[str, Any]:
        """Your notes."""
        return self._state.notes

    @notes.setter
    def notes(self, notes: dict[str, Any]) -> None:
        self._state.notes = notes

    @property
    def asked_labels(self) -> np.ndarray:
        """Pool labels (positions for an array) of the points told after the start, without those outside the pool."""
        return self._questions.candidates.labels_of([choice.row for choice in self._questions.told if choice.row >= 0])

    @property
    def pending(self) -> Any:
        """Points asked for and not told yet, in the order asked and as :meth:`ask` shows them.

        Returns
        -------
        ndarray or DataFrame, shape (k, D)
            Every :meth:`ask` takes them for measured, with the values predicted, until they are told or forgotten.
        """
        return self._questions.candidates.show(self._questions.pending)

    @property
    def n_left(self) -> float:
        """How many points can still be asked for; infinite for a box."""
        return self._questions.candidates.n_left(self._questions.pending)

    @property
    def domain(self) -> Domain:
        """Where the maximum is looked for: the box, or all rows of the pool."""
        return self._questions.candidates.domain

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

        While a run is escalated (see ``verify``), its draws are those of the trace.
        """
        return self._fits.verified()

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
        """The models by label; a single one is ``"model"``."""
        return dict(self._subject.models)

    @property
    def model_history(self) -> xr.DataArray:
        """Posterior probabilities of several models at each fit, (n_observations, model); NaN before one joined."""
        if not isinstance(self._subject, SeveralModels):
            # So that hasattr says no.
            raise AttributeError("model_history is for learners of several models: Learner([gpm, other], ...)")
        self._fits.searched()
        return self._subject.history()

    def add_model(self, gpm: GPModel, label: Any = None) -> None:
        """Let another model join; it gets the data told so far.

        Parameters
        ----------
        gpm : GPModel
        label : optional
            Default: its kernel expression.
        """
        self._several("add_model").join(gpm, label)
        self._fits.refit()

    def remove_model(self, label: Any) -> None:
        """Let a model leave; two must stay."""
        self._several("remove_model").leave(label)
        self._fits.refit()

    def search(self, n_restarts: int = 20) -> ModelAverage:
        """Search the modes of all models anew, with many fresh starts, before anything is concluded.

        While data come in, each of several models is followed from its last modes with one fresh start an ask.
        """
        # That of the most probable model matters, of which the average warns.
        with ignoring(DoubtfulFitWarning):
            found = self._several("search").search(n_restarts, self.random_seed, self.executor)
        self._fits.refit(found)
        average = self.fit
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
        self._fits.before_asking()
        asked, choices = self._questions, []
        for _ in range(n):
            with ignoring(SamplingWarning):
                choice = asked.candidates.choose(self._fits.scorer(), self.X, asked.pending, self._state.rng)
            asked.ask(choice)
            choices.append(choice)
        return asked.candidates.show(choices)

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
        asked_for = self._questions
        X, labels = asked_for.read(x, "x")
        self._fits.check_data()
        told = read_outputs(y if isinstance(y, pd.Series) else np.atleast_1d(np.squeeze(y)), len(X), x)
        positions: Sequence[int | None]
        positions = asked_for.find(X, labels) if asked is None else asked_for.find_pending(asked, "asked")
        if len(positions) != len(X):
            raise ValueError(f"asked must have a row for each point told; got {len(positions)} row(s) for {len(X)}")
        self._subject.set_data(np.concatenate([self.X, X]), np.concatenate([self.y, told]))
        asked_for.tell(X, positions)
        self._fits.refit()

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
        asked_for = self._questions
        positions = range(len(asked_for.pending)) if x is None else asked_for.find_pending(x, "x")
        asked_for.forget(positions, self.X)

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
        self._questions.expect(x)

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
        write(path, to_contents(self._state), KIND, FORMAT_VERSION)

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
        state = from_contents(read(path, KIND, FORMAT_VERSION), model, criterion, pool)
        return cls.from_state(state, executor)

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
        return self._questions.candidates.show([self._best()])

    def _best(self) -> Choice:
        method = "draws" if self.learn == "maximum" else "map"
        mean = UpperConfidenceBound(0.0, self.minimize, method, draws=_DRAWS, random_seed=0)
        return self._questions.candidates.maximum(mean.prepare(self.fit))

    def optimum(self, n_optima: int = 200) -> Optimum:
        """The recommended point with its uncertainty, and the distribution of the maximum's (or minimum's) place.

        Parameters
        ----------
        n_optima : int
            Sample paths whose maximisers show that distribution; the hyperparameters are 20 draws from the fit.
        """
        best = self._best()
        return find_optimum(
            self.fit,
            best.x,
            self._questions.candidates.show([best]),
            self.domain,
            self.minimize,
            n_optima,
            self.random_seed,
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
        self._fits.check_data()
        told = self._questions.design(self.X[self.n_start :], self.y[self.n_start :], pending)
        return told.assign_attrs(criterion=self.criterion_name, learn=self.learn, n_start=self.n_start)
