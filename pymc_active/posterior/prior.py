"""The log prior of the unconstrained parameters, with derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.posterior.factor import LOG_2PI
from pymc_active.support.scaling import EQUAL


class GaussianPrior:
    """Independent normal priors on untransformed parameters, in closed form."""

    def __init__(self, mean: np.ndarray, sd: np.ndarray):
        self.mean, self.sd = mean, sd
        self.precision = 1 / sd**2
        self.constant = -0.5 * len(mean) * LOG_2PI - np.log(sd).sum()

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        difference = theta - self.mean
        gradient = -self.precision * difference
        return float(self.constant + 0.5 * gradient @ difference), gradient

    def values(self, thetas: np.ndarray) -> np.ndarray:
        """Log prior at the rows of thetas (S, P), shape (S,)."""
        return self.constant - 0.5 * np.square(thetas - self.mean) @ self.precision

    def entries(self, thetas: np.ndarray) -> np.ndarray:
        """Log densities of the entries of thetas (S, P), (S, P)."""
        return -0.5 * (np.square((thetas - self.mean) / self.sd) + LOG_2PI) - np.log(self.sd)


def scale_of_few(n: Any) -> tuple[Any, Any]:
    """How much larger than its sample's sd a scale is on average, in logarithms, and the variance of this, for n > 1.

    Few points seldom show how much a function varies, and neighbours vary together: this is for a normal sample of
    which half are independent, with half of its degrees of freedom, to second order in their number.
    """
    once = 1 / (n - 1)
    return once * (1 + 2 / 3 * once), once * (1 + 2 * once)


@dataclass(frozen=True)
class RenewedPrior:
    """Normal priors stated for y standardised by the current data, as priors of parameters for y as it is given.

    ``stated`` are those for standardised y; ``logs``, ``levels`` and ``slopes`` are the positions in theta of the
    logarithms of output and noise scales, of the mean's constant, and of its slopes.
    """

    stated: GaussianPrior
    logs: np.ndarray
    levels: np.ndarray
    slopes: np.ndarray

    def given(self, y: np.ndarray) -> GaussianPrior:
        """The prior for these data (n,)."""
        level, scale = y.mean(), 1.0
        mean, sd = self.stated.mean.copy(), self.stated.sd.copy()
        # Equal values tell no scale.
        if np.ptp(y) > EQUAL:
            larger, variance = scale_of_few(len(y))
            scale = y.std(ddof=1) * np.exp(larger)
            sd[self.logs] = np.sqrt(sd[self.logs] ** 2 + variance)
        mean[self.logs] += np.log(scale)
        for places in (self.levels, self.slopes):
            mean[places], sd[places] = scale * mean[places], scale * sd[places]
        mean[self.levels] += level
        return GaussianPrior(mean, sd)
