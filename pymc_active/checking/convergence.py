"""Diagnose the trace itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_active.checking.reference import Subject
from pymc_active.laplace.like_terms import exchanges


def trace_diagnostics(fit: Subject, trace: xr.DataTree, means: np.ndarray) -> xr.Dataset:
    """The group ``trace_diagnostics`` of :func:`pymc_active.check`, given the draws' latent means (S, m)."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from arviz_stats import ess, rhat

    posterior = trace["posterior"].to_dataset()
    names = [variable.name for variable in fit.gpm.model.free_RVs]
    shown, symmetric = [*names, "f_mean"], symmetric_variables(fit)
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    predictive = dict_to_dataset({"f_mean": means.reshape(shape)})
    parts = xr.merge([posterior[names], predictive], compat="override", combine_attrs="override")
    table = {}
    for name, function, worst in (("rhat", rhat, "max"), ("ess_bulk", ess, "min")):
        values = function(parts)
        table[name] = np.array([float(getattr(values[v], worst)()) for v in shown])
    stats: Any = trace.children.get("sample_stats", {})
    counts = np.array([name not in symmetric for name in shown])
    return xr.Dataset(
        {
            **{name: ("variable", values) for name, values in table.items()},
            "largest_rhat": np.nan if np.isnan(table["rhat"][counts]).all() else np.nanmax(table["rhat"][counts]),
            "smallest_ess": np.nanmin(table["ess_bulk"][counts]),
            # Samplers that do not report them have none.
            "n_divergences": int(stats["diverging"].sum()) if "diverging" in stats else 0,
            "n_draws": len(means),
            "n_chains": shape[0],
        },
        coords={"variable": shown},
    )


def symmetric_variables(fit: Subject) -> set[str]:
    """Variables with equivalent values, by a symmetry of the model: their chains may disagree although all is well."""
    if fit.gpm.embedding is not None:
        return {fit.gpm.embedding}
    images = np.stack(exchanges(fit.posterior))
    moved = (images != images[0]).any(0)
    owner = np.concatenate([np.full(int(np.prod(shape)), k) for k, shape in enumerate(fit.gpm.shapes.values())])
    names = [variable.name for variable in fit.gpm.model.free_RVs]
    return {names[k] for k in np.unique(owner[moved])}
