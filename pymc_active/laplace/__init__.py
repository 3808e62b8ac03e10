"""Laplace approximation of the posterior over hyperparameters."""

from pymc_active.laplace.fit import LaplaceFit, Mode
from pymc_active.laplace.fitting import fit_laplace, fit_laplace_models

__all__ = ["LaplaceFit", "Mode", "fit_laplace", "fit_laplace_models"]
