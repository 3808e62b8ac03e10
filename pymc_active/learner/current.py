"""The run of a learner as it stands: fitted when needed, verified when due, conditioned on pending points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_active.criteria.base import Scorer
from pymc_active.criteria.screening import prepare
from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Choice
from pymc_active.learner.first_design import FirstDesign
from pymc_active.learner.models_followed import ONLY, FollowedModels
from pymc_active.learner.run import Run
from pymc_active.learner.success import Success
from pymc_active.learner.verification import PLACES
from pymc_active.learner.weighted import expected
from pymc_active.models.advice import warn_of_data
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.outcome_advice import outcome_advice
from pymc_active.particles.smc import warn_if_doubtful
from pymc_active.predictions.ensembles import is_of_processes
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import imagined
from pymc_active.support.arguments import check_executor
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring, warn_if

# Models of lower probability are not verified.
_UNLIKELY = 0.05
NO_CRITERION = "random points have no criterion to stop by: pass criterion=... to the Learner"


class Current:
    """The run of a learner as it stands, with its executor, the user's notes, and what was computed from it."""

    def __init__(self, run: Run, executor: Executor | None):
        check_executor(executor)
        self.run, self.executor = run, executor
        self.notes: dict[str, Any] = {}
        # Revisions of the files that the run has written or was loaded from, which saving may replace.
        self.revisions: set[str] = set()
        # Warned of doubtful fits, of output maps: once each a run.
        self._has_warned: set[Callable[..., bool]] = set()
        # Success, and the points that it is of.
        self._success: tuple[list[bytes], Success] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy cannot have the same workers.
        return {**vars(self), "executor": None}

    def become(self, run: Run) -> None:
        """Take another run, whose data the models then hold: wholly, or after an error or an interrupt not at all."""
        before = self.run
        try:
            if isinstance(run.subject, FollowedModels):
                run.subject.set_data(run.data)
            self.run = run
        except BaseException:
            self.run = before
            if isinstance(before.subject, FollowedModels):
                before.subject.set_data(before.data)
            raise

    def searched(self, progressbar: bool = False) -> Fit | ModelAverage:
        """The fit before verification, after those to what had been told each time since the last fit."""
        if self.run.fit is None:
            is_first = all(track.last is None for track in self.models().tracks.values())
            while len(self.run.steps) > 1:
                subject, steps = self.models(), self.run.steps
                with subject.holding_first(steps[0]):
                    run = self._verify(self._followed(subject, progressbar), progressbar)
                self.run = replace(run, steps=steps[1:], fit=None, verified=None)
            self.run = replace(self._followed(self.models(), progressbar), steps=())
            self._warn(self.run.searched, is_first)
        return self.run.searched

    def models(self) -> FollowedModels:
        """The models; a ValueError before there are any."""
        subject, n = self.run.subject, len(self.run.y)
        if isinstance(subject, FirstDesign):
            raise ValueError(
                f"there is no model yet: the learner makes it when {len(subject.rows)} points have been told, failures "
                f"not counted, and it knows {n}. Measure the points of ask() first; if all fail, look elsewhere"
            )
        return subject

    def _followed(self, subject: FollowedModels, progressbar: bool) -> Run:
        """The run after a fit to the data that the models hold."""
        with ignoring(DoubtfulFitWarning):
            followed = subject.follow(self.run.random_seed, self.executor, progressbar=progressbar)
            return self.run.refitted(followed, followed.last())

    def _warn(self, fit: Fit | ModelAverage, is_first: bool) -> None:
        """Say what is to be known of the data at the first fit of a run, and of a fit once a run."""
        if is_first:
            gps = [model for model in self.run.subject.models.values() if isinstance(model, GPModel)]
            warn_of_data(*gps, is_asked=not self.run.n_start)
        if isinstance(fit, Fit):
            warnings = (warn_if_doubtful, *([_warn_of_outcomes] if isinstance(fit.gpm, GPModel) else []))
            self._has_warned |= {warn for warn in warnings if warn not in self._has_warned and warn(fit)}

    def verified(self, progressbar: bool = False) -> Fit | ModelAverage:
        """The fit, or the longer run that a due verification found better."""
        if self.run.verified is None:
            self.searched(progressbar)
            self.run = self._verify(self.run, progressbar)
        assert self.run.verified is not None
        return self.run.verified

    def check_stoppable(self) -> None:
        """Raise a ValueError if nothing can say when to stop."""
        if self.run.learn == "maximum":
            _ = self.run.ledger.candidates.domain
        elif self.run.criterion is None:
            raise ValueError(NO_CRITERION)

    def _verify(self, run: Run, progressbar: bool) -> Run:
        """The run with its fit, to the data that the models hold, verified if due."""
        subject, searched = run.subject, run.searched
        assert isinstance(subject, FollowedModels), "it has a fit"
        if not run.verification.is_due(len(subject.data.y), run.n_start):
            return replace(run, verified=searched)
        if isinstance(searched, Fit):
            fits = {ONLY: searched}
        else:
            probability = searched.probability.to_numpy()
            fits = {label: fit for (label, fit), p in zip(searched.items(), probability, strict=True) if p > _UNLIKELY}
        verification = run.verification.verify(fits, run.ledger.candidates.places(PLACES), progressbar)
        if not verification.longer:
            return replace(run, verification=verification, verified=searched)
        with ignoring(DoubtfulFitWarning):
            return replace(run, verification=verification, verified=subject.last(verification.longer))

    def before_asking(self, progressbar: bool) -> None:
        """Fit, and verify if due."""
        # Random points need no fit.
        if self.run.criterion is not None or self.run.verification.is_due(len(self.run.y), self.run.n_start):
            self.verified(progressbar)

    def scorer(self, pending: Sequence[Choice] | None = None) -> Scorer | None:
        """The scorer of the criterion, None for random, if pending points, by default all, come out as predicted."""
        if self.run.criterion is None:
            return None
        pending = self.run.ledger.pending if pending is None else pending
        fit, rows = self.verified(), self.run.ledger.matrix(pending)
        if is_of_processes(fit):
            scorer = prepare(self.run.criterion, fit, rows)
        else:
            scorer = prepare(self.run.criterion, imagined(fit, rows) if pending else fit)
        for weight in (self.success(), self.run.price):
            if weight is not None:
                scorer = expected(scorer, getattr(self.run.criterion, "name", ""), weight)
        return scorer

    def success(self) -> Success | None:
        """The probability of success, fitted to all points told; None while no experiment has failed."""
        ledger = self.run.ledger
        if not ledger.failed:
            return None
        X = ledger.matrix(ledger.tried)
        failed = np.arange(len(X)) >= len(self.run.y)
        points = [X.tobytes(), failed.tobytes()]
        if self._success is None or self._success[0] != points:
            # It depends on nothing but the points, so that a file need not hold it.
            success = Success(X, failed, *ledger.candidates.limits, self.run.random_seed, ledger.space)
            self._success = points, success
        return self._success[1]


def _warn_of_outcomes(fit: Fit) -> bool:
    return warn_if(outcome_advice(fit))
