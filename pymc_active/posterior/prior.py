"""The log prior of the unconstrained parameters, with derivatives."""

from __future__ import annotations

import numpy as np
from pytensor.compile.mode import Mode
from pytensor.link.vm import VMLinker

from pymc_active.posterior.factor import LOG_2PI


def vm_mode() -> Mode:
    """No JIT and no C compiler: elementwise graphs build in about a second and run at NumPy's speed."""
    return Mode(linker=VMLinker(use_cloop=False, c_thunks=False), optimizer="fast_run").excluding(
        "cxx_only", "BlasOpt", "fusion", "inplace"
    )


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

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Of the log prior, (P, P)."""
        return np.diag(-self.precision)
