"""Covariance functions for models of your own."""

from pymc_active.kernels.cov import Embedding, Rescaled

__all__ = ["Embedding", "Rescaled"]
