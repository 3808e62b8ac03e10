"""Ground truth: MCMC on the same model, and how far the fast approximations are from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_active.active.bald import bald
from pymc_active.entropy import gaussian_entropy, mixture_entropy, mixture_symmetrized_kl
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.importance import importance_evidence, pareto_shape
from pymc_active.laplace.symmetry import log_orbit_volume
from pymc_active.model_average import check_one_fit, summed_over_modes
from pymc_active.models.data import read_inputs, read_outputs
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.factor import LOG_2PI, one_blas_thread
from pymc_active.predictions import draw_moments, marginal_moments, mixture_moments, point_labels, trace_thetas

STEPS = ("nuts", "slice")
# Mixture components used where a grid is integrated for every point.
_COMPONENTS = 400


def sample(
    gpm: GPModel,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    step: str | Any = "nuts",
    **pm_sample_kwargs: Any,
) -> xr.DataTree:
    """Draw hyperparameters from their exact posterior by MCMC, with ``pm.sample``.

    Parameters
    ----------
    gpm : GPModel
    draws, tune, chains, random_seed
        As in ``pm.sample``.
    step : {"nuts", "slice"} or a PyMC step method
        ``"slice"`` is the papers' choice, one variable at a time.
    **pm_sample_kwargs
        Passed on, e.g. ``cores``, ``initvals``, ``progressbar``, ``target_accept``.

    Returns
    -------
    xarray.DataTree
        As ``pm.sample`` returns it. The modes of an embedding are far apart: start every chain at a mode
        (``initvals=fit.constrained_point``) if only that mode is meant.
    """
    with gpm.model:
        if isinstance(step, str):
            if step not in STEPS:
                raise ValueError(f"step must be one of {', '.join(STEPS)} or a PyMC step method; got {step!r}")
            # pm.sample passes compile_kwargs only to the steps that it makes itself.
            compile_kwargs = pm_sample_kwargs.get("compile_kwargs")
            step = pm.Slice(compile_kwargs=compile_kwargs) if step == "slice" else None
        return pm.sample(draws=draws, tune=tune, chains=chains, random_seed=random_seed, step=step, **pm_sample_kwargs)


def check(
    fit: LaplaceFit,
    trace: xr.DataTree | None = None,
    *,
    X_new: Any = None,
    pool: Any = None,
    y_new: Any = None,
    random_seed: int | None = 0,
) -> xr.DataTree:
    """Compare MAP, BBQ and MGP with draws from the exact posterior of the same model.

    Parameters
    ----------
    fit : LaplaceFit
    trace : xarray.DataTree, optional
        From :func:`sample`; drawn here by NUTS if it is not given.
    X_new : array_like, shape (m, D), optional
        Points to compare at. Default: the pool, else the data's own inputs.
    pool : array_like, shape (m', D), optional
        Candidates for the decision regret.
    y_new : array_like, shape (m,), optional
        Observations at ``X_new``. Without them the NLL is its expectation under the trace.
    random_seed : int, optional
        For the draws behind Pareto-k.

    Returns
    -------
    xarray.DataTree
        * ``predictions``: over ``approximation`` (MAP, BBQ, MGP) and ``point``, in nats: ``skl``, KL(p‖q) + KL(q‖p) of
          the latent function with p the trace's mixture matched by its two moments; ``skl_mixture``, the same with the
          exact mixture, by quadrature over at most 400 draws; ``skl_y``, as ``skl`` for an observation; ``nll``,
          -log q(y) (its expectation under the trace without ``y_new``).
        * ``trace_diagnostics``: ``rhat`` and ``ess_bulk`` of every free variable and of the predictive means at
          X_new, which no symmetry of the model disturbs; the worst over their entries.
        * ``laplace``: ``pareto_k`` of draws from the Gaussian weighted to the posterior. Below 0.7 importance
          sampling could repair the approximation; above it could not. ``log_evidence``, Laplace's summed over modes,
          and beside it ``importance_log_evidence`` with its ``importance_standard_error`` (nats) and
          ``importance_effective_sample_size``, see :func:`pymc_active.active.model_posterior`.
        * ``decision`` (with ``pool``): ``regret_ratio``, the true mutual information of y* and the hyperparameters
          at the pick of :func:`bald` over the best in the pool; 1 is perfect. ``true_utility``, over ``candidate``.

    Raises
    ------
    TypeError, ValueError
        For anything but a fit of one model; without a trace if the model's data changed since the fit.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 3 and Table 1.
    """
    check_one_fit(fit, "check")
    gpm = fit.gpm
    if trace is None:
        if not (np.array_equal(gpm.X, fit.X) and np.array_equal(gpm.y, fit.y)):
            raise ValueError("the model's data changed since this fit: fit again, or pass the trace of the fit's data")
        trace = sample(gpm, random_seed=random_seed, progressbar=False)
    if X_new is None:
        X_new = fit.X if pool is None else pool
    X = read_inputs(X_new, "X_new", width=gpm.X.shape[1])
    observed = None if y_new is None else read_outputs(y_new, len(X))
    thetas = trace_thetas(gpm, trace)
    means, variances, noises = draw_moments(fit.best.full_posterior, thetas, X)
    groups = {
        "predictions": _predictions(fit, X, means, variances, noises, observed).assign_coords(
            point=point_labels(X_new)
        ),
        "trace_diagnostics": _trace_diagnostics(gpm, trace, means),
        "laplace": _laplace(fit, random_seed),
    }
    if pool is not None:
        groups["decision"] = _decision(fit, pool, thetas)
    return xr.DataTree.from_dict(groups)


def symmetrized_kl(m0: np.ndarray, v0: np.ndarray, m1: np.ndarray, v1: np.ndarray) -> np.ndarray:
    """KL(p‖q) + KL(q‖p) of Gaussians, nats."""
    square = np.square(m0 - m1)
    return 0.5 * ((v0 + square) / v1 + (v1 + square) / v0) - 1


def _predictions(fit, X, means, variances, noises, observed) -> xr.Dataset:
    weights = np.full(len(means), 1 / len(means))
    true_mean, true_variance = mixture_moments(means, variances, weights)
    _, true_y_variance = mixture_moments(means, variances + noises, weights)
    thin = np.linspace(0, len(means) - 1, min(len(means), _COMPONENTS)).astype(int)
    rows: dict[str, list[np.ndarray]] = {"skl": [], "skl_mixture": [], "skl_y": [], "nll": []}
    for method in ("map", "bbq", "mgp"):
        q = marginal_moments(fit.best, X, method)
        y_variance = q.variance + q.noise
        rows["skl"].append(symmetrized_kl(true_mean, true_variance, q.mean, q.variance))
        rows["skl_y"].append(symmetrized_kl(true_mean, true_y_variance, q.mean, y_variance))
        # A draw may know the function exactly at a data point; a spike cannot be compared with a density.
        spread = np.maximum(variances[thin], 1e-8 * q.variance)
        rows["skl_mixture"].append(
            mixture_symmetrized_kl(
                means[thin], spread, weights[: len(thin)] * len(means) / len(thin), q.mean, q.variance
            )
        )
        error = true_y_variance + (true_mean - q.mean) ** 2 if observed is None else (observed - q.mean) ** 2
        rows["nll"].append(0.5 * (LOG_2PI + np.log(y_variance) + error / y_variance))
    return xr.Dataset(
        {name: (("approximation", "point"), np.stack(values)) for name, values in rows.items()},
        coords={"approximation": ["MAP", "BBQ", "MGP"]},
        attrs={"units": "nats"},
    )


def _trace_diagnostics(gpm: GPModel, trace: xr.DataTree, means: np.ndarray) -> xr.Dataset:
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from arviz_stats import ess, rhat

    posterior = trace["posterior"].to_dataset()
    names = [variable.name for variable in gpm.model.free_RVs]
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    predictive = dict_to_dataset({"f_mean": means.reshape(shape)})
    parts = xr.merge([posterior[names], predictive], compat="override", combine_attrs="override")
    table = {}
    for name, function, worst in (("rhat", rhat, "max"), ("ess_bulk", ess, "min")):
        values = function(parts)
        table[name] = ("variable", [float(getattr(values[v], worst)()) for v in [*names, "f_mean"]])
    return xr.Dataset(table, coords={"variable": [*names, "f_mean"]})


def _laplace(fit: LaplaceFit, random_seed: int | None) -> xr.Dataset:
    estimate = importance_evidence(fit, random_seed=random_seed)
    return xr.Dataset(
        {
            "pareto_k": pareto_k(fit, random_seed=random_seed),
            "log_evidence": summed_over_modes(fit),
            "importance_log_evidence": estimate.log_evidence,
            "importance_standard_error": estimate.standard_error,
            "importance_effective_sample_size": estimate.effective_sample_size,
        }
    )


def pareto_k(fit: LaplaceFit, draws: int = 1000, random_seed: int | None = 0) -> float:
    """Shape of the tail of the importance weights from the Laplace approximation to the posterior.

    Draws do not move along an embedding's rotations; the density is that of orbits, volume included.
    """
    # In the row space of an embedding: outside, the approximation is exact.
    best = fit.best
    thetas = best.draw(draws, np.random.default_rng(random_seed))
    posterior = best.posterior
    embedding = best.embedding if len(best.symmetry.directions) else None
    log_ratio = np.empty(draws)
    with one_blas_thread():
        for s, theta in enumerate(thetas):
            difference = theta - best.theta
            value = posterior.value_and_gradient(theta)[0]
            if embedding is not None:
                where, shape = embedding
                value += log_orbit_volume(np.linalg.svd(theta[where].reshape(shape), compute_uv=False), shape[0])
            log_ratio[s] = value + 0.5 * difference @ best.positive_hessian @ difference
    return pareto_shape(log_ratio)


def mutual_information(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """I(y*; theta) at each point from equally likely draws of theta, (S, m) each, nats."""
    weights = np.full(len(means), 1 / len(means))
    return mixture_entropy(means, variances, weights) - weights @ gaussian_entropy(variances)


def _decision(fit: LaplaceFit, pool: Any, thetas: np.ndarray) -> xr.Dataset:
    X = read_inputs(pool, "pool", width=fit.gpm.X.shape[1])
    thin = np.linspace(0, len(thetas) - 1, min(len(thetas), _COMPONENTS)).astype(int)
    means, variances, noises = draw_moments(fit.best.full_posterior, thetas[thin], X)
    utility = mutual_information(means, variances + noises)
    score = bald(fit, X).to_numpy()
    pick = int(np.argmax(score))
    return xr.Dataset(
        {
            "true_utility": ("candidate", utility),
            "bald": ("candidate", score),
            "regret_ratio": float(utility[pick] / utility.max()),
            "pick": pick,
        },
        coords={"candidate": point_labels(pool)},
        attrs={"units": "nats"},
    )
