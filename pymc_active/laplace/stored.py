"""Convert a fit to arrays, and make it again from them without a search."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.modes.search import SearchResult
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.full_space import find_space
from pymc_active.support.threads import one_blas_thread


def fit_to_dataset(fit: LaplaceFit) -> xr.Dataset:
    """The modes of a fit, best first, in the coordinates of its space, with the diagnostics of the search."""
    found = ("converged", "n_starts", "n_evaluations", "n_best", "used_population")
    return xr.Dataset(
        {
            "z": (("mode", "coordinate"), np.stack([expansion.z for expansion in fit.expansions])),
            "log_posterior": ("mode", [mode.log_posterior for mode in fit.modes]),
            "log_evidence": ("mode", [mode.log_evidence for mode in fit.modes]),
            "weight": ("mode", [mode.weight for mode in fit.modes]),
        },
        attrs={name: int(fit.diagnostics[name]) for name in found},
    )


def fit_from_dataset(gpm: GPModel, stored: xr.Dataset) -> LaplaceFit:
    """The fit that :func:`fit_to_dataset` wrote; ``gpm`` must hold the data of that fit."""
    with one_blas_thread():
        space = find_space(gpm.posterior(), gpm.embedding_slice)
        modes, n = np.array(stored["z"].to_numpy(), float), space.posterior.n_parameters
        if modes.shape[1] != n:
            raise ValueError(f"the stored modes have {modes.shape[1]} parameters, but the model has {n}")
        expansions = [Expansion(space, z) for z in modes]
        counts = {name: int(value) for name, value in stored.attrs.items()}
        converged, used_population = bool(counts.pop("converged")), bool(counts.pop("used_population"))
        search = SearchResult([], **counts, used_population=used_population)
        return LaplaceFit(gpm, (gpm.X, gpm.y), expansions, search, converged)
