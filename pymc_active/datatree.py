"""From arrays to the DataTrees that ArviZ reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

import pymc_active

if TYPE_CHECKING:
    from pymc_active.laplace.fit import LaplaceFit
    from pymc_active.models.gpmodel import GPModel

# Beyond this many parameters a dense covariance is neither made nor stored.
_LARGEST_STORED = 1000


def to_dataset(gpm: GPModel, values: dict[str, np.ndarray], sample_dims: list[str], n: int) -> xr.Dataset:
    """Arrays by variable name to a Dataset with the model's coords and dims, for n observations."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from pymc.backends.arviz import coords_and_dims_for_inferencedata

    coords, dims = coords_and_dims_for_inferencedata(gpm.model)
    # The model may hold other data by now.
    if "obs" in coords and len(coords["obs"]) != n:
        coords["obs"] = np.arange(n)
    return dict_to_dataset(
        values,
        coords={k: v for k, v in coords.items() if v is not None},
        dims={k: v for k, v in dims.items() if k in values},
        sample_dims=sample_dims,
        inference_library=pymc_active,
    )


def data_groups(fit: LaplaceFit) -> dict[str, xr.Dataset]:
    """``observed_data`` and ``constant_data`` of the data that a fit was made with."""
    gpm, n = fit.gpm, len(fit.y)
    observed = to_dataset(gpm, {gpm.name: fit.y}, [], n)
    if "X" in gpm.model.named_vars:
        constant = to_dataset(gpm, {"X": fit.X}, [], n)
    else:
        constant = xr.Dataset({"X": (("obs", "input"), fit.X)})
    return {"observed_data": observed, "constant_data": constant}


def laplace_datatree(fit: LaplaceFit, draws: int, random_seed: Any) -> xr.DataTree:
    """The groups of :meth:`LaplaceFit.to_datatree`."""
    if draws < 1:
        raise ValueError(f"draws must be at least 1; got {draws}")
    values = fit.gpm.constrain(fit.draw(draws, random_seed))
    posterior = to_dataset(
        fit.gpm, {name: value[None] for name, value in values.items()}, ["chain", "draw"], len(fit.y)
    )
    attrs = {k: v for k, v in fit.diagnostics.items() if k != "warnings"}
    fit_group = xr.Dataset(
        {
            "mean_vector": ("rows", fit.theta),
            "log_evidence": fit.log_evidence,
            "log_posterior": fit.log_posterior,
        },
        coords={"rows": fit.labels},
        attrs={k: int(v) if isinstance(v, bool) else v for k, v in attrs.items()},
    )
    if len(fit.labels) <= _LARGEST_STORED:
        fit_group["covariance_matrix"] = (("rows", "columns"), fit.covariance)
        fit_group["hessian"] = (("rows", "columns"), fit.hessian)
        fit_group = fit_group.assign_coords(columns=fit.labels)
    return xr.DataTree.from_dict({"posterior": posterior, "fit": fit_group, **data_groups(fit)})
