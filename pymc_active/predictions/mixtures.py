"""Predictions: hyperparameters fixed (MAP), marginalised (BBQ, MGP), or averaged over modes, draws and models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.moments import (
    Gradients,
    Predictive,
    _all_known,
    draw_moments,
    marginal_gradients,
    marginal_moments,
)

GAUSSIAN_METHODS = ("map", "bbq", "mgp")
MIXTURE_METHODS = ("modes", "draws", "cubature")
METHODS = GAUSSIAN_METHODS + MIXTURE_METHODS


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
    method = method if len(source.best.z) else "map"
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
    return np.concatenate([best.z + axes, best.z - axes])


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
    method = method if len(source.best.z) else "map"
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
