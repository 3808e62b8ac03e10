"""Datasets and DataTrees for ArviZ, from arrays."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import xarray as xr

from pymc_active.models.gpmodel import GPModel


def to_dataset(gpm: GPModel, values: dict[str, np.ndarray], sample_dims: list[str], n: int) -> xr.Dataset:
    """A Dataset of arrays by variable name, with the model's coords and dims, for n observations."""
    # Importing ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from pymc.backends.arviz import coords_and_dims_for_inferencedata

    coords, dims = coords_and_dims_for_inferencedata(gpm.model)
    # The model may hold other data now.
    if "obs" in coords and len(coords["obs"]) != n:
        coords["obs"] = np.arange(n)
    return dict_to_dataset(
        values,
        coords={k: v for k, v in coords.items() if v is not None},
        dims={k: v for k, v in dims.items() if k in values},
        sample_dims=sample_dims,
        attrs={"inference_library": "pymc_active", "inference_library_version": version("pymc-active")},
    )


def data_groups(gpm: GPModel, X: np.ndarray, y: np.ndarray) -> dict[str, xr.Dataset]:
    """``observed_data`` and ``constant_data`` of X (n, D) and y (n,), which need not be the model's current data."""
    observed = to_dataset(gpm, {gpm.name: y}, [], len(y))
    if "X" in gpm.model.named_vars:
        constant = to_dataset(gpm, {"X": X}, [], len(y))
    else:
        constant = xr.Dataset({"X": (("obs", "input"), X)})
    return {"observed_data": observed, "constant_data": constant}
