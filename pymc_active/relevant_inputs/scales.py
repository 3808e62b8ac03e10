"""Bandwidth, signal and noise variance of a fitted model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

_LENGTHSCALES = ("lengthscale", "lengthscale_SE", "ls")


class ModelScales(NamedTuple):
    """Scales of f, in the user's units."""

    n_dims: int
    bandwidth: Any
    signal_variance: float
    noise_variance: float


def as_fit(model: Any, what: str = "model") -> LaplaceFit:
    """The fit, or that of a model without its doubts; other objects are refused by name."""
    if isinstance(model, GPModel):
        with ignoring(DoubtfulFitWarning):
            model = fit_laplace(model, random_seed=0, progressbar=False)
    if not isinstance(model, LaplaceFit):
        raise TypeError(f"{what} must be a GPModel or a LaplaceFit; got {type(model).__name__}")
    return model


def scales_of_model(model: GPModel | LaplaceFit, bandwidth: Any = None) -> ModelScales:
    """Scales at the mode of a fit; a model is fitted first, and needs no lengthscale if the bandwidth is given.

    The signal variance is its mean prior variance over the data, without the mean function.
    """
    fit = as_fit(model)
    n_dims = fit.X.shape[1]
    if bandwidth is None:
        point = fit.constrained_point
        name = next((name for name in _LENGTHSCALES if name in point), None)
        if name is None:
            raise ValueError(
                f"the model has no variable {' or '.join(_LENGTHSCALES)}, but {', '.join(sorted(point))}: pass "
                "bandwidth=, which is √2 times the lengthscale of the squared exponential kernel"
            )
        lengthscale = np.asarray(point[name], float)
        bandwidth = np.sqrt(2) * (lengthscale if lengthscale.shape == (n_dims,) else lengthscale.min())
        bandwidth = float(bandwidth) if np.ndim(bandwidth) == 0 else bandwidth
    moments = fit.best.moments(fit.X)
    return ModelScales(n_dims, bandwidth, float(moments.prior_variance.mean()), float(moments.noise_variance.mean()))
