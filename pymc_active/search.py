"""Searching for structure: how many components, and which kernel."""

from pymc_active.structure.dimension import EmbeddingDimension, embedding_dimension
from pymc_active.structure.kernel_search import StructureSearch, compositional_kernel_search

__all__ = [
    "EmbeddingDimension",
    "StructureSearch",
    "compositional_kernel_search",
    "embedding_dimension",
]
