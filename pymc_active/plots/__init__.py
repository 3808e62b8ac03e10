"""Pictures of fits, designs, kernels and results (needs matplotlib, the extra ``plots``).

Every function takes the object first. Another object raises a TypeError; unknown inputs, variables or rows, arrays of
the wrong shape and a wrong number of Axes raise a ValueError. Intervals are central 89 % intervals, ArviZ's default.
Colours are from Okabe and Ito, which colour-blind readers can distinguish. ``plt.style.use(plots.STYLE)`` gives
other pictures the same look. These arguments mean the same everywhere:

ax, axes : matplotlib Axes, or an array of them, optional
    Pictures draw on these, by default on new ones, and return them. ``ax.figure.set_size_inches`` sets the size.
input : int or label
    The input along the x axis, by position or by name.
X, y : array_like, shapes (m, D) and (m,), optional
    Points to show, in the user's units. Default: the data of the fit.
highlight : array_like of int or bool, optional
    Rows of X to ring, such as those asked for; with ``number=True`` they are numbered 1, 2, ... in this order.
draws, random_seed : int, and int or Generator
    Draws of the fit.
"""

from pymc_active.plots.any_result import plot
from pymc_active.plots.embeddings import plot_embedding, plot_loadings, plot_relevance
from pymc_active.plots.optimum import plot_optimum
from pymc_active.plots.predictions import plot_map, plot_predictions
from pymc_active.plots.searches import plot_active_inputs, plot_decomposition, plot_evidence, plot_model_posterior
from pymc_active.plots.slices import plot_slices
from pymc_active.plots.style import BLUE, GREEN, GREY, INK, ORANGE, PINK, STYLE, VERMILION  # noqa: F401 (for users)
from pymc_active.plots.utility import plot_utility

__all__ = [
    "plot",
    "plot_active_inputs",
    "plot_decomposition",
    "plot_embedding",
    "plot_evidence",
    "plot_loadings",
    "plot_map",
    "plot_model_posterior",
    "plot_optimum",
    "plot_predictions",
    "plot_relevance",
    "plot_slices",
    "plot_utility",
]
