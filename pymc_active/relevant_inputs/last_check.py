"""The last check of a search, a :class:`Bisection` of the inputs not found, as part of its state."""

from __future__ import annotations

import numpy as np

from pymc_active.relevant_inputs.bisection import Bisection
from pymc_active.relevant_inputs.state import Check, Evaluation, HDSState, results


class LastCheck:
    """Plans the evaluations of a check, and enters what it finds below its node.

    What a bisection asks next follows from its seed and all answers: it starts anew from what a saved state holds.
    """

    def __init__(self, state: HDSState):
        settings = state.settings
        if state.check is None:
            # The root, unless it has been tested; else another, of the inputs that are left.
            is_new = len(state.trials) > 0
            node = state.add_node(0, settings.n_dims, without=state.active()) if is_new else state.nodes[-1]
            state.check = Check(node, int(state.rng.integers(2**63)))
        self._check = state.check
        noise = float(np.nan_to_num(settings.noise_variance))
        rng = np.random.default_rng(self._check.seed)
        self._search = Bisection(settings.n_dims, self._check.node.without, rng, noise)
        self._points = self._search.run()
        self._known = [at for at in state.evaluations if at.background is None]
        self._awaited = self._plan(state, next(self._points, np.empty((0, 0))))
        self.advance(state)

    def _plan(self, state: HDSState, X: np.ndarray) -> list[Evaluation]:
        """Evaluations at points of the unit box, those known first."""
        for x in X[len(self._known) :]:
            self._known.append(state.plan(Evaluation(self._check.node, point=state.settings.scale(x))))
        awaited, self._known = self._known[: len(X)], self._known[len(X) :]
        return awaited

    def advance(self, state: HDSState) -> None:
        """Ask for more once everything asked has been told."""
        while not self._check.is_finished and not any(at in self._awaited for at in (*state.asked, *state.queue)):
            try:
                X = self._points.send(results(self._awaited)) if self._awaited else None
            except StopIteration:
                X = None
            self._enter(state)
            if X is None:
                self._finish()
                return
            self._awaited = self._plan(state, X)

    def _enter(self, state: HDSState) -> None:
        """Inputs found, as nodes."""
        for i in sorted({*self._search.found} - {*state.active(), *self._check.node.without}):
            state.add_node(i, i + 1, self._check.node).status = "active"

    def _finish(self) -> None:
        check, node = self._check, self._check.node
        check.is_finished = True
        check.n_pairs, check.p_value = self._search.n_shown, self._search.p_value
        node.status = "contradicted" if check.shows_change else "active" if node.children else "inactive"
