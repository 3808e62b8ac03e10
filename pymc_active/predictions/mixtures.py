"""Predictive moments of one model, and the mixture of an ensemble: a Gaussian at each point for each member."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pymc_active.inference.ensemble import Ensemble, LocalGaussian
from pymc_active.posterior.base import InputGradients, Moments, Posterior, State
from pymc_active.support.tables import blocks
from pymc_active.support.threads import one_blas_thread

# Predictive variances below this fraction of the prior plus noise variance are rounding errors.
_SMALLEST_VARIANCE = 1e-10
# Bytes of all factorisations kept, such as 24 of 1,000 points; but that many of any size, as fits to many points have.
_BYTES, _LEAST = 3 * 2**27, 16

_kept: WeakKeyDictionary[Posterior, dict[bytes, State]] = WeakKeyDictionary()
_lock = Lock()


class PredictiveMoments(NamedTuple):
    """Latent mean and variance, plug-in variance (hyperparameters fixed at the mode) and noise variance, (m,) each."""

    mean: np.ndarray
    variance: np.ndarray
    plug_in: np.ndarray
    noise: np.ndarray


def marginal_moments(gaussian: LocalGaussian, X_new: np.ndarray, method: str = "mgp") -> PredictiveMoments:
    """Moments at points (m, D) under the Gaussian approximation of one mode, in units of y and their squares.

    The latent variance is V for ``"map"``, V + ∂mᵀΣ∂m for ``"bbq"`` (Osborne et al. 2012) and 4/3 V + ∂mᵀΣ∂m + ∂VᵀΣ∂V /
    (3V) for ``"mgp"`` (Garnett, Osborne & Hennig 2014, eq. 19); all equal V if no parameter is free. V is kept above
    1e-10 of the prior plus noise variance, so that the last term is never 0/0.
    """
    m = len(X_new)
    out = PredictiveMoments(*(np.empty(m) for _ in range(4)))
    root = gaussian.root
    method = method if len(root) else "map"
    width = max(len(gaussian.state.factor.alpha), len(root) if method != "map" else 1, X_new.shape[1] // 8)
    # Blocks are too small for several threads to pay.
    with one_blas_thread():
        for rows in blocks(m, width):
            moments = gaussian.moments(X_new[rows], gradient=method != "map")
            for whole, part in zip(out, _marginalize(moments, root, method), strict=True):
                whole[rows] = part
    return out


def _marginalize(moments: Moments, root: np.ndarray, method: str) -> PredictiveMoments:
    floor = _SMALLEST_VARIANCE * (moments.prior_variance + moments.noise_variance) + np.finfo(float).tiny
    V = np.maximum(moments.variance, floor)
    variance = V
    if method != "map":
        spread = np.square(moments.mean_gradient @ root).sum(1)
        variance = V + spread
    if method == "mgp":
        variance = 4 / 3 * V + spread + np.square(moments.variance_gradient @ root).sum(1) / (3 * V)
    return PredictiveMoments(moments.mean, variance, V, moments.noise_variance)


def plug_in_gradients(gaussian: LocalGaussian, X_new: np.ndarray) -> tuple[PredictiveMoments, InputGradients] | None:
    """:func:`marginal_moments` with the hyperparameters at the mode, and their derivatives in the inputs, if known."""
    derivatives = gaussian.posterior.moments_and_slopes(gaussian.state, X_new)
    if derivatives is None:
        return None
    moments, slopes = derivatives
    return _marginalize(moments, gaussian.root, "map"), slopes


def draw_moments(
    posterior: Posterior, thetas: np.ndarray, X_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latent mean and variance and the noise variance for each draw of theta, (S, m) each."""
    S, m = len(thetas), len(X_new)
    means, variances, noises = np.empty((S, m)), np.empty((S, m)), np.empty((S, m))
    with one_blas_thread():
        for s, state in enumerate(_states(posterior, thetas)):
            for rows in blocks(m, max(len(state.factor.alpha), X_new.shape[1] // 8)):
                moments = posterior.moments(state, X_new[rows])
                means[s, rows], noises[s, rows] = moments.mean, moments.noise_variance
                variances[s, rows] = np.maximum(moments.variance, 0.0)
    return means, variances, noises


def _states(posterior: Posterior, thetas: np.ndarray) -> Iterator[State]:
    """Factorisations at thetas (S, P), so many at a time as are kept."""
    step = most_kept(len(posterior.y))
    for start in range(0, len(thetas), step):
        yield from kept_states(posterior, thetas[start : start + step])


def _bytes(n: int) -> int:
    # L and its inverse.
    return 16 * n * n


def most_kept(n: int) -> int:
    """How many factorisations of n points are kept."""
    return max(_BYTES // _bytes(max(n, 1)), _LEAST)


def kept_states(posterior: Posterior, thetas: np.ndarray) -> list[State]:
    """:meth:`~pymc_active.posterior.base.Posterior.light_states`, made once if there is room for them."""
    keys, n = [theta.tobytes() for theta in thetas], len(posterior.y)
    before = _kept.get(posterior, {})
    missing = {key: row for row, key in enumerate(keys) if key not in before}
    made = dict(zip(missing, posterior.light_states(thetas[list(missing.values())]), strict=True)) if missing else {}
    kept = [before[key] if key in before else made[key] for key in keys]
    with _lock:
        # Other posteriors give way; of this one the first draws stay, which come first the next time, too.
        if sum(_bytes(len(other.y)) * len(states) for other, states in _kept.items()) + _bytes(n) * len(made) > _BYTES:
            for other in [other for other in _kept if other is not posterior]:
                del _kept[other]
        states = _kept.setdefault(posterior, {})
        for key in list(made)[: max(most_kept(n) - len(states), 0)]:
            states[key] = made[key]
    return kept


def draw_gradients(
    posterior: Posterior, thetas: np.ndarray, X_new: np.ndarray
) -> tuple[PredictiveMoments, InputGradients] | None:
    """:func:`draw_moments` with derivatives in the inputs, (S, m, D) each; None if there are no formulas."""
    moments, inputs = [], []
    for state in _states(posterior, thetas):
        derivatives = posterior.moments_and_slopes(state, X_new)
        if derivatives is None:
            return None
        moments.append(derivatives[0])
        inputs.append(derivatives[1])
    variances = np.maximum([m.variance for m in moments], 0.0)
    means, noises = np.stack([m.mean for m in moments]), np.stack([m.noise_variance for m in moments])
    slopes = InputGradients(*map(np.stack, zip(*inputs, strict=True)))
    return PredictiveMoments(means, variances, variances, noises), slopes


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


def mixture_gradients(ensemble: Ensemble, X_new: np.ndarray) -> tuple[Mixture, InputGradients] | None:
    """:func:`mixture` with derivatives in the inputs, (S, m, D) each; None for a marginal GP and for some models."""
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
    return _joined(ensemble, moments), InputGradients(*map(np.concatenate, zip(*gradients, strict=True)))


def _joined(ensemble: Ensemble, moments: list[PredictiveMoments]) -> Mixture:
    sizes = [len(part.z) for part in ensemble.parts]
    means, variances, plug_in, noises = map(np.vstack, zip(*moments, strict=True))
    # In a mixture the factor in eq. 19 of Garnett et al. remains even when the hyperparameters are known.
    factors = [4 / 3 if part.rule == "mgp" and not ensemble.is_gaussian else 1.0 for part in ensemble.parts]
    left = np.repeat(factors, sizes)[:, None] * plug_in
    return Mixture(
        means, variances, left, noises, ensemble.weights, np.repeat([p.owner for p in ensemble.parts], sizes)
    )
