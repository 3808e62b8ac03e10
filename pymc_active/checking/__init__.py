"""How far the fast approximations are from MCMC on the same model: predictions, evidence, decisions, in words."""

from pymc_active.checking.report import check

__all__ = ["check"]
