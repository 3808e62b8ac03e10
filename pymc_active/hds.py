"""The search for relevant inputs step by step, and what it is made of; :func:`pymc_active.active.hds` is one call."""

from pymc_active.relevant_inputs.coordinate_wise import Screening
from pymc_active.relevant_inputs.diagnostics import SearchDiagnostics
from pymc_active.relevant_inputs.evaluations import EvaluationError, EvaluationInterrupt
from pymc_active.relevant_inputs.guarantees import ErrorRates
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult, History
from pymc_active.relevant_inputs.scales import EstimatedScales, estimate_scales
from pymc_active.relevant_inputs.search import HDSOptimization, hds_then_optimize

__all__ = [
    "ErrorRates",
    "EstimatedScales",
    "EvaluationError",
    "EvaluationInterrupt",
    "HDSLearner",
    "HDSOptimization",
    "HDSResult",
    "History",
    "Screening",
    "SearchDiagnostics",
    "estimate_scales",
    "hds_then_optimize",
]
