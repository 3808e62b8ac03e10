"""The tree of sets of inputs, of which only the visited nodes exist, and the tests of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Node:
    """The inputs ``start`` to ``stop - 1``, except those in ``without``.

    Attributes
    ----------
    parent : int
        Number of the parent; -1 for the root, and for the root of a tree of the inputs that are left.
    children : list of int
        Numbers of both halves, once the node was found active; empty before, and for single inputs.
    status : {"open", "active", "inactive", "contradicted", "set aside"}
        Contradicted: found active, but both halves were rejected, on two backgrounds if retests are allowed. Set aside:
        probably inactive, and its sibling is active; inactive once one test has rejected everything set aside.
    was_retested : bool
        Whether the halves were tested a second time.
    without : list of int
        Inputs of this range that were found before. They stay where the inputs outside the node are.
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

    Attributes
    ----------
    verdict : {"open", "active", "inactive", "set aside"}
    rows : list of int
        Its evaluations, in the order in which they were told; of differences, complete pairs only.
    path : list of float
        Cumulative log likelihood ratio (nats) after each observation, or after each pair.
    place, rest, priority : float
        Where the node's inputs and the others should be in the next evaluation, and the index that ranks it against
        other tests; NaN until they are worked out.
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
