"""Pictures of fits, designs, kernels and results (needs matplotlib, the extra ``plots``).

Every function takes the object first. Pictures with one panel take ``ax`` and return the Axes; pictures with several
take ``axes`` and ``figsize`` and return an array of Axes. Intervals are central 89 % intervals, ArviZ's default.
Colours are those of Okabe and Ito, which colour-blind readers can distinguish. ``plt.style.use(plots.STYLE)`` gives
other pictures the same look.
"""

from pymc_active.plots.any_result import plot
from pymc_active.plots.checks import plot_check
from pymc_active.plots.classification import plot_probability
from pymc_active.plots.curves import plot_learning_curves
from pymc_active.plots.embeddings import (
    plot_embedding,
    plot_embedding_dimension,
    plot_loadings,
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
from pymc_active.plots.parameters import plot_parameters
from pymc_active.plots.predictions import plot_predictions
from pymc_active.plots.style import BLUE as BLUE
from pymc_active.plots.style import GREEN as GREEN
from pymc_active.plots.style import GREY as GREY
from pymc_active.plots.style import INK as INK
from pymc_active.plots.style import ORANGE as ORANGE
from pymc_active.plots.style import PINK as PINK
from pymc_active.plots.style import STYLE as STYLE
from pymc_active.plots.style import VERMILION as VERMILION
from pymc_active.plots.utility import plot_utility

__all__ = [
    "plot",
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
    "plot_probability",
    "plot_relevance",
    "plot_search_tree",
    "plot_structure_search",
    "plot_subspace_angles",
    "plot_utility",
]
