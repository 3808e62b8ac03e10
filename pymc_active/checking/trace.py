"""Whether the chains of a trace agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.mixtures import Mixture


def trace_diagnostics(gpm: GPModel, trace: xr.DataTree, p: Mixture) -> xr.Dataset:
    """The group ``trace_diagnostics`` of :func:`pymc_active.check`, given the predictions of the draws at points."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from arviz_stats import ess, rhat

    posterior = trace["posterior"].to_dataset()
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    # Chains may differ in parameters by a symmetry of the model, but not in what they predict.
    moments = {"f_mean": p.means.reshape(shape), "y_variance": (p.variances + p.noises).reshape(shape)}
    names = gpm.free
    parts = xr.merge([posterior[names], dict_to_dataset(moments)], compat="override", combine_attrs="override")
    r_hats, sizes = rhat(parts), ess(parts)
    table = {
        "rhat": np.array([float(r_hats[name].max()) for name in parts.data_vars]),
        "ess_bulk": np.array([float(sizes[name].min()) for name in parts.data_vars]),
    }
    stats: Any = trace.children.get("sample_stats", {})
    return xr.Dataset(
        {
            **{name: ("variable", values) for name, values in table.items()},
            "largest_rhat": np.fmax.reduce(table["rhat"][-2:]),
            "smallest_ess": np.fmin.reduce(table["ess_bulk"][-2:]),
            # Samplers that do not report them have none.
            "n_divergences": int(stats["diverging"].sum()) if "diverging" in stats else 0,
            "n_draws": len(p.means),
            "n_chains": shape[0],
        },
        coords={"variable": list(parts.data_vars)},
    )
