"""Names of types in signatures, for annotations of your own."""

from pymc_active.inference.ensemble import Seed
from pymc_active.predictions.ensembles import Source
from pymc_active.predictions.model_average import Fits, Prior
from pymc_active.support.scaling import Scale
from pymc_active.support.tables import Bounds

__all__ = ["Bounds", "Fits", "Prior", "Scale", "Seed", "Source"]
