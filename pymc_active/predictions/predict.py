"""Predict the function and new observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.traces import check_trace, trace_thetas
from pymc_active.predictions.mixtures import METHODS, _weighted_fits, mixture
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average
from pymc_active.predictions.moments import draw_moments
from pymc_active.support.tables import point_labels, read_inputs

# What to do with what cannot be predicted from; by name, for learners and classifiers build on this module.
_INSTEAD = {
    "GPModel": ": fit it first, fit_laplace(gpm)",
    "Learner": ": pass its fit, learner.fit",
    "ProbitFit": ": it predicts by itself, fit.predict(X_new)",
}


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
