"""What follows from the verdict of a test: which nodes are tested next, set aside, taken back, or contradicted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pymc_active.relevant_inputs.state import HDSState, Node, Trial


class NextTests(NamedTuple):
    """Nodes to test on one background; None for a new background."""

    nodes: list[int]
    background: int | None = None


_NONE = NextTests([])


def conclude(state: HDSState, trial: Trial, verdict: str, set_aside_at: float | None) -> NextTests:
    """Enter a verdict, ``"open"``, ``"active"`` or ``"inactive"``; ``set_aside_at`` as :attr:`NodeTest.set_aside`."""
    tests = _NONE
    if verdict == "open":
        concerned = [trial]
    else:
        _close(state, trial, verdict)
        node = state.nodes[trial.node]
        tests = _after_active(state, node, trial) if verdict == "active" else _after_inactive(state, node)
        concerned = [state.trials[number] for number in state.open] if verdict == "active" else []
    if set_aside_at is not None:
        _set_aside(state, concerned, set_aside_at)
    if not (state.open or tests.nodes):
        tests = _at_the_end(state, trial.background, set_aside_at is not None)
    return tests


def _close(state: HDSState, trial: Trial, verdict: str) -> None:
    state.open.remove(trial.number)
    # What was planned for this test and not asked yet is not needed any more.
    state.queue = [row for row in state.queue if state.evaluations[row].trial != trial.number]
    trial.verdict = state.nodes[trial.node].status = verdict


def _after_active(state: HDSState, node: Node, trial: Trial) -> NextTests:
    """The halves, on the same background."""
    if node.size == 1:
        return _NONE
    # A contradicted node that turns out active after all has its halves already.
    if not node.children:
        for start, stop in node.halves():
            half = Node(len(state.nodes), start, stop, node.number, node.depth + 1)
            half.without = half.has(node.without)
            node.children.append(half.number)
            state.nodes.append(half)
    return NextTests(_open_halves(state, node), trial.background)


def _open_halves(state: HDSState, node: Node) -> list[int]:
    for half in (state.nodes[child] for child in node.children):
        half.status = "inactive" if half.is_empty else "open"
    return [child for child in node.children if state.nodes[child].status == "open"]


def _after_inactive(state: HDSState, node: Node) -> NextTests:
    """An active node whose halves are both rejected has had a wrong verdict: one of these three."""
    if node.number == 0 and state.settings.retest and not node.was_retested:
        node.was_retested, node.status = True, "open"
        return NextTests([0])
    while node.parent >= 0:
        node = state.nodes[node.parent]
        halves = [state.nodes[child] for child in node.children]
        if any(half.status in ("open", "active") for half in halves):
            break
        aside = next((half for half in halves if half.status == "set aside"), None)
        if aside:
            # The reason for it, an active sibling, has gone.
            trial = next(trial for trial in reversed(state.trials) if trial.node == aside.number)
            trial.verdict = aside.status = "open"
            state.open.append(trial.number)
            break
        if state.settings.retest and not node.was_retested:
            node.was_retested = True
            return NextTests(_open_halves(state, node))
        node.status = "contradicted"
    return _NONE


def _set_aside(state: HDSState, trials: Iterable[Trial], level: float) -> None:
    """Spend no more on a node that is probably inactive if its sibling explains why the parent is active."""
    for trial in trials:
        node = state.nodes[trial.node]
        if node.parent >= 0 and trial.llr <= level:
            siblings = state.nodes[node.parent].children
            if any(state.nodes[sibling].status == "active" for sibling in siblings):
                _close(state, trial, "set aside")


def _at_the_end(state: HDSState, background: int, with_rest: bool) -> NextTests:
    """Test all inputs not yet found as one extra node.

    Rejecting it rejects every node set aside, which saves most evaluations. If active, it is searched like a root. It
    is also tested if the root was rejected or contradicted: f may be flat along diagonals only.
    """
    aside = [node for node in state.nodes if node.status == "set aside"]
    root = [node for node in state.nodes if node.parent < 0][-1]
    found = state.active()
    is_due = (aside and root.status == "active") or (root.number == 0 and root.status != "active")
    if with_rest and is_due and len(found) < state.settings.n_dims:
        state.nodes.append(Node(len(state.nodes), 0, state.settings.n_dims, without=found))
        return NextTests([state.nodes[-1].number], background)
    for node in aside:
        node.status = "active" if node.has(found) else "inactive"
    return _NONE
