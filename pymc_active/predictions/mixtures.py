"""The predictive mixture of an ensemble: a Gaussian at each point for each of its members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_active.inference.ensemble import Ensemble
from pymc_active.predictions.moments import (
    Gradients,
    PredictiveMoments,
    draw_gradients,
    draw_moments,
    marginal_moments,
    plug_in_gradients,
)


class Mixture(NamedTuple):
    """S Gaussians at each of m points.

    Latent ``means`` and ``variances`` and ``noises`` (noise variances) are (S, m); ``conditional`` (S, m) is the latent
    variance left once a component and its hyperparameters are known. ``weights`` and ``owner``, the number of the
    component's model, are (S,).
    """

    means: np.ndarray
    variances: np.ndarray
    conditional: np.ndarray
    noises: np.ndarray
    weights: np.ndarray
    owner: np.ndarray


def mixture(ensemble: Ensemble, X_new: np.ndarray) -> Mixture:
    """The predictive mixture at points (m, D) in the user's units."""
    moments = []
    for part in ensemble.parts:
        if part.local:
            moments += [marginal_moments(one, X_new, part.rule) for one in part.local]
        else:
            means, variances, noises = draw_moments(part.space.posterior, part.z, X_new)
            moments.append(PredictiveMoments(means, variances, variances, noises))
    return _joined(ensemble, moments)


def mixture_gradients(ensemble: Ensemble, X_new: np.ndarray) -> tuple[Mixture, Gradients] | None:
    """:func:`mixture` with derivatives in the inputs, (S, m, D) each; None without formulas for them.

    There are none for the variances of the marginal GP, and for some models.
    """
    moments, gradients = [], []
    for part in ensemble.parts:
        if part.local and part.rule != "map":
            return None
        several = [plug_in_gradients(one, X_new) for one in part.local]
        for derivatives in several or [draw_gradients(part.space.posterior, part.z, X_new)]:
            if derivatives is None:
                return None
            moments.append(derivatives[0])
            gradients.append([slope.reshape(-1, *X_new.shape) for slope in derivatives[1]])
    mean, variance, plug_in = map(np.concatenate, zip(*gradients, strict=True))
    return _joined(ensemble, moments), Gradients(mean, variance, _left(ensemble)[:, None, None] * plug_in)


def _joined(ensemble: Ensemble, moments: list[PredictiveMoments]) -> Mixture:
    owner = np.repeat([part.owner for part in ensemble.parts], [len(part.z) for part in ensemble.parts])
    means, variances, plug_in, noises = map(np.vstack, zip(*moments, strict=True))
    return Mixture(means, variances, _left(ensemble)[:, None] * plug_in, noises, ensemble.weights, owner)


def _left(ensemble: Ensemble) -> np.ndarray:
    """The variance left once a component and its hyperparameters are known, over the plug-in variance, (S,)."""
    # In a mixture the factor in eq. 19 of Garnett et al. remains even when the hyperparameters are known.
    factors = [4 / 3 if part.rule == "mgp" and not ensemble.is_gaussian else 1.0 for part in ensemble.parts]
    return np.repeat(factors, [len(part.z) for part in ensemble.parts])
