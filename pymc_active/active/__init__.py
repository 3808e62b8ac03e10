"""What to measure next."""

from pymc_active.criteria.bald import bald, uncertainty
from pymc_active.criteria.bald_from_trace import bald_from_trace
from pymc_active.criteria.bams import bams, committee
from pymc_active.criteria.epig import epig, integrated_variance
from pymc_active.criteria.improvement import expected_improvement, upper_confidence_bound
from pymc_active.criteria.level import level
from pymc_active.criteria.maximum.entropy_search import entropy_search
from pymc_active.criteria.maximum.max_value import joint_entropy_search, max_value_entropy, thompson
from pymc_active.criteria.maximum.pes import pes
from pymc_active.learner.designs import gradient_design, latin_hypercube, random_design
from pymc_active.learner.learner import Learner
from pymc_active.learner.optimum import Optimum
from pymc_active.predictions.model_average import model_posterior
from pymc_active.relevant_inputs.coordinate_wise import coordinate_wise
from pymc_active.relevant_inputs.search import hds

__all__ = [
    "Learner",
    "Optimum",
    "bald",
    "bald_from_trace",
    "bams",
    "committee",
    "coordinate_wise",
    "entropy_search",
    "epig",
    "expected_improvement",
    "gradient_design",
    "hds",
    "integrated_variance",
    "joint_entropy_search",
    "latin_hypercube",
    "level",
    "max_value_entropy",
    "model_posterior",
    "pes",
    "random_design",
    "thompson",
    "uncertainty",
    "upper_confidence_bound",
]
