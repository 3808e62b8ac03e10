"""One function for the picture of any result."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.learner.learner import Learner
from pymc_active.learner.optimum import Optimum
from pymc_active.plots.axes import show_legend
from pymc_active.plots.embeddings import plot_embedding, plot_relevance
from pymc_active.plots.measurements import around, box_of, column_of, has_slices, reach_beyond, steepest_input
from pymc_active.plots.optimum import plot_optimum
from pymc_active.plots.predictions import plot_map, plot_predictions
from pymc_active.plots.searches import plot_active_inputs, plot_decomposition, plot_evidence, plot_model_posterior
from pymc_active.plots.slices import plot_slices
from pymc_active.plots.style import INK, VERMILION
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.relevant_inputs.search import HDSResult
from pymc_active.structure.decompose import Decomposition
from pymc_active.structure.dimension import EmbeddingDimension
from pymc_active.structure.kernel_search import StructureSearch
from pymc_active.structure.relevance import principal_axes

_PENDING: dict[str, Any] = {"marker": "D", "ms": 7, "mfc": "none", "mec": INK, "mew": 1.6}
_FAILED: dict[str, Any] = {"marker": "x", "color": VERMILION, "mew": 2}
_RECOMMENDED: dict[str, Any] = {"marker": "*", "ms": 15, "color": VERMILION, "mec": "white"}


@singledispatch
def plot(result: Any, **keywords: Any) -> Any:
    """Plot a result with the function that suits it, which takes the keywords and returns its Axes.

    A fit: the learned components of an embedding (:func:`plot_embedding`), else a map of two inputs (:func:`plot_map`),
    and otherwise, or with ``input=``, predictions along one (:func:`plot_predictions`). A
    :class:`~pymc_active.active.Learner`: the same, where points that were asked for and told are ringed and numbered.
    Pending points, failures and, for the maximum, the recommended point have no outcome and are at the bottom of a
    slice, which goes through the recommended point. With several models: their posterior over the run
    (:func:`plot_model_posterior`), but the map of their average where the function or the maximum of two inputs is
    learned.
    What :func:`~pymc_active.relevance` returns, a decomposition, an optimum, the result of a search: its own picture.
    """
    if "loading" in getattr(result, "data_vars", ()):
        return plot_relevance(result, **keywords)
    kinds = ", ".join(sorted(kind.__name__ for kind in plot.registry if kind is not object))
    raise TypeError(
        f"there is no picture of {type(result).__name__}; plot takes {kinds}, and what relevance returns; "
        "for other tables see the functions of pymc_active.plots"
    )


plot.register(Decomposition, plot_decomposition)
plot.register(HDSResult, plot_active_inputs)
plot.register(Optimum, plot_optimum)


@plot.register
def _fit(fit: Fit, **keywords: Any) -> Any:
    if has_slices(fit):
        return plot_slices(fit, **keywords)
    if fit.gpm.embedding:
        return plot_embedding(fit, **keywords)
    return (plot_map if len(fit.gpm.inputs) == 2 and "input" not in keywords else plot_predictions)(fit, **keywords)


@plot.register
def _dimensions(result: EmbeddingDimension, **keywords: Any) -> Any:
    table = result.table.assign(doubtful=result.table.doubtful | result.table.evidence_is_poor)
    names = [f"{d} component{'s' * (d > 1)}" for d in table.n_components.to_numpy().tolist()]
    return plot_evidence(table.rename(n_components="model").assign_coords(model=names), **keywords)


@plot.register
def _search(search: StructureSearch, **keywords: Any) -> Any:
    ax = plot_evidence((search.logarithm or search).table, **keywords)
    if search.logarithm is not None:
        ax.set_title("kernels for the logarithm of y", loc="left", fontsize=9)
    return ax


@plot.register
def _average(average: ModelAverage, **keywords: Any) -> Any:
    return plot_evidence(average.probability, **keywords)


@plot.register
def _learner(learner: Learner, **keywords: Any) -> Any:
    gpm, fit = learner.gpm, learner.fit
    axes: Any
    is_map = len(gpm.inputs) == 2 and "input" not in keywords
    if isinstance(fit, ModelAverage) and (learner.learn == "model" or not is_map):
        return plot_model_posterior(learner.model_history, **keywords)
    if has_slices(fit):
        return plot_slices(fit, **({"at": learner.recommend()} if learner.learn == "maximum" else {}) | keywords)
    if "X" not in keywords:
        asked = learner.n_start + np.flatnonzero(learner.design().asked)
        keywords = {"highlight": asked, "number": True} | keywords
    # Points without an outcome.
    marks = {"pending": (learner.pending, _PENDING), "failed": (learner.failures, _FAILED)}
    if learner.learn == "maximum":
        marks["recommended"] = (learner.recommend(), _RECOMMENDED)
    points = {name: np.asarray(X, float).reshape(-1, len(gpm.inputs)) for name, (X, _) in marks.items()}
    if isinstance(fit, Fit) and gpm.embedding:
        shown = {"told": learner.X, **points}
        shown = {name: (gpm.x_map(X) @ principal_axes(fit).T)[:, :2] for name, X in shown.items()}
        ends = keywords.setdefault("limits", [around(u) for u in np.concatenate(list(shown.values())).T])
        axes, points = plot_embedding(fit, **keywords), {name: shown[name] for name in points}
    elif is_map:
        ends = keywords.setdefault("limits", _ends(learner))
        axes = plot_map(fit, **keywords)
    else:
        if learner.learn == "maximum":
            keywords = {"at": points["recommended"][0]} | keywords
        if keywords.get("input") is None:
            held = np.asarray(keywords.get("at", np.median(learner.X, axis=0)), float).reshape(-1)
            keywords["input"] = gpm.inputs[steepest_input(fit, held, _ends(learner))]
        column, _ = column_of(gpm.inputs, keywords["input"])
        ends = [keywords.setdefault("limits", tuple(_ends(learner)[column]))]
        axes = plot_predictions(fit, **keywords)
        points = {name: X[:, [column]] for name, X in points.items()}
    ax = np.ravel(axes)[0]
    for name, X in points.items():
        style = {"ls": "none", "label": name, "zorder": 5, "clip_on": reach_beyond(ends, X)}
        if len(X) and X.shape[1] == 2:
            ax.plot(*X.T, **style, **marks[name][1])
        elif len(X):
            ax.plot(X, np.full(len(X), 0.03), transform=ax.get_xaxis_transform(), **style, **marks[name][1])
    show_legend(ax, is_below=True)
    return axes


def _ends(learner: Learner) -> np.ndarray:
    """Ends (D, 2) of the learner's box, or its model's; else a tenth beyond the candidates and the data."""
    is_box = np.isinf(learner.n_left)
    return learner.limits.T if is_box else box_of(learner.gpm, np.concatenate([learner.limits, learner.X]))
