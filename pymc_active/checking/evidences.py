"""The evidence of one model by three routes, and which of them is the reference."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_active.laplace.draws.importance import PARETO_LIMIT, importance_evidence
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.predictions.bridge_sampling import bridge_evidence

ESTIMATORS = ("laplace", "importance", "bridge")
# A bridge with a smaller standard error distinguishes models whose odds differ by 2 (0.7 nats, two standard errors).
# Importance sampling may look more exact, but it only sees the modes of the fit.
_ROUGH = 0.35


def compare_evidences(fit: LaplaceFit, trace: xr.DataTree, random_seed: int | None) -> xr.Dataset:
    """The group ``evidence`` of :func:`pymc_active.check`."""
    rows, problems, pareto_k = np.full((len(ESTIMATORS), 3), np.nan), {}, np.nan
    rows[0, 0] = fit.summed_evidence
    try:
        weighted = importance_evidence(fit, random_seed=random_seed)
    except ValueError as error:
        problems["importance"] = str(error)
    else:
        rows[1] = weighted[:3]
        pareto_k = weighted.pareto_k
        if pareto_k > PARETO_LIMIT:
            problems["importance"] = f"Pareto k of the weights is {pareto_k:.2f}, so a few draws dominate"
    bridge = bridge_evidence(fit, trace, random_seed)
    rows[2] = bridge[:3]
    if bridge.problem:
        problems["bridge"] = bridge.problem
    reference = _reference(rows, problems)
    names = ("log_evidence", "standard_error", "effective_sample_size")
    return xr.Dataset(
        {name: ("estimator", column) for name, column in zip(names, rows.T, strict=True)} | {"pareto_k": pareto_k},
        coords={"estimator": list(ESTIMATORS)},
        attrs={"units": "nats", "reference": reference} | {f"problem_{name}": text for name, text in problems.items()},
    )


def _reference(rows: np.ndarray, problems: dict[str, str]) -> str:
    """The reference: the bridge unless it is rough, else the sound one with the smaller error, or "none"."""
    sound = [k for k in (2, 1) if np.isfinite(rows[k, :2]).all() and ESTIMATORS[k] not in problems]
    if not sound:
        return "none"
    if sound[0] == 2 and rows[2, 1] <= _ROUGH:
        return "bridge"
    return ESTIMATORS[min(sound, key=lambda k: rows[k, 1])]
