"""Bandwidth, signal and noise variance of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

_LENGTHSCALES = ("lengthscale", "lengthscale_SE", "ls")


def scales_of_model(model: GPModel | Fit, bandwidth: Any = None) -> dict[str, Any]:
    """Keywords of :func:`hds`, in the user's units: the scales at the highest mode or particle of a fit, and n_dims.

    The signal variance is the mean prior variance over the data. A model is fitted first, without warnings.
    """
    if not isinstance(model, GPModel | Fit):
        raise TypeError(f"model must be a GPModel or a fit; got {type(model).__name__}")
    with ignoring(DoubtfulFitWarning):
        fit = fit_laplace(model, random_seed=0, progressbar=False) if isinstance(model, GPModel) else model
    n_dims = fit.X.shape[1]
    if bandwidth is None:
        point = fit.constrained_center
        name = next((name for name in _LENGTHSCALES if name in point), None)
        if name is None:
            raise ValueError(
                f"the model has no variable {' or '.join(_LENGTHSCALES)}, but {', '.join(sorted(point))}: pass "
                "bandwidth=, which is √2 times the lengthscale of the squared exponential kernel"
            )
        lengthscale = np.asarray(point[name], float)
        bandwidth = np.sqrt(2) * (lengthscale if lengthscale.shape == (n_dims,) else lengthscale.min())
        bandwidth = float(bandwidth) if np.ndim(bandwidth) == 0 else bandwidth
    moments = fit.posterior.moments(fit.posterior.state(fit.center), fit.X)
    signal, noise = float(moments.prior_variance.mean()), float(moments.noise_variance.mean())
    return {"n_dims": n_dims, "bandwidth": bandwidth, "signal_variance": signal, "noise_variance": noise}
