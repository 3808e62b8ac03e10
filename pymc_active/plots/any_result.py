"""One function for the picture of any result."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Box
from pymc_active.learner.learner import Learner
from pymc_active.learner.optimum import Optimum
from pymc_active.plots.axes import legend_above
from pymc_active.plots.checks import plot_check
from pymc_active.plots.embeddings import (
    plot_embedding,
    plot_relevance,
    plot_sobol_indices,
)
from pymc_active.plots.hierarchy import plot_active_inputs
from pymc_active.plots.kernels import (
    plot_decomposition,
    plot_evidence,
    plot_model_posterior,
    plot_structure_search,
)
from pymc_active.plots.maps import plot_map, reach_beyond
from pymc_active.plots.measurements import around, column_of, steepest_input
from pymc_active.plots.optimum import plot_optimum
from pymc_active.plots.predictions import plot_predictions
from pymc_active.plots.style import VERMILION
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.structure.decompose import Decomposition
from pymc_active.structure.dimension import EmbeddingDimension
from pymc_active.structure.kernel_search import StructureSearch
from pymc_active.support.arguments import checked

# By a variable or a dim that no other table has before it: what draws the tables that ``plot`` does not.
_DRAWN_BY = {
    "mean_function": "pass the Decomposition itself",
    "f_mean": "plot_predictions(fit) draws predictions",
    "random": "plot_subspace_angles(fit) draws angles",
    "n_observations": "plot_model_posterior draws probabilities over a run",
    "model": "plot_evidence draws probabilities of models",
    "point": "plot_utility(utility, X) draws the utility of candidates",
}
_FAILED: dict[str, Any] = {"color": VERMILION, "mew": 2, "clip_on": False, "zorder": 5, "label": "failed"}


@singledispatch
@checked
def plot(result: Any, **keywords: Any) -> Any:
    """Plot a result with the function that suits it, which takes the keywords and returns its Axes.

    A fit: the learned plane of an embedding (:func:`plot_embedding`), else a map of two inputs (:func:`plot_map`), and
    otherwise, or with ``input=``, predictions along one (:func:`plot_predictions`). A
    :class:`~pymc_active.active.Learner`: the same, with the points told ringed and numbered, and failures as crosses,
    in a slice at the bottom; for the maximum a map has the recommended point as a star, and a slice goes through it.
    With several models: their posterior over the run (:func:`plot_model_posterior`), but the map of their average where
    the function or the maximum of two inputs is learned.
    What :func:`~pymc_active.check`, :func:`~pymc_active.relevance` or :func:`~pymc_active.sobol_indices` returns, a
    decomposition, an optimum, or the result of a search: its own picture. For another table the TypeError names the
    function that draws it, if any.
    """
    names = [*getattr(result, "data_vars", ()), *getattr(result, "dims", ())]
    if "loading" in names:
        return plot_relevance(result, **keywords)
    if "first" in names:
        return plot_sobol_indices(result, **keywords)
    kind = type(result).__name__
    for name, what in _DRAWN_BY.items():
        if name in names:
            raise TypeError(f"plot does not take this {kind}: {what}")
    kind += f" of {', '.join(map(str, names))}" if names else ""
    known = sorted(kind.__name__ for kind in plot.registry if kind is not object)
    tables = "what relevance or sobol_indices returns"
    raise TypeError(f"there is no picture of {kind}; plot takes {', '.join(known)}, and {tables}")


plot.register(Decomposition, plot_decomposition)
plot.register(HDSResult, plot_active_inputs)
plot.register(Optimum, plot_optimum)
plot.register(StructureSearch, plot_structure_search)
plot.register(xr.DataTree, plot_check)


@plot.register
def _fit(fit: Fit, **keywords: Any) -> Any:
    if fit.gpm.embedding:
        return plot_embedding(fit, **keywords)
    return (plot_map if len(fit.gpm.inputs) == 2 and "input" not in keywords else plot_predictions)(fit, **keywords)


@plot.register
def _dimensions(result: EmbeddingDimension, **keywords: Any) -> Any:
    table = result.table.assign(doubtful=result.table.doubtful | result.table.evidence_is_poor)
    names = [f"{d} component{'s' * (d > 1)}" for d in table.n_components.to_numpy().tolist()]
    return plot_evidence(table.rename(n_components="model").assign_coords(model=names), **keywords)


@plot.register
def _average(average: ModelAverage, **keywords: Any) -> Any:
    return plot_evidence(average.probability, **keywords)


@plot.register
def _learner(learner: Learner, **keywords: Any) -> Any:
    has_map = len(learner.gpm.inputs) == 2 and "input" not in keywords
    if isinstance(learner.fit, ModelAverage) and (learner.learn == "model" or not has_map):
        return plot_model_posterior(learner.model_history, **keywords)
    if "X" not in keywords:
        if isinstance(learner.fit, Fit) and learner.fit.n_left_out:
            # Some points only, in another order.
            told = (learner.fit.X[:, None] == learner.X[learner.n_start :]).all(2).any(1)
            keywords = {"highlight": np.flatnonzero(told)} | keywords
        else:
            keywords = {"highlight": np.arange(learner.n_start, len(learner.y)), "number": True} | keywords
    if isinstance(learner.fit, Fit) and learner.gpm.embedding:
        return plot_embedding(learner.fit, **keywords)
    if has_map:
        return learner_map(learner, **keywords)
    inputs, ends = learner.gpm.inputs, _ends(learner)
    if learner.learn == "maximum":
        keywords = {"at": learner._best().x} | keywords
    if keywords.get("input") is None:
        held = keywords.get("at", np.median(learner.X, axis=0))
        keywords["input"] = inputs[steepest_input(learner.fit, np.asarray(held, float).reshape(-1), ends)]
    column, _ = column_of(inputs, keywords["input"])
    ax = plot_predictions(learner.fit, **({"limits": tuple(ends[column])} | keywords))
    if len(learner.failures):
        heights = np.full(len(learner.failures), 0.03)
        ax.plot(learner.failures[:, column], heights, "x", transform=ax.get_xaxis_transform(), **_FAILED)
        legend_above(ax)
    return ax


def learner_map(learner: Learner, **keywords: Any) -> np.ndarray:
    """The map of a learner's fit to two inputs, with failures and, for the maximum, the recommended point."""
    axes = plot_map(learner.fit, **({"limits": _ends(learner)} | keywords))
    ax, failed = axes[0], learner.failures
    if len(failed):
        ax.plot(*failed.T, "x", **_FAILED | {"clip_on": reach_beyond(ax, failed)})
    if learner.learn == "maximum":
        best = learner._best().x
        style: dict[str, Any] = {"ms": 15, "color": VERMILION, "mec": "white", "mew": 1.0, "zorder": 5}
        ax.plot(*best[:, None], "*", label="recommended", clip_on=reach_beyond(ax, best), **style)
    legend_above(ax)
    return axes


def _ends(learner: Learner) -> np.ndarray:
    """Ends (D, 2) of the learner's box, or its model's; else a tenth beyond the candidates and the data."""
    candidates = learner._ledger.candidates
    box = candidates.limits if isinstance(candidates, Box) else learner.gpm.box
    if box is not None:
        return np.transpose(box)
    return np.array([around(x) for x in np.concatenate([candidates.limits, learner.X]).T])
