"""The evidences of a fit and of its reference, and the probabilities of models that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

from pymc_active.checking.reference import Reference, Subject
from pymc_active.predictions.model_average import ModelAverage, log_weights

ESTIMATORS = ("fit", "reference")


def compare_evidences(fit: Subject, reference: Reference) -> xr.Dataset:
    """The group ``evidence`` of :func:`pymc_active.check`."""
    own = fit.evidence
    values, errors = (own.value, reference.evidence.value), (own.error, reference.evidence.error)
    return xr.Dataset(
        {"log_evidence": ("estimator", list(values)), "standard_error": ("estimator", list(errors))},
        coords={"estimator": list(ESTIMATORS)},
        attrs={"units": "nats"},
    )


def node_names(labels: Any) -> dict[Any, str]:
    """Labels as names of nodes, where a slash would start another level."""
    return {label: str(label).replace("/", "∕") for label in labels}


def compare_models(average: ModelAverage, trees: Mapping[Any, xr.DataTree]) -> xr.Dataset:
    """The group ``models`` of :func:`pymc_active.check`."""
    evidences = [trees[label]["evidence"].to_dataset() for label in average]
    table = np.stack([e.log_evidence.to_numpy() for e in evidences], axis=1)
    # A trace has no evidence: that of the fit has to do.
    used = np.where(np.isfinite(table[1]), table[1], table[0])
    dims = ("estimator", "model")
    return xr.Dataset(
        {
            "log_evidence": (dims, table, {"units": "nats"}),
            "standard_error": (dims, np.stack([e.standard_error.to_numpy() for e in evidences], axis=1)),
            "probability": (dims, np.stack([_probabilities(row, average.prior) for row in (table[0], used)])),
            "true_probability": ("model", _probabilities(used, average.prior)),
        },
        coords={"estimator": list(ESTIMATORS), "model": list(average)},
    )


def _probabilities(log_evidence: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Models without an evidence get zero; all are NaN if no model has one."""
    try:
        return softmax(log_weights(log_evidence, prior))
    except ValueError:
        return np.full(len(prior), np.nan)
