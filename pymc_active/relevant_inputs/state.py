"""Everything that a search for relevant inputs knows, as plain data: nodes, their tests, and evaluations on lines."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from pymc_active.relevant_inputs.bisection import SURPRISING
from pymc_active.relevant_inputs.settings import Settings

# Points are the same if they differ by less, in every input and as a part of its interval: they went through a file or
# single precision.
SAME = 1e-6


@dataclass(eq=False, repr=False)
class Node:
    """The inputs ``start`` to ``stop - 1``, except those in ``without``, which were found before and do not move.

    The root has no parent, nor has the root of a tree of the inputs that are left. The ``children`` are both halves,
    once the node was found active. The status is ``"open"``, ``"active"``, ``"inactive"``; ``"contradicted"`` if the
    node was found active but both halves were rejected, on two backgrounds if retests are allowed; or ``"set aside"``
    if it is probably inactive and its sibling is active: it becomes inactive once one test has rejected everything set
    aside. ``was_retested`` says whether the halves were tested a second time.
    """

    number: int
    start: int
    stop: int
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    status: str = "open"
    was_retested: bool = False
    without: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of inputs in its range."""
        return self.stop - self.start

    @property
    def depth(self) -> int:
        """How many nodes are above it."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def label(self) -> str:
        """Its inputs, as ``"24-31"``, ``"25"`` or ``"24-31 without 25"``."""
        label = str(self.start) if self.size == 1 else f"{self.start}-{self.stop - 1}"
        return f"{label} without {', '.join(map(str, self.without))}" if self.without else label

    def has(self, inputs: list[int]) -> list[int]:
        """Those of some inputs that are in its range."""
        return [i for i in inputs if self.start <= i < self.stop]


@dataclass(eq=False, repr=False)
class Background:
    """A line through the unit box along which a node's inputs move, and where the others stay.

    The paper's is a random point, ``position`` (D,): the others stay there, and inputs of a node all have the value z.
    The anchored test's is a random diagonal: as z goes from 0 to 1, the inputs in ``is_reversed``, (D,), run from 1 to
    0. Inputs outside a node stay at a scanned place, mostly the z of the ``anchor``. Its ``stage`` is ``"scan"``, then
    ``"repeat"`` at the anchor, then ``"ready"``.
    """

    number: int
    position: np.ndarray | None = None
    is_reversed: np.ndarray | None = None
    stage: str = "ready"
    anchor: float = np.nan

    def columns(self, node: Node, z: float, rest: float, inputs: Any = slice(None)) -> np.ndarray:
        """Some inputs of the point with the node's inputs at z and the others at ``rest``, in the unit box."""
        base = self.position if self.is_reversed is None else self.is_reversed
        assert base is not None
        number = np.arange(len(base))[inputs]
        is_inside = (number >= node.start) & (number < node.stop)
        if node.without:
            is_inside &= ~np.isin(number, node.without)
        if self.is_reversed is None:
            return np.where(is_inside, z, base[inputs])
        u = np.where(is_inside, z, rest)
        return np.where(base[inputs], 1 - u, u)


@dataclass(eq=False, repr=False)
class Trial:
    """One test of a node, on one background.

    The verdict is ``"open"``, ``"active"``, ``"inactive"`` or ``"set aside"``. ``told`` are its evaluations; of
    differences, complete pairs only. ``path`` is the cumulative log likelihood ratio (nats) after each. The next has
    the node's inputs at ``place``, the others at ``rest``, and ``priority`` among the tests; NaN until worked out.
    """

    number: int
    node: Node
    background: Background
    verdict: str = "open"
    told: list[Evaluation] = field(default_factory=list)
    path: list[float] = field(default_factory=list)
    place: float = np.nan
    rest: float = np.nan
    priority: float = np.nan

    @property
    def llr(self) -> float:
        """Log likelihood ratio of everything observed so far, nats."""
        return self.path[-1] if self.path else 0.0

    def forget_plan(self) -> None:
        """Have the next evaluation worked out anew."""
        self.place = self.rest = self.priority = np.nan


@dataclass(eq=False, repr=False, slots=True)
class Evaluation:
    """One point of a search, with the node's inputs at ``z`` and the others at ``rest`` on the background.

    Without a ``trial`` it belongs to its background; without either, to the last check. ``partner`` is the other end of
    a difference; ``point``, (D,) in the user's units, is where it was measured, if that is not on its background; ``y``
    is NaN until it is told, and if it failed.
    """

    node: Node
    trial: Trial | None = None
    background: Background | None = None
    z: float = np.nan
    rest: float = np.nan
    partner: Evaluation | None = None
    point: np.ndarray | None = None
    y: float = np.nan


@dataclass(eq=False)
class Check:
    """The last check, whether inputs not found change f: its node, and the seed of its points.

    Once it is finished, the last ``n_pairs`` pairs of points that differ in all inputs not found have shown no change,
    and ``p_value`` is the probability that noise explains them.
    """

    node: Node
    seed: int
    is_finished: bool = False
    n_pairs: int = 0
    p_value: float = 1.0

    @property
    def shows_change(self) -> bool:
        """Whether something is left that cannot be told."""
        return self.is_finished and self.p_value <= SURPRISING

    @property
    def shows_nothing(self) -> bool:
        """Whether nothing is left that would be seen."""
        return self.is_finished and self.p_value > SURPRISING


@dataclass(eq=False, repr=False)
class HDSState:
    """A search between two questions: what :class:`HDSLearner` needs to go on, bit for bit.

    ``evaluations`` are in the order in which they were planned. They are ``told`` (in this order), ``asked`` and not
    told yet, in the ``queue``, or not needed any more; ``n_failures`` in a row have failed. ``foreign`` are points (D,)
    and values that were told without being asked for. ``revisions`` are those of the files that the search has written
    or was loaded from, which saving may replace.
    """

    settings: Settings
    rng: np.random.Generator
    nodes: list[Node] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    backgrounds: list[Background] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    told: list[Evaluation] = field(default_factory=list)
    asked: list[Evaluation] = field(default_factory=list)
    queue: list[Evaluation] = field(default_factory=list)
    n_failures: int = 0
    foreign: list[tuple[np.ndarray, float]] = field(default_factory=list)
    revisions: set[str] = field(default_factory=set)
    check: Check | None = None

    def copy(self) -> Self:
        """A state that shares nothing with this one."""
        return deepcopy(self)

    @property
    def open(self) -> list[Trial]:
        """Tests without a verdict."""
        return [trial for trial in self.trials if trial.verdict == "open"]

    @property
    def room(self) -> int:
        """Evaluations that the budget still allows to ask for."""
        return self.settings.budget - len(self.told) - len(self.asked)

    def active(self) -> list[int]:
        """Inputs found active, sorted."""
        return sorted({node.start for node in self.nodes if node.size == 1 and node.status == "active"})

    def add_node(self, start: int, stop: int, parent: Node | None = None, without: list[int] | None = None) -> Node:
        """A new node, below its parent."""
        self.nodes.append(Node(len(self.nodes), start, stop, parent, without=without or []))
        if parent is not None:
            parent.children.append(self.nodes[-1])
        return self.nodes[-1]

    def add_background(self, **line: Any) -> Background:
        """A new background; ``line`` are its fields."""
        self.backgrounds.append(Background(len(self.backgrounds), **line))
        return self.backgrounds[-1]

    def plan(self, evaluation: Evaluation) -> Evaluation:
        """Queue an evaluation."""
        self.evaluations.append(evaluation)
        self.queue.append(evaluation)
        return evaluation

    def enter_result(self, at: Evaluation, y: float) -> None:
        """Move an evaluation from asked to told; NaN says that it failed."""
        self.asked.remove(at)
        self.told.append(at)
        at.y = y
        self.n_failures = self.n_failures + 1 if np.isnan(y) else 0

    def point(self, at: Evaluation, inputs: Any = slice(None)) -> np.ndarray:
        """Some inputs of an evaluation in the user's units, as measured, or else as planned."""
        if at.point is not None:
            return at.point[inputs]
        assert at.background is not None
        return self.settings.scale(at.background.columns(at.node, at.z, at.rest, inputs), inputs)

    def points(self, evaluations: list[Evaluation]) -> np.ndarray:
        """Points of evaluations in the user's units, (k, D)."""
        return np.array([self.point(at) for at in evaluations]).reshape(len(evaluations), self.settings.n_dims)

    def along(self, background: Background) -> list[Evaluation]:
        """Evaluations along the whole diagonal of a background that succeeded."""
        return [at for at in self.told if at.background is background and at.node.number == 0 and not np.isnan(at.y)]

    def distance(self, at: Evaluation, point: np.ndarray) -> float:
        """Of a point from an evaluation: the largest over the inputs, in parts of the input's interval."""
        return float((np.abs(self.point(at) - point) / (self.settings.high - self.settings.low)).max())

    def find_asked(self, X: np.ndarray) -> list[Evaluation | None]:
        """The pending evaluations that points answer, the nearest, each once; None for other points."""
        left = list(self.asked)
        found: list[Evaluation | None] = []
        for point in X:
            best, least = None, SAME
            for at in left:
                if (away := self.distance(at, point)) < least:
                    best, least = at, away
                if away == 0:
                    break
            if best is not None:
                left.remove(best)
            found.append(best)
        return found

    def told_before(self) -> set[tuple[bytes, float]]:
        """All points and values told: told once more, they would pass for repeats without noise."""
        told = [*((self.point(at), at.y) for at in self.told), *self.foreign]
        return {(point.tobytes(), float(y)) for point, y in told}


def places(evaluations: list[Evaluation]) -> np.ndarray:
    """Where the node's inputs and the others are on the background, (2, k)."""
    return np.array([[at.z for at in evaluations], [at.rest for at in evaluations]])


def results(evaluations: list[Evaluation]) -> np.ndarray:
    """Y of evaluations, (k,)."""
    return np.array([at.y for at in evaluations])
