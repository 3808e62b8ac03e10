"""Compare the predictions of a fit with those of a reference."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import ndtri

from pymc_active.checking.reference import Subject
from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.resampling import systematic
from pymc_active.information.mixture_entropy import mixture_moments, mixture_symmetrized_kl, symmetrized_kl
from pymc_active.information.mixture_quantiles import mixture_log_density
from pymc_active.predictions.mixtures import Mixture, mixture

# Components of the reference in an integral for every point, each with an outcome at which densities are compared;
# outcomes at all points together suffice for their mean.
_COMPONENTS, _FEWEST, _OUTCOMES = 400, 50, 20_000


def compare_predictions(
    fit: Subject, X: np.ndarray, labels: np.ndarray, p: Mixture, observed: np.ndarray | None
) -> xr.Dataset:
    """The group ``predictions`` of :func:`pymc_active.check`; ``p`` are the predictions of the reference at X."""
    true_mean, true_variance = mixture_moments(p.means, p.variances, p.weights)
    true_y_variance = true_variance + p.weights @ p.noises
    thin = systematic(p.weights, min(_COMPONENTS, len(p.weights)))
    equal = np.full(len(thin), 1 / len(thin))
    n_outcomes = int(np.clip(_OUTCOMES // len(X), _FEWEST, len(thin)))
    y = _outcomes(p, systematic(p.weights, n_outcomes)) if observed is None else observed[None]
    approximations = {fit.method: fit} if isinstance(fit, Ensemble) else fit.approximations
    rows: dict[str, list[np.ndarray]] = {}
    for ensemble in approximations.values():
        q = mixture(ensemble, X)
        mean, variance = mixture_moments(q.means, q.variances, q.weights)
        y_variance = variance + q.weights @ q.noises
        # A draw without noise knows the function at a data point, and a spike cannot be compared with a density.
        spread = np.maximum(p.variances[thin], 1e-8 * variance)
        found = {
            "skl": symmetrized_kl(true_mean, true_variance, mean, variance),
            "skl_mixture": mixture_symmetrized_kl(p.means[thin], spread, equal, mean, variance),
            "skl_y": symmetrized_kl(true_mean, true_y_variance, mean, y_variance),
            "nll": _negative_log_density(y, q),
            "f_mean": mean,
            "f_variance": variance,
            "y_variance": y_variance,
        }
        for name, values in found.items():
            rows.setdefault(name, []).append(values)
    truth = {
        "true_nll": _negative_log_density(y, p),
        "true_f_mean": true_mean,
        "true_f_variance": true_variance,
        "true_y_variance": true_y_variance,
    }
    return xr.Dataset(
        {
            **{name: (("approximation", "point"), np.stack(values)) for name, values in rows.items()},
            **{name: ("point", values) for name, values in truth.items()},
        },
        coords={"approximation": list(approximations), "point": labels},
        attrs={"units": "nats", "units_of_moments": "those of y and their squares"},
    )


def _outcomes(p: Mixture, thin: np.ndarray) -> np.ndarray:
    """Outcomes (T, m) under the reference: of each component one, at a random place of strata in random order."""
    rng, n = np.random.default_rng(0), len(thin)
    strata = np.stack([rng.permutation(n) for _ in range(p.means.shape[1])], axis=1)
    quantiles = ndtri((strata + rng.uniform(size=strata.shape)) / n)
    return p.means[thin] + np.sqrt(p.variances[thin] + p.noises[thin]) * quantiles


def _negative_log_density(y: np.ndarray, q: Mixture) -> np.ndarray:
    """Minus the mean log density of outcomes y (T, m) under predictions, (m,)."""
    variances = q.variances + q.noises
    return -np.mean([mixture_log_density(one, q.means, variances, q.weights) for one in y], axis=0)
