"""What a builder's model needs where outcomes are not normal: how these are read, and a latent function in PyMC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_active.likelihoods.base import Likelihood
from pymc_active.likelihoods.by_name import find_likelihood
from pymc_active.support.data import Data
from pymc_active.support.scaling import Affine, scale_about_median
from pymc_active.support.tables import read_error_bars, read_numbers, read_outputs

# Added to the diagonal of the prior covariance in PyMC, whose Cholesky factor is taken: smaller than any outcome shows.
_JITTER = 1e-6


def read_likelihood(
    name: str, sizes: Mapping[str, Any], y_sd: Any, n: int, X: Any = None
) -> tuple[Likelihood | None, np.ndarray | None]:
    """The likelihood of a name, None for the normal one, and what each of n rows has besides: known sds or sizes."""
    likelihood = find_likelihood(name)
    keys = [key for key, size in sizes.items() if size is not None]
    wanted = None if likelihood is None else likelihood.size_name
    for key in keys:
        if key != wanted:
            needs = f"which takes {wanted}" if wanted else "which takes neither y_trials nor exposure"
            raise ValueError(f"{key} does not belong to likelihood={name!r}, {needs}")
    if likelihood is None:
        return None, read_error_bars(y_sd, n, X)
    if y_sd is not None:
        raise ValueError(f"y_sd, error bars, are for likelihood='normal'; this is {name!r}")
    return likelihood, _read_size(keys[0], sizes[keys[0]], n, X) if keys else None


def known_by_name(likelihood: Likelihood | None, data: Data) -> dict[str, Any]:
    """The argument of a builder that has what is known of each row besides y, if anything is."""
    name = "y_sd" if likelihood is None else likelihood.size_name
    if data.y_sd is None or name is None:
        return {}
    return {name: data.y_sd if likelihood is None else data.sizes}


def _read_size(name: str, size: Any, n: int, X: Any) -> np.ndarray:
    values = read_numbers(size, name)
    is_wrong = ~((values > 0) & np.isfinite(values))
    if name == "y_trials":
        is_wrong |= values != np.round(values)
    if is_wrong.any():
        what = "whole numbers, 1 or more" if name == "y_trials" else "positive numbers"
        raise ValueError(f"{name} must be {what}; got {values[is_wrong][0]:g}")
    return read_outputs(size if values.ndim else np.full(n, values), n, X, name)


def latent_scale(likelihood: Likelihood, y: np.ndarray, size: np.ndarray | None) -> Affine | None:
    """Where the latent function lies, for default priors: about the median, or the log of the mean rate."""
    if likelihood.is_real:
        level, width = scale_about_median(likelihood.as_function(y))
        return Affine(np.asarray(level), np.asarray(width))
    if likelihood.size_name != "exposure":
        return None
    rate = (y.sum() + 0.5) / (len(y) if size is None else size.sum())
    return Affine(np.array(np.round(np.log(rate), 2)), np.array(1.0))


def latent_model(blueprint: Any, name: str) -> tuple[pm.Model, pm.gp.Latent]:
    """The PyMC model of a blueprint's current data, with the latent function ``f`` at these."""
    X, y, size = blueprint.data
    with pm.Model(model=None, coords={"obs": list(range(len(y))), **blueprint.parameters.coords}) as model:
        X_data, y_data = pm.Data("X", X, dims=("obs", "input")), pm.Data("y_data", y, dims="obs")
        sizes: Any = 1.0 if size is None else pm.Data(blueprint.likelihood.size_name, blueprint.data.sizes, dims="obs")
        variables = blueprint.parameters.register(model)
        gp = pm.gp.Latent(mean_func=blueprint.mean_function(variables), cov_func=blueprint.covariance(variables))
        f = gp.prior("f", X=X_data, n_outputs=1, dims="obs", jitter=_JITTER)
        of_size = pt.cast(sizes, "int64") if blueprint.likelihood.size_name == "y_trials" else sizes
        observed = y_data if blueprint.likelihood.is_real else pt.cast(y_data, "int64")
        blueprint.likelihood.pymc(name, f, of_size, variables, observed=observed, dims="obs")
    return model, gp
