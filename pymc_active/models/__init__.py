"""Gaussian process models that can choose their own data."""

from pymc_active.models.builders import ard_gp, embedding_gp
from pymc_active.models.composite import composite_gp
from pymc_active.models.from_latent import from_latent
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.marginal import from_marginal

__all__ = ["GPModel", "ard_gp", "composite_gp", "embedding_gp", "from_latent", "from_marginal"]
