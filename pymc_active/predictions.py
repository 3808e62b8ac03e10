"""Predictions: hyperparameters fixed (MAP), marginalised (BBQ, MGP), or averaged over modes, draws and models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.data import read_inputs
from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.model_average import Fits, ModelAverage, as_model_average
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
# What to do with what cannot be predicted from; by name, for learners and classifiers build on this module.
_INSTEAD = {
    "GPModel": ": fit it first, fit_laplace(gpm)",
    "Learner": ": pass its fit, learner.fit",
    "ProbitFit": ": it predicts by itself, fit.predict(X_new)",
}


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
    V is kept above 1e-10 of the prior plus noise variance, where the last term would be 0/0. Of a model without free
    parameters all three are V.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), eq. 19; Osborne et al. (2012) for BBQ.
    """
    m = len(X_new)
    out = Predictive(*(np.empty(m) for _ in range(4)))
    root = expansion.curvature.root
    method = method if len(root) else "map"
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

    ``conditional`` (S, m) are the latent variances that remain if the component and its hyperparameters are known;
    ``owner`` (S,) is the number of the model that a component belongs to.
    """

    means: np.ndarray
    variances: np.ndarray
    conditional: np.ndarray
    noises: np.ndarray
    weights: np.ndarray
    owner: np.ndarray


def mixture(
    source: LaplaceFit | ModelAverage,
    X_new: np.ndarray,
    method: str,
    draws: int = 128,
    random_seed: int = 0,
    first: int | None = None,
) -> Mixture:
    """The predictive mixture over modes, draws, or cubature points of the hyperparameters, and over models.

    Parameters
    ----------
    source : LaplaceFit or ModelAverage
        Models without weight are left out.
    X_new : ndarray, shape (m, D)
    method : {"map", "bbq", "mgp", "modes", "draws", "cubature"}
        One Gaussian of the highest mode, see :func:`marginal_moments`; marginal GPs of all modes by their evidence;
        GPs at ``draws`` draws from the posterior; GPs at 2P points around the highest mode, sqrt(P) sds along each
        principal axis of its Gaussian (the cubature of degree three).
    draws, random_seed : int
        For ``"draws"``.
    first : int, optional
        Take only so many of the draws.
    """
    if isinstance(source, ModelAverage):
        weights, fits = _weighted_fits(source)
        return average_mixtures([mixture(fit, X_new, method, draws, random_seed, first) for fit in fits], weights)
    method = method if len(source.best.theta) else "map"
    if method in GAUSSIAN_METHODS:
        return _mixture_of_expansions([marginal_moments(source.best, X_new, method)], np.ones(1), method)
    if method == "modes":
        parts = [marginal_moments(expansion, X_new) for expansion in source.expansions]
        return _mixture_of_expansions(parts, _mode_weights(source))
    thetas = hyperparameter_points(source, method, draws, random_seed)[:first]
    means, variances, noises = draw_moments(source.best.posterior, thetas, X_new)
    return mixture_of_draws(means, variances, noises)


def _weighted_fits(average: ModelAverage) -> tuple[np.ndarray, list[LaplaceFit]]:
    used = np.flatnonzero(average.weights)
    fits = list(average.values())
    return average.weights[used], [fits[k] for k in used]


def average_mixtures(parts: Sequence[Mixture], weights: np.ndarray) -> Mixture:
    """One mixture of several models', of which each is an owner with its weight."""
    joined = Mixture(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    within = [weight * part.weights for weight, part in zip(weights, parts, strict=True)]
    owner = np.repeat(np.arange(len(parts)), [len(w) for w in within])
    return joined._replace(weights=np.concatenate(within), owner=owner)


def _mode_weights(fit: LaplaceFit) -> np.ndarray:
    return np.array([mode.weight for mode in fit.modes])


def _mixture_of_expansions(parts: list[Predictive], weights: np.ndarray, method: str = "mgp") -> Mixture:
    # The factor of eq. 19 stays if nothing is left to learn of the hyperparameters.
    floor = 4 / 3 if method == "mgp" else 1.0
    return Mixture(
        np.stack([p.mean for p in parts]),
        np.stack([p.variance for p in parts]),
        np.stack([floor * p.plug_in for p in parts]),
        np.stack([p.noise for p in parts]),
        weights,
        np.zeros(len(parts), int),
    )


def mixture_of_draws(means: np.ndarray, variances: np.ndarray, noises: np.ndarray) -> Mixture:
    """Equally weighted GPs, one for each draw of the hyperparameters."""
    S = len(means)
    return Mixture(means, variances, variances, noises, np.full(S, 1 / S), np.zeros(S, int))


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
    method = method if len(root) else "map"
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
    source: LaplaceFit | ModelAverage,
    X_new: np.ndarray,
    method: str,
    draws: int = 128,
    random_seed: int = 0,
    first: int | None = None,
) -> tuple[Mixture, Gradients] | None:
    """:func:`mixture` with derivatives in the inputs, components along the first axis; None as above."""
    if isinstance(source, ModelAverage):
        weights, fits = _weighted_fits(source)
        found = _all_known(mixture_gradients(fit, X_new, method, draws, random_seed, first) for fit in fits)
        if found is None:
            return None
        parts, gradients = zip(*found, strict=True)
        return average_mixtures(parts, weights), Gradients(*map(np.concatenate, zip(*gradients, strict=True)))
    method = method if len(source.best.theta) else "map"
    if method in (*GAUSSIAN_METHODS, "modes"):
        one = method != "modes"
        expansions = [source.best] if one else source.expansions
        known = _all_known(marginal_gradients(e, X_new, method if one else "mgp") for e in expansions)
        if known is None:
            return None
        floor = 4 / 3 if method in ("mgp", "modes") else 1.0
        inputs = [Gradients(g.mean, g.variance, floor * g.plug_in) for _, g in known]
        mixed = _mixture_of_expansions(
            [p for p, _ in known], np.ones(1) if one else _mode_weights(source), method if one else "mgp"
        )
        return mixed, Gradients(*map(np.stack, zip(*inputs, strict=True)))
    posterior = source.best.posterior
    moments, inputs = [], []
    for theta in hyperparameter_points(source, method, draws, random_seed)[:first]:
        state = posterior.state(theta)
        plain = posterior.input_gradients(state, X_new)
        if plain is None:
            return None
        moments.append(posterior.moments(state, X_new))
        inputs.append(Gradients(plain.mean, plain.variance, plain.variance))
    variances = np.maximum([m.variance for m in moments], 0.0)
    noises = np.stack([m.noise_variance for m in moments])
    mixed = mixture_of_draws(np.stack([m.mean for m in moments]), variances, noises)
    return mixed, Gradients(*map(np.stack, zip(*inputs, strict=True)))


def _all_known[T](found: Iterable[T | None]) -> list[T] | None:
    """All of them, or None as soon as one is."""
    known = []
    for one in found:
        if one is None:
            return None
        known.append(one)
    return known


def mixture_moments(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact mean and variance of Gaussian mixtures; components along the first axis."""
    mean = weights @ means
    return mean, weights @ (variances + np.square(means - mean))


def predict(
    source: LaplaceFit | Fits | xr.DataTree,
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
    source : LaplaceFit, ModelAverage, dict or list of LaplaceFit, or xarray.DataTree
        A fit; fits of several models of the same data, which are averaged by their posterior probabilities
        (:class:`ModelAverage`); or a trace of draws from the same model.
    X_new : array_like, DataFrame or DataArray, shape (m, D)
        In the user's units. Row labels are kept.
    method : {"mgp", "bbq", "map", "modes", "draws", "cubature"}
        For fits. ``"map"`` fixes the hyperparameters at the mode; ``"bbq"`` adds the variance of the mean; ``"mgp"``
        (default) also that of the variance, marginalising **every** hyperparameter; ``"modes"`` mixes the MGP
        predictions of all modes found by their evidence. The others give the exact moments of a mixture of GPs:
        ``"draws"`` over draws from the posterior (see :meth:`LaplaceFit.particles`), ``"cubature"`` over 2P points
        around the highest mode. Unlike the MGP's these tend to V, not 4/3 V, as the hyperparameters become known.
        Over several models: the exact moments of the mixture of their predictions.
    model : GPModel
        Needed for a trace: predictions are then the exact moments of the mixture over all its draws, given the data
        that the model holds now.
    draws, random_seed : int
        For ``method="draws"``.

    Returns
    -------
    xarray.Dataset
        ``f_mean``, ``f_variance`` (of the latent function) and ``y_variance`` (noise added, of the mode or
        its mean over the mixture) over ``point``, in units of y and their squares.

    Raises
    ------
    TypeError, ValueError
        For an unknown method, points of the wrong width or with NaN, or a trace without ``model``.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 3. Malkomes & Garnett (2015), eq. 5, for several models.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> fit = pma.fit_laplace(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> list(pma.predict(fit, [[0.5], [3.0]]).data_vars)
    ['f_mean', 'f_variance', 'y_variance']
    """
    # These are a mapping and sequences, but not of fits.
    if isinstance(source, xr.Dataset | str | PathLike):
        check_trace(source)
    if isinstance(source, xr.DataTree):
        if model is None:
            raise ValueError("predictions from a trace need the model it came from: predict(trace, X_new, model=gpm)")
        X = read_inputs(X_new, "X_new", inputs=model.inputs)
        means, variances, noises = draw_moments(model.posterior(), trace_thetas(model, source), X)
        weights, method = np.full(len(means), 1 / len(means)), "trace"
    elif isinstance(source, LaplaceFit | Mapping | Sequence):
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
        known = source if isinstance(source, LaplaceFit) else as_model_average(source)
        X = read_inputs(X_new, "X_new", inputs=known.gpm.inputs)
        means, variances, _, noises, weights, _ = mixture(known, X, method, draws, random_seed)
    else:
        raise TypeError(
            f"predict takes a LaplaceFit, several, or a DataTree of draws; got {type(source).__name__}"
            + _INSTEAD.get(type(source).__name__, "")
        )
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


def posterior_mean(fit: LaplaceFit | ModelAverage, X: np.ndarray) -> np.ndarray:
    """Mean with the hyperparameters at their mode (m,), averaged over models if there are several."""
    if isinstance(fit, ModelAverage):
        weights, fits = _weighted_fits(fit)
        return weights @ np.stack([member.best.moments(X).mean for member in fits])
    return fit.best.moments(X).mean


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


def check_trace(trace: Any) -> None:
    """Raise a TypeError for anything but a DataTree."""
    if isinstance(trace, xr.DataTree):
        return
    hint = ""
    if isinstance(trace, str | PathLike):
        hint = ": open the file first, xarray.open_datatree(path)"
    elif isinstance(trace, xr.Dataset):
        hint = ': of draws make xarray.DataTree.from_dict({"posterior": dataset})'
    raise TypeError(
        'trace must be an xarray.DataTree with a group "posterior", as pm.sample returns it; got '
        f"{type(trace).__name__}{hint}"
    )


def trace_thetas(gpm: GPModel, trace: xr.DataTree) -> np.ndarray:
    """Unconstrained draws (S, P) of a trace, chains one after another.

    Raises
    ------
    TypeError
        For anything but a DataTree.
    ValueError
        If the trace lacks the group ``posterior`` or a parameter of the model, or has more or fewer numbers of them.
    """
    check_trace(trace)
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
    thetas = gpm.unconstrain(stacked)
    if thetas.shape[1] != gpm.n_parameters:
        raise ValueError(
            f"the trace was not drawn from this model: it has {thetas.shape[1]} parameters, the model has "
            f"{gpm.n_parameters}"
        )
    return thetas
