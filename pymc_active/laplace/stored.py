"""Make a fit from stored arrays, without a search."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.modes.search import SearchResult
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.full_space import find_space
from pymc_active.support.data import Data
from pymc_active.support.threads import one_blas_thread


def fit_from_dataset(gpm: GPModel, stored: xr.Dataset) -> LaplaceFit:
    """The fit that :meth:`LaplaceFit.to_dataset` wrote; the data of ``gpm`` begin with the data of that fit."""
    counts = {name: int(value) for name, value in stored.attrs.items()}
    data = first_points(gpm, counts.pop("n_observations"))
    with one_blas_thread():
        space = find_space(gpm.posterior().with_data(*data), gpm.embedding_slice)
        modes, n = np.array(stored["z"].to_numpy(), float), space.posterior.n_parameters
        if modes.shape[1] != n:
            raise ValueError(f"the stored modes have {modes.shape[1]} parameters, but the model has {n}")
        expansions = [Expansion(space, z) for z in modes]
        converged, used_population = bool(counts.pop("converged")), bool(counts.pop("used_population"))
        search = SearchResult([], **counts, used_population=used_population)
        return LaplaceFit(gpm, data, expansions, search, converged)


def first_points(gpm: GPModel, n: int) -> Data:
    """The first n points that a model holds; a ValueError if there are fewer."""
    if not 0 <= n <= len(gpm.y):
        raise ValueError(f"the stored fit has {n} points, and the model {len(gpm.y)}")
    return gpm.data.rows(slice(n))
