"""The predictive mixture of an ensemble: a Gaussian at each point for each of its members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_active.inference.ensemble import Ensemble, Part
from pymc_active.predictions.moments import (
    Gradients,
    PredictiveMoments,
    draw_gradients,
    draw_moments,
    marginal_gradients,
    marginal_moments,
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
    return _joined(ensemble, [_components(part, X_new) for part in ensemble.parts])


def mixture_gradients(ensemble: Ensemble, X_new: np.ndarray) -> tuple[Mixture, Gradients] | None:
    """:func:`mixture` with derivatives in the inputs, (S, m, D) each; None if a model has no formulas for them."""
    found = []
    for part in ensemble.parts:
        known = _component_gradients(part, X_new)
        if known is None:
            return None
        found.append(known)
    components, gradients = zip(*found, strict=True)
    return _joined(ensemble, list(components)), Gradients(*map(np.concatenate, zip(*gradients, strict=True)))


# Means, variances, conditional and noise variances of the members of a part, (k, m) each.
type _Components = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _joined(ensemble: Ensemble, components: list[_Components]) -> Mixture:
    owner = np.repeat([part.owner for part in ensemble.parts], [len(part.z) for part in ensemble.parts])
    means, variances, conditional, noises = map(np.concatenate, zip(*components, strict=True))
    return Mixture(means, variances, conditional, noises, ensemble.weights, owner)


def _components(part: Part, X_new: np.ndarray) -> _Components:
    if part.local:
        return _of_gaussians([marginal_moments(one, X_new, part.rule) for one in part.local], part.rule)
    means, variances, noises = draw_moments(part.space.posterior, part.z, X_new)
    return means, variances, variances, noises


def _component_gradients(part: Part, X_new: np.ndarray) -> tuple[_Components, Gradients] | None:
    if not part.local:
        found = draw_gradients(part.space.posterior, part.z, X_new)
        if found is None:
            return None
        (means, variances, noises), gradients = found
        return (means, variances, variances, noises), gradients
    known = []
    for one in part.local:
        both = marginal_gradients(one, X_new, part.rule)
        if both is None:
            return None
        known.append(both)
    inputs = [Gradients(g.mean, g.variance, _floor(part.rule) * g.plug_in) for _, g in known]
    return _of_gaussians([p for p, _ in known], part.rule), Gradients(*map(np.stack, zip(*inputs, strict=True)))


def _floor(rule: str) -> float:
    # The factor in eq. 19 of Garnett et al. remains even when the hyperparameters are known.
    return 4 / 3 if rule == "mgp" else 1.0


def _of_gaussians(parts: list[PredictiveMoments], rule: str) -> _Components:
    return (
        np.stack([p.mean for p in parts]),
        np.stack([p.variance for p in parts]),
        np.stack([_floor(rule) * p.plug_in for p in parts]),
        np.stack([p.noise for p in parts]),
    )
