"""Compare fits with longer runs and with MCMC on the same model."""

from pymc_active.checking.report import check

__all__ = ["check"]
