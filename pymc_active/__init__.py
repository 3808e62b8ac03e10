"""Gaussian process models in PyMC that choose their own data."""

from importlib.metadata import version

from pymc_active import cov
from pymc_active.models import GPModel, ard_gp, composite_gp, embedding_gp, from_marginal

__version__ = version("pymc-active")

__all__ = ["GPModel", "ard_gp", "composite_gp", "cov", "embedding_gp", "from_marginal"]
