"""A fit as arrays, and the same fit again without a search."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit, find_problems
from pymc_active.laplace.modes.search import SearchResult
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.full_space import find_space
from pymc_active.support.threads import one_blas_thread


def fit_to_dataset(fit: LaplaceFit) -> xr.Dataset:
    """The modes of a fit that a search found, and how it found them.

    Returns
    -------
    xarray.Dataset
        Over ``mode``, best first: ``z``, in the coordinates of the expansion (for an embedding with more inputs
        than data those of the row space, otherwise the model's own), ``log_posterior``, ``log_evidence``, ``weight``.
    """
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
    """The fit that :func:`fit_to_dataset` wrote, of a model that holds the data it was made with.

    Raises
    ------
    ValueError
        If the parameters are not as many as the model's.
    """
    with one_blas_thread():
        space = find_space(gpm.posterior(), gpm.embedding_slice)
        modes, n = np.array(stored["z"].to_numpy(), float), space.posterior.n_parameters
        if modes.shape[1] != n:
            raise ValueError(f"the modes have {modes.shape[1]} parameters, the model {n}")
        expansions = [Expansion(space, z) for z in modes]
        counts = {name: int(value) for name, value in stored.attrs.items()}
        search = SearchResult(
            [], counts["n_starts"], counts["n_evaluations"], counts["n_best"], bool(counts["used_population"])
        )
        fit = LaplaceFit(gpm, (gpm.X, gpm.y), expansions, search, bool(counts["converged"]))
        find_problems(fit)
    return fit
