"""``Learner``: fit, score, ask, tell, and repeat."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import compress
from operator import attrgetter
from typing import Any, Literal, Self, cast

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_active.criteria.maximum.base import OptimumCriterion
from pymc_active.criteria.maximum.domain import check_data
from pymc_active.criteria.screening import AnyCriterion
from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Choice
from pymc_active.learner.current import NO_CRITERION, Current
from pymc_active.learner.first_design import FirstDesign, MakeModel
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.learner.ledger import Ledger, read_results
from pymc_active.learner.models_followed import ONLY, FollowedModels
from pymc_active.learner.optimum import (
    Optimum,
    Recommended,
    best_point,
    find_optimum,
    read_until,
    regret_is_small,
    warn_if_far_above,
)
from pymc_active.learner.price import Cost
from pymc_active.learner.run import Run, new_run
from pymc_active.learner.saved import FORMAT_VERSION, KIND, from_contents, to_contents
from pymc_active.models.advice import far_outside
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import check_units
from pymc_active.predictions.model_average import ModelAverage, Prior
from pymc_active.support.files import read, read_generator, write, write_generator
from pymc_active.support.numbers import coordinate
from pymc_active.support.options import count
from pymc_active.support.progress import progress
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_outputs
from pymc_active.support.user_warnings import (
    DataWarning,
    DoubtfulFitWarning,
    RunWarning,
    SamplingWarning,
    ignoring,
    warn_if,
    warn_user,
)

# Rows and inputs of a summary: the last ones told.
_SHOWN = 5
# Random points of which one is drawn in proportion to its probability of success.
_RANDOM = 64


def _of(part: str, name: str, doc: str, *, is_settable: bool = False) -> Any:
    """A property that forwards to a part of the learner."""

    def put(learner: Learner, value: Any) -> None:
        setattr(getattr(learner, part), name, value)

    return property(attrgetter(f"{part}.{name}"), put if is_settable else None, doc=doc)


class Learner(Summarized):
    """Ask for the next measurement, tell its result.

    An experiment that fails to give a number is told as NaN, several with ``failed=True``. From the first failure on, a
    GP classifier of all points told gives the probability of success, by which the criterion is weighed, and
    :meth:`recommend` stays where experiments work. :meth:`success_probability` tells it.

    Parameters
    ----------
    model : pm.Model or GPModel, a dict of these, a list of GPModels, a function, or None
        A ``pm.Model`` is copied, and never changed. Its inputs are the ``pm.Data`` with a value for each observation.
        Its outcome may be of any distribution; latent variables with one value for each observation are refused, since
        they have none at new rows. A GPModel holds the data measured so far, at least one point; the learner works on a
        copy. Several models must hold the same data. A list of them is labelled by their kernel
        expressions. Without data, None stands for :func:`ard_gp` with the box of the candidates as ``bounds``. For
        other models pass a function of X and y which returns what you would pass with data, such as ``lambda X, y:
        embedding_gp(X, y, n_components=2, bounds=bounds)``; X is a data frame if the columns of the pool have names.
        The learner first asks for the points of a design, and makes the model when as many have been told, whether
        asked for or not. The design is a Latin hypercube of D + 2 points, from 4 to 20 (of a pool, the rows nearest to
        it), and to learn the hyperparameters of 8 to 30 inputs in a box the :func:`gradient_design` of D + 1 points.
    learn : {"function", "parameters", "hyperparameters", "model", "maximum"}
        The goal. It selects the criterion. Of a ``pm.Model``: :func:`epig`, information about outcomes at 100 of the
        candidates or at ``X_target``; :func:`bald`, about all ``"parameters"`` or the ``targets``; :func:`bams`; or
        :func:`expected_improvement` of the expected outcome. Of GP models: :func:`integrated_variance` at 100 of the
        candidates; :func:`bald`; :func:`bams` between several models; or :func:`expected_improvement` for the maximum
        or minimum. All are taken over the posterior that the fits represent. Several models may also learn the function
        or its maximum: their average decides.
    criterion : str or callable, optional
        Another criterion, by a name that means the same for :func:`pymc_active.check` and the command line: ``"bald"``,
        ``"uncertainty"``, ``"epig"``, ``"integrated_variance"``, ``"expected_improvement"``,
        ``"upper_confidence_bound"``, ``"pes"``, ``"max_value_entropy"``, ``"joint_entropy_search"``,
        ``"entropy_search"`` (at the mode), ``"thompson"``; for several models also ``"bams"`` and ``"committee"``.
        ``"random"`` draws points at random. For a variant pass the function of that name with its arguments, such as
        ``functools.partial(pma.active.bald, target="f")``. Any other function ``criterion(fit, X)`` returns one number
        for each row of X; larger is better, and zero is what a failed experiment is worth.
    X_target : ndarray or DataFrame, shape (T, D), optional
        Where predictions matter, for ``learn="function"`` or ``criterion="epig"``, in place of 100 candidates.
    pool : ndarray, DataFrame, dict or dask array, shape (m, D)
        Candidates in the user's units. Of a ``pm.Model`` also a dict of the names of its ``pm.Data``. Rows of a data
        frame come back with their labels. A dask array is scored block by block and never held in memory; criteria of
        the maximum's place need all candidates at once and refuse it.
    bounds : list of (low, high), or dict by input
        In place of a pool: any point of this box, in the user's units. L-BFGS-B maximises the criterion from the best
        of about a thousand seeds, with exact gradients where criterion and model have them.
    space : Space, dict or DataFrame, optional
        In place of both: a :class:`Space` of numbers, steps, labels and constraints, which the builder was given as
        well; by default the model's. Points come back as rows of a data frame.
    cost : str, array-like of shape (m,), or callable, optional
        What measurements cost, positive numbers in any unit: the name of a column of the pool, a price for each point
        of the pool, or a function of a table of points. The criterion is divided by it (in a logarithm less log cost),
        and :attr:`spent` counts it.
    repeat, minimize : bool
        Offer points again after they were told, each row of a pool once in a batch; look for the minimum.
    prior : dict or sequence, optional
        Prior weights of several models, by label or in order; equal by default.
    executor : concurrent.futures.Executor, optional
        Runs mode searches, or the fits of several models; results do not depend on it.
    inference : {"auto", "smc", "laplace"}, or {"auto", "anneal", "nuts"} for a pm.Model
        How to represent the posterior of a model, as in :func:`pymc_active.fit`. Particles are updated by each told
        point, and drawn anew when they have become few or there are half as many points again. Each of several models
        has at most 128 particles.
    verify : {"never", "sometimes"} or int
        When to compare the fit with a longer run, as :func:`pymc_active.check` does, which takes four to six times as
        long as a fresh fit: after every k-th told point (``verify=k``), or whenever there are half as many points
        again (``"sometimes"``); the first fit always. Where predictions of the candidates lose more than 0.1 nats a
        point, the longer run replaces the fit, with one warning, and each later fit is verified until one is good
        enough. Of several models, those with a probability above 0.05 are verified. See :attr:`verification`.
    random_seed : int or Generator, optional
        The same seed, data and answers give the same questions, bit for bit. :meth:`save` keeps the seed.
    observed : str, optional
        The outcome of a ``pm.Model``, if it observes several variables, or does not observe it yet: then the run starts
        from the prior.
    targets : list of str, optional
        Variables that ``learn="parameters"`` is to be about, such as ``["EC50"]``, or ``"hyperparameters"`` of a GP.
    likelihood : str
        Of outcomes, as in :func:`ard_gp`, for None as the model; ``"auto"`` weighs ``"normal"`` and ``"warped"`` by
        their evidences, two models that are asked together.

    Raises
    ------
    TypeError, ValueError
        For both or neither of pool and bounds, a pool that is empty, of the wrong width or with NaN, malformed bounds,
        an unknown goal, criterion or ``verify``; fewer than two models, equal ones, or models of different data.

    Warns
    -----
    DataWarning
        At once, if candidates and data do not suit each other: other units, codes for missing values, data that cover a
        small part of the candidates or lie on a plane of a box. At the first fit, as :func:`pymc_active.fit`;
        once a run, of a GP's outputs that call for another ``likelihood``, or one far from all others. :func:`advise`
        looks closer.
    DoubtfulFitWarning
        Once a run, if a fit is doubtful, and when a longer run first replaces a fit.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> pool = np.linspace(-3, 3, 50)[:, None]
    >>> gpm = pma.ard_gp(pool[[10, 30]], np.sin(pool[[10, 30], 0]))
    >>> learner = pma.active.Learner(gpm, "function", pool=pool, random_seed=1)
    >>> x = learner.ask()
    >>> learner.tell(x, np.sin(x[:, 0]))
    >>> learner.n_left
    47
    """

    __slots__ = ("__weakref__", "_current")

    def __init__(
        self,
        model: pm.Model | GPModel | Sequence[GPModel] | Mapping[Any, pm.Model | GPModel] | MakeModel | None = None,
        learn: Literal["function", "parameters", "hyperparameters", "model", "maximum"] = "function",
        *,
        criterion: str | AnyCriterion | None = None,
        X_target: Any = None,
        pool: Any = None,
        bounds: Any = None,
        space: Any = None,
        cost: Cost | None = None,
        repeat: bool = False,
        minimize: bool = False,
        prior: Prior = None,
        executor: Executor | None = None,
        inference: Literal["auto", "smc", "laplace", "anneal", "nuts"] = "auto",
        verify: Literal["never", "sometimes"] | int = "never",
        random_seed: int | np.random.Generator | None = None,
        observed: str | None = None,
        targets: Sequence[str] | None = None,
        likelihood: str = "normal",
    ):
        where, models = (pool, bounds, repeat, minimize), (prior, inference, verify)
        rest = X_target, observed, targets, likelihood, space, cost
        run = new_run(model, learn, criterion, *where, *models, random_seed, *rest)
        self._current = Current(run, executor)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    @property
    def _run(self) -> Run:
        return self._current.run

    @property
    def _ledger(self) -> Ledger:
        return self._current.run.ledger

    def _summary(self) -> Summary:
        # Showing a learner must not fit it.
        fit, start = self._run.verified, max(self.n_start, len(self.y) - _SHOWN)
        candidates, shown = self._ledger.candidates, self.X[start:]
        inputs = [str(name) for name in self._ledger.inputs[:_SHOWN]]
        if isinstance(shown, pd.DataFrame):
            inputs = list(shown.columns[:_SHOWN])
            columns = [[f"{x:.4g}" if isinstance(x, float) else x for x in shown[name]] for name in shown]
        else:
            # Rows of a pool are shown as the user wrote them.
            widths = np.zeros(shown.shape[1]) if len(candidates) else np.subtract(*reversed(candidates.limits))
            columns = [[coordinate(x, w) for x in X] for X, w in zip(shown.T, widths, strict=True)]
        output = next((gpm.output for gpm in self.models.values()), "y")
        values = np.transpose([*columns[:_SHOWN], [f"{y:.6g}" for y in self.y[start:]]])
        told = pd.DataFrame(values, columns=[*inputs, output], index=np.arange(start, len(self.y)) + 1)
        facts = {
            "goal": self.learn,
            "criterion": self.criterion_name,
            "points": len(self.y),
            "told after the start": len(self._ledger.told),
            "failed": len(self._ledger.failed) or None,
            "asked and not told yet": len(self._ledger.pending) or None,
            "candidates": str(self._ledger),
            "fit": None if fit is None else type(fit).__name__,
        }
        if len(columns) > _SHOWN:
            told.insert(_SHOWN, "…", "…")
        return Summary("Learner", facts, [told] if len(told) else [])

    learn = _of("_run", "learn", "The goal.")
    criterion = _of("_run", "criterion", "The criterion; None for random points.")
    criterion_name = _of("_run", "criterion_name", "Name of the criterion.")
    minimize = _of("_run", "minimize", "Whether the minimum is wanted.")
    repeat = _of("_run", "repeat", "Whether points may be asked for again.")
    random_seed = _of("_run", "random_seed", "The seed of everything random.")
    n_start = _of("_run", "n_start", "Number of points at the start.")
    y = _of("_run", "y", "Outputs measured so far (n,).")
    n_left = _of("_ledger", "n_left", "How many points can still be asked for; infinite for a box.")
    space = _of("_ledger", "space", "The space of the inputs, if there is one.")
    domain = _of("_ledger", "candidates.domain", "Where to look for the maximum: the box, or all rows of the pool.")
    notes = _of("_current", "notes", "A dict of your own, such as units, saved with the run as JSON.", is_settable=True)
    executor = _of("_current", "executor", "Runs fits elsewhere; assign another one at any time.", is_settable=True)

    @property
    def X(self) -> Any:
        """Inputs measured so far (n, D), in the user's units; a DataFrame if they are of a space."""
        return self._shown(self._run.X)

    @property
    def failures(self) -> Any:
        """Inputs of the experiments that failed (k, D), in the order told, as :attr:`X`."""
        return self._shown(self._ledger.matrix(self._ledger.failed))

    @property
    def spent(self) -> float:
        """The ``cost`` of all points told after the start, failures as well; without it their number."""
        choices = (*self._ledger.told, *self._ledger.failed)
        return self._price(self._ledger.matrix(choices), [choice.row for choice in choices])

    def _price(self, X: np.ndarray, rows: Sequence[int] | None = None) -> float:
        return float(len(X) if self._run.price is None else self._run.price.of(X, rows).sum())

    def _shown(self, X: np.ndarray) -> Any:
        return X if self.space is None else self.space.decode(X)

    @property
    def asked_labels(self) -> np.ndarray:
        """Pool labels (row numbers for an array) of the points told after the start, without those outside it."""
        return self._ledger.candidates.labels_of([choice.row for choice in self._ledger.told if choice.row >= 0])

    @property
    def pending(self) -> Any:
        """Points asked for and neither told nor forgotten yet (k, D), in the order asked, as :meth:`ask` shows them."""
        return self._ledger.candidates.show(self._ledger.pending)

    @property
    def limits(self) -> np.ndarray:
        """Smallest and largest value of each input among the candidates, (2, D)."""
        return np.array(self._ledger.candidates.limits)

    @property
    def gpm(self) -> GPModel:
        """The model; of several, the most probable one."""
        return self.models[ONLY] if len(self.models) == 1 else self.fit.gpm

    @property
    def fit(self) -> Fit | ModelAverage:
        """The fit to all data, or the :class:`ModelAverage` of several."""
        return self._current.verified()

    @property
    def verification(self) -> xr.Dataset:
        """The results of ``verify`` over ``n_observations`` and, for several models, ``model`` (NaN if not verified).

        * ``nll_loss``: what predictions at a hundred candidates lose against the longer run, nats a point.
        * ``evidence_difference``: log evidence of the fit less the log evidence of the longer run, and
          ``evidence_error``, their common standard error, nats.
        * ``replaced``: whether the longer run replaced the fit.
        """
        return self._run.verification.dataset(not self._run.subject.are_several)

    @property
    def models(self) -> dict[Any, GPModel]:
        """The models by label; a single one is ``"model"``."""
        return dict(self._run.subject.models)

    @property
    def model_history(self) -> xr.DataArray:
        """Posterior probabilities of several models at each fit, (n_observations, model); NaN before one joined."""
        if not self._run.subject.are_several:
            # An AttributeError, so that hasattr is False.
            raise AttributeError("model_history is for learners of several models: Learner([gpm, other], ...)")
        return self._several("model_history").history()

    def add_model(self, gpm: GPModel, label: Any = None) -> None:
        """Add a model, labelled by its kernel expression by default; it gets the data told so far."""
        models = self._several("add_model").with_model(gpm, label)
        if self.learn != "model":
            check_units(models.models.values())
        self._current.become(self._run.refitted(models))

    def remove_model(self, label: Any) -> None:
        """Remove a model; at least two must stay."""
        models = self._several("remove_model").without_model(label)
        self._current.become(self._run.refitted(models))

    def search(self) -> ModelAverage:
        """Fit all of several models anew before drawing conclusions, each as thoroughly as :func:`pymc_active.fit`.

        During a run fits are updated, with half as many particles.
        """
        models = self._several("search")
        with ignoring(DoubtfulFitWarning):
            models = models.follow(self.random_seed, self.executor, anew=True)
        # The average warns if the fit of the most probable model is doubtful.
        self._current.become(self._run.refitted(models, models.average()))
        return cast("ModelAverage", self.fit)

    def _several(self, what: str) -> FollowedModels:
        """Several models, which have followed what was told."""
        if not self._current.models().are_several:
            raise ValueError(f"{what} is for learners of several models: Learner([gpm, other], ...)")
        self._current.searched()
        return self._current.models()

    def ask(
        self,
        n: int = 1,
        *,
        fixed: Mapping[Any, Any] | None = None,
        same: Any = (),
        progressbar: bool = True,
    ) -> Any:
        """The next ``n`` points to measure, an ndarray or DataFrame (n, D).

        ``fixed``, a dict by input (its name, or if there are none its column's number), has values of inputs that are
        given for this question, such as the batch at hand: ``ask(4, fixed={"batch": 3})``. In a box the criterion is
        maximised over the others, of a pool only rows with these values are candidates. ``same``, an input or a list of
        them, is what all ``n`` points share, such as the temperature of a plate: the first point chosen has its value,
        of a pool a value that at least ``n`` candidates left have.

        Where the fit must be drawn anew, ``progressbar`` shows how far it is, and a line of level INFO from the logger
        ``"pymc_active"`` says why: ``logging.basicConfig(level="INFO")`` prints it.

        A ValueError if fewer are left, and for a fixed value outside the bounds.

        A batch is chosen greedily: pending points count as measured, with the predicted values. Points of a box differ
        by 2 % of its side in some input, if there is a choice. After failures (see :meth:`tell`) the expected worth
        counts: the criterion times P(success), in a logarithm plus log P. Of upper confidence bounds, Thompson's paths
        and a committee's entropies P multiplies the excess over the best measured point; where such an excess or
        another score is negative, it is divided by P. Random points are drawn in proportion to P.
        """
        count("n", n)
        ledger = self._ledger.at(fixed)
        ledger.check_left(n, fixed, self.repeat)
        if not isinstance(self._run.subject, FirstDesign):
            if isinstance(self.criterion, OptimumCriterion):
                check_data(self.y, next(iter(self.models.values())))
            self._current.before_asking(progressbar)
        choices: list[Choice] = []
        shared = [same] if isinstance(same, str | int) else list(same)
        ledger = ledger.sharing(n, shared)
        rng = read_generator(self._run.generator)
        with ignoring(SamplingWarning):
            for _ in range(n):
                choices.append(self._choose(ledger.ask(*choices), rng))
                if shared and len(choices) == 1:
                    values = {**(fixed or {}), **self._ledger.values(choices[0], shared)}
                    ledger = self._ledger.at(values)
                    ledger.check_left(n, values, self.repeat)
        shown = self._ledger.candidates.show(choices)
        # Another thread may have told results meanwhile.
        self._current.run = replace(self._run, ledger=self._ledger.ask(*choices), generator=write_generator(rng))
        return shown

    def _choose(self, ledger: Ledger, rng: np.random.Generator) -> Choice:
        if isinstance(self._run.subject, FirstDesign):
            return self._run.subject.choose(ledger, rng)
        scorer, success = self._current.scorer(ledger.pending), self._current.success()
        n = 1 if success is None or scorer is not None else _RANDOM
        choices = [ledger.candidates.choose(scorer, ledger.tried, ledger.pending, rng) for _ in range(n)]
        if success is None or n == 1:
            return choices[0]
        probability = np.exp(success(np.stack([choice.x for choice in choices])))
        return choices[rng.choice(n, p=probability / probability.sum())]

    @property
    def y_sd(self) -> np.ndarray:
        """Known standard deviations of y (n,), 0 where none is known."""
        return self._run.data.errors

    def tell(
        self, x: Any, y: Any, *, y_sd: Any = None, y_trials: Any = None, exposure: Any = None, asked: Any = None,
        failed: Any = None,
    ) -> None:  # fmt: skip
        """Add measurements y, (k,) or a number, at x, (k, D), (D,) or a dict by input, which is no longer pending.

        NaN for a single point is an experiment that failed: the point joins :attr:`failures` instead of the model's
        data and, unless ``repeat``, is not asked for again. In a table of several rows NaN, None and masked values mean
        "not measured yet": such a row is left out, with a RunWarning, and stays pending. ``failed``, a bool or
        one for each row, says that rows without a number failed: ``failed=np.isnan(y)``.

        ``asked`` (shaped as x) are the pending points that these answer, if the settings were rounded or missed; the
        model learns x. A RunWarning says so of points that are close to pending ones, and of answers that came
        before. Results told together are one step for the fit, which is faster than telling them one by one.

        ``y_sd``, (k,) or a number, are known standard deviations of y, error bars as in :func:`ard_gp`; measurements
        told without have none. ``y_trials`` and ``exposure`` are for such a ``likelihood``; rows without y need none.

        A ValueError, and nothing added, if one of ``asked`` is not pending, a shape wrong, or a row with y ``failed``.
        """
        ledger = self._ledger
        X, labels = ledger.read(x, "x")
        sizes = {"y_trials": y_trials, "exposure": exposure}
        if np.any(has_none := pd.isna(y)):
            sizes = {k: np.where(has_none, 1, v) if np.shape(v) == np.shape(y) != () else v for k, v in sizes.items()}
        per_row = self._read_known(len(X), x, y_sd, **sizes)
        data, rows = read_results(X, y, per_row, failed, x)
        positions = ledger.find(X, labels) if asked is None else ledger.find_known(asked, "asked")
        if len(positions) != len(X):
            raise ValueError(f"asked must have a row for each point told; got {len(positions)} row(s) for {len(X)}")
        if not rows.any():
            return
        data, positions = data.rows(rows), list(compress(positions, rows))
        X, told, _ = data
        # A point without a price is refused before it is learned.
        self._price(X, [-1 if i is None else ledger.pending[i].row for i in positions])
        if not isinstance(places := ledger.candidates, LazyPool):
            warn_if(far_outside(X, *places.limits, ledger.inputs))
            ledger.warn_if_near(X, positions)
            if ledger.space is not None and (broken := ledger.space.broken(X)):
                warn_user(f"{broken}: the model learns it all the same. If it is a slip, correct x", DataWarning)
        if not self.repeat:
            ledger.warn_if_repeated(X, told, positions, np.c_[self._run.X, self.y])
        of_x = x.index if isinstance(x, pd.Series) else list(x) if isinstance(x, Mapping) else getattr(x, "columns", ())
        self._current.become(self._run.tell(data, positions, of_x))

    def _read_known(self, n: int, x: Any, y_sd: Any, **sizes: Any) -> np.ndarray | None:
        """What is known of n measurements at x besides y, which every model can have."""
        first, *_ = [one.read_known(n, x, y_sd, **sizes) for one in self._readers]
        return first

    @property
    def _readers(self) -> list[Any]:
        """The models or, before there is one, what knows of their outcomes."""
        return [*self.models.values()] or [self._run.subject]

    def correct(self, row: int | str, y: float) -> None:
        """Correct the output of a row of :attr:`X`, or of a label (text) told from a pool; NaN if it failed.

        The model is fitted, and verified, anew. Points asked for since are not taken back. A ValueError if there is no
        such row.
        """
        value = read_outputs(np.atleast_1d(y), 1, may_fail=True)[0]
        self._current.become(self._run.correct(row, value))

    def forget(self, x: Any = None) -> None:
        """Give up pending points x, (k, D) or (D,), by default all; they may be asked for again.

        Failures that were none are forgotten as well, if x names them: tell their results then. Labels distinguish
        equal rows of a pool. A ValueError if a point is neither pending nor failed; none is given up then.
        """
        self._current.run = replace(self._run, ledger=self._ledger.forget(x))

    def expect(self, x: Any) -> None:
        """Add pending points x, (k, D) or (D,), such as another learner's; a ValueError if one is not in the pool."""
        self._current.run = replace(self._run, ledger=self._ledger.expect(x))

    def run(
        self,
        oracle: Callable[[Any], Any],
        n: int,
        progressbar: bool = True,
        *,
        until: tuple[float, float] | float | None = None,
        save_to: str | os.PathLike | None = None,
        budget: float | None = None,
        y_trials: float | None = None,
        exposure: float | None = None,
    ) -> None:
        """Ask and tell ``n`` times, or until :meth:`stop` says so: ``until`` is epsilon, or (epsilon, delta).

        With a ``cost`` it also ends, and gives the question up, where :attr:`spent` would exceed the ``budget``.

        To look whether to stop takes about as long as to ask, and seconds where it is a close call.

        The oracle takes one point (1, D), a data frame if the pool is one, and returns its y, or NaN for an experiment
        that failed; that counts as one of n. ``y_trials`` or ``exposure``, a number, is what each y is of, as for
        :meth:`tell`: with ``y_trials=12`` the oracle returns successes in 12 trials. If it raises, all told is kept and
        the point stays pending. With ``save_to``, a path, the run is saved after every answer: a killed run continues
        from the file with the same questions.
        """
        if not callable(oracle):
            raise TypeError(f"oracle must be a function of a point, which returns its y; got {type(oracle).__name__}")
        count("n", n, least=0)
        if budget is not None and self._run.price is None:
            raise ValueError("a budget needs to know the cost: Learner(..., cost=a column of the pool, or a function)")
        limits = None if until is None else read_until(until)
        if limits is not None:
            self._current.check_stoppable()
        sizes = {"y_trials": y_trials, "exposure": exposure}
        # Before anything is measured. All outcomes can be one.
        per_row = self._read_known(1, None, None, **sizes)
        for one in self._readers:
            one.check_outcomes(np.ones(1), per_row)
        if save_to is not None:
            self.save(save_to)
        with progress(f"Learning the {self.learn}", n, progressbar) as advance:
            for _ in range(n):
                x = self.ask(progressbar=False)
                # Sums of prices such as 0.1 are rounded.
                if budget is not None and self.spent + self._price(self._ledger.read(x, "x")[0]) > budget * (1 + 1e-9):
                    self.forget(x)
                    return
                # The oracle may write into its argument.
                self.tell(x, oracle(x.copy()), **sizes)
                if save_to is not None:
                    self.save(save_to)
                advance()
                if limits is not None and self.stop(*limits, progressbar=False):
                    return

    def save(self, path: str | os.PathLike, *, model: bool = False) -> None:
        """Write everything that :meth:`load` needs to continue bit for bit, and your ``notes``.

        The file is netCDF without code, which ArviZ can open: ``observed_data``, ``constant_data``, ``design`` as in
        :meth:`to_datatree`, the candidates, the pending points, the last fit of each model. An older one stays intact
        until it is complete. A model that no builder made is not in it, and a RunWarning says so at the first time;
        with ``model=True`` it is, as a pickle, which only ``load(path, allow_pickle=True)`` opens. A FileExistsError if
        that is no run, or one that this learner neither wrote nor loaded. A ValueError for labels other than text,
        numbers and dates, and for ``notes`` that JSON cannot hold.
        """
        contents, revisions = to_contents(self._run, self.notes, model), self._current.revisions
        for one in contents.document["models"] if not (revisions or model) else []:
            if one["recipe"] is None:
                why = f"the model {one['description']!r}, because {one['reason']}: keep the code that makes it"
                warn_user(f"the file holds the run, but not {why}, and pass it to Learner.load", RunWarning)
        revisions.add(write(path, contents, KIND, FORMAT_VERSION, revisions))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        model: GPModel | Mapping[Any, GPModel] | Sequence[GPModel] | MakeModel | None = None,
        *,
        criterion: str | AnyCriterion | None = None,
        pool: Any = None,
        space: Any = None,
        cost: Cost | None = None,
        executor: Executor | None = None,
        allow_pickle: bool = False,
    ) -> Self:
        """Load a saved learner; it asks the same next points, bit for bit.

        Parameters
        ----------
        model : GPModel, dict of label -> GPModel, list of all, or function, optional
            The function of a run that began without data, which is needed until it has made the model. Otherwise the
            model, made as before, if the file cannot hold it: a model that no builder made, that was extended
            later, or with a mean function or priors other than names and numbers. A copy gets the data of the file.
        criterion, pool, space, cost
            Your own functions or dask array, if the run had them; its space, if a constraint was a function.
        allow_pickle : bool
            Load a model that ``save(path, model=True)`` pickled. A pickle can run any code: only from whom you trust.

        Raises
        ------
        FileNotFoundError, TypeError, ValueError
            If a model, criterion or pool is missing, or the model's parameters differ from the saved ones; for a file
            of another kind, of a newer version, or damaged.
        """
        contents = read(path, KIND, FORMAT_VERSION)
        learner = cls.__new__(cls)
        learner._current = Current(from_contents(contents, model, criterion, pool, space, cost, allow_pickle), executor)
        learner.notes, learner._current.revisions = contents.document["notes"], {contents.revision}
        return learner

    def recommend(self, *, fixed: Mapping[Any, Any] | None = None) -> Any:
        """The best point for the maximum, or the most probable model.

        For ``learn="model"``, the label of the most probable model (see also :meth:`search`). Otherwise, also where the
        goal is read from :attr:`fit`, the point (1, D) of the pool or box with the largest posterior mean (the smallest
        with ``minimize=True``), averaged over hyperparameter draws for ``learn="maximum"``, measured or not. After
        failures it is such a point with P(success) of about 0.8 or more, or a measured one. :meth:`optimum` adds its
        uncertainty. A :class:`~pymc_active.RunWarning` says when it is predicted far above all that was measured.

        ``fixed`` has values of inputs that are given, as for :meth:`ask`: the answer is the best point with these, such
        as the best recipe for the humidity measured today, ``recommend(fixed={"humidity": 47})``.
        """
        ledger = self._ledger.at(fixed)
        if self.learn == "model" and isinstance(self.fit, ModelAverage):
            if fixed:
                raise ValueError("the answer is the label of a model, which has no inputs: leave fixed out")
            return self.fit.probability.idxmax().item()
        best = self._best(ledger)
        warn_if_far_above(self.fit, best.x, self._run.X, self.y, self.minimize)
        return ledger.candidates.show([best])

    def _best(self, ledger: Ledger) -> Choice:
        success = self._current.success()
        return best_point(self.fit, ledger.candidates, self._run.X, success, self.minimize, self.learn)

    def success_probability(self, X: Any) -> np.ndarray:
        """P(success) of experiments at X (m, D), in the user's units, shape (m,); one while none has failed."""
        points, success = self._ledger.read(X, "X")[0], self._current.success()
        return np.ones(len(points)) if success is None else np.exp(success(points))

    def optimum(self, n_optima: int = 200, *, fixed: Mapping | None = None, progressbar: bool = True) -> Optimum:
        """The recommended point with its uncertainty, and the distribution of the maximum's (or minimum's) place.

        ``n_optima`` sample paths show this distribution; their hyperparameters are up to 64 draws from the fit. All of
        it is given the ``fixed`` values of inputs, as for :meth:`recommend`; ``domain.pool`` then has such rows only.
        """
        ledger = self._ledger.at(fixed)
        best = self._best(ledger)
        shown = ledger.candidates.show([best])
        return find_optimum(self._recommended(best, ledger), shown, n_optima, self.random_seed, progressbar)

    def _recommended(self, best: Choice, ledger: Ledger) -> Recommended:
        return Recommended(best.x, self.fit, ledger.candidates.domain, self._current.success(), self.minimize)

    def stop(self, epsilon: float, delta: float = 0.05, *, progressbar: bool = True) -> bool:
        """Whether it is time to stop.

        For ``learn="maximum"``: whether the regret of the recommended point exceeds ``epsilon``, in units of y, with a
        probability below ``delta``, by the posterior over functions and hyperparameters. For ``learn="model"``: whether
        the most probable model is wrong with a probability below ``delta`` or no candidate tells more than ``epsilon``
        nats. For the other goals: whether the best candidate's criterion is at most ``epsilon``, the price of a
        measurement in the criterion's units (for ``learn="function"`` of a GP, by how much it lowers the variance of
        predictions, in units of y²; with a ``likelihood``, and of a ``pm.Model``, nats); there ``delta`` means nothing.
        Before there is a model, and while all y are equal, the answer is False. All answers trust the model, which
        knows nothing of a peak narrower than what it has seen.

        References
        ----------
        .. [1] Wilson (2024), Stopping Bayesian optimization with probabilistic regret bounds.
        """
        epsilon, delta = read_until((epsilon, delta))
        # Equal values do not tell how much y varies.
        if isinstance(self._run.subject, FirstDesign) or not len(self.y) or not np.ptp(self.y):
            return False
        if self.learn == "maximum":
            recommended = self._recommended(self._best(self._ledger), self._ledger)
            return regret_is_small(recommended, epsilon, delta, self.random_seed, progressbar)
        if isinstance(self.fit, ModelAverage) and self.learn == "model" and self.fit.probability.max() > 1 - delta:
            return True
        return self.best_score()[0] <= epsilon

    def best_score(self) -> tuple[float, str]:
        """The criterion at its best candidate, offered already or not, and its units: what a measurement is worth."""
        scorer = self._current.scorer()
        if scorer is None:
            raise ValueError(NO_CRITERION)
        return self._ledger.candidates.maximum(scorer).score, scorer.units

    def to_datatree(self, draws: int | None = None) -> xr.DataTree:
        """The groups of :meth:`Fit.to_datatree` (of the most probable of several models), and ``design``.

        The latter has, over ``step``, points told (``x``, ``y``), their ``pool_row`` (-1 outside), ``label``, ``score``
        when asked, and whether they were ``asked`` for. After failures also ``failures``, the same without ``y``; with
        several models ``models``, their probabilities now and at each fit; with ``verify`` also :attr:`verification`.
        """
        fit = self.fit.best if isinstance(self.fit, ModelAverage) else self.fit
        tree = fit.to_datatree(draws=draws, random_seed=self.random_seed)
        tree["design"] = self.design()
        if self._ledger.failed:
            tree["failures"] = self._ledger.table(self._ledger.failed, "failure")
        if isinstance(self.fit, ModelAverage):
            now, history = self.fit.probability, self.model_history
            # The history also has models that left.
            tree["models"] = xr.Dataset({"probability": now, "history": history.sel(model=now.model)})
        if self._run.verification.verdicts:
            tree["verification"] = self.verification
        return tree

    def design(self, pending: bool = False) -> xr.Dataset:
        """The group ``design`` of :meth:`to_datatree`, on request with the pending points, whose ``y`` is NaN."""
        told = self._ledger.design(self.y[self.n_start :], pending)
        told["score"].attrs["units"] = getattr(self.criterion, "units", "")
        return told.assign_attrs(criterion=self.criterion_name, learn=self.learn, n_start=self.n_start)
