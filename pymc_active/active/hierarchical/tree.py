"""The tree of sets of inputs: only nodes that were visited exist."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Node:
    """The inputs ``start`` to ``stop - 1``.

    Attributes
    ----------
    parent : int
        Number of the parent, -1 for the root.
    children : list of int
        Numbers of both halves, once the node was found active; empty before, and for single inputs.
    status : {"open", "active", "inactive", "contradicted"}
        Contradicted: found active, but both halves were rejected, on two backgrounds if retests are allowed.
    was_retested : bool
        Whether the halves were tested a second time.
    """

    number: int
    start: int
    stop: int
    parent: int = -1
    depth: int = 0
    children: list[int] = field(default_factory=list)
    status: str = "open"
    was_retested: bool = False

    @property
    def size(self) -> int:
        """How many inputs it has."""
        return self.stop - self.start

    @property
    def label(self) -> str:
        """Its inputs, as ``"24-31"`` or ``"25"``."""
        return str(self.start) if self.size == 1 else f"{self.start}-{self.stop - 1}"

    def halves(self) -> list[tuple[int, int]]:
        """Where both halves start and stop."""
        middle = (self.start + self.stop + 1) // 2
        return [(self.start, middle), (middle, self.stop)]


@dataclass
class Trial:
    """One test of a node, on one background.

    Attributes
    ----------
    node, background : int
    verdict : {"open", "active", "inactive"}
    rows : list of int
        Its evaluations, in the order in which they were told; for differences only complete pairs.
    path : list of float
        Cumulative log likelihood ratio after each observation, or after each pair.
    place, rest, priority : float
        Where to sample next, where other inputs of an anchored background are then, and how much that is wanted; NaN
        until it is worked out.
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
