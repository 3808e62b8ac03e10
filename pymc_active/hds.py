"""The search for relevant inputs step by step, and what it is made of; :func:`pymc_active.active.hds` is one call."""

from pymc_active.relevant_inputs.coordinate_wise import Screening
from pymc_active.relevant_inputs.learner import EvaluationError, EvaluationInterrupt, HDSLearner, History
from pymc_active.relevant_inputs.search import HDSResult

__all__ = ["EvaluationError", "EvaluationInterrupt", "HDSLearner", "HDSResult", "History", "Screening"]
