"""The paper's finite difference test (FDT): whether differences along a line exceed those of noise alone."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pymc_active.relevant_inputs.node_test import NodeTest
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.relevant_inputs.state import Evaluation, HDSState, Trial

# Longest distance of a pair on a line of unit length; with longer ones all pairs would be nearly the same.
LONGEST_SPACING = 0.5


def difference_llr(
    difference: np.ndarray | float,
    spacing: float,
    bandwidth: float,
    signal_variance: float,
    noise_variance: float,
) -> np.ndarray:
    r"""Log likelihood ratio (nats) of the difference of two observations, active against inactive (eq. 2).

    Its variance is :math:`\sigma_0^2 = 2 \sigma^2` if the node is inactive, and with one active input
    :math:`\sigma_1^2 = 2 [(1 - e^{-\delta^2 / b^2}) \sigma_s^2 + \sigma^2]`, for the paper's bandwidth b in units of z.
    At its ``spacing`` δ = 3b the exponent is 9, and not the 3 that the paper prints.

    Examples
    --------
    >>> difference_llr(np.array([0.0, 1.0]), 1.2, 0.4, 1.0, 0.05).round(4)
    array([-1.5222,  3.2397])
    """
    low = 2 * noise_variance
    high = 2 * (-np.expm1(-((spacing / bandwidth) ** 2)) * signal_variance + noise_variance)
    return 0.5 * (np.square(difference) * (1 / low - 1 / high) + np.log(low / high))


class FDT(NodeTest):
    """Pairs of points along a line through a random point, until a threshold is passed (the paper's section 3.2)."""

    n_together: ClassVar[int] = 2

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self.spacing = min(3 * settings.bandwidth, LONGEST_SPACING)

    def priority(self, state: HDSState, trial: Trial) -> float:
        """The log likelihood ratio so far."""
        return trial.llr

    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """Queue a pair."""
        z = float(state.rng.uniform(0, 1 - self.spacing))
        first, second = (
            state.plan(Evaluation(trial.node, trial, trial.background, at, at)) for at in (z, z + self.spacing)
        )
        first.partner, second.partner = second, first

    def update(self, state: HDSState, trial: Trial, at: Evaluation) -> str:
        """Enter the pair that is complete with this evaluation."""
        assert at.partner is not None
        if np.isnan(at.partner.y):
            return "open"
        trial.told += [at, at.partner]
        llr = difference_llr(at.y - at.partner.y, self.spacing, *self.settings.scales)
        trial.path.append(trial.llr + float(llr))
        return self.verdict(state, trial)
