"""Kernels: expressions as values; radial profiles and arrays with exact derivatives."""

from pymc_active.kernels.expressions import BASE_KERNELS, Base, Expression, Product, Sum, grid, paper_models, parse

__all__ = ["BASE_KERNELS", "Base", "Expression", "Product", "Sum", "grid", "paper_models", "parse"]
