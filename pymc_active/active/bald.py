"""Criteria that learn the function or its hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import xarray as xr

from pymc_active.entropy import gaussian_entropy, mixture_entropy
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.data import read_inputs
from pymc_active.predictions import (
    METHODS,
    MIXTURE_METHODS,
    Mixture,
    marginal_moments,
    mixture,
    mixture_moments,
    point_labels,
)

# Candidates scored at a time.
_BLOCK = 32_768


def bald(
    fit: LaplaceFit,
    X_pool: Any,
    *,
    target: Literal["y", "f"] = "y",
    method: Literal["mgp", "bbq", "modes", "draws", "cubature"] = "mgp",
    draws: int = 50,
    random_seed: int = 0,
) -> xr.DataArray:
    r"""Expected information about the hyperparameters from measuring each candidate, in nats.

    Bayesian active learning by disagreement: the mutual information of the outcome and the hyperparameters. For the
    marginal GP it is :math:`\tfrac12 \log(\tilde V / V)`, with V the predictive variance with the hyperparameters at
    the mode and :math:`\tilde V` the marginal one; for a mixture, its entropy less the mean of its components'.

    Parameters
    ----------
    fit : LaplaceFit
    X_pool : array_like, DataFrame, DataArray or dask array, shape (m, D)
        Candidates in the user's units. A dask array is scored lazily, block by block.
    target : {"y", "f"}
        ``"y"`` counts the noise in both variances: what an *observation* tells. ``"f"`` is the paper's, the latent
        function. On nearly noise-free data the latent ratio degenerates: it prefers points at which both variances
        are tiny. On 215 near-infrared spectra ``"f"`` ended at an error of 1.9 to 6.8 % fat, where ``"y"`` reached
        0.46 to 0.85 and random points 0.65 to 1.16; on noisy synthetic functions ``"f"`` was slightly ahead.
    method : {"mgp", "bbq", "modes", "draws", "cubature"}
        ``"mgp"`` and ``"bbq"``: the marginal variance of one mode; under ``"mgp"`` the latent value is never below
        ½ log(4/3) = 0.144. ``"modes"``: information about the mode and its hyperparameters, from the marginal GPs of
        all modes found. ``"draws"``: from GPs at draws from the posterior, which decides most like MCMC and costs as
        many predictions; ``"cubature"``: from GPs at 2P points around the highest mode.
    draws, random_seed : int
        For ``"draws"``.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), eqs. 20-21.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 8)
    >>> fit = pma.fit_laplace(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> pma.active.bald(fit, np.linspace(-4, 4, 5)[:, None]).attrs["units"]
    'nats'
    """
    if target not in ("y", "f"):
        raise ValueError(f"target must be 'y' or 'f'; got {target!r}")
    if method not in ("mgp", "bbq", *MIXTURE_METHODS):
        raise ValueError(f"method must be one of mgp, bbq, {', '.join(MIXTURE_METHODS)}; got {method!r}")

    def score(X: np.ndarray) -> np.ndarray:
        if method in MIXTURE_METHODS:
            return information(mixture(fit, X, method, draws, random_seed), target)
        p = marginal_moments(fit.best, X, method)
        noise = p.noise if target == "y" else 0.0
        return 0.5 * np.log((p.variance + noise) / (p.plug_in + noise))

    return score_pool(score, fit, X_pool, "bald", "nats")


def information(p: Mixture, target: str) -> np.ndarray:
    """Mutual information of y* (or f*) and the component with its hyperparameters, nats, (m,)."""
    noise = p.noises if target == "y" else 0.0
    # Latent variances may vanish at a data point.
    floor = 1e-10 * (p.variances + p.noises).max(0) + np.finfo(float).tiny
    variances, conditional = (np.maximum(v + noise, floor) for v in (p.variances, p.conditional))
    return mixture_entropy(p.means, variances, p.weights) - p.weights @ gaussian_entropy(conditional)


def uncertainty(fit: LaplaceFit, X_pool: Any, *, method: str = "mgp") -> xr.DataArray:
    """Uncertainty sampling: the sd of the latent function at each candidate, in units of y.

    Its maximiser is also that of the entropy H[f], the first term of BALD.

    Parameters
    ----------
    fit : LaplaceFit
    X_pool : array_like, DataFrame, DataArray or dask array, shape (m, D)
    method : {"mgp", "bbq", "map", "modes", "draws", "cubature"}
        As in :func:`pymc_active.predict`.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 4.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")

    def score(X: np.ndarray) -> np.ndarray:
        if method in MIXTURE_METHODS:
            means, variances, _, _, weights = mixture(fit, X, method)
            return np.sqrt(mixture_moments(means, variances, weights)[1])
        return np.sqrt(marginal_moments(fit.best, X, method).variance)

    return score_pool(score, fit, X_pool, "uncertainty", "units of y")


def score_pool(
    score: Callable[[np.ndarray], np.ndarray], fit: LaplaceFit, X_pool: Any, name: str, units: str
) -> xr.DataArray:
    """Apply an array criterion to a pool of any kind, lazily to a dask array."""
    width = fit.gpm.X.shape[1]
    if hasattr(X_pool, "dask") and not isinstance(X_pool, xr.DataArray):
        if X_pool.ndim != 2 or X_pool.shape[1] != width:
            raise ValueError(f"X_pool must have shape (m, {width}); got {X_pool.shape}")
        whole_rows = X_pool.rechunk({1: -1})
        values = whole_rows.map_blocks(
            lambda block: score(read_inputs(block, "X_pool", width)) if len(block) else np.empty(0),
            drop_axis=1,
            dtype=float,
            meta=np.empty(0),
        )
        return xr.DataArray(values, dims="point", name=name, attrs={"units": units})
    X = read_inputs(X_pool, "X_pool", width)
    # Mixtures hold an array of components for all candidates of a block.
    values = np.concatenate([score(X[start : start + _BLOCK]) for start in range(0, len(X), _BLOCK)])
    return xr.DataArray(values, dims="point", coords={"point": point_labels(X_pool)}, name=name, attrs={"units": units})
