"""Gaussian processes for outcomes that are yes or no."""

from pymc_active.classification.fit import ProbitFit, fit_probit
from pymc_active.classification.model import ProbitGP, probit_gp

__all__ = ["ProbitFit", "ProbitGP", "fit_probit", "probit_gp"]
