"""Laplace approximation of the posterior over hyperparameters."""

from pymc_active.laplace.fit import LaplaceFit, Mode, fit_laplace

__all__ = ["LaplaceFit", "Mode", "fit_laplace"]
