"""Predict outcomes of any PyMC model: moments, quantiles and log densities of the mixture over particles."""

from __future__ import annotations

import numpy as np

from pymc_active.process.members import Members
from pymc_active.support.threads import one_blas_thread

# Draws of an outcome in all, and numbers of an array.
DRAWS, _BLOCK = 8192, 4_000_000


def predicted_outcomes(
    members: Members, X: np.ndarray, probabilities: np.ndarray | None, y: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The variables of :func:`pymc_active.predict` at X (m, D), with the points last."""
    n = max(1, _BLOCK // DRAWS)
    with one_blas_thread():
        blocks = [
            _predicted(members, X[k : k + n], probabilities, None if y is None else y[k : k + n])
            for k in range(0, len(X), n)
        ]
    return {name: np.concatenate([block[name] for block in blocks], axis=-1) for name in blocks[0]}


def _predicted(
    members: Members, X: np.ndarray, probabilities: np.ndarray | None, y: np.ndarray | None
) -> dict[str, np.ndarray]:
    w = members.weights
    predicted: dict[str, np.ndarray] = {}
    shifts = np.arange(max(1, DRAWS // len(w)))
    draws = np.concatenate([members.draw(X, int(shift)) for shift in shifts])
    weights = np.tile(w, len(shifts)) / len(shifts)
    if all(process.has_mean for process in members.processes):
        means = members.means(X)
        mean = w @ means
        predicted |= {"f_mean": mean, "f_variance": w @ np.square(means - mean)}
        if probabilities is not None:
            predicted["f_quantile"] = weighted_quantiles(means, w, probabilities)
        predicted |= {"y_mean": mean, "y_variance": weights @ np.square(draws - mean)}
    if probabilities is not None:
        predicted["y_quantile"] = weighted_quantiles(draws, weights, probabilities)
    if y is not None:
        predicted["y_log_density"] = members.log_mean(members.log_densities(y[None], X))[0]
    return predicted


def weighted_quantiles(draws: np.ndarray, weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Weighted quantiles (q, m) of draws (S, m), values that were drawn."""
    weights = np.broadcast_to(weights[:, None], draws.shape)
    return np.quantile(draws, probabilities, axis=0, weights=weights, method="inverted_cdf")
