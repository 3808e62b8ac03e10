"""Compare predictions of the fast approximations with those of the trace."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_active.information.mixture_entropy import mixture_moments, mixture_symmetrized_kl, symmetrized_kl
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.mixtures import mixture

APPROXIMATIONS = ("map", "bbq", "mgp", "modes", "draws")
# Mixture components in an integral over a grid for every point.
_COMPONENTS = 400


def evenly(n: int, largest: int = _COMPONENTS) -> np.ndarray:
    """Positions of up to ``largest`` of n draws, evenly spaced."""
    return np.linspace(0, n - 1, min(n, largest)).astype(int)


def compare_predictions(
    fit: LaplaceFit,
    X: np.ndarray,
    labels: np.ndarray,
    draws: tuple[np.ndarray, np.ndarray, np.ndarray],
    observed: np.ndarray | None,
) -> xr.Dataset:
    """The group ``predictions`` of :func:`pymc_active.check`.

    ``draws`` are latent means, latent variances and noise variances at the trace's draws, (S, m) each.
    """
    means, variances, noises = draws
    weights = np.full(len(means), 1 / len(means))
    true_mean, true_variance = mixture_moments(means, variances, weights)
    true_y_variance = true_variance + weights @ noises
    thin = evenly(len(means))
    thinned_weights = np.full(len(thin), 1 / len(thin))
    rows: dict[str, list[np.ndarray]] = {}
    for method in APPROXIMATIONS:
        q = mixture(as_ensemble(fit, method=method, random_seed=0), X)
        mean, variance = mixture_moments(q.means, q.variances, q.weights)
        y_variance = variance + q.weights @ q.noises
        # A draw without noise knows the function at a data point, and a spike cannot be compared with a density.
        spread = np.maximum(variances[thin], 1e-8 * variance)
        error = true_y_variance + (true_mean - mean) ** 2 if observed is None else (observed - mean) ** 2
        found = {
            "skl": symmetrized_kl(true_mean, true_variance, mean, variance),
            "skl_mixture": mixture_symmetrized_kl(means[thin], spread, thinned_weights, mean, variance),
            "skl_y": symmetrized_kl(true_mean, true_y_variance, mean, y_variance),
            "nll": 0.5 * (LOG_2PI + np.log(y_variance) + error / y_variance),
            "f_mean": mean,
            "f_variance": variance,
            "y_variance": y_variance,
        }
        for name, values in found.items():
            rows.setdefault(name, []).append(values)
    truth = {"true_f_mean": true_mean, "true_f_variance": true_variance, "true_y_variance": true_y_variance}
    return xr.Dataset(
        {
            **{name: (("approximation", "point"), np.stack(values)) for name, values in rows.items()},
            **{name: ("point", values) for name, values in truth.items()},
        },
        coords={"approximation": list(APPROXIMATIONS), "point": labels},
        attrs={"units": "nats", "units_of_moments": "those of y and their squares"},
    )
