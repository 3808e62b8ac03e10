"""Gaussian process models in PyMC that choose their own data."""

from importlib.metadata import version

from pymc_active import active, cov, graphs, plots
from pymc_active.laplace import LaplaceFit, fit_laplace
from pymc_active.models import GPModel, ard_gp, composite_gp, embedding_gp, from_marginal
from pymc_active.predict import predict
from pymc_active.truth import check, sample

__version__ = version("pymc-active")

__all__ = [
    "GPModel",
    "LaplaceFit",
    "active",
    "ard_gp",
    "check",
    "composite_gp",
    "cov",
    "embedding_gp",
    "fit_laplace",
    "from_marginal",
    "graphs",
    "plots",
    "predict",
    "sample",
]
