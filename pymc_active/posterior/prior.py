"""The log prior of the unconstrained parameters, with derivatives."""

from __future__ import annotations

import numpy as np

from pymc_active.posterior.factor import LOG_2PI


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

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Hessian of the log prior, (P, P)."""
        return np.diag(-self.precision)
