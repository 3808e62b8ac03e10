"""One function for the picture of any result."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from pymc_active.classification.fit import ProbitFit
from pymc_active.inference.fit import Fit
from pymc_active.learner.learner import Learner
from pymc_active.learner.optimum import Optimum
from pymc_active.plots.classification import plot_probability
from pymc_active.plots.embeddings import plot_embedding, plot_embedding_dimension
from pymc_active.plots.hierarchy import plot_search_tree
from pymc_active.plots.kernels import (
    plot_decomposition,
    plot_evidence,
    plot_model_posterior,
    plot_prior_sensitivity,
    plot_structure_search,
)
from pymc_active.plots.measurements import column_of
from pymc_active.plots.optimum import plot_optimum
from pymc_active.plots.predictions import plot_predictions
from pymc_active.plots.style import VERMILION
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.structure.decompose import Decomposition
from pymc_active.structure.dimension import EmbeddingDimension
from pymc_active.structure.kernel_search import StructureSearch
from pymc_active.structure.priors import PriorSensitivity
from pymc_active.support.arguments import checked


@singledispatch
@checked
def plot(result: Any, **keywords: Any) -> Any:
    """Plot a result with the function that suits it, which takes the keywords and returns its Axes.

    A fit: the learned plane of an embedding (:func:`plot_embedding`), else predictions (:func:`plot_predictions`). A
    :class:`~pymc_active.active.Learner`: the same, with the points told ringed and numbered, and along one input with
    failures as crosses at the bottom; with several models, their posterior over the run (:func:`plot_model_posterior`).
    Any other result: its own picture.
    """
    known = sorted(kind.__name__ for kind in plot.registry if kind is not object)
    raise TypeError(f"there is no picture of {type(result).__name__}; plot takes {', '.join(known)}")


plot.register(Decomposition, plot_decomposition)
plot.register(EmbeddingDimension, plot_embedding_dimension)
plot.register(HDSResult, plot_search_tree)
plot.register(Optimum, plot_optimum)
plot.register(PriorSensitivity, plot_prior_sensitivity)
plot.register(ProbitFit, plot_probability)
plot.register(StructureSearch, plot_structure_search)


@plot.register
def _fit(fit: Fit, **keywords: Any) -> Any:
    return (plot_embedding if fit.gpm.embedding else plot_predictions)(fit, **keywords)


@plot.register
def _average(average: ModelAverage, **keywords: Any) -> Any:
    return plot_evidence(average.probability, **keywords)


@plot.register
def _learner(learner: Learner, **keywords: Any) -> Any:
    if isinstance(learner.fit, ModelAverage):
        return plot_model_posterior(learner.model_history, **keywords)
    if "X" not in keywords:
        keywords = {"highlight": np.arange(learner.n_start, len(learner.y)), "number": True} | keywords
    ax = plot(learner.fit, **keywords)
    if len(learner.failures) and not learner.gpm.embedding:
        column, _ = column_of(learner.gpm.inputs, keywords.get("input", 0))
        crosses = {"color": VERMILION, "transform": ax.get_xaxis_transform(), "label": "failed"}
        ax.plot(learner.failures[:, column], np.full(len(learner.failures), 0.03), "x", **crosses)
    return ax
