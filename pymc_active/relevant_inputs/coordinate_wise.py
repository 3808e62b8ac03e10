"""The plain way to find the inputs that matter: one input at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri

from pymc_active.relevant_inputs.halving import FDT
from pymc_active.relevant_inputs.learner import evaluate, of_rows
from pymc_active.relevant_inputs.settings import read_box, relative_bandwidth
from pymc_active.support.options import count, positive


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
    n_active: int | None = None,
    noise_variance: float | None = None,
    alpha: float = 0.01,
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
    n_active : int, optional
        Take this number of inputs, those with the largest mean squared differences, their scores, as the paper does.
    noise_variance, alpha : float, optional
        Instead, take the inputs whose differences exceed what noise with this variance explains, in squared units of
        y; differences of any inactive input do with a probability of alpha (Bonferroni).
    bandwidth : float or ndarray, optional
        Pairs are as in ``"fdt"``, three bandwidths apart; by default both ends are random.
    f, n_dims, bounds, vectorized, random_seed
        As in :func:`hds`.

    Raises
    ------
    ValueError
        If f returns the wrong number of values, or NaN; for numbers below one, or more active inputs than there are;
        unless one of n_active, noise_variance is given.

    Examples
    --------
    >>> import numpy as np
    >>> coordinate_wise(lambda X: np.sin(3 * X[:, 4]), 10, n_pairs=3, n_active=1, random_seed=1).active
    [4]
    """
    count("n_dims", n_dims)
    count("n_pairs", n_pairs)
    if (n_active is None) == (noise_variance is None):
        raise ValueError("pass either n_active, the number of inputs to take, or noise_variance, to test them")
    if n_active is not None:
        count("n_active", n_active, n_dims)
    noise = None if noise_variance is None else positive("noise_variance", noise_variance)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha, the probability of an error, must be between 0 and 1; got {alpha!r}")
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
    if noise is None:
        active = sorted(np.argsort(-square, kind="stable")[:n_active].tolist())
    else:
        # Without an effect, the sum over 2σ² is χ² with n_pairs degrees of freedom.
        active = np.flatnonzero(square > 2 * noise * chdtri(n_pairs, alpha / n_dims)).tolist()
    return Screening(active, square / n_pairs, 2 * n_dims * n_pairs)
