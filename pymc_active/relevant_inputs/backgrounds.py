"""The lines through the box along which f is sampled: where inputs of a node move, and where the others stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.gpt import GPTest
from pymc_active.relevant_inputs.tree import Node


@dataclass
class Background:
    """Where the inputs outside of a node stay, in the unit box.

    Attributes
    ----------
    position : ndarray, shape (D,), or None
        The paper's: a random point. Inputs of a node all have the value z.
    is_reversed : ndarray of bool, shape (D,), or None
        The anchored test's: some inputs run from 1 to 0 while others run from 0 to 1, so that z moves along a random
        diagonal of the box. Inputs outside of the node stay at a place of this diagonal that was scanned, mostly at the
        ``anchor``.
    stage : {"ready", "scan", "repeat"}
        An anchored background is scanned along its diagonal, then f at the anchor is measured repeatedly.
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
        """Inputs of the point with the node's inputs at z, in the unit box; by default all, (D,).

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

    def choose_anchor(self, test: GPTest, z: np.ndarray, y: np.ndarray) -> None:
        """The scanned place where f is farthest from its mean.

        Under this choice moving an active input almost certainly changes f by a lot, since f elsewhere is likely to be
        near its mean; from a random point the change would often be small.
        """
        K = test.signal_variance * np.exp(-np.square((z[:, None] - z) / test.bandwidth))
        noisy = K.copy()
        noisy.flat[:: len(z) + 1] += test.noise_variance
        weights = np.linalg.solve(noisy, np.ones(len(z)))
        mean = weights @ y / weights.sum()
        posterior = K @ np.linalg.solve(noisy, y - mean)
        self.anchor = float(z[np.argmax(np.abs(posterior))])
        self.stage = "repeat"
