"""Sample paths of posterior Gaussian processes, and their global maximisers."""

from pymc_active.paths.maximizers import PathMaxima, maximize_over_pool, maximize_paths
from pymc_active.paths.paths import Paths, PosteriorPaths, draw_paths

__all__ = ["PathMaxima", "Paths", "PosteriorPaths", "draw_paths", "maximize_over_pool", "maximize_paths"]
