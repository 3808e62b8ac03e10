"""The paper's algorithm 1: nodes, sets of inputs that move together, are tested, and halved while f changes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.settings import Settings

_EMPTY = np.empty(0)


@dataclass(eq=False, repr=False)
class Node:
    """The inputs ``start`` to ``stop - 1``. The ``children`` are both halves, once the node was found active.

    The status is ``"open"``, ``"active"``, ``"inactive"``, or ``"contradicted"`` if the node was found active but both
    halves were rejected, on two backgrounds if retests are allowed. ``was_retested`` says whether the halves were
    tested a second time. Of the present test, ``background`` (D,) is the point at which all other inputs stay, y (n,)
    what succeeded with the node's inputs at ``z``, and ``llr`` the log likelihood ratio (nats).
    """

    start: int
    stop: int
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    status: str = "open"
    was_retested: bool = False
    background: np.ndarray = field(default_factory=lambda: _EMPTY)
    z: np.ndarray = field(default_factory=lambda: _EMPTY)
    y: np.ndarray = field(default_factory=lambda: _EMPTY)
    llr: float = 0.0

    @property
    def label(self) -> str:
        """Its inputs, as ``"24-31"`` or ``"25"``."""
        return f"{self.start}-{self.stop - 1}" if self.stop - self.start > 1 else str(self.start)

    def points(self, places: np.ndarray) -> np.ndarray:
        """The background with the node's inputs at each place, (k, D)."""
        X = np.tile(self.background, (len(places), 1))
        X[:, self.start : self.stop] = places[:, None]
        return X


class Halving:
    """A search of the unit box, by a ``test`` of single nodes, that starts with all inputs.

    :meth:`run` yields points (k, D), and takes their values (k,), NaN where f failed. ``nodes`` grow. A block has the
    next evaluations of every open node: all are needed, whatever their order, which the paper leaves to an index.
    """

    def __init__(self, settings: Settings, test: Any, rng: np.random.Generator):
        self.settings = settings
        self.nodes = [Node(0, settings.n_dims)]
        self._test, self._rng = test, rng
        self._open: list[Node] = []

    @property
    def found(self) -> list[int]:
        """Inputs found active, sorted."""
        return sorted(node.start for node in self.nodes if node.stop - node.start == 1 and node.status == "active")

    def run(self) -> Generator[np.ndarray, np.ndarray, None]:
        """All points of the search, in turn."""
        self._begin(self.nodes)
        while nodes := list(self._open):
            places = [self._test.places(node.z, node.y, self._rng) for node in nodes]
            y = yield np.concatenate([node.points(z) for node, z in zip(nodes, places, strict=True)])
            ends = np.cumsum([len(z) for z in places])[:-1]
            for node, z, values in zip(nodes, places, np.split(y, ends), strict=True):
                # Of a pair, one end says nothing. Other places take the part of those that failed.
                if np.isfinite(values).all():
                    node.z, node.y = np.append(node.z, z), np.append(node.y, values)
                    node.llr = float(self._test.path(node.z, node.y)[-1])
                    self._judge(node)

    def _begin(self, nodes: list[Node], background: np.ndarray | None = None) -> None:
        """Test nodes on a background, by default on a new one, a random point of the unit box."""
        background = self._rng.random(self.settings.n_dims) if background is None else background
        for node in nodes:
            node.status, node.background, node.z, node.y = "open", background, _EMPTY, _EMPTY
            self._open.append(node)

    def _judge(self, node: Node) -> None:
        """Enter a verdict, and begin the tests that follow."""
        if self.settings.reject < node.llr < self.settings.accept:
            return
        self._open.remove(node)
        node.status = "active" if node.llr >= self.settings.accept else "inactive"
        if node.status == "inactive":
            self._doubt(node)
        elif node.stop - node.start > 1:
            # A contradicted node that turns out active after all has its halves already.
            if not node.children:
                middle = (node.start + node.stop + 1) // 2
                node.children = [Node(node.start, middle, node), Node(middle, node.stop, node)]
                self.nodes += node.children
            self._begin(node.children, node.background)

    def _doubt(self, node: Node) -> None:
        """An active node whose halves are both rejected has had a wrong verdict: one of these three."""
        if node.parent is None and self.settings.retest and not node.was_retested:
            node.was_retested = True
            self._begin([node])
        while node.parent is not None:
            node = node.parent
            if any(half.status in ("open", "active") for half in node.children):
                return
            if self.settings.retest and not node.was_retested:
                node.was_retested = True
                return self._begin(node.children)
            node.status = "contradicted"
