"""What to measure next."""

from pymc_active.active.bald import bald, uncertainty
from pymc_active.active.designs import latin_hypercube, random_design
from pymc_active.active.learner import Learner

__all__ = ["Learner", "bald", "latin_hypercube", "random_design", "uncertainty"]
