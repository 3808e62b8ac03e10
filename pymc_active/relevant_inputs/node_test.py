"""How a node is tested: the protocol of all tests, and the paper's test by Gaussian processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from pymc_active.relevant_inputs.likelihood_ratios import LikelihoodRatio, LineRatio
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.relevant_inputs.state import Background, Evaluation, HDSState, Trial

# Number of random places at which a test compares its index.
N_PLACES = 64
# Relative difference below which indices are a tie: far from all data they differ by rounding only.
_TIE = 1e-6


class NodeTest(ABC):
    """Backgrounds, points and verdicts of a kind of test, which keeps settings only and adds to an HDSState."""

    # The default of the setting ``retest``.
    retests: ClassVar[bool] = False
    # The default of the setting ``check``.
    checks: ClassVar[bool] = False
    # Evaluations that are planned together, and are wasted by halves.
    n_together: ClassVar[int] = 1
    # Whether false_inactive is simulated, which takes a second.
    is_simulated: ClassVar[bool] = False
    # Evaluations without which not even the root can be decided.
    fewest: int = 2
    # Log likelihood ratio at which a node whose sibling is active is set aside; None for never.
    set_aside: float | None = None

    def __init__(self, settings: Settings):
        self.settings = settings

    def new_background(self, state: HDSState) -> Background:
        """The paper's background, a random point."""
        return Background(position=state.rng.random(self.settings.n_dims))

    def begin(self, state: HDSState, background: int) -> None:  # noqa: B027
        """Queue what a new background needs before its nodes are tested."""

    def plan(self, state: HDSState) -> None:
        """Queue the next evaluations of one of the open tests, the one with the highest priority."""
        trials = [state.trials[number] for number in state.open]
        ready = [trial for trial in trials if self.is_ready(state, trial)]
        if not ready:
            self.plan_waiting(state, trials[0])
            return
        # Tests with pending evaluations wait if there are others.
        busy = {state.evaluations[row].trial for row in state.asked}
        ready = [trial for trial in ready if trial.number not in busy] or ready
        priority = np.array([self.priority(state, trial) for trial in ready])
        best = np.flatnonzero(priority >= priority.max() - 1e-12)
        self.plan_trial(state, ready[best[0] if len(best) == 1 else state.rng.choice(best)])

    def is_ready(self, state: HDSState, trial: Trial) -> bool:
        """Whether the next evaluation of a test can be planned."""
        return True

    def plan_waiting(self, state: HDSState, trial: Trial) -> None:  # noqa: B027
        """Queue something although no test is ready; this one is the first of them."""

    @abstractmethod
    def priority(self, state: HDSState, trial: Trial) -> float:
        """The test with the largest priority is evaluated next."""

    @abstractmethod
    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """Queue the next evaluations of a test."""

    @abstractmethod
    def update(self, state: HDSState, trial: Trial, row: int) -> str:
        """Enter one more evaluation that succeeded; ``"open"``, or the verdict."""

    def verdict(self, state: HDSState, trial: Trial) -> str:
        """By the thresholds."""
        if trial.llr >= self.settings.accept:
            return "active"
        return "inactive" if trial.llr <= self.settings.reject else "open"

    def replace(self, state: HDSState, failed: Evaluation) -> None:  # noqa: B027
        """Queue something in the place of a failed evaluation on which the plan counts."""

    def advance(self, state: HDSState, background: int) -> None:  # noqa: B027
        """Take a background to its next stage after an evaluation on it."""

    def false_inactive(self) -> float:
        """Upper bound of the probability that a test rejects an active node: Wald's, exp(reject)."""
        return float(np.exp(self.settings.reject))


class NoNodeTest(NodeTest):
    """For a search that consists of its last check."""

    checks: ClassVar[bool] = True
    fewest = 8

    def priority(self, state: HDSState, trial: Trial) -> float:
        """There are no tests."""
        raise NotImplementedError

    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """There are no tests."""
        raise NotImplementedError

    def update(self, state: HDSState, trial: Trial, row: int) -> str:
        """There are no tests."""
        raise NotImplementedError


class GPT(NodeTest):
    """The paper's test (section 3.3): each node on its own line, where the bound of the log ratio is largest."""

    def ratio(self, trial: Trial, y: np.ndarray) -> LikelihoodRatio:
        """The hypotheses that a test compares: a Gaussian process of mean 0 and a constant. y are its observations."""
        return LineRatio(*self.settings.scales, self.settings.offset_variance)

    def rows(self, state: HDSState, trial: Trial) -> list[int]:
        """Evaluations that a test knows, its own last."""
        return trial.rows

    def candidates(self, state: HDSState, trial: Trial) -> np.ndarray:
        """Places for the next evaluation, (2, m); a fresh random set each time, so that ties are broken at random."""
        z = state.rng.random(N_PLACES)
        return np.array([z, z])

    def next_background(self, state: HDSState, trial: Trial) -> int:
        """The background of a test's next evaluation."""
        return trial.background

    def priority(self, state: HDSState, trial: Trial) -> float:
        """The upper confidence bound of the log likelihood ratio after the next evaluation."""
        if np.isnan(trial.priority):
            self._choose_place(state, trial, [])
        return trial.priority

    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """Queue one evaluation at the chosen place, anew if others are pending."""
        pending = [row for row in state.asked if state.evaluations[row].trial == trial.number]
        if pending:
            self._choose_place(state, trial, pending)
        state.add(trial.number, trial.node, self.next_background(state, trial), trial.place, trial.rest)
        trial.forget_plan()

    def _choose_place(self, state: HDSState, trial: Trial, pending: list[int]) -> None:
        """Where the bound is largest if pending evaluations come out as an active node predicts."""
        rows = self.rows(state, trial)
        at, y = state.places(rows), state.results(rows)
        ratio, new = self.ratio(trial, y), self.candidates(state, trial)
        if pending:
            at_pending = state.places(pending)
            y = np.concatenate([y, ratio.predict(at, y, at_pending)[1].mean])
            at = np.concatenate([at, at_pending], axis=1)
        bound = ratio.llr_moments(at, y, new).bound
        best = state.rng.choice(np.flatnonzero(bound >= bound.max() * (1 - _TIE)))
        trial.place, trial.rest = (float(place) for place in new[:, best])
        trial.priority = float(trial.llr + bound[best])

    def update(self, state: HDSState, trial: Trial, row: int) -> str:
        """Work out the path of the log likelihood ratio anew."""
        trial.rows.append(row)
        trial.forget_plan()
        rows = self.rows(state, trial)
        y = state.results(rows)
        path = self.ratio(trial, y).llr_path(state.places(rows), y)
        trial.path = path[len(rows) - len(trial.rows) :].cumsum().tolist()
        return self.verdict(state, trial)
