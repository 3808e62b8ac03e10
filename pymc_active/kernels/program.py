"""A kernel as a program for a compiled loop: base kernels, sums and products, all parts of one before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

# Kinds of base kernels that the loop knows: the profiles of :mod:`pymc_active.kernels.radial`, in their order, first.
EXP_QUAD, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC, PERIODIC, LINEAR, STEP, CONSTANT = range(9)
# Steps that join two earlier ones.
ADD, MULTIPLY = -1, -2


class Leaf(NamedTuple):
    """A base kernel: its kind, its input columns, and the positions of its parameters.

    ``places`` are for each column; -1 stands for none. A profile with an ``other`` parameter, its log lengthscale,
    is of embedded inputs: ``places`` are the entries of R (d, D) in C order.
    """

    kind: int
    columns: Sequence[int] | np.ndarray
    places: Sequence[int] | np.ndarray
    other: int
    log_outputscale: int


class Program(NamedTuple):
    """What to compute, in this order: ``steps`` (M,) are numbers of base kernels, or join the steps left and right.

    Of each base kernel, its kind, where its ``columns`` and its ``places`` start, and its other parameters.
    """

    steps: np.ndarray
    left: np.ndarray
    right: np.ndarray
    kinds: np.ndarray
    first_columns: np.ndarray
    columns: np.ndarray
    first_places: np.ndarray
    places: np.ndarray
    others: np.ndarray
    log_outputscales: np.ndarray

    @classmethod
    def of_leaves(cls, leaves: Sequence[Leaf], steps: Sequence[tuple[int, int, int]] = ((0, -1, -1),)) -> Self:
        """The program of these steps; by default the first base kernel alone."""

        def whole(values: Sequence | np.ndarray) -> np.ndarray:
            return np.asarray(values, np.int64)

        def joined(parts: Sequence) -> tuple[np.ndarray, np.ndarray]:
            return whole([0, *np.cumsum([len(part) for part in parts])]), whole([k for part in parts for k in part])

        kinds, columns, places, others, scales = zip(*leaves, strict=True)
        order = np.array(steps, np.int64).T.copy()
        return cls(*order, whole(kinds), *joined(columns), *joined(places), whole(others), whole(scales))  # type: ignore[call-arg]

    @classmethod
    def of(cls, kernel: Any) -> Self | None:
        """The program of a :class:`Node`; None if the loop does not know one of its base kernels."""
        loops, steps = [leaf.loop for leaf in kernel.leaves], list[tuple[int, int, int]]()
        leaves = [leaf for leaf in loops if leaf is not None]
        if len(leaves) < len(loops):
            return None

        def add(node: Any) -> int:
            """The number of the step that computes a node."""
            if not node.parts:
                steps.append((sum(step >= 0 for step, *_ in steps), -1, -1))
                return len(steps) - 1
            last = add(node.parts[0])
            for part in node.parts[1:]:
                steps.append((node.joins, last, add(part)))
                last = len(steps) - 1
            return last

        add(kernel)
        return cls.of_leaves(leaves, steps)
