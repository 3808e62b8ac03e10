"""Moments of a Gaussian truncated to positive coordinates, by expectation propagation and by quasi-random draws.

Expectation propagation is sequential and undamped, in natural parameters, for many small Gaussians at once. The paper's
appendix B.2 has two slips: for a site 𝕀[z < 0] its κ is (φ/Φ + α)/√v, and the tilted variance is v - v² [(∂ log Z/∂m)²
- 2 ∂ log Z/∂v]. Here every site is an 𝕀[z > bound] or its soft version Φ((z - bound) / sd), so that one formula serves
all. It counts shared information twice: its variances are 5 to 20 % too small for strongly correlated coordinates, such
as height and curvature at a maximum of few inputs.

By draws each coordinate is drawn from its truncated normal given those before it, weighted by the remaining probability
(Geweke 1991; Hajivassiliou & McFadden 1998; Keane 1994).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri, ndtri_exp, softmax

_MAX_SWEEPS = 100
# The iteration stops at this change of the means, in sds, and of the log variances.
_TOLERANCE = 1e-8
# Below this the hazard's variance is taken from its asymptotic series.
_FAR = -50.0
# Draws for up to three coordinates, and for more; the effective number wanted, and the most draws to reach it.
_DRAWS, _MORE_DRAWS, _EFFECTIVE, _MOST = 512, 2048, 256, 8192
# Smallest share of a coordinate's variance that the others leave it.
_DEPENDENT = 1e-12


class Sites(NamedTuple):
    """Gaussian approximations of the sites, and the resulting moments: (S, k), and (S, k, k) for ``covariance``.

    Natural parameters of a site are ``precision`` (1 / variance) and ``shift`` (mean / variance).
    """

    precision: np.ndarray
    shift: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    converged: np.ndarray
    n_sweeps: int


def hazard(alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean r = φ(α) / Φ(α) and variance 1 - r (r + α) of a standard normal cut off below -α, to nine digits."""
    # Beyond 100 nothing is cut off.
    alpha = np.minimum(alpha, 100.0)
    r = np.sqrt(2 / np.pi) / erfcx(-alpha / np.sqrt(2))
    square = 1 / np.square(np.minimum(alpha, _FAR))
    series = square * (1 - square * (6 - square * (50 - 518 * square)))
    return r, np.where(alpha < _FAR, series, 1 - r * (r + alpha))


def propagate(mean: np.ndarray, covariance: np.ndarray, bound: np.ndarray, softness: np.ndarray) -> Sites:
    """Moments of N(mean, covariance) times Π Φ((z_i - bound_i) / √softness_i).

    All arguments are (S, k), but ``covariance`` (S, k, k). A ``bound`` of -inf is no site; ``softness`` is a variance,
    0 for a hard bound. Failed problems hold NaN; nothing is raised. Hernandez-Lobato, Hoffman & Ghahramani (2014),
    appendix B.2.
    """
    S, k = mean.shape
    precision, shift = np.zeros((S, k)), np.zeros((S, k))
    m, V = mean.copy(), covariance.copy()
    converged = np.zeros((S, k), bool)
    n_sweeps = 0
    with np.errstate(all="ignore"):
        while n_sweeps < _MAX_SWEEPS and not converged.all():
            n_sweeps += 1
            for i in range(k):
                v = V[:, i, i]
                # The cavity, written so that a site without information costs nothing.
                keep = 1 - v * precision[:, i]
                cavity_v = v / keep
                cavity_m = (m[:, i] - v * shift[:, i]) / keep
                total = cavity_v + softness[:, i]
                # A site on a coordinate without variance has no effect.
                total = np.where(total == 0, 1.0, total)
                r, left = hazard((cavity_m - bound[:, i]) / np.sqrt(total))
                ratio = cavity_v / total
                new_precision = (1 - left) / total / (1 - ratio + ratio * left)
                rise = r / np.sqrt(total)
                new_shift = (cavity_m + cavity_v * rise) * new_precision + rise
                change, turn = new_precision - precision[:, i], new_shift - shift[:, i]
                grown = 1 + change * v
                old_m, old_v = m[:, i].copy(), v.copy()
                column = V[:, :, i].copy()
                m += ((turn - change * old_m) / grown)[:, None] * column
                V -= (change / grown)[:, None, None] * column[:, :, None] * column[:, None, :]
                precision[:, i], shift[:, i] = new_precision, new_shift
                same_mean = np.abs(m[:, i] - old_m) <= _TOLERANCE * np.sqrt(old_v)
                converged[:, i] = same_mean & (np.abs(V[:, i, i] - old_v) <= _TOLERANCE * old_v)
    return Sites(precision, shift, m, V, converged, n_sweeps)


def truncated_moments(
    mean: np.ndarray, covariance: np.ndarray, bound: np.ndarray, softness: np.ndarray, n: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moments of N(mean, covariance) times Π Φ((z_i - bound_i) / √softness_i), with the arguments of :func:`propagate`.

    Returns M (S, k, k), h (S, k) and the effective number of draws (S,): the mean moves by ``covariance @ h``, and the
    covariance loses ``covariance @ M @ covariance``. Coordinates without variance need bounds of -inf. ``n`` draws, a
    power of two: by default 512 for up to three coordinates, else 2,048; to 8,192 where fewer than 256 are effective.
    """
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    S, k = mean.shape
    n = n or (_DRAWS if k <= 3 else _MORE_DRAWS)
    # A fixed quadrature rule; each coordinate has one point in the middle of each n-th. A point nearer to zero would
    # alone decide the variance of a tail.
    uniform = (np.floor(n * qmc.Sobol(k, rng=0).random_base2(n.bit_length() - 1)) + 0.5) / n
    log_uniform = np.log(uniform)
    # Bounds are for noisy values w = z + noise.
    diagonal = np.arange(k)
    W = covariance.copy()
    W[:, diagonal, diagonal] += softness
    W[:, diagonal, diagonal] += W[:, diagonal, diagonal] == 0
    L = _cholesky(W)
    standard, log_weight = np.empty((k, S, n)), np.zeros((S, n))
    for i in range(k):
        limits = (mean[:, i] - bound[:, i])[:, None] + np.einsum("jsn,sj->sn", standard[:i], L[:, i, :i])
        log_share = log_ndtr(limits / L[:, i, i, None])
        log_weight += log_share
        standard[i] = -ndtri_exp(log_share + log_uniform[:, i])
    weight = softmax(log_weight, axis=1)
    first, second = _moments(standard.transpose(1, 2, 0), weight)
    # Control variate: the errors of untruncated draws, whose moments are known, are about the same in sds.
    free_mean, free = _moments(-ndtri(uniform)[None], np.full((1, n), 1 / n))
    sd = np.sqrt(second[:, diagonal, diagonal] / free[:, diagonal, diagonal])
    first = first - sd * free_mean
    second = second - sd[:, :, None] * sd[:, None] * (free - np.eye(k))
    backwards = L.transpose(0, 2, 1)
    half = np.linalg.solve(backwards, np.eye(k) - second)
    M = np.linalg.solve(backwards, half.transpose(0, 2, 1))
    h = np.linalg.solve(backwards, first[:, :, None])[:, :, 0]
    effective = 1 / np.square(weight).sum(1)
    few = np.flatnonzero(effective < _EFFECTIVE)
    if len(few) and n < _MOST:
        M[few], h[few], effective[few] = truncated_moments(mean[few], covariance[few], bound[few], softness[few], 4 * n)
    return M, h, effective


def _moments(z: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (S, k) and covariance (S, k, k) of weighted draws (S, n, k)."""
    mean = np.einsum("sn,snk->sk", weight, z)
    z = z - mean[:, None]
    return mean, (z * weight[:, :, None]).transpose(0, 2, 1) @ z


def _cholesky(V: np.ndarray) -> np.ndarray:
    """Lower factors of many small matrices, also of nearly singular ones."""
    L = np.zeros(V.shape)
    for i in range(V.shape[1]):
        left = V[:, i:, i] - np.einsum("sji,si->sj", L[:, i:, :i], L[:, i, :i])
        L[:, i:, i] = left / np.sqrt(np.maximum(left[:, 0], _DEPENDENT * V[:, i, i]))[:, None]
    return L
