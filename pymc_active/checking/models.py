"""Check several models: their probabilities by each estimate of the evidence, and decisions between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

from pymc_active.checking.comparison import evenly
from pymc_active.checking.decisions import Row, to_dataset
from pymc_active.checking.evidences import ESTIMATORS
from pymc_active.criteria.bams import Bams, Committee
from pymc_active.models.traces import trace_thetas
from pymc_active.predictions.mixtures import Mixture, average_mixtures, mixture_of_draws
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.moments import draw_moments

# Draws of each model that represent the truth, and the weight below which a model is left out.
_DRAWS, _NEGLIGIBLE = 200, 1e-9
_BAMS = {"bams": Bams(), "bams_modes": Bams(method="modes"), "bams_draws": Bams(method="draws")}


def node_names(labels: Any) -> dict[Any, str]:
    """Labels as names of nodes, where a slash would start another level."""
    return {label: str(label).replace("/", "∕") for label in labels}


def compare_models(average: ModelAverage, trees: Mapping[Any, xr.DataTree]) -> xr.Dataset:
    """The group ``models`` of :func:`pymc_active.check`."""
    evidences = [trees[label]["evidence"].to_dataset() for label in average]
    table = np.stack([e.log_evidence.to_numpy() for e in evidences], axis=1)
    references = [e.attrs["reference"] for e in evidences]
    # Without a sampled evidence, Laplace's has to do.
    used = [ESTIMATORS.index(name) if name != "none" else 0 for name in references]
    dims = ("estimator", "model")
    return xr.Dataset(
        {
            "log_evidence": (dims, table, {"units": "nats"}),
            "standard_error": (dims, np.stack([e.standard_error.to_numpy() for e in evidences], axis=1)),
            "probability": (dims, np.stack([_probabilities(row, average.prior) for row in table])),
            "true_probability": ("model", _probabilities(table[used, range(len(used))], average.prior)),
            "reference": ("model", references),
        },
        coords={"estimator": list(ESTIMATORS), "model": list(average)},
    )


def _probabilities(log_evidence: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Models without an evidence get zero; all are NaN if no model has one."""
    with np.errstate(divide="ignore"):
        weights = np.where(np.isfinite(log_evidence), log_evidence + np.log(prior), -np.inf)
    return softmax(weights) if np.isfinite(weights).any() else np.full(len(prior), np.nan)


def decide_between(
    average: ModelAverage, traces: Mapping[Any, xr.DataTree], models: xr.Dataset, X: np.ndarray, labels: np.ndarray
) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`, for several models."""
    true = models.true_probability.to_numpy()
    equal = np.where(true > 0, 1.0, 0.0) / np.count_nonzero(true)
    parts = []
    for label, fit in average.items():
        thetas = trace_thetas(fit.gpm, traces[label])
        parts.append(draw_moments(fit.best.full_posterior, thetas[evenly(len(thetas), _DRAWS)], X))

    def common(weights: np.ndarray, half: int | None = None) -> Mixture:
        used = np.flatnonzero(weights > _NEGLIGIBLE)
        some = [mixture_of_draws(*(_half(moments, half) for moments in parts[k])) for k in used]
        return average_mixtures(some, weights[used] / weights[used].sum())

    rows = {}
    for kinds, weights in ((_BAMS, true), ({"committee": Committee()}, equal)):
        any_one = next(iter(kinds.values()))
        utility, *halves = (any_one.mixture_value(common(weights, half)) for half in (None, 0, 1))
        for name, criterion in kinds.items():
            rows[name] = Row(criterion.score(average, X), utility, (halves[0], halves[1]), criterion.units)
    return to_dataset(rows, labels)


def _half(array: np.ndarray, half: int | None) -> np.ndarray:
    middle = len(array) // 2
    return array if half is None else array[:middle] if half == 0 else array[middle:]
