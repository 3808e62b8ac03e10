"""The lines through the box along which f is sampled: where a node's inputs move, and where the others stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.tree import Node


@dataclass
class Background:
    """Where the inputs outside a node stay, in the unit box.

    Attributes
    ----------
    position : ndarray, shape (D,), or None
        The paper's background, a random point. Inputs of a node all have the value z.
    is_reversed : ndarray of bool, shape (D,), or None
        The anchored test's background, a random diagonal of the box: as z goes from 0 to 1, these inputs run from 1 to
        0 and the others from 0 to 1. Inputs outside a node stay at a scanned place of the diagonal, mostly the
        ``anchor``.
    stage : {"ready", "scan", "repeat"}
        An anchored background is scanned along its diagonal, then f is measured repeatedly at the anchor.
    anchor : float
        Its z.
    rows : list of int
        Evaluations along the diagonal, once it is ready.
    """

    position: np.ndarray | None = None
    is_reversed: np.ndarray | None = None
    stage: str = "ready"
    anchor: float = np.nan
    rows: list[int] = field(default_factory=list)

    def columns(self, node: Node, z: float, rest: float, inputs: Any = slice(None)) -> np.ndarray:
        """Some inputs, by default all (D,), of the point with the node's inputs at z, in the unit box.

        ``rest`` is where the others are along the diagonal of an anchored background.
        """
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
