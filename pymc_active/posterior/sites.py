"""Expectation propagation: outcomes of any likelihood as Gaussian measurements of the latent function, its sites.

With G = K + sites' variances s, alpha = G⁻¹ (z - mean) and g the diagonal of G⁻¹, the function at a row given all
others has the mean z - alpha/g and the variance 1/g - s (Rasmussen & Williams 2006, section 5.4.2). There the outcome
has the Z, slope and bend of :class:`~pymc_active.likelihoods.base.Tilted`; its site matches its moments where slope =
alpha and bend = g. The log evidence, log N(z | mean, G) + Σ log Z - log N(z | all others), does not change with the
sites to the first order: it is right to the square of what they are off, and its derivatives are as of a process
with noise s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_active.likelihoods.base import Likelihood, Phi
from pymc_active.posterior.factor import LOG_2PI, factor_batch

# Error of the log evidence, nats, that ends sweeps: of particles, of their predictions, and of derivatives. Sweeps at
# most. All but the last take the quadrature from where sites say.
ROUGH, FINE, EXACT = 1e-2, 1e-6, 1e-9
_SWEEPS = {ROUGH: 12, FINE: 40, EXACT: 60}


class Sites(NamedTuple):
    """Gaussian measurements z of variances s at the rows, of S particles, (S, n) each."""

    z: np.ndarray
    s: np.ndarray


class Propagated(NamedTuple):
    """What expectation propagation found for S particles: log evidences (S,), sites, and alphas (S, n).

    The lower triangles of ``W`` (S, n, n) hold G⁻¹ - alpha alphaᵀ; ``in_phi`` (S, q) and ``in_power`` (S,) are slopes
    of the log evidence in the likelihood's parameters and its power, and ``error`` (S,) roughly the evidence's error.
    """

    value: np.ndarray
    sites: Sites
    alpha: np.ndarray
    W: np.ndarray
    in_phi: np.ndarray
    in_power: np.ndarray
    error: np.ndarray


def propagate(
    K: np.ndarray, mean: np.ndarray, likelihood: Likelihood, y: np.ndarray, size: np.ndarray, phi: Phi,
    start: Sites | None = None, tolerance: float = ROUGH, power: float = 1.0,
) -> Propagated:  # fmt: skip
    """Sites for prior covariances K (S, n, n), whose lower triangles count, and means (S, n).

    ``phi`` are columns (S, 1). Sweeps go on until the log evidence is right to the ``tolerance``. The likelihood is
    taken to a ``power``.
    """
    S, n = mean.shape
    if start is None:
        z, s = (np.array(np.broadcast_to(part, (S, n))) for part in likelihood.guess(y, size, phi))
        s /= power
    else:
        z, s = start.z.copy(), start.s.copy()
    diagonal = np.arange(n)
    prior = K[:, diagonal, diagonal]
    s = np.clip(s, 1e-12 * prior, likelihood.worthless * prior)
    out = Propagated(
        np.full(S, np.nan),
        Sites(z, s),
        np.zeros((S, n)),
        np.empty((S, n, n)),
        np.zeros((S, len(phi))),
        np.zeros(S),
        np.full(S, np.inf),
    )
    left, share = np.arange(S), np.full(S, likelihood.shares[0])
    for _ in range(likelihood.sweeps * _SWEEPS[tolerance]):
        at, m, v = Sites(z[left], s[left]), mean[left], prior[left]
        of = [part[left] for part in phi]
        # LAPACK overwrites matrices in C's order only.
        W = np.array(K[left], order="C")
        W[:, diagonal, diagonal] += at.s
        residual = at.z - m
        alpha, log_root = factor_batch(W, residual, gradient=True)
        g = W[:, diagonal, diagonal] + np.square(alpha)
        cavity = np.maximum(1 / g - at.s, 1e-12 * v)
        # Sites that are nearly right say where the quadrature has to look.
        near = (at.z - at.s * alpha, at.s * np.maximum(1 - at.s * g, 1e-12)) if tolerance > EXACT else None
        told = likelihood.tilted(at.z - alpha / g, cavity, y, size, of, near, power)
        # An outcome far from all others may widen the function, which no measurement does: it is ignored then.
        bend = np.maximum(told.bend, 1 / (cavity + likelihood.worthless * v))
        error = 0.5 * (cavity * g * (np.square(told.slope - alpha) / g + 0.5 * np.square(bend / g - 1))).sum(1)
        each = told.log_z + 0.5 * (LOG_2PI - np.log(g) + np.square(alpha) / g)
        out.value[left] = each.sum(1) - 0.5 * np.einsum("sn,sn->s", residual, alpha) - log_root - 0.5 * n * LOG_2PI
        out.alpha[left], out.W[left] = alpha, W
        out.in_power[left] = np.broadcast_to(told.in_power, at.z.shape).sum(1)
        for k, part in enumerate(told.in_phi):
            out.in_phi[left, k] = part.sum(1)
        # Where updates of all sites at once overshoot, smaller ones converge.
        is_worse = error > out.error[left]
        share[left] = np.where(is_worse, np.maximum(0.6 * share[left], likelihood.shares[1]), share[left])
        out.error[left] = error
        going = error > tolerance
        if not going.any():
            break
        new_s = np.clip(1 / bend - cavity, 1e-12 * v, likelihood.worthless * v)
        new_z = at.z - alpha / g + told.slope / bend
        # In natural parameters.
        w = share[left, None]
        precision = w / new_s + (1 - w) / at.s
        shift = w * new_z / new_s + (1 - w) * at.z / at.s
        z[left[going]], s[left[going]] = (shift / precision)[going], (1 / precision)[going]
        left = left[going]
    return out
