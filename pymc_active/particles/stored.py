"""Make particles from stored arrays."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.laplace.fitting import first_points
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.particle_fit import COLUMNS, NUMBERS, ParticleFit, Swarm
from pymc_active.posterior.row_space import find_space
from pymc_active.support.threads import one_blas_thread


def particles_from_dataset(gpm: GPModel, stored: xr.Dataset, renew: Callable[..., ParticleFit]) -> ParticleFit:
    """The fit that :meth:`ParticleFit.to_dataset` wrote; the data of ``gpm`` begin with the data of that fit."""
    data = first_points(gpm, int(stored.attrs["n_observations"]))
    with one_blas_thread():
        space = find_space(gpm.posterior().with_data(*data), gpm.embedding_slice)
    z = np.array(stored["z"].to_numpy(), float)
    if z.shape[1] != (n := space.posterior.n_parameters):
        raise ValueError(f"the stored particles have {z.shape[1]} parameters, but the model has {n}")
    values: dict[str, Any] = {name: stored[name].to_numpy() for name in COLUMNS}
    values |= {name: float(stored[name]) for name in NUMBERS}
    return ParticleFit(gpm, data, Swarm(space, z, **values), json.loads(stored.attrs["diagnostics"]), renew)
