"""The probabilities of several models by each estimate of the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

from pymc_active.checking.evidences import ESTIMATORS
from pymc_active.predictions.model_average import ModelAverage


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
