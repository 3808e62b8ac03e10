"""The default test: all nodes share one scan along a random diagonal of the box, and move away from it.

A diagonal is scanned, and f is measured repeatedly where it is farthest from its mean, the *anchor*. Then the inputs of
one node at a time move away, mostly from the anchor: f elsewhere is likely to be near its mean, a change hard to miss.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np

from pymc_active.relevant_inputs.likelihood_ratio import VAGUE, LikelihoodRatio, squared_exponential, with_noise
from pymc_active.relevant_inputs.node_test import GPT, N_PLACES
from pymc_active.relevant_inputs.state import Background, Evaluation, HDSState, Trial, places, results

# Evaluations of a scan: enough to find a place far from the mean of f, at two sds of f in most cases.
_SCAN = 12
# If this number does not show whether f changes along the diagonal, other directions are tried.
_LONGEST_SCAN = 96
# Repeats at the anchor: its error is shared by all tests, and is kept to this fraction of the signal variance.
_ANCHOR_PRECISION, _MOST_REPEATS = 0.05, 20
# With less evidence active inputs are often among those set aside, and finding them costs another way down the tree.
_SET_ASIDE = -1.0
_GOLDEN = (math.sqrt(5) - 1) / 2


class Anchored(GPT):
    """Tests of all nodes around one scanned diagonal."""

    retests: ClassVar[bool] = True
    checks: ClassVar[bool] = True

    def set_aside(self) -> float | None:
        """Nodes come back in the test of the rest, which is a retest."""
        return _SET_ASIDE if self.settings.retest else None

    def new_background(self, state: HDSState) -> Background:
        """A random diagonal of the box, to be scanned."""
        return state.add_background(is_reversed=state.rng.random(self.settings.n_dims) < 0.5, stage="scan")

    # The scan and the anchor

    def begin(self, state: HDSState, background: Background) -> None:
        """Scan the diagonal."""
        self._scan(state, background, _SCAN)

    def _scan(self, state: HDSState, background: Background, n: int) -> None:
        """Queue more places of a low-discrepancy sequence along the diagonal."""
        done = [at for at in state.evaluations if at.background is background]
        z = done[0].z + len(done) * _GOLDEN if done else state.rng.random()
        root = self._root(state, background)
        for k in range(n):
            self._add(state, background, (z + k * _GOLDEN) % 1.0, root)

    def _add(self, state: HDSState, background: Background, z: float, trial: Trial | None = None) -> None:
        """Queue an evaluation with all inputs at one place of the diagonal."""
        state.plan(Evaluation(state.nodes[0], trial, background, z, z))

    def advance(self, state: HDSState, background: Background) -> None:
        """From the scan to the repeats at the anchor, and from these to the tests."""
        is_busy = any(at.background is background for at in (*state.asked, *state.queue))
        if background.stage == "ready" or is_busy:
            return
        scan = state.along(background)
        if background.stage == "repeat":
            background.stage = "ready"
        elif len(scan) >= _SCAN and self._is_anchor_needed(state, background):
            y = results(scan)
            background.anchor = farthest_from_mean(self._line(y), places(scan)[0], y)
            background.stage = "repeat"
            noise = self.settings.noise_variance / (_ANCHOR_PRECISION * self.settings.signal_variance)
            for _ in range(min(int(np.ceil(noise)), _MOST_REPEATS)):
                self._add(state, background, background.anchor)

    def _is_anchor_needed(self, state: HDSState, background: Background) -> bool:
        """Whether nodes below the root are tested on this diagonal."""
        root = self._root(state, background)
        if root is None or root.verdict == "active":
            return True
        return any(trial.background is background and trial is not root for trial in state.open)

    def replace(self, state: HDSState, failed: Evaluation) -> None:
        """Scan one place more; the anchor itself was scanned without failure, and one observation of it will do."""
        if failed.node.number == 0 and failed.background and failed.background.stage == "scan":
            self._scan(state, failed.background, 1)

    def is_ready(self, state: HDSState, trial: Trial) -> bool:
        """The root after the scan, other nodes once f at the anchor is known."""
        stage = trial.background.stage
        if trial.node.number == 0:
            return stage == "scan" and len(state.along(trial.background)) >= _SCAN
        return stage == "ready"

    def plan_waiting(self, state: HDSState, trial: Trial) -> None:
        """More of the scan or of the repeats, if more points are wanted before these are told."""
        if trial.background.stage == "scan":
            self._scan(state, trial.background, 1)
        else:
            self._add(state, trial.background, trial.background.anchor)

    def _root(self, state: HDSState, background: Background) -> Trial | None:
        """The test of all inputs along this diagonal."""
        return next((t for t in state.trials if t.background is background and t.node.number == 0), None)

    # The test of a node

    def ratio(self, trial: Trial, y: np.ndarray) -> LikelihoodRatio:
        """Of the root along the diagonal, of other nodes in the plane."""
        return self._line(y) if trial.node.number == 0 else self._plane(y)

    # Nothing is known about the mean of f, so any observation is as good a guess as another.

    def _line(self, y: np.ndarray) -> LikelihoodRatio:
        return LikelihoodRatio(*self.settings.scales, VAGUE * self.settings.signal_variance, y[0])

    def _plane(self, y: np.ndarray) -> LikelihoodRatio:
        return dataclasses.replace(self._line(y), n_others=self.settings.n_active, share=self.settings.share)

    def known(self, state: HDSState, trial: Trial) -> list[Evaluation]:
        """Those of the diagonal, which all nodes share, and the test's own."""
        return trial.told if trial.node.number == 0 else state.along(trial.background) + trial.told

    def candidates(self, state: HDSState, trial: Trial) -> np.ndarray:
        """Half of the places have the others at the anchor, half at any place of the scan."""
        if trial.node.number == 0:
            return super().candidates(state, trial)
        z = state.rng.random(N_PLACES)
        elsewhere = state.rng.choice(places(state.along(trial.background))[0], N_PLACES)
        z = np.concatenate([z, state.rng.random(N_PLACES)])
        return np.array([z, np.concatenate([np.full(N_PLACES, trial.background.anchor), elsewhere])])

    def next_background(self, state: HDSState, trial: Trial) -> Background:
        """New random directions at each evaluation of a node of the rest: opposite effects cancel on a diagonal."""
        node = root = trial.node
        while root.parent is not None:
            root = root.parent
        if root.number == 0 or node.size == 1:
            return trial.background
        is_reversed = trial.background.is_reversed.copy()  # type: ignore[union-attr]
        inputs = np.setdiff1d(np.arange(node.start, node.stop), node.without)
        is_reversed[inputs] = state.rng.random(len(inputs)) < 0.5
        return state.add_background(is_reversed=is_reversed)

    def verdict(self, state: HDSState, trial: Trial) -> str:
        """The root is judged after the scan, and given up if f is flat along it: other directions will tell more."""
        if trial.node.number != 0:
            return super().verdict(state, trial)
        if len(trial.told) < _SCAN:
            return "open"
        verdict = super().verdict(state, trial)
        is_hopeless = self.settings.retest and len(trial.told) >= _LONGEST_SCAN
        return "inactive" if verdict == "open" and is_hopeless else verdict


def farthest_from_mean(ratio: LikelihoodRatio, z: np.ndarray, y: np.ndarray) -> float:
    """The place, of those scanned, where the posterior mean of f is farthest from the mean of f."""
    K = ratio.signal_variance * squared_exponential(np.square((z[:, None] - z) / ratio.bandwidth))
    noisy = with_noise(K.copy(), ratio.noise_variance)
    weights = np.linalg.solve(noisy, np.ones(len(z)))
    mean = weights @ y / weights.sum()
    posterior = K @ np.linalg.solve(noisy, y - mean)
    return float(z[np.argmax(np.abs(posterior))])
