"""Bounds of Chen, Castro & Krause (2012): sample sizes, evaluations, and the width of GP-UCB's confidence bound."""

from __future__ import annotations

import numpy as np

from pymc_active.relevant_inputs.baselines.fdt import check_alpha
from pymc_active.relevant_inputs.guarantees import n_levels, node_error_rate


def fixed_sample_size(smallest_mean: float, largest: float, alpha: float) -> int:
    r"""Pairs that bound both errors of the fixed-sample test by alpha, for a given function (proposition 3.1).

    :math:`\lceil \max\{2, 16 (1 + \sqrt{1 + c})^2 / c^2, 2 M^2 / c^2\} \log(2 / \alpha) \rceil` for ``smallest_mean``
    c, a lower bound of :math:`E[\Delta^2]`, and ``largest`` M, an upper bound of :math:`\Delta^2`, with :math:`\Delta
    = (f(x) - f(x')) / \sqrt{2 \sigma^2}`. It is sufficient, and seldom necessary.

    Examples
    --------
    >>> fixed_sample_size(10.0, 40.0, 0.01)
    170
    """
    check_alpha(alpha)
    if not (smallest_mean > 0 and largest >= smallest_mean):
        raise ValueError(f"need 0 < smallest_mean <= largest; got {smallest_mean!r} and {largest!r}")
    c = smallest_mean
    factor = max(2.0, 16 * (1 + np.sqrt(1 + c)) ** 2 / c**2, 2 * largest**2 / c**2)
    return int(np.ceil(factor * np.log(2 / alpha)))


def expected_evaluations(n_dims: int, n_active: int, false_active: float, per_node: float) -> float:
    r"""Upper bound of the expected number of evaluations (theorem 3.2).

    :math:`[1 + \frac{2 (1 - \alpha)}{1 - 2 \alpha} d \lceil \log_2 D \rceil] T`, for D ``n_dims``, d ``n_active``, the
    probability α < 1/2 that an inactive node is called active, and T, the largest expected number of evaluations
    ``per_node``. The paper leaves out the 1, the root.

    Examples
    --------
    >>> expected_evaluations(200, 2, 0.0, 10.0)
    330.0
    """
    node_error_rate(n_dims, n_active, 0.5)
    if not 0 <= false_active < 0.5:
        raise ValueError(f"false_active must be at least 0 and below 1/2; got {false_active!r}")
    if not per_node > 0:
        raise ValueError(f"per_node must be positive; got {per_node!r}")
    spawned = 2 * (1 - false_active) / (1 - 2 * false_active)
    return float((1 + spawned * n_active * n_levels(n_dims)) * per_node)


def theorem_beta(t: int, n_active: int, *, signal_variance: float, bandwidth: float, delta: float = 0.1) -> float:
    r"""β of theorem 4.1 at evaluation t, from 1, with which the regret bound holds with a probability of 1 - delta.

    :math:`2 \log(2 \pi^2 t^2 / (3 \delta)) + 2 d \log(2 t^2 d \sigma_s b^{-1} \sqrt{\log(4 d / \delta)})` for d
    ``n_active``, the signal variance σ_s² in squared units of y, and the paper's bandwidth b, for inputs in a unit
    interval. In practice a fifth of it is plenty. The bound's constant is :math:`C_1 = 8 / \log(1 + \sigma^{-2})`, with
    the noise as in theorem 2 of Srinivas et al. (2010), and not with the bandwidth that is printed.

    Examples
    --------
    >>> theorem_beta(1, 2, signal_variance=1.0, bandwidth=0.1).__round__(2)
    26.08
    """
    if t < 1 or n_active < 1 or not 0 < delta < 1:
        raise ValueError(f"need t >= 1, n_active >= 1 and 0 < delta < 1; got {t!r}, {n_active!r}, {delta!r}")
    lipschitz = np.sqrt(signal_variance) / bandwidth * np.sqrt(np.log(4 * n_active / delta))
    grid = max(2 * t**2 * n_active * lipschitz, 1.0)
    return float(2 * np.log(2 * np.pi**2 * t**2 / (3 * delta)) + 2 * n_active * np.log(grid))
