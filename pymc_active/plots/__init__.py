"""Pictures of fits, designs, kernels and results (needs matplotlib, the extra ``plots``).

Every function takes the object first, draws into ``ax`` or into a new figure, and returns the Axes. Colours are those
of Okabe and Ito, which colour-blind readers can tell apart.
"""

from pymc_active.plots.fits import (
    plot_check,
    plot_embedding,
    plot_embedding_dimension,
    plot_learning_curves,
    plot_loadings,
    plot_parameters,
    plot_predictions,
    plot_relevance,
    plot_subspace_angles,
)
from pymc_active.plots.hierarchy import plot_search_tree
from pymc_active.plots.kernels import (
    plot_decomposition,
    plot_evidence,
    plot_model_posterior,
    plot_prior_sensitivity,
    plot_structure_search,
)
from pymc_active.plots.optimum import plot_optimum
from pymc_active.plots.style import BLUE as BLUE
from pymc_active.plots.style import GREEN as GREEN
from pymc_active.plots.style import GREY as GREY
from pymc_active.plots.style import INK as INK
from pymc_active.plots.style import ORANGE as ORANGE
from pymc_active.plots.style import PINK as PINK
from pymc_active.plots.style import VERMILION as VERMILION

__all__ = [
    "plot_check",
    "plot_decomposition",
    "plot_embedding",
    "plot_embedding_dimension",
    "plot_evidence",
    "plot_learning_curves",
    "plot_loadings",
    "plot_model_posterior",
    "plot_optimum",
    "plot_parameters",
    "plot_predictions",
    "plot_prior_sensitivity",
    "plot_relevance",
    "plot_search_tree",
    "plot_structure_search",
    "plot_subspace_angles",
]
