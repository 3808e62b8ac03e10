"""Thresholds that keep a declared probability of finding all active inputs and no others, and error rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_active.support.summaries import Summarized, Summary


def nodes_visited(n_dims: int, n_active: int) -> int:
    """Most nodes on the way from the root to the active inputs: d (⌈log₂ D⌉ + 1)."""
    return min(n_active, n_dims) * (int(np.ceil(np.log2(n_dims))) + 1)


def threshold(n_dims: int, n_active: int, recovery: float) -> float:
    r"""Log likelihood ratio (nats) at which tests accept, and reject with the other sign, by default.

    By Wald's inequality a test with it errs with a probability of at most :math:`\varepsilon / (2 d (\lceil \log_2 D
    \rceil + 1))`, with :math:`\varepsilon` = 1 - recovery: a union bound over the nodes that a search without errors
    visits. The paper's theorem 3.2 prints :math:`(\varepsilon / D)^{1 / \lceil \log D \rceil}`, with which the
    probability of finding all active inputs can be 0.
    """
    if not 0 < recovery < 1:
        raise ValueError(f"recovery, a probability, must be between 0 and 1; got {recovery!r}")
    return float(np.log(2 * nodes_visited(n_dims, n_active) / (1 - recovery)))


@dataclass(frozen=True, repr=False)
class ErrorRates(Summarized):
    """Upper bounds of the probabilities of errors, if f is a draw from the assumed Gaussian process.

    With ``share`` below 1 the anchored test also keeps them for sums in which each relevant input accounts for at least
    this part of f's variance. An input that accounts for less is missed more often than declared.

    ``false_active``: a test calls a node without an active input active; exp(-accept), by Wald's inequality.
    ``false_inactive``: a test calls a node with an active input inactive; exp(reject), likewise. Nodes set aside are
    only rejected by the last test. ``recovery``: lower bound of the probability that all active inputs and no others
    are found, if there are ``n_active``: a union bound over the nodes of a search without errors, without what retests
    save.
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
