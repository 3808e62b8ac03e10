"""One evaluation of the function: where, what for, and what came out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

QUEUED, ASKED, TOLD, FAILED = range(4)


@dataclass(slots=True)
class Evaluation:
    """One point of a search, from its plan to its result.

    Attributes
    ----------
    trial : int
        The test that it is for; -1 for what belongs to a background and not to a test.
    node, background : int
    z, rest : float
        Places of the node's inputs and of the others on the background, from 0 to 1.
    partner : int
        The other end of a difference, -1 for single points.
    state : {QUEUED, ASKED, TOLD, FAILED}
    y : float
        NaN until it is told, and where it failed.
    """

    trial: int
    node: int
    background: int
    z: float
    rest: float
    partner: int = -1
    state: int = QUEUED
    y: float = np.nan
