"""How a node is tested: what all tests share, and the paper's test by Gaussian processes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pymc_active.relevant_inputs.likelihood_ratio import LikelihoodRatio
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.relevant_inputs.state import Background, Evaluation, HDSState, Trial, places, results

# Number of random places at which a test compares its index.
N_PLACES = 64
# Relative difference below which indices are a tie: far from all data they differ by rounding only.
_TIE = 1e-6


class NodeTest:
    """Backgrounds, points and verdicts of a kind of test, which keeps settings only and adds to an HDSState."""

    # The defaults of the settings ``retest`` and ``check``.
    retests: ClassVar[bool] = False
    checks: ClassVar[bool] = False
    # Evaluations that are planned together, and are wasted by halves.
    n_together: ClassVar[int] = 1

    def __init__(self, settings: Settings):
        self.settings = settings

    def set_aside(self) -> float | None:
        """Log likelihood ratio at which a node whose sibling is active is set aside; None for never."""
        return None

    def new_background(self, state: HDSState) -> Background:
        """The paper's background, a random point."""
        return state.add_background(position=state.rng.random(self.settings.n_dims))

    def begin(self, state: HDSState, background: Background) -> None:
        """Queue what a new background needs before its nodes are tested."""

    def plan(self, state: HDSState) -> None:
        """Queue the next evaluations of one of the open tests, the one with the highest priority."""
        ready = [trial for trial in state.open if self.is_ready(state, trial)]
        if not ready:
            self.plan_waiting(state, state.open[0])
            return
        # Tests with pending evaluations wait if there are others.
        busy = [at.trial for at in state.asked]
        ready = [trial for trial in ready if trial not in busy] or ready
        priority = np.array([self.priority(state, trial) for trial in ready])
        best = np.flatnonzero(priority >= priority.max() - 1e-12)
        self.plan_trial(state, ready[best[0] if len(best) == 1 else state.rng.choice(best)])

    def is_ready(self, state: HDSState, trial: Trial) -> bool:
        """Whether the next evaluation of a test can be planned."""
        return True

    def plan_waiting(self, state: HDSState, trial: Trial) -> None:
        """Queue something although no test is ready; this one is the first of them."""

    def priority(self, state: HDSState, trial: Trial) -> float:
        """The test with the largest priority is evaluated next."""
        raise NotImplementedError

    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """Queue the next evaluations of a test."""
        raise NotImplementedError

    def update(self, state: HDSState, trial: Trial, at: Evaluation) -> str:
        """Enter one more evaluation that succeeded; ``"open"``, or the verdict."""
        raise NotImplementedError

    def verdict(self, state: HDSState, trial: Trial) -> str:
        """By the thresholds."""
        if trial.llr >= self.settings.accept:
            return "active"
        return "inactive" if trial.llr <= self.settings.reject else "open"

    def replace(self, state: HDSState, failed: Evaluation) -> None:
        """Queue something in the place of a failed evaluation on which the plan counts."""

    def advance(self, state: HDSState, background: Background) -> None:
        """Take a background to its next stage after an evaluation on it."""


class NoNodeTest(NodeTest):
    """For a search that consists of its last check."""

    checks: ClassVar[bool] = True


class GPT(NodeTest):
    """The paper's test (section 3.3): each node on its own line, where the bound of the log ratio is largest."""

    def ratio(self, trial: Trial, y: np.ndarray) -> LikelihoodRatio:
        """The hypotheses that a test compares: a Gaussian process of mean 0 and a constant. y are its observations."""
        return LikelihoodRatio(*self.settings.scales, self.settings.offset_variance)

    def known(self, state: HDSState, trial: Trial) -> list[Evaluation]:
        """Evaluations that a test knows, its own last."""
        return trial.told

    def candidates(self, state: HDSState, trial: Trial) -> np.ndarray:
        """Places for the next evaluation, (2, m); a fresh random set each time, so that ties are broken at random."""
        z = state.rng.random(N_PLACES)
        return np.array([z, z])

    def next_background(self, state: HDSState, trial: Trial) -> Background:
        """The background of a test's next evaluation."""
        return trial.background

    def priority(self, state: HDSState, trial: Trial) -> float:
        """The upper confidence bound of the log likelihood ratio after the next evaluation."""
        if np.isnan(trial.priority):
            self._choose_place(state, trial, [])
        return trial.priority

    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """Queue one evaluation at the chosen place, anew if others are pending."""
        pending = [at for at in state.asked if at.trial is trial]
        if pending:
            self._choose_place(state, trial, pending)
        background = self.next_background(state, trial)
        state.plan(Evaluation(trial.node, trial, background, trial.place, trial.rest))
        trial.forget_plan()

    def _choose_place(self, state: HDSState, trial: Trial, pending: list[Evaluation]) -> None:
        """Where the bound is largest if pending evaluations come out as an active node predicts."""
        known = self.known(state, trial)
        at, y = places(known), results(known)
        ratio, new = self.ratio(trial, y), self.candidates(state, trial)
        if pending:
            at_pending = places(pending)
            y = np.concatenate([y, ratio.predict(at, y, at_pending)[1].mean])
            at = np.concatenate([at, at_pending], axis=1)
        bound = ratio.llr_moments(at, y, new).bound
        best = state.rng.choice(np.flatnonzero(bound >= bound.max() * (1 - _TIE)))
        trial.place, trial.rest = (float(place) for place in new[:, best])
        trial.priority = float(trial.llr + bound[best])

    def update(self, state: HDSState, trial: Trial, at: Evaluation) -> str:
        """Work out the path of the log likelihood ratio anew."""
        trial.told.append(at)
        trial.forget_plan()
        known = self.known(state, trial)
        y = results(known)
        path = self.ratio(trial, y).llr_path(places(known), y)
        trial.path = path[len(known) - len(trial.told) :].cumsum().tolist()
        return self.verdict(state, trial)
