"""What follows from the verdict of a test: which nodes are tested next, set aside, taken back, or contradicted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pymc_active.relevant_inputs.state import Background, HDSState, Node, Trial


class NextTests(NamedTuple):
    """Nodes to test on one background; None for a new background."""

    nodes: list[Node]
    background: Background | None = None


_NONE = NextTests([])


def conclude(state: HDSState, trial: Trial, verdict: str, set_aside_at: float | None) -> NextTests:
    """Enter a verdict, ``"open"``, ``"active"`` or ``"inactive"``; ``set_aside_at`` as :meth:`NodeTest.set_aside`."""
    tests, concerned = _NONE, [trial]
    if verdict != "open":
        _close(state, trial, verdict)
        tests = _after_active(state, trial) if verdict == "active" else _after_inactive(state, trial.node)
        concerned = state.open if verdict == "active" else []
    if set_aside_at is not None:
        _set_aside(state, concerned, set_aside_at)
    if not (state.open or tests.nodes):
        tests = _at_the_end(state, trial.background, set_aside_at is not None)
    return tests


def _close(state: HDSState, trial: Trial, verdict: str) -> None:
    # What was planned for this test and not asked yet is not needed any more.
    state.queue = [at for at in state.queue if at.trial is not trial]
    trial.verdict = trial.node.status = verdict


def _after_active(state: HDSState, trial: Trial) -> NextTests:
    """The halves, on the same background."""
    node = trial.node
    if node.size == 1:
        return _NONE
    # A contradicted node that turns out active after all has its halves already.
    if not node.children:
        middle = (node.start + node.stop + 1) // 2
        for start, stop in ((node.start, middle), (middle, node.stop)):
            half = state.add_node(start, stop, node)
            half.without = half.has(node.without)
    return NextTests(_open_halves(node), trial.background)


def _open_halves(node: Node) -> list[Node]:
    for half in node.children:
        half.status = "inactive" if len(half.without) == half.size else "open"
    return [half for half in node.children if half.status == "open"]


def _after_inactive(state: HDSState, node: Node) -> NextTests:
    """An active node whose halves are both rejected has had a wrong verdict: one of these three."""
    if node.number == 0 and state.settings.retest and not node.was_retested:
        node.was_retested, node.status = True, "open"
        return NextTests([node])
    while node.parent is not None:
        node = node.parent
        if any(half.status in ("open", "active") for half in node.children):
            break
        aside = next((half for half in node.children if half.status == "set aside"), None)
        if aside:
            # The reason for it, an active sibling, has gone.
            trial = next(trial for trial in reversed(state.trials) if trial.node is aside)
            trial.verdict = aside.status = "open"
            break
        if state.settings.retest and not node.was_retested:
            node.was_retested = True
            return NextTests(_open_halves(node))
        node.status = "contradicted"
    return _NONE


def _set_aside(state: HDSState, trials: Iterable[Trial], level: float) -> None:
    """Spend no more on a node that is probably inactive if its sibling explains why the parent is active."""
    for trial in trials:
        parent = trial.node.parent
        if parent and trial.llr <= level and any(half.status == "active" for half in parent.children):
            _close(state, trial, "set aside")


def _at_the_end(state: HDSState, background: Background, with_rest: bool) -> NextTests:
    """Test all inputs not yet found as one extra node.

    Rejecting it rejects every node set aside, which saves most evaluations. If active, it is searched like a root. It
    is also tested if the root was rejected or contradicted: f may be flat along diagonals only.
    """
    aside = [node for node in state.nodes if node.status == "set aside"]
    root = [node for node in state.nodes if node.parent is None][-1]
    found = state.active()
    is_due = (aside and root.status == "active") or (root.number == 0 and root.status != "active")
    if with_rest and is_due and len(found) < state.settings.n_dims:
        return NextTests([state.add_node(0, state.settings.n_dims, without=found)], background)
    for node in aside:
        node.status = "active" if node.has(found) else "inactive"
    return _NONE
