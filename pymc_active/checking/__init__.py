"""Check fits against MCMC on the same model, and their calibration on simulated data."""

from pymc_active.checking.calibration import calibrate
from pymc_active.checking.report import check

__all__ = ["calibrate", "check"]
