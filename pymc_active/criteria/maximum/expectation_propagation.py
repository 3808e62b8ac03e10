"""Expectation propagation for a Gaussian truncated to positive coordinates.

Sequential and undamped, in natural parameters, for many small Gaussians at once. The paper's appendix B.2 has two
slips: for a site 𝕀[z < 0] its κ is (φ/Φ + α)/√v, and the tilted variance is v - v² [(∂ log Z/∂m)² - 2 ∂ log Z/∂v].
Here every site is an 𝕀[z > bound] or its soft version Φ((z - bound) / sd), so that one formula serves all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx

_MAX_SWEEPS = 100
# The iteration stops at this change of the means, in sds, and of the log variances.
_TOLERANCE = 1e-8
# Below this the hazard's variance is taken from its asymptotic series.
_FAR = -50.0


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
