"""Names of types in signatures, for annotations of your own."""

from pymc_active.criteria.screening import AnyCriterion
from pymc_active.inference.ensemble import Seed
from pymc_active.learner.first_design import MakeModel
from pymc_active.models.composite import Period
from pymc_active.models.parameters import Priors
from pymc_active.predictions.ensembles import Source
from pymc_active.predictions.model_average import Fits, Prior
from pymc_active.support.scaling import Scale
from pymc_active.support.tables import Bounds

__all__ = ["AnyCriterion", "Bounds", "Fits", "MakeModel", "Period", "Prior", "Priors", "Scale", "Seed", "Source"]
