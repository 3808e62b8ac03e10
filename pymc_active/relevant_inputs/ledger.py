"""The ledger of a search: which evaluation a point answers, and what was told before."""

from __future__ import annotations

import numpy as np

from pymc_active.relevant_inputs.evaluations import FAILED, TOLD
from pymc_active.relevant_inputs.state import HDSState

# Points are the same if they differ by less, in every input and as a part of its interval: they went through a file or
# single precision.
SAME = 1e-6


def distance(state: HDSState, row: int, point: np.ndarray) -> float:
    """Of a point from an evaluation: the largest over the inputs, in parts of the input's interval."""
    return float((np.abs(state.point(row) - point) / (state.settings.high - state.settings.low)).max())


def find_asked(state: HDSState, X: np.ndarray) -> list[int | None]:
    """The pending evaluations that points answer, the nearest, each once; None for other points."""
    left, found = list(state.asked), []
    for point in X:
        best, least = None, SAME
        for row in left:
            away = distance(state, row, point)
            if away < least:
                best, least = row, away
            if away == 0:
                break
        if best is not None:
            left.remove(best)
        found.append(best)
    return found


def told_before(state: HDSState) -> set[tuple[bytes, float]]:
    """All points and values told: told once more, they would pass for repeats without noise."""
    points = [*state.points(state.told), *state.foreign_X]
    values = [*state.results(state.told), *state.foreign_y]
    return {(point.tobytes(), float(y)) for point, y in zip(points, values, strict=True)}


def enter_result(state: HDSState, row: int, y: float) -> None:
    """Move an evaluation from asked to told; NaN says that it failed."""
    at, is_failed = state.evaluations[row], bool(np.isnan(y))
    state.asked.remove(row)
    state.told.append(row)
    at.y, at.state = y, FAILED if is_failed else TOLD
    state.n_failures = state.n_failures + 1 if is_failed else 0
