"""Check the fast approximations against MCMC on the same model: predictions, evidence and decisions."""

from pymc_active.checking.report import check

__all__ = ["check"]
