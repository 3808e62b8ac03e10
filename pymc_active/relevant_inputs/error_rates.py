"""The error rates that a search declares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_active.relevant_inputs.guarantees import n_levels
from pymc_active.relevant_inputs.node_test import NodeTest
from pymc_active.support.summaries import Summarized, Summary


@dataclass(frozen=True, repr=False)
class ErrorRates(Summarized):
    """Upper bounds of the probabilities of errors, if f is a draw from the assumed Gaussian process.

    With ``share`` below 1 the anchored test also keeps them for sums in which each relevant input accounts for at least
    this part of f's variance. An input that accounts for less is missed more often than declared.

    Attributes
    ----------
    false_active : float
        That a test calls a node without an active input active: exp(-accept), by Wald's inequality.
    false_inactive : float
        That a test calls a node with an active input inactive. GP tests: exp(reject), likewise. Finite differences:
        simulated on 2,000 functions, the upper end of a one-sided 95 % interval. A function may be flat along its line,
        and independent differences cannot know that, so this does not tend to 0 with ``reject``. Nodes that were set
        aside are called inactive by the test of all inputs not found, and by no other.
    recovery : float
        Lower bound of the probability that all active inputs and no others are found, if there are ``n_active``: a
        union bound over the nodes of a search without errors. It does not count what retests save.
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


def declared_error_rates(test: NodeTest) -> ErrorRates:
    """The rates of a search with this test, if at most ``n_active`` inputs matter."""
    settings = test.settings
    false_active, false_inactive = float(np.exp(-settings.accept)), test.false_inactive()
    nodes = min(settings.n_active, settings.n_dims) * (n_levels(settings.n_dims) + 1)
    return ErrorRates(false_active, false_inactive, max(0.0, 1 - nodes * (false_active + false_inactive)))
