"""Searching for structure: how many components, which kernel, and what hyperpriors do to the answer."""

from pymc_active.search.dimension import EmbeddingDimension, embedding_dimension
from pymc_active.search.priors import PriorSensitivity, prior_sensitivity
from pymc_active.search.structure import StructureSearch, compositional_kernel_search

__all__ = [
    "EmbeddingDimension",
    "PriorSensitivity",
    "StructureSearch",
    "compositional_kernel_search",
    "embedding_dimension",
    "prior_sensitivity",
]
