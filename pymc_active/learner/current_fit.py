"""Make the current fit of a run: search when needed, verify when due, condition on pending points."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from pymc_active.classification.success import Success
from pymc_active.criteria.base import Criterion, Scorer
from pymc_active.criteria.screening import prepare, screened
from pymc_active.criteria.weighted import expected
from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Pool
from pymc_active.learner.first_design import FirstDesign
from pymc_active.learner.models_followed import ONLY
from pymc_active.learner.state import LearnerState
from pymc_active.learner.verification import PLACES, regret_ratio
from pymc_active.particles.choose import warn_of_points_left_out
from pymc_active.particles.outliers import warn_of_outlier
from pymc_active.particles.power_map import offer_output_map
from pymc_active.particles.smc import warn_if_doubtful
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import imagined
from pymc_active.support.user_warnings import (
    ActiveWarning,
    DoubtfulEvidenceWarning,
    DoubtfulFitWarning,
    ModelLeftOutWarning,
    ignoring,
)

# Models of lower probability are not verified.
_UNLIKELY = 0.05


class CurrentFit:
    """Makes the fits of a run; the ``fit`` of its state is the searched one."""

    def __init__(self, state: LearnerState, executor: Executor | None):
        if executor is not None and not isinstance(executor, Executor):
            raise TypeError(f"executor must be a concurrent.futures.Executor; got {type(executor).__name__}")
        self.state, self.executor = state, executor
        # Warned of doubtful fits, of output maps, of points left out: once each a run.
        self._has_warned: set[Callable[..., bool]] = set()
        # Rows of measurements that others contradict, once they were named.
        self.outliers: set[int] = set()
        # The verified fit, None until it is made.
        self.known: Fit | ModelAverage | None = None
        self._success: Success | None = None
        if state.fit is not None and not state.verification.is_due(len(state.subject.y)):
            self.known = state.fit

    def __getstate__(self) -> dict[str, Any]:
        # A copy cannot have the same workers.
        return {**vars(self), "executor": None}

    def searched(self) -> Fit | ModelAverage:
        """The fit before verification."""
        state = self.state
        if state.fit is None:
            self.check_data()
            state.fit = self._followed()
            self._warn(state.fit)
        return state.fit

    def _followed(self) -> Fit | ModelAverage:
        """The fit to all data, after those to what had been told each time since the last fit."""
        subject, steps = self.state.subject, self.state.steps
        while len(steps) > 1:
            assert not isinstance(subject, FirstDesign), "it has no steps"
            # The last fit says which models are left out.
            with subject.holding_first(steps[0]), ignoring(ModelLeftOutWarning):
                self._verify(self._fitted())
            del steps[0]
        fit = self._fitted()
        steps.clear()
        return fit

    def _fitted(self) -> Fit | ModelAverage:
        with ignoring(DoubtfulFitWarning, DoubtfulEvidenceWarning):
            return self.state.subject.fit(self.state.random_seed, self.executor)

    def _warn(self, fit: Fit | ModelAverage) -> None:
        """Say what is to be known of a fit, once a run."""
        best = fit if isinstance(fit, Fit) else fit.best
        if not best.n_left_out:
            warn_of_outlier(best, self.outliers)
        if not isinstance(fit, Fit):
            return
        warnings: list[Callable[..., bool]] = [warn_of_points_left_out, warn_if_doubtful]
        # A slip would call for a map, too.
        if fit.gpm.y_map.is_renewed and not self.outliers:
            warnings.append(offer_output_map)
        self._has_warned |= {warn for warn in warnings if warn not in self._has_warned and warn(fit)}

    def verified(self) -> Fit | ModelAverage:
        """The fit, or the longer run that a due verification found better."""
        if self.known is None:
            self.known = self._verify(self.searched())
        return self.known

    def refit(self, fit: Fit | ModelAverage | None = None) -> None:
        """Discard the fit, or replace it by this one."""
        self.state.fit, self.known = fit, None

    def check_data(self) -> None:
        """Raise a ValueError if the model's data were changed elsewhere."""
        n, known = len(self.state.subject.y), self.state.n_start + len(self.state.questions.told)
        if n != known:
            raise ValueError(
                f"the model has {n} points, but this learner knows {known}: another learner uses the same model, or "
                "its data were set directly. Make one model for each learner, and tell results to the learner"
            )

    def _verify(self, searched: Fit | ModelAverage) -> Fit | ModelAverage:
        subject, verification = self.state.subject, self.state.verification
        if not verification.is_due(len(subject.y)):
            return searched
        if isinstance(searched, Fit):
            fits = {ONLY: searched}
        else:
            probability = searched.probability.to_numpy()
            fits = {label: fit for (label, fit), p in zip(searched.items(), probability, strict=True) if p > _UNLIKELY}
        places = self.state.questions.candidates.places(PLACES)
        replaced = verification.verify(fits, places)
        if not replaced:
            return searched
        assert not isinstance(subject, FirstDesign), "it has no fit"
        with ignoring(DoubtfulFitWarning, DoubtfulEvidenceWarning):
            return subject.last(replaced) or searched

    def before_asking(self) -> None:
        """Verify if due; record the regret of the choice of a fit that was replaced."""
        if self.state.verification.is_due(len(self.state.subject.y)):
            self.verified()
        if self.state.verification.longer and isinstance(self.state.criterion, Criterion):
            self._look_back(self.state.criterion)

    def scorer(self) -> Scorer | None:
        """The scorer of the criterion given told and pending points; None for random.

        Once an experiment has failed, scores are weighed by the probability of success.
        """
        criterion = self.state.criterion
        return None if criterion is None else self._weighed(prepare(criterion, self._conditioned()))

    def _weighed(self, scorer: Scorer) -> Scorer:
        success = self.success()
        return scorer if success is None else expected(scorer, getattr(self.state.criterion, "name", ""), success)

    def success(self) -> Success | None:
        """The probability of success, fitted to all points told; None while no experiment has failed."""
        measured, questions = self.state.subject.X, self.state.questions
        if not questions.failed:
            return None
        X = questions.tried(measured)
        failed = np.arange(len(X)) >= len(measured)
        if self._success is None or not self._success.is_of(X, failed):
            # It depends on nothing but the points, so that a file need not hold it.
            self._success = Success(X, failed, *questions.candidates.limits, self.state.random_seed)
        return self._success

    def _conditioned(self) -> Fit | ModelAverage:
        """The fit given that pending points come out as predicted."""
        fit, pending = self.verified(), self.state.questions.pending
        if not pending:
            return fit
        return imagined(fit, np.stack([choice.x for choice in pending]))

    def _look_back(self, criterion: Criterion) -> None:
        """Record the utility, judged by the longer run, of the choice that the fit it replaced would make."""
        n, questions, verification = len(self.state.subject.y), self.state.questions, self.state.verification
        pool = questions.candidates
        if not isinstance(pool, Pool) or n in verification.regret or not len(left := pool.left(questions.pending)):
            return
        # Warnings would be about the fit that is not used.
        with ignoring(ActiveWarning):
            chosen = screened(self._weighed(criterion.prepare(self.searched())), pool.X[left])
            true = screened(self._weighed(criterion.prepare(self.verified())), pool.X[left])
        verification.regret[n] = regret_ratio(criterion, chosen, true)
