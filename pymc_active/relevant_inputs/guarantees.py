"""Thresholds that keep a declared probability of finding all active inputs and no others, and error rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_active.support.arguments import checked
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary


class Thresholds(NamedTuple):
    """Log likelihood ratios (nats) from which up a node is active, and from which down it is inactive."""

    accept: float
    reject: float


def n_levels(n_dims: int) -> int:
    """⌈log₂ D⌉, how often the root is halved until single inputs are left."""
    return int(np.ceil(np.log2(n_dims)))


def node_error_rate(n_dims: int, n_active: int, recovery: float) -> float:
    r"""Error rate of each test that keeps the probability ``recovery`` of finding all active inputs and no others.

    :math:`\varepsilon / (2 d (\lceil \log_2 D \rceil + 1))` with :math:`\varepsilon` = 1 - recovery, a union bound over
    the nodes that a search without errors visits. The paper's theorem 3.2 prints
    :math:`(\varepsilon / D)^{1 / \lceil \log D \rceil}`, with which the probability can be 0.
    """
    count("n_dims", n_dims)
    count("n_active", n_active, n_dims)
    if not 0 < recovery < 1:
        raise ValueError(f"recovery, a probability, must be between 0 and 1; got {recovery!r}")
    return (1 - recovery) / (2 * n_active * (n_levels(n_dims) + 1))


@checked
def thresholds(n_dims: int, n_active: int, recovery: float) -> Thresholds:
    """Thresholds for a declared probability of finding all active inputs, at most ``n_active``, and no others.

    By Wald's inequality a test that accepts at A errs with a probability of at most exp(-A); likewise for rejection.
    ValueError for counts below 1, more active inputs than inputs, or a probability outside (0, 1).

    Examples
    --------
    >>> thresholds(200, 2, 0.99).accept.__round__(2)
    8.19
    """
    rate = node_error_rate(n_dims, n_active, recovery)
    return Thresholds(float(-np.log(rate)), float(np.log(rate)))


@dataclass(frozen=True, repr=False)
class ErrorRates(Summarized):
    """Upper bounds of the probabilities of errors, if f is a draw from the assumed Gaussian process.

    With ``share`` below 1 the anchored test also keeps them for sums in which each relevant input accounts for at least
    this part of f's variance. An input that accounts for less is missed more often than declared.

    ``false_active``: a test calls a node without an active input active; exp(-accept), by Wald's inequality.
    ``false_inactive``: a test calls a node with an active input inactive; exp(reject) for GP tests, likewise. Finite
    differences: the upper end of a one-sided 95 % interval from 2,000 simulated functions, which does not tend to
    0 with ``reject``, since f may be flat along its line. Nodes set aside are only rejected by the last test.
    ``recovery``: lower bound of the probability that all active inputs and no others are found, if there are
    ``n_active``: a union bound over the nodes of a search without errors, without what retests save.
    """

    false_active: float
    false_inactive: float
    recovery: float

    def _summary(self) -> Summary:
        facts = {
            "false active, a test": f"at most {self.false_active:.2g}",
            "false inactive, a test": f"at most {self.false_inactive:.2g}",
            "recovery of all": f"at least {self.recovery:.3g}",
        }
        return Summary("ErrorRates", facts)


def declared_error_rates(n_dims: int, n_active: int, accept: float, false_inactive: float) -> ErrorRates:
    """The rates of a search whose tests have these, if at most ``n_active`` inputs matter."""
    false_active = float(np.exp(-accept))
    nodes = min(n_active, n_dims) * (n_levels(n_dims) + 1)
    return ErrorRates(false_active, false_inactive, max(0.0, 1 - nodes * (false_active + false_inactive)))


@checked
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
