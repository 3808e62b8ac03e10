"""Draws from the posterior itself, with its evidence: ``fit_smc``, and how ``fit`` chooses for GPs."""

from pymc_active.particles.informative import informative_rows
from pymc_active.particles.particle_fit import ParticleFit, find_modes
from pymc_active.particles.smc import fit_smc

__all__ = ["ParticleFit", "find_modes", "fit_smc", "informative_rows"]
