"""Predictions with the hyperparameters fixed (MAP), marginalised (BBQ, MGP), or averaged over modes and draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.data import read_inputs
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.base import Moments, Posterior
from pymc_active.posterior.factor import one_blas_thread

GAUSSIAN_METHODS = ("map", "bbq", "mgp")
MIXTURE_METHODS = ("modes", "draws", "cubature")
METHODS = GAUSSIAN_METHODS + MIXTURE_METHODS

# Numbers in the largest array of one block of candidates.
_BLOCK = 400_000
# Below this fraction of the prior and noise variance a predictive variance is rounding.
_SMALLEST_VARIANCE = 1e-10


class Predictive(NamedTuple):
    """Moments at m points; ``plug_in`` is the latent variance with the hyperparameters fixed at the mode."""

    mean: np.ndarray
    variance: np.ndarray
    plug_in: np.ndarray
    noise: np.ndarray


def blocks(n_points: int, width: int) -> Iterator[slice]:
    """Slices of at most ``_BLOCK / width`` points."""
    step = int(np.clip(_BLOCK // max(width, 1), 64, 8192))
    for start in range(0, n_points, step):
        yield slice(start, min(start + step, n_points))


def marginal_moments(expansion: Expansion, X_new: np.ndarray, method: str = "mgp") -> Predictive:
    r"""Latent moments under the Gaussian approximation of one mode, as arrays.

    Parameters
    ----------
    expansion : Expansion
    X_new : ndarray, shape (m, D)
    method : {"map", "bbq", "mgp"}
        V; V + ∂mᵀΣ∂m; 4/3 V + ∂mᵀΣ∂m + ∂VᵀΣ∂V / (3V).

    Returns
    -------
    Predictive
        In units of y and their squares.

    Notes
    -----
    V is kept above 1e-10 of the prior plus noise variance, where the last term would be 0/0.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), eq. 19; Osborne et al. (2012) for BBQ.
    """
    m = len(X_new)
    out = Predictive(*(np.empty(m) for _ in range(4)))
    root = expansion.curvature.root
    width = max(len(expansion.state.factor.alpha), len(root) if method != "map" else 1, X_new.shape[1] // 8)
    # Blocks are too small to gain from several threads, which then wait for each other.
    with one_blas_thread():
        for rows in blocks(m, width):
            moments = expansion.moments(X_new[rows], gradient=method != "map")
            for whole, part in zip(out, _marginalize(moments, root, method), strict=True):
                whole[rows] = part
    return out


def _marginalize(moments: Moments, root: np.ndarray, method: str) -> Predictive:
    floor = _SMALLEST_VARIANCE * (moments.prior_variance + moments.noise_variance) + np.finfo(float).tiny
    V = np.maximum(moments.variance, floor)
    variance = V
    if method != "map":
        spread = np.square(moments.mean_gradient @ root).sum(1)
        variance = V + spread
    if method == "mgp":
        variance = 4 / 3 * V + spread + np.square(moments.variance_gradient @ root).sum(1) / (3 * V)
    return Predictive(moments.mean, variance, V, moments.noise_variance)


class Mixture(NamedTuple):
    """S Gaussians at each of m points: latent means and variances and noise variances (S, m), weights (S,).

    ``conditional`` (S, m) are the latent variances that remain if the component and its hyperparameters are known.
    """

    means: np.ndarray
    variances: np.ndarray
    conditional: np.ndarray
    noises: np.ndarray
    weights: np.ndarray


def mixture(
    fit: LaplaceFit, X_new: np.ndarray, method: str, draws: int = 128, random_seed: int = 0, first: int | None = None
) -> Mixture:
    """The predictive mixture over modes, draws, or cubature points of the hyperparameters.

    Parameters
    ----------
    fit : LaplaceFit
    X_new : ndarray, shape (m, D)
    method : {"modes", "draws", "cubature"}
        Marginal GPs of all modes by their evidence; GPs at ``draws`` draws from the posterior; GPs at 2P points
        around the highest mode, sqrt(P) sds along each principal axis of its Gaussian (the cubature of degree three).
    draws, random_seed : int
        For ``"draws"``.
    first : int, optional
        Take only so many of the draws.
    """
    if method == "modes":
        return _mixture_of_modes(fit, [marginal_moments(expansion, X_new) for expansion in fit.expansions])
    thetas = hyperparameter_points(fit, method, draws, random_seed)[:first]
    means, variances, noises = draw_moments(fit.best.posterior, thetas, X_new)
    return Mixture(means, variances, variances, noises, np.full(len(thetas), 1 / len(thetas)))


def _mixture_of_modes(fit: LaplaceFit, parts: list[Predictive]) -> Mixture:
    return Mixture(
        np.stack([p.mean for p in parts]),
        np.stack([p.variance for p in parts]),
        # The factor of eq. 19 stays if nothing is left to learn of the hyperparameters.
        np.stack([4 / 3 * p.plug_in for p in parts]),
        np.stack([p.noise for p in parts]),
        np.array([mode.weight for mode in fit.modes]),
    )


def hyperparameter_points(fit: LaplaceFit, method: str, draws: int, random_seed: int) -> np.ndarray:
    """Equally weighted hyperparameters, in the coordinates of ``fit.best.posterior``, (S, P)."""
    if method == "draws":
        return fit.particles(draws, random_seed)
    best = fit.best
    axes = np.sqrt(best.curvature.root.shape[1]) * best.curvature.root.T
    return np.concatenate([best.theta + axes, best.theta - axes])


class Gradients(NamedTuple):
    """Derivatives in the inputs of mean, variance and plug-in (or conditional) variance: (m, D), or (S, m, D)."""

    mean: np.ndarray
    variance: np.ndarray
    plug_in: np.ndarray


def marginal_gradients(
    expansion: Expansion, X_new: np.ndarray, method: str = "mgp"
) -> tuple[Predictive, Gradients] | None:
    """:func:`marginal_moments` with derivatives in the inputs; None where the model has no formulas for them."""
    state, posterior, root = expansion.state, expansion.posterior, expansion.curvature.root
    moments = expansion.moments(X_new, gradient=method != "map")
    p = _marginalize(moments, root, method)
    if method == "map":
        plain = posterior.input_gradients(state, X_new)
        return None if plain is None else (p, Gradients(plain.mean, plain.variance, plain.variance))
    in_variance = moments.variance_gradient @ root
    parts = posterior.input_gradients(state, X_new, moments.mean_gradient @ root @ root.T, in_variance @ root.T)
    if parts is None or parts.mean_along is None or parts.variance_along is None:
        return None
    variance = parts.variance + 2 * parts.mean_along
    if method == "mgp":
        V, spread = p.plug_in[:, None], np.square(in_variance).sum(1)[:, None]
        variance = variance + parts.variance / 3 + (2 * parts.variance_along - spread / V * parts.variance) / (3 * V)
    return p, Gradients(parts.mean, variance, parts.variance)


def mixture_gradients(
    fit: LaplaceFit, X_new: np.ndarray, method: str, draws: int = 128, random_seed: int = 0, first: int | None = None
) -> tuple[Mixture, Gradients] | None:
    """:func:`mixture` with derivatives in the inputs, components along the first axis; None as above."""
    if method == "modes":
        found = [marginal_gradients(expansion, X_new) for expansion in fit.expansions]
        known = [pair for pair in found if pair is not None]
        if len(known) < len(found):
            return None
        gradients = [Gradients(g.mean, g.variance, 4 / 3 * g.plug_in) for _, g in known]
        return _mixture_of_modes(fit, [p for p, _ in known]), Gradients(*map(np.stack, zip(*gradients, strict=True)))
    posterior = fit.best.posterior
    moments, inputs = [], []
    for theta in hyperparameter_points(fit, method, draws, random_seed)[:first]:
        state = posterior.state(theta)
        plain = posterior.input_gradients(state, X_new)
        if plain is None:
            return None
        moments.append(posterior.moments(state, X_new))
        inputs.append(Gradients(plain.mean, plain.variance, plain.variance))
    variances = np.maximum([m.variance for m in moments], 0.0)
    noises = np.stack([m.noise_variance for m in moments])
    weights = np.full(len(moments), 1 / len(moments))
    p = Mixture(np.stack([m.mean for m in moments]), variances, variances, noises, weights)
    return p, Gradients(*map(np.stack, zip(*inputs, strict=True)))


def mixture_moments(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact mean and variance of Gaussian mixtures; components along the first axis."""
    mean = weights @ means
    return mean, weights @ (variances + np.square(means - mean))


def predict(
    source: LaplaceFit | xr.DataTree,
    X_new: Any,
    *,
    method: str = "mgp",
    model: GPModel | None = None,
    draws: int = 128,
    random_seed: int = 0,
) -> xr.Dataset:
    """Predict the function and new observations, with the hyperparameters' uncertainty.

    Parameters
    ----------
    source : LaplaceFit or xarray.DataTree
        A fit, or a trace of draws from the same model.
    X_new : array_like, DataFrame or DataArray, shape (m, D)
        In the user's units. Row labels are kept.
    method : {"mgp", "bbq", "map", "modes", "draws", "cubature"}
        For a fit. ``"map"`` fixes the hyperparameters at the mode; ``"bbq"`` adds the variance of the mean; ``"mgp"``
        (default) also that of the variance, marginalising **every** hyperparameter; ``"modes"`` mixes the MGP
        predictions of all modes found by their evidence. The others give the exact moments of a mixture of GPs:
        ``"draws"`` over draws from the posterior (see :meth:`LaplaceFit.particles`), ``"cubature"`` over 2P points
        around the highest mode. Unlike the MGP's these tend to V, not 4/3 V, as the hyperparameters become known.
    model : GPModel
        Needed for a trace: predictions are then the exact moments of the mixture over all its draws, given the data
        that the model holds now.
    draws, random_seed : int
        For ``method="draws"``.

    Returns
    -------
    xarray.Dataset
        ``f_mean``, ``f_variance`` (of the latent function) and ``y_variance`` (noise added, of the mode or
        its mean over the mixture) over ``point``.

    Raises
    ------
    TypeError, ValueError
        For an unknown method, points of the wrong width or with NaN, or a trace without ``model``.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> fit = pma.fit_laplace(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> list(pma.predict(fit, [[0.5], [3.0]]).data_vars)
    ['f_mean', 'f_variance', 'y_variance']
    """
    if isinstance(source, LaplaceFit):
        gpm = source.gpm
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
        X = read_inputs(X_new, "X_new", width=len(gpm.inputs))
        if method in GAUSSIAN_METHODS:
            p = marginal_moments(source.best, X, method)
            means, variances, noises, weights = p.mean[None], p.variance[None], p.noise[None], np.ones(1)
        else:
            means, variances, _, noises, weights = mixture(source, X, method, draws, random_seed)
    elif isinstance(source, xr.DataTree):
        if model is None:
            raise ValueError("predictions from a trace need the model it came from: predict(trace, X_new, model=gpm)")
        X = read_inputs(X_new, "X_new", width=len(model.inputs))
        means, variances, noises = draw_moments(model.posterior(), trace_thetas(model, source), X)
        weights, method = np.full(len(means), 1 / len(means)), "trace"
    else:
        raise TypeError(f"predict takes a LaplaceFit or a DataTree of draws; got {type(source).__name__}")
    mean, f_variance = mixture_moments(means, variances, weights)
    return xr.Dataset(
        {
            "f_mean": ("point", mean),
            "f_variance": ("point", f_variance),
            "y_variance": ("point", f_variance + weights @ noises),
        },
        coords={"point": point_labels(X_new)},
        attrs={"method": method},
    )


def point_labels(X: Any) -> np.ndarray:
    """Labels of the rows of a data frame or DataArray, else 0, 1, ..."""
    if isinstance(X, pd.DataFrame):
        return X.index.to_numpy()
    if isinstance(X, xr.DataArray) and X.dims[0] in X.coords:
        return X[X.dims[0]].to_numpy()
    return np.arange(len(X))


def draw_moments(
    posterior: Posterior, thetas: np.ndarray, X_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latent mean and variance and the noise variance for each draw of theta, (S, m) each."""
    S, m = len(thetas), len(X_new)
    means, variances, noises = np.empty((S, m)), np.empty((S, m)), np.empty((S, m))
    with one_blas_thread():
        for s, theta in enumerate(thetas):
            state = posterior.state(theta)
            for rows in blocks(m, max(len(state.factor.alpha), X_new.shape[1] // 8)):
                moments = posterior.moments(state, X_new[rows])
                means[s, rows], noises[s, rows] = moments.mean, moments.noise_variance
                variances[s, rows] = np.maximum(moments.variance, 0.0)
    return means, variances, noises


def trace_thetas(gpm: GPModel, trace: xr.DataTree) -> np.ndarray:
    """Unconstrained draws (S, P) of a trace, chains one after another.

    Raises
    ------
    ValueError
        If the trace lacks the group ``posterior`` or a parameter of the model.
    """
    if "posterior" not in trace.children:
        raise ValueError(f"the trace has no group 'posterior'; it has {sorted(trace.children)}")
    posterior = trace["posterior"].to_dataset()
    names = [variable.name for variable in gpm.model.free_RVs]
    missing = [name for name in names if name not in posterior]
    if missing:
        raise ValueError(f"the trace was not drawn from this model: it lacks {', '.join(missing)}")
    stacked = {
        name: posterior[name].transpose("chain", "draw", ...).to_numpy().reshape(-1, *posterior[name].shape[2:])
        for name in names
    }
    return gpm.unconstrain(stacked)
