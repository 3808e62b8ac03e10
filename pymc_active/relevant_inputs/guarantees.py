"""Thresholds that keep a declared probability of finding all active inputs and no others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Thresholds(NamedTuple):
    """Log likelihood ratios (nats) from which up a node is active, and from which down it is inactive."""

    accept: float
    reject: float


def n_levels(n_dims: int) -> int:
    """⌈log₂ D⌉, how often the root is halved until single inputs are left."""
    return int(np.ceil(np.log2(n_dims)))


def node_error_rate(n_dims: int, n_active: int, recovery: float) -> float:
    r"""Error rate of each test that keeps the probability ``recovery`` of finding all active inputs and no others.

    Parameters
    ----------
    n_dims, n_active : int
        D and d.
    recovery : float
        1 - ε.

    Returns
    -------
    float
        :math:`\varepsilon / (2 d (\lceil \log_2 D \rceil + 1))`, a union bound over the nodes that a search without
        errors visits. The paper's theorem 3.2 prints :math:`(\varepsilon / D)^{1 / \lceil \log D \rceil}`, with which
        the probability can be 0.

    Raises
    ------
    ValueError
        For counts below 1, more active inputs than inputs, or a probability outside (0, 1).
    """
    for what, count in (("n_dims", n_dims), ("n_active", n_active)):
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{what} must be a positive whole number; got {count!r}")
    if n_active > n_dims:
        raise ValueError(f"n_active={n_active} is more than n_dims={n_dims}")
    if not 0 < recovery < 1:
        raise ValueError(f"recovery, a probability, must be between 0 and 1; got {recovery!r}")
    return (1 - recovery) / (2 * n_active * (n_levels(n_dims) + 1))


def thresholds(n_dims: int, n_active: int, recovery: float) -> Thresholds:
    """Thresholds for a declared probability of finding all active inputs and no others.

    Parameters
    ----------
    n_dims, n_active : int
    recovery : float

    Returns
    -------
    Thresholds
        By Wald's inequality a test that accepts at A calls an inactive node active with a probability of at most
        exp(-A), whatever the number of observations; likewise for rejection.

    Examples
    --------
    >>> thresholds(200, 2, 0.99).accept.__round__(2)
    8.19
    """
    rate = node_error_rate(n_dims, n_active, recovery)
    return Thresholds(float(-np.log(rate)), float(np.log(rate)))
