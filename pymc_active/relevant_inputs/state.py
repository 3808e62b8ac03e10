"""Everything that a search for relevant inputs knows, as plain data: nodes, their tests, and evaluations on lines."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from pymc_active.relevant_inputs.settings import Settings

# Points are the same if they differ by less, in every input and as a part of its interval: they went through a file or
# single precision.
SAME = 1e-6


@dataclass
class Node:
    """The inputs ``start`` to ``stop - 1``, except those in ``without``, which were found before and do not move.

    ``parent`` is -1 for the root, and for the root of a tree of the inputs that are left. ``children`` are the numbers
    of both halves, once the node was found active. The status is ``"open"``, ``"active"``, ``"inactive"``;
    ``"contradicted"`` if the node was found active but both halves were rejected, on two backgrounds if retests are
    allowed; or ``"set aside"`` if it is probably inactive and its sibling is active: it becomes inactive once one test
    has rejected everything set aside. ``was_retested`` says whether the halves were tested a second time.
    """

    number: int
    start: int
    stop: int
    parent: int = -1
    depth: int = 0
    children: list[int] = field(default_factory=list)
    status: str = "open"
    was_retested: bool = False
    without: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of inputs in its range."""
        return self.stop - self.start

    @property
    def is_empty(self) -> bool:
        """Whether all inputs of its range were found before."""
        return len(self.without) == self.size

    @property
    def label(self) -> str:
        """Its inputs, as ``"24-31"``, ``"25"`` or ``"24-31 without 25"``."""
        label = str(self.start) if self.size == 1 else f"{self.start}-{self.stop - 1}"
        return f"{label} without {', '.join(map(str, self.without))}" if self.without else label

    def has(self, inputs: list[int]) -> list[int]:
        """Those of some inputs that are in its range."""
        return [i for i in inputs if self.start <= i < self.stop]

    def halves(self) -> list[tuple[int, int]]:
        """Start and stop of both halves."""
        middle = (self.start + self.stop + 1) // 2
        return [(self.start, middle), (middle, self.stop)]


@dataclass
class Trial:
    """One test of a node, on one background.

    The verdict is ``"open"``, ``"active"``, ``"inactive"`` or ``"set aside"``. ``rows`` are its evaluations as told; of
    differences, complete pairs only. ``path`` is the cumulative log likelihood ratio (nats) after each. The next has
    the node's inputs at ``place``, the others at ``rest``, and ``priority`` among the tests; NaN until worked out.
    """

    number: int
    node: int
    background: int
    verdict: str = "open"
    rows: list[int] = field(default_factory=list)
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


@dataclass
class Background:
    """A line through the unit box along which a node's inputs move, and where the others stay.

    The paper's is a random point, ``position`` (D,): the others stay there, and inputs of a node all have the value z.
    The anchored test's is a random diagonal: as z goes from 0 to 1, the inputs in ``is_reversed``, (D,), run from 1 to
    0. Inputs outside a node stay at a scanned place, mostly the z of the ``anchor``. Its ``stage`` is ``"scan"``, then
    ``"repeat"`` at the anchor, then ``"ready"``, when ``rows`` are the evaluations along it.
    """

    position: np.ndarray | None = None
    is_reversed: np.ndarray | None = None
    stage: str = "ready"
    anchor: float = np.nan
    rows: list[int] = field(default_factory=list)

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


@dataclass(slots=True)
class Evaluation:
    """One point of a search, with the node's inputs at ``z`` and the others at ``rest`` on the background.

    ``trial`` is -1 if it belongs to a background and not to a test; ``partner`` is the other end of a difference, -1
    for single points; ``y`` is NaN until it is told, and if it failed.
    """

    trial: int
    node: int
    background: int
    z: float
    rest: float
    partner: int = -1
    y: float = np.nan


@dataclass
class Check:
    """The last check, whether inputs not found change f: the number of its node, and the seed of its points.

    Once it is finished, the last ``n_pairs`` pairs of points that differ in all inputs not found have shown no change,
    and ``p_value`` is the probability that noise explains them.
    """

    node: int
    seed: int
    is_finished: bool = False
    n_pairs: int = 0
    p_value: float = 1.0


@dataclass
class HDSState:
    """A search between two questions: what :class:`HDSLearner` needs to go on, bit for bit.

    Nodes, trials (tests of nodes), backgrounds and evaluations (in the order in which they were planned) refer to each
    other by their places in these lists. Evaluations are ``told`` (in this order), ``asked`` and not told yet, or
    planned and in the ``queue``; trials without a verdict are ``open``; ``n_failures`` evaluations in a row have
    failed. ``foreign_X``, points (D,), and ``foreign_y`` were told without being asked for; ``measured`` has the point
    (D,) at which an evaluation was measured, if that is not on its background. Those of the ``check`` are on none: they
    have trial and background -1. ``revisions`` are those of the files that the search has written or was loaded from,
    which saving may replace.
    """

    settings: Settings
    rng: np.random.Generator
    nodes: list[Node] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    backgrounds: list[Background] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    n_failures: int = 0
    foreign_X: list[np.ndarray] = field(default_factory=list)
    foreign_y: list[float] = field(default_factory=list)
    measured: dict[int, np.ndarray] = field(default_factory=dict)
    revisions: set[str] = field(default_factory=set)
    check: Check | None = None

    def copy(self) -> Self:
        """A state that shares nothing with this one."""
        return deepcopy(self)

    @property
    def room(self) -> int:
        """Evaluations that the budget still allows to ask for."""
        return self.settings.budget - len(self.told) - len(self.asked)

    def active(self) -> list[int]:
        """Inputs found active, sorted."""
        return sorted({node.start for node in self.nodes if node.size == 1 and node.status == "active"})

    def add(self, trial: int, node: int, background: int, z: float, rest: float | None = None) -> int:
        """Plan an evaluation, by default with all inputs at one place of the diagonal; its place in the list."""
        z, rest = float(z), float(z if rest is None else rest)
        self.evaluations.append(Evaluation(trial, node, background, z, rest))
        self.queue.append(len(self.evaluations) - 1)
        return self.queue[-1]

    def enter_result(self, row: int, y: float) -> None:
        """Move an evaluation from asked to told; NaN says that it failed."""
        self.asked.remove(row)
        self.told.append(row)
        self.evaluations[row].y = y
        self.n_failures = self.n_failures + 1 if np.isnan(y) else 0

    def point(self, row: int, inputs: Any = slice(None)) -> np.ndarray:
        """Some inputs of an evaluation in the user's units, as measured, or else as planned."""
        if row in self.measured:
            return self.measured[row][inputs]
        at = self.evaluations[row]
        columns = self.backgrounds[at.background].columns(self.nodes[at.node], at.z, at.rest, inputs)
        return self.settings.scale(columns, inputs)

    def points(self, rows: list[int]) -> np.ndarray:
        """Points of evaluations in the user's units, (k, D)."""
        return np.array([self.point(row) for row in rows]).reshape(len(rows), self.settings.n_dims)

    def places(self, rows: list[int]) -> np.ndarray:
        """Where the node's inputs and the others are on the background, (2, k)."""
        evaluations = [self.evaluations[row] for row in rows]
        return np.array([[at.z for at in evaluations], [at.rest for at in evaluations]])

    def results(self, rows: list[int]) -> np.ndarray:
        """Y of evaluations, (k,)."""
        return np.array([self.evaluations[row].y for row in rows])

    def along(self, background: int) -> list[int]:
        """Evaluations along the whole diagonal of a background that succeeded."""
        evaluations = ((row, self.evaluations[row]) for row in self.told)
        return [row for row, at in evaluations if at.background == background and at.node == 0 and not np.isnan(at.y)]

    def distance(self, row: int, point: np.ndarray) -> float:
        """Of a point from an evaluation: the largest over the inputs, in parts of the input's interval."""
        return float((np.abs(self.point(row) - point) / (self.settings.high - self.settings.low)).max())

    def find_asked(self, X: np.ndarray) -> list[int | None]:
        """The pending evaluations that points answer, the nearest, each once; None for other points."""
        left, found = list(self.asked), []
        for point in X:
            best, least = None, SAME
            for row in left:
                away = self.distance(row, point)
                if away < least:
                    best, least = row, away
                if away == 0:
                    break
            if best is not None:
                left.remove(best)
            found.append(best)
        return found

    def told_before(self) -> set[tuple[bytes, float]]:
        """All points and values told: told once more, they would pass for repeats without noise."""
        points = [*self.points(self.told), *self.foreign_X]
        values = [*self.results(self.told), *self.foreign_y]
        return {(point.tobytes(), float(y)) for point, y in zip(points, values, strict=True)}
