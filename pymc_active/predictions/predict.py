"""Predict the function and new observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import Source, as_ensemble
from pymc_active.predictions.mixtures import mixture
from pymc_active.support.tables import point_labels, read_inputs


def predict(
    source: Source,
    X_new: Any,
    *,
    method: str = "mgp",
    model: GPModel | None = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    """Predict the function and new observations, including the uncertainty of the hyperparameters.

    Garnett, Osborne & Hennig (2014), section 3; for several models Malkomes & Garnett (2015), eq. 5.

    Parameters
    ----------
    source : LaplaceFit, ModelAverage, dict or list of LaplaceFit, Ensemble, or xarray.DataTree
        Several models are averaged by their posterior probabilities. Predictions from a trace are the exact moments of
        the mixture over all its draws, given the data that ``model``, which a trace needs, holds now.
    X_new : array_like, DataFrame or DataArray, shape (m, D)
        In the user's units. Row labels are kept.
    method : {"mgp", "bbq", "map", "modes", "draws", "cubature"}
        How to marginalise the hyperparameters of a fit. ``"map"`` fixes them at the mode; ``"bbq"`` adds the variance
        of the mean; ``"mgp"`` also that of the variance; ``"modes"`` mixes the MGP predictions of all modes found,
        weighted by evidence. ``"draws"`` and ``"cubature"`` give the exact moments of a mixture of GPs, at draws from
        the posterior or at 2P points around the highest mode; unlike the MGP variance, theirs tends to V, not 4/3 V,
        as the hyperparameters become known. For several models: the exact moments of the mixture of their predictions.
    model, draws, random_seed
        The model of a trace; for ``method="draws"``, draws from the posterior of each fit and a seed.

    Returns
    -------
    xarray.Dataset
        ``f_mean``, ``f_variance`` (of the latent function) and ``y_variance`` (including noise: that of the mode, or
        its mean over the mixture) over ``point``, in units of y and their squares.

    Raises
    ------
    TypeError, ValueError
        For an unknown method, points of the wrong width or with NaN, or a trace without ``model``.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> fit = pma.fit_laplace(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> list(pma.predict(fit, [[0.5], [3.0]]).data_vars)
    ['f_mean', 'f_variance', 'y_variance']
    """
    ensemble = as_ensemble(source, model=model, method=method, draws=draws, random_seed=random_seed, what="predict")
    p = mixture(ensemble, read_inputs(X_new, "X_new", inputs=ensemble.gpm.inputs))
    mean, f_variance = mixture_moments(p.means, p.variances, p.weights)
    return xr.Dataset(
        {
            "f_mean": ("point", mean),
            "f_variance": ("point", f_variance),
            "y_variance": ("point", f_variance + p.weights @ p.noises),
        },
        coords={"point": point_labels(X_new)},
        attrs={"method": ensemble.method},
    )


def posterior_mean(source: Source, X: np.ndarray) -> np.ndarray:
    """Mean (m,) with the hyperparameters at the highest mode, averaged over models if there are several."""
    parts = as_ensemble(source, method="map").parts
    return np.array([part.share for part in parts]) @ np.stack([part.local[0].moments(X).mean for part in parts])
