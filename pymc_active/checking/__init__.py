"""Compare fits with longer runs and with MCMC on the same model, and look closer at their data."""

from pymc_active.checking.advice import advise
from pymc_active.checking.report import check

__all__ = ["advise", "check"]
