"""The plain way to find the inputs that matter: one input at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.relevant_inputs.evaluations import evaluate, of_rows
from pymc_active.relevant_inputs.node_tests import FDT
from pymc_active.relevant_inputs.settings import read_box, relative_bandwidth
from pymc_active.support.options import count


@dataclass(frozen=True, eq=False)
class Screening:
    """Inputs chosen by a score: ``active``, sorted, and the ``score`` of each, (D,), where larger is more relevant.

    ``n_evaluations`` counts evaluations of f.
    """

    active: list[int]
    score: np.ndarray
    n_evaluations: int


def coordinate_wise(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n_pairs: int,
    n_active: int,
    bandwidth: Any = None,
    bounds: Any = None,
    vectorized: bool = True,
    random_seed: int | np.random.Generator | None = None,
) -> Screening:
    """Test each input by itself by finite differences on one random background (the paper's CWS).

    Parameters
    ----------
    n_pairs : int
        Pairs along each input: f is called D times with 2 ``n_pairs`` points, (2 ``n_pairs``, D).
    n_active : int
        Take this number of inputs, those with the largest mean squared differences, their scores.
    bandwidth : float or ndarray, optional
        Pairs are those of ``"fdt"``, three bandwidths apart; by default both ends are random.
    f, n_dims, bounds, vectorized, random_seed
        As in :func:`hds`.

    Raises
    ------
    ValueError
        If f returns the wrong number of values, or NaN; for numbers below one, or more active inputs than there are.

    Examples
    --------
    >>> import numpy as np
    >>> coordinate_wise(lambda X: np.sin(3 * X[:, 4]), 10, n_pairs=3, n_active=1, random_seed=1).active
    [4]
    """
    count("n_dims", n_dims)
    count("n_pairs", n_pairs)
    count("n_active", n_active, n_dims)
    f = of_rows(f, vectorized)
    low, high = read_box(bounds, n_dims)
    rng = np.random.default_rng(random_seed)
    background = rng.random(n_dims)
    # Its pairs do not depend on variances.
    test = None if bandwidth is None else FDT(relative_bandwidth(bandwidth, low, high), 1.0, 0.0)
    square = np.empty(n_dims)
    for i in range(n_dims):
        unit = np.tile(background, (2 * n_pairs, 1))
        if test is None:
            unit[:, i] = rng.random(2 * n_pairs)
        else:
            unit[:, i] = np.concatenate([test.places(unit[:0, i], unit[:0, i], rng) for _ in range(n_pairs)])
        y = evaluate(f, low + (high - low) * unit)
        if np.isnan(y).any():
            raise ValueError(f"f must return {2 * n_pairs} finite numbers; got {y!r}")
        square[i] = np.square(y[::2] - y[1::2]).sum()
    active = sorted(np.argsort(-square, kind="stable")[:n_active].tolist())
    return Screening(active, square / n_pairs, 2 * n_dims * n_pairs)
