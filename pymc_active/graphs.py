"""The model's quantities as PyTensor expressions to build on."""

from pymc_active.models.graphs import MGPMoments, PredictiveGraphs, hessian, log_posterior, mgp_moments, predictive

__all__ = ["MGPMoments", "PredictiveGraphs", "hessian", "log_posterior", "mgp_moments", "predictive"]
