"""Covariance functions for models of your own."""

from pymc_active.kernels.cov import Embedding, ErrorBars, Rescaled

__all__ = ["Embedding", "ErrorBars", "Rescaled"]
