"""The last check of a search, a :class:`Bisection` of the inputs not found, as part of its state."""

from __future__ import annotations

import numpy as np

from pymc_active.relevant_inputs.bisection import SURPRISING, Bisection
from pymc_active.relevant_inputs.state import Check, Evaluation, HDSState, Node


class LastCheck:
    """Plans the evaluations of a check, and enters what it finds below its node.

    What a bisection asks next follows from its seed and all answers: it starts anew from what a saved state holds.
    """

    def __init__(self, state: HDSState):
        if state.check is None:
            state.check = Check(self._node(state), int(state.rng.integers(2**63)))
        check = state.check
        without = state.nodes[check.node].without
        settings = state.settings
        noise = 0.0 if np.isnan(settings.noise_variance) else settings.noise_variance
        self._search = Bisection(settings.n_dims, without, np.random.default_rng(check.seed), noise)
        self._points = self._search.run()
        self._known = [row for row, at in enumerate(state.evaluations) if at.background < 0]
        self._rows = self._plan(state, next(self._points, np.empty((0, 0))))
        self.advance(state)

    def _node(self, state: HDSState) -> int:
        """The root, unless it has been tested; else another, of the inputs that are left."""
        if state.trials:
            state.nodes.append(Node(len(state.nodes), 0, state.settings.n_dims, without=state.active()))
        return state.nodes[-1].number

    def _plan(self, state: HDSState, X: np.ndarray) -> list[int]:
        """Numbers of evaluations at points of the unit box, of those known first."""
        check = state.check
        assert check is not None
        for x in X[len(self._known) :]:
            self._known.append(len(state.evaluations))
            state.measured[self._known[-1]] = state.settings.scale(x)
            state.queue.append(self._known[-1])
            state.evaluations.append(Evaluation(-1, check.node, -1, np.nan, np.nan))
        rows, self._known = self._known[: len(X)], self._known[len(X) :]
        return rows

    def advance(self, state: HDSState) -> None:
        """Ask for more once everything asked has been told."""
        check = state.check
        assert check is not None
        while not check.is_finished and {*state.asked, *state.queue}.isdisjoint(self._rows):
            try:
                X = self._points.send(state.results(self._rows)) if self._rows else None
            except StopIteration:
                X = None
            self._enter(state, check)
            if X is None:
                self._finish(state, check)
                return
            self._rows = self._plan(state, X)

    def _enter(self, state: HDSState, check: Check) -> None:
        """Inputs found, as nodes."""
        for i in sorted({*self._search.found} - {*state.active(), *state.nodes[check.node].without}):
            status = {"parent": check.node, "depth": 1, "status": "active"}
            state.nodes.append(Node(len(state.nodes), i, i + 1, **status))  # type: ignore[arg-type]

    def _finish(self, state: HDSState, check: Check) -> None:
        check.is_finished = True
        check.n_pairs, check.p_value = self._search.n_shown, self._search.p_value
        node = state.nodes[check.node]
        has_found = any(other.parent == node.number for other in state.nodes)
        node.status = "active" if has_found else "inactive"
        if check.p_value <= SURPRISING:
            node.status = "contradicted"
