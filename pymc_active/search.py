"""Searching for structure: how many components, which kernel, and what hyperpriors do to the answer."""

from pymc_active.structure.dimension import EmbeddingDimension, embedding_dimension
from pymc_active.structure.kernel_search import StructureSearch, compositional_kernel_search
from pymc_active.structure.priors import PriorSensitivity, prior_sensitivity

__all__ = [
    "EmbeddingDimension",
    "PriorSensitivity",
    "StructureSearch",
    "compositional_kernel_search",
    "embedding_dimension",
    "prior_sensitivity",
]
