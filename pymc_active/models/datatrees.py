"""Datasets and the groups of a DataTree for ArviZ, from hyperparameters of any origin."""

from __future__ import annotations

from functools import singledispatch
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.models.free_variables import draw_prior, log_prior_by_variable, obstacles
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.model import Model
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.factor import LOG_2PI, Factor, NotPositiveDefiniteError
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.support.data import Data
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import SamplingWarning, warn_user

# Operations for factorisations of n³ each, but at least so many factorisations.
_OPERATIONS, _FEWEST = 1e10, 64
# Numbers in the group ``prior``, but at least so many draws.
_NUMBERS, _FEWEST_PRIOR = 2_000_000, 100
# Added to K + noise where draws from the prior make it singular, as a share of the variance of y.
_JITTER = 1e-6


def to_dataset(gpm: Model, values: dict[str, np.ndarray], sample_dims: list[str], n: int) -> xr.Dataset:
    """A Dataset of arrays by variable name, with the model's coords and dims, for n observations."""
    # Importing ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from pymc.backends.arviz import coords_and_dims_for_inferencedata

    coords, dims = coords_and_dims_for_inferencedata(gpm.model)
    # The model may hold other data now.
    for dim in dims.get(gpm.name, ()):
        if len(coords.get(dim, range(n))) != n:
            coords[dim] = np.arange(n)
    return dict_to_dataset(
        values,
        coords={k: v for k, v in coords.items() if v is not None},
        dims={k: v for k, v in dims.items() if k in values},
        sample_dims=sample_dims,
        attrs={"inference_library": "pymc_active", "inference_library_version": version("pymc-active")},
    )


def in_chains(gpm: Model, values: dict[str, np.ndarray], rows: np.ndarray, n: int) -> xr.Dataset:
    """Values of M hyperparameters by name, (M, ...), at the ``rows`` (chain, draw) that choose among them."""
    return to_dataset(gpm, {name: np.asarray(value)[rows] for name, value in values.items()}, ["chain", "draw"], n)


def scalars(values: dict[str, np.ndarray], rows: np.ndarray) -> xr.Dataset:
    """The same for numbers (M,) by name, which need not be variables of the model."""
    coords = {dim: np.arange(size) for dim, size in zip(("chain", "draw"), rows.shape, strict=True)}
    return xr.Dataset({name: (("chain", "draw"), value[rows]) for name, value in values.items()}, coords)


def n_affordable(n: int) -> int:
    """How many hyperparameters may be factorised for n observations in about a second."""
    return int(max(_FEWEST, _OPERATIONS / n**3))


@singledispatch
def arviz_groups(
    gpm: Any, posterior: Posterior, thetas: np.ndarray, rows: np.ndarray, data: Data, seed: int
) -> dict[str, xr.Dataset]:
    """All groups that ArviZ knows, from hyperparameters thetas (M, P) and ``rows`` (chain, draw) that choose of them.

    ``posterior`` is given the ``data``. Given theta, observations of a marginal
    GP are dependent. So where ArviZ expects the distribution of an observation given theta, it gets that given theta
    and all other observations: its log density as ``log_likelihood``, draws from it as ``posterior_predictive``. Then
    importance weights 1 / p(y_i | others, theta) leave y_i out exactly, also for LOO-PIT and LOO expectations.
    """
    n, rng = len(data.y), np.random.default_rng(seed)
    with one_blas_thread():
        if isinstance(posterior, LatentPosterior):
            mean, variance, log_density, log_likelihood = posterior.leave_one_out(thetas)
            of = rows.ravel()
            drawn = posterior.draw_outcomes(thetas[of], mean[of], variance[of], rng)
            replicates = drawn.reshape(*rows.shape, n)
        else:
            mean, sd, log_density, log_likelihood = leave_one_out(posterior, thetas)
            replicates = mean[rows] + sd[rows] * rng.normal(size=(*rows.shape, n))
    lp = log_likelihood + posterior.log_priors(thetas)[0]
    whole = np.arange(len(rows.ravel()))
    groups = {
        "posterior": in_chains(gpm, gpm.constrain(thetas), rows, n),
        "log_prior": scalars(log_prior_by_variable(gpm, posterior, thetas), rows),
        "posterior_predictive": to_dataset(gpm, {gpm.name: replicates}, ["chain", "draw"], n),
        "log_likelihood": in_chains(gpm, {gpm.name: log_density}, rows, n),
        "sample_stats": scalars({"lp": lp, "log_marginal_likelihood": log_likelihood}, rows),
    }
    if not obstacles(gpm):
        n_prior = min(len(whole), max(_FEWEST_PRIOR, _NUMBERS // max(thetas.shape[1], 1)))
        drawn = draw_prior(gpm, posterior, n_prior, rng)
        groups["prior"] = in_chains(gpm, gpm.constrain(drawn), whole[None, :n_prior], n)
        with one_blas_thread():
            simulated = simulate(posterior, drawn[: n_affordable(n)], rng)
        groups["prior_predictive"] = in_chains(gpm, {gpm.name: simulated}, whole[None, : len(simulated)], n)
    return groups | data_groups(gpm, data)


def data_groups(gpm: GPModel, data: Data) -> dict[str, xr.Dataset]:
    """``observed_data`` and ``constant_data`` of ``data``, which need not be the model's current ones."""
    X, y, y_sd = data
    observed = to_dataset(gpm, {gpm.name: y}, [], len(y))
    if "X" in gpm.model.named_vars:
        constant = to_dataset(gpm, {"X": X}, [], len(y))
    else:
        constant = xr.Dataset({"X": (("obs", "input"), X)})
    if y_sd is not None:
        name = "y_sd" if gpm.likelihood is None else gpm.likelihood.size_name
        constant[name] = (constant["X"].dims[0], y_sd)
    return {"observed_data": observed, "constant_data": constant}


def simulate(posterior: Posterior, thetas: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Data sets y (M, n) in the user's units, N(mean, K + noise) at the X of a posterior; NaN if K is not finite."""
    if isinstance(posterior, LatentPosterior):
        return posterior.simulate(thetas, rng)
    posterior = posterior.of_each
    simulated = np.full((len(thetas), len(posterior.y)), np.nan)
    for m, theta in enumerate(thetas):
        normal = rng.normal(size=len(posterior.y))
        factor = _factor(posterior, theta) or _factor(posterior, theta, _JITTER * posterior.noise_unit**2)
        if factor is not None:
            simulated[m] = posterior.y - factor.residual + factor.L @ normal
    return posterior.y_map.shift + posterior.y_map.scale * simulated


def _factor(posterior: Posterior, theta: np.ndarray, extra_noise: float = 0.0) -> Factor | None:
    """The factor of K + noise, or None if it is singular."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            return (posterior.state(theta, extra_noise) if extra_noise else posterior.light_state(theta)).factor
        except NotPositiveDefiniteError:
            return None


def leave_one_out(posterior: Posterior, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each observation given all others: means, sds and log densities (M, n); and the log likelihoods (M,) of all."""
    # Sundararajan & Keerthi (2001); Rasmussen & Williams (2006), eqs. 5.10-5.12.
    posterior = posterior.of_each
    y, unit = posterior.y, float(posterior.y_map.scale)
    mean, sd, log_density = np.full((3, len(thetas), len(y)), np.nan)
    log_likelihood = np.full(len(thetas), np.nan)
    for m, theta in enumerate(thetas):
        factor = _factor(posterior, theta)
        if factor is None:
            continue
        precision, log_likelihood[m] = np.diagonal(factor.inverse), -factor.nll
        mean[m] = y - factor.alpha / precision
        sd[m] = unit / np.sqrt(precision)
        log_density[m] = -0.5 * (factor.alpha**2 / precision + LOG_2PI) - np.log(sd[m])
    if np.isnan(log_likelihood).any():
        warn_user(
            f"K + noise is singular at {np.isnan(log_likelihood).sum()} of {len(thetas)} draws, which have no "
            "log_likelihood: give the noise a prior that keeps it away from zero",
            SamplingWarning,
        )
    return posterior.y_map.shift + unit * mean, sd, log_density, log_likelihood
