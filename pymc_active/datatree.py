"""From arrays to the DataTrees that ArviZ reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

import pymc_active

if TYPE_CHECKING:
    from pymc_active.laplace.fit import LaplaceFit
    from pymc_active.models.gpmodel import GPModel


def to_dataset(gpm: GPModel, values: dict[str, np.ndarray], sample_dims: list[str]) -> xr.Dataset:
    """Arrays by variable name to a Dataset with the model's coords and dims."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from pymc.backends.arviz import coords_and_dims_for_inferencedata

    coords, dims = coords_and_dims_for_inferencedata(gpm.model)
    coords["obs"] = np.arange(len(gpm.y)) if "obs" in coords else coords.get("obs")
    return dict_to_dataset(
        values,
        coords={k: v for k, v in coords.items() if v is not None},
        dims={k: v for k, v in dims.items() if k in values},
        sample_dims=sample_dims,
        inference_library=pymc_active,
    )


def data_groups(gpm: GPModel) -> dict[str, xr.Dataset]:
    """``observed_data`` and ``constant_data`` of the data the model holds."""
    observed = to_dataset(gpm, {gpm.name: gpm.y}, [])
    constant = (
        to_dataset(gpm, {"X": gpm.X}, [])
        if "X" in gpm.model.named_vars
        else xr.Dataset({"X": (("obs", "input"), gpm.X)})
    )
    return {"observed_data": observed, "constant_data": constant}


def laplace_datatree(fit: LaplaceFit, draws: int, random_seed: Any) -> xr.DataTree:
    """The groups of :meth:`LaplaceFit.to_datatree`."""
    if draws < 1:
        raise ValueError(f"draws must be at least 1; got {draws}")
    values = fit.gpm.constrain(fit.draw(draws, random_seed))
    posterior = to_dataset(fit.gpm, {name: value[None] for name, value in values.items()}, ["chain", "draw"])
    attrs = {k: v for k, v in fit.diagnostics.items() if k != "warnings"}
    fit_group = xr.Dataset(
        {
            "mean_vector": ("rows", fit.theta),
            "covariance_matrix": (("rows", "columns"), fit.covariance),
            "hessian": (("rows", "columns"), fit.hessian),
            "log_evidence": fit.log_evidence,
            "log_posterior": fit.log_posterior,
        },
        coords={"rows": fit.labels, "columns": fit.labels},
        attrs={k: int(v) if isinstance(v, bool) else v for k, v in attrs.items()},
    )
    return xr.DataTree.from_dict({"posterior": posterior, "fit": fit_group, **data_groups(fit.gpm)})
