"""Everything that a search for relevant inputs knows, as plain data."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from pymc_active.relevant_inputs.backgrounds import Background
from pymc_active.relevant_inputs.evaluations import TOLD, Evaluation
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.relevant_inputs.tree import Node, Trial


@dataclass
class HDSState:
    """A search between two questions: what :class:`HDSLearner` needs to go on, bit for bit.

    Nodes, trials, backgrounds and evaluations refer to each other by their places in these lists.

    Attributes
    ----------
    settings : Settings
    rng : numpy.random.Generator
    nodes : list of Node
    trials : list of Trial
        Tests of nodes.
    backgrounds : list of Background
    evaluations : list of Evaluation
        In the order in which they were planned.
    told, asked, queue : list of int
        Evaluations by their stage: told (in this order), asked and not told yet, planned and not asked yet.
    open : list of int
        Trials without a verdict.
    n_failures : int
        Failed evaluations in a row.
    foreign_X, foreign_y : list
        Points (D,) and values that were told without being asked for.
    measured : dict
        Evaluation -> point (D,) at which it was measured, if that is not the point asked.
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

    def point(self, row: int, inputs: Any = slice(None)) -> np.ndarray:
        """Some inputs of an evaluation in the user's units, as measured, or else as planned."""
        if row in self.measured:
            return self.measured[row][inputs]
        at = self.evaluations[row]
        columns = self.backgrounds[at.background].columns(self.nodes[at.node], at.z, at.rest, inputs)
        return self.settings.scale(columns, inputs)

    def points(self, rows: list[int]) -> np.ndarray:
        """Points of evaluations in the user's units, (k, D)."""
        X = np.empty((len(rows), self.settings.n_dims))
        for i, row in enumerate(rows):
            X[i] = self.point(row)
        return X

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
        return [row for row, at in evaluations if at.background == background and at.node == 0 and at.state == TOLD]
