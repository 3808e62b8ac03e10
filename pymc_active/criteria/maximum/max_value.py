"""Entropy search for the maximum's height, alone or with its place, and Thompson sampling."""

from __future__ import annotations

from functools import partial
from typing import Any, override

import numpy as np
import xarray as xr
from scipy.special import log_ndtr

from pymc_active.criteria.maximum.base import (
    OfOneGP,
    OptimizedPaths,
    OptimumCriterion,
    OptimumScorer,
    sample_optima,
    score_or_maximize,
)
from pymc_active.criteria.maximum.truncated import hazard
from pymc_active.inference.ensemble import Ensemble
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import Source

_SMALLEST = 1e-10


class MaxValueEntropy(OptimumCriterion):
    """:func:`max_value_entropy` as a criterion with a gradient."""

    name, units = "max_value_entropy", "nats"

    @override
    def set_up(self, ensemble, gps, rng):
        told = {"n_optima": self.n_optima, "n_hyperparameters": len(gps)}
        return scorer_of_heights(ensemble, self.sample_optima(gps, rng), told)


def scorer_of_heights(ensemble: Ensemble, optima: list[OptimizedPaths], told: dict[str, Any]) -> OptimumScorer:
    """Max-value entropy search from maximised paths."""
    parts = [OfOneGP(o.gp, len(o.maxima.values), partial(_max_value, o)) for o in optima]
    return OptimumScorer(ensemble, MaxValueEntropy.units, optima, parts, told["n_optima"], diagnostics=told)


def _max_value(optima: OptimizedPaths, X: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray | None]:
    gp = optima.gp
    m, V = gp.moments(X)
    V = np.maximum(V, _SMALLEST * gp.prior_variance(X))
    sd = np.sqrt(V)
    a = (optima.maxima.values[:, None] - m) / sd
    r, left = hazard(a)
    value = (0.5 * a * r - log_ndtr(a)).mean(0)
    if not gradient:
        return value, None
    # r' = -r (r + a) = -(1 - left).
    slope = 0.5 * (r - a * (1 - left)) - r
    in_m, in_V = -(slope / sd).mean(0), -(0.5 * slope * a / V).mean(0)
    dm, dV = gp.moment_gradients(X)
    return value, in_m[:, None] * dm + in_V[:, None] * dV


class JointEntropy(OptimumCriterion):
    """:func:`joint_entropy_search` as a criterion with a gradient."""

    name, units = "joint_entropy_search", "nats"

    @override
    def set_up(self, ensemble, gps, rng):
        optima = self.sample_optima(gps, rng)
        told = {"n_optima": self.n_optima, "n_hyperparameters": len(gps)}
        parts = []
        for o in optima:
            cross = o.gp.covariance(o.gp.X, o.maxima.X)
            mean, variance = o.gp.moments(o.maxima.X)
            # Where the data leave no variance, a height tells nothing and its covariances are rounding errors.
            variance = np.maximum(variance, _SMALLEST * o.gp.prior_variance(o.maxima.X))
            evaluate = partial(_joint, o, o.gp.factor.solve(cross), mean, variance)
            parts.append(OfOneGP(o.gp, len(mean), evaluate))
        return OptimumScorer(ensemble, self.units, optima, parts, self.n_optima, diagnostics=told)


def _joint(
    optima: OptimizedPaths, solved: np.ndarray, mean: np.ndarray, variance: np.ndarray, X: np.ndarray, gradient: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Given the data's solve of the maxima's cross-covariances, and the posterior mean and variance there."""
    gp, places, heights = optima.gp, optima.maxima.X, optima.maxima.values
    noise = gp.noise_variance(X)
    m, V = gp.moments(X)
    floor = _SMALLEST * gp.prior_variance(X)
    V = np.maximum(V, floor)
    # Given f(x*) = height as a noise-free observation, then cut off above it.
    C = (gp.covariance(X, places) - gp.covariance(gp.X, X).T @ solved).T
    surprise = ((heights - mean) / variance)[:, None]
    V1 = np.maximum(V - C * C / variance[:, None], floor)
    a = (heights[:, None] - m - C * surprise) / np.sqrt(V1)
    r, left = hazard(a)
    v = V1 * left
    value = 0.5 * np.log(V + noise) - 0.5 * np.log(v + noise).mean(0)
    if not gradient:
        return value, None
    S = len(heights)
    w = -0.5 / (v + noise) / S
    # left = 1 - r (r + a), whose derivative is (r + a) (1 - left) - r left.
    w_a = w * V1 * ((r + a) * (1 - left) - r * left)
    w_V1 = w * left - 0.5 * w_a * a / V1
    w_C = -2 * w_V1 * C / variance[:, None] - w_a * surprise / np.sqrt(V1)
    w_m = -(w_a / np.sqrt(V1)).sum(0)
    w_V = 0.5 / (V + noise) + w_V1.sum(0)
    dm, dV = gp.moment_gradients(X)
    slope = w_m[:, None] * dm + w_V[:, None] * dV + gp.pull(X, w_C, places) - gp.pull(X, solved @ w_C)
    slope += (0.5 / (V + noise) + w.sum(0))[:, None] * gp.noise_variance_gradient(X)
    return value, slope


class Thompson(OptimumCriterion):
    """:func:`thompson` as a criterion with a gradient: one path, whose maximum is the choice."""

    name, units = "thompson", "units of y"

    @override
    def set_up(self, ensemble, gps, rng):
        optima = sample_optima([gps[rng.integers(len(gps))]], self.domain, 1, self.n_features, rng)
        parts = [OfOneGP(optima[0].gp, 1, partial(_path, optima[0]))]
        told = {"n_hyperparameters": 1}
        return OptimumScorer(ensemble, self.units, optima, parts, self.n_optima, diagnostics=told)


def _path(optima: OptimizedPaths, X: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray | None]:
    gp, paths, _ = optima
    if not gradient:
        return gp.sign * gp.to_user_y(paths.value(X)[0]), None
    value, slope, _ = paths.derivatives(X, np.zeros(len(X), int))
    return gp.sign * gp.to_user_y(value), float(gp.posterior.y_map.scale) * slope


def max_value_entropy(
    fit: Source,
    X_pool: Any = None,
    *,
    model: GPModel | None = None,
    bounds: Any = None,
    minimize: bool = False,
    n_optima: int = 50,
    n_features: int = 1000,
    draws: int = 10,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    r"""Max-value entropy search: the expected information about the maximum's height, in nats.

    Parameters
    ----------
    fit, X_pool, model, bounds, minimize, n_optima, n_features, draws, random_seed
        As in :func:`pes`; f needs no derivatives.

    Returns
    -------
    xarray.DataArray
        :math:`\mathrm{mean}_{f_*} [a \varphi(a) / (2 \Phi(a)) - \log \Phi(a)]` with a = (f* - mean) / sd, over
        ``point``. The noise of an observation is neglected, as in the paper.

    References
    ----------
    .. [1] Wang & Jegelka (2017), Max-value entropy search for efficient Bayesian optimization, eq. 6.
    """
    return score_or_maximize(
        MaxValueEntropy, fit, X_pool, bounds, model,
        minimize=minimize, n_optima=n_optima, n_features=n_features, n_hyperparameters=draws, random_seed=random_seed,
    )  # fmt: skip


def joint_entropy_search(
    fit: Source,
    X_pool: Any = None,
    *,
    model: GPModel | None = None,
    bounds: Any = None,
    minimize: bool = False,
    n_optima: int = 50,
    n_features: int = 1000,
    draws: int = 10,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Joint entropy search: the expected information about the maximum's place and height together, in nats.

    Parameters
    ----------
    fit, X_pool, model, bounds, minimize, n_optima, n_features, draws, random_seed
        As in :func:`pes`; f needs no derivatives.

    Returns
    -------
    xarray.DataArray
        Over ``point``. Each pair of place and height is a noise-free observation, and f is cut off above the height.

    References
    ----------
    .. [1] Hvarfner, Hutter & Nardi (2022), Joint entropy search for maximally-informed Bayesian optimization. Tu et al.
       (2022), Joint entropy search for multi-objective Bayesian optimization.
    """
    return score_or_maximize(
        JointEntropy, fit, X_pool, bounds, model,
        minimize=minimize, n_optima=n_optima, n_features=n_features, n_hyperparameters=draws, random_seed=random_seed,
    )  # fmt: skip


def thompson(
    fit: Source,
    X_pool: Any = None,
    *,
    model: GPModel | None = None,
    bounds: Any = None,
    minimize: bool = False,
    n_features: int = 1000,
    draws: int = 10,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Thompson sampling: one sample path, with one draw of the hyperparameters, in units of y.

    Parameters
    ----------
    fit, X_pool, model, bounds, minimize, n_features, draws, random_seed
        As in :func:`pes`; one of the ``draws`` is chosen at random.

    Returns
    -------
    xarray.DataArray
        The path (with ``minimize`` its negative) over ``point``; larger is better.

    References
    ----------
    .. [1] Thompson (1933); Wilson et al. (2020) for the paths.
    """
    return score_or_maximize(
        Thompson, fit, X_pool, bounds, model,
        minimize=minimize, n_features=n_features, n_hyperparameters=draws, random_seed=random_seed,
    )  # fmt: skip
