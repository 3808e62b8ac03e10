"""What to measure next."""

from pymc_active.active.bald import bald, uncertainty
from pymc_active.active.bams import bams, committee
from pymc_active.active.designs import latin_hypercube, random_design
from pymc_active.active.embedded import surest_input
from pymc_active.active.improvement import expected_improvement, upper_confidence_bound
from pymc_active.active.learner import Learner
from pymc_active.model_average import model_posterior

__all__ = [
    "Learner",
    "bald",
    "bams",
    "committee",
    "expected_improvement",
    "latin_hypercube",
    "model_posterior",
    "random_design",
    "surest_input",
    "uncertainty",
    "upper_confidence_bound",
]
