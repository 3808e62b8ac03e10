"""What to measure next."""

from pymc_active.active.bald import bald, uncertainty
from pymc_active.active.bams import bams, committee
from pymc_active.active.designs import latin_hypercube, random_design
from pymc_active.active.embedded import surest_input
from pymc_active.active.improvement import expected_improvement, upper_confidence_bound
from pymc_active.active.learner import Learner
from pymc_active.active.optimum.entropy_search import entropy_search
from pymc_active.active.optimum.ground_truth import pes_ground_truth
from pymc_active.active.optimum.max_value import joint_entropy_search, max_value_entropy, thompson
from pymc_active.active.optimum.pes import pes
from pymc_active.model_average import model_posterior

__all__ = [
    "Learner",
    "bald",
    "bams",
    "committee",
    "entropy_search",
    "expected_improvement",
    "joint_entropy_search",
    "latin_hypercube",
    "max_value_entropy",
    "model_posterior",
    "pes",
    "pes_ground_truth",
    "random_design",
    "surest_input",
    "thompson",
    "uncertainty",
    "upper_confidence_bound",
]
