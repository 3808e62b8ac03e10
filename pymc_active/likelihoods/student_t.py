"""Real numbers with heavy tails: f plus ``exp(log_noise)`` times a variable of Student's t distribution."""

from __future__ import annotations

from typing import Any, override

import numpy as np
import pymc as pm
from scipy.special import digamma, gammaln, stdtrit

from pymc_active.likelihoods.base import Likelihood, Phi, Tilted

# Nodes of the mixture, and for a density alone (information is 0.2 % off, with an outlier 0.8 %); falls to the ends.
_NODES, _FEW, _FALL = 32, 14, 14.0
# Below so small a precision, in units of what the outcome would notice, all are alike.
_NONE = 1e-4
# Outcomes in a sum over them, and the probability of those beyond the last.
_VALUES, _TAIL = 48, 1e-4
_MOST = 14.0  # Log of degrees of freedom beyond which it is normal to about a millionth of a nat.


class StudentT(Likelihood):
    """Student's t about f.

    To a power it is a mixture of Gaussians, (1 + x)^-a = ∫ λ^(a - 1) exp(-λ - λ x) dλ / Γ(a), which the moments of f
    take one by one. Over log λ the trapezoidal rule is nearly exact, also where f has two modes.
    """

    name = "student_t"
    # Above two degrees of freedom, so that there is a variance: for 90 %, 3 to 28 in all.
    parameters = (("log_noise", float(np.log(0.1)), 1.0), ("log_nu_above_2", float(np.log(5.0)), 1.0))
    is_real, has_no_end, shares, sweeps = True, True, (0.9, 0.1), 3
    # Outliers are ignored often, and rounding errors grow with the variance of a site.
    worthless = 1e3

    @override
    def log_density(self, f, y, size, phi):
        nu = _nu(phi)
        return _log_height(phi) - 0.5 * (nu + 1) * np.log1p(np.square((y - f) * np.exp(-phi[0])) / nu)

    @override
    def tilted(self, mean, variance, y, size, phi, near=None, power=1.0):
        log_z, share, u, (spread, width, away) = self._mixed(mean, variance, y, phi, power, _NODES)
        nu, a = _nu(phi), 0.5 * power * (_nu(phi) + 1)
        first = away / width
        slope = (share * first).sum(-1)
        bend = (share * (1 / width - np.square(first - slope[..., None]))).sum(-1)
        # Of the log of each Gaussian in the log of its variance; of the density in a.
        in_spread = 0.5 * (share * (1 - spread / width + spread * np.square(first))).sum(-1)
        in_a = (share * u).sum(-1) - digamma(a)
        in_nu = 0.5 * nu * (digamma((nu + 1) / 2) - digamma(nu / 2)) - 0.5 + 0.5 * nu * in_a
        in_phi = (2 * in_spread - power, (power * in_nu + in_spread) * _above_2(phi) / nu)
        return Tilted(log_z, slope, bend, in_phi, _log_height(phi) + 0.5 * (nu + 1) * in_a)

    @override
    def log_marginal(self, y, mean, variance, size, phi):
        return self._mixed(mean, variance, y, phi, 1.0, _FEW)[0]

    @override
    def guess(self, y, size, phi):
        return y, self.noise(0.0, 0.0, size, phi)

    @override
    def rate_moments(self, mean, variance, phi):
        return mean, variance

    @override
    def moments(self, mean, variance, size, phi):
        return mean, variance + np.exp(2 * phi[0]) * (1 + 2 * np.exp(-phi[1]))

    @override
    def noise(self, mean, variance, size, phi):
        """By the Fisher information."""
        return np.exp(2 * phi[0]) * (1 + 2 / (_nu(phi) + 1)) + 0 * mean

    @override
    def draw(self, f, size, phi, rng):
        return f + np.exp(phi[0]) * rng.standard_t(np.broadcast_to(_nu(phi), f.shape))

    @override
    def values(self, mean, variance, size, phi):
        spread = np.sqrt(variance + np.exp(2 * phi[0]))
        center, width = np.median(mean, 0), np.quantile(spread, 0.1, axis=0)
        farthest = (np.abs(mean - center) + spread * -stdtrit(_nu(phi), _TAIL)).max(0)
        steps, step = np.linspace(-1, 1, _VALUES, retstep=True)
        # From the middle outwards ever farther apart.
        last = np.arcsinh(farthest / width)
        at = steps[:, None] * last
        return center + width * np.sinh(at), np.log(step * last * width * np.cosh(at))

    @override
    def pymc(self, name, f, size, variables, **keywords):
        return pm.StudentT(name, nu=2 + variables["nu_above_2"], mu=f, sigma=variables["noise"], **keywords)

    @staticmethod
    def _mixed(mean: Any, variance: Any, y: Any, phi: Phi, power: float, n: int) -> tuple[Any, ...]:
        """Log Z; shares (..., n) of Gaussians and their log λ; their variances, those with f, and y - mean."""
        nu, square = _nu(phi), np.exp(2 * phi[0])
        a, away, unit = 0.5 * power * (nu + 1), y - mean, nu * square
        far = np.square(away)
        # From where the outcome is surely far from f, or else cannot be, to where λ has no more density.
        low = np.log(a / (1 + (far + variance) / unit)) - _reach(a)
        low = np.maximum(low, np.log(_NONE * a / (1 + (far + variance) / unit)))
        near = np.maximum(a - 0.5 - far / (8 * variance), 1e-300)
        low = np.maximum(low, np.log(near) - _reach(near))
        high = np.log(a) + np.log1p(_FALL / a + np.sqrt(2 * _FALL / a))
        h = (high - low) / (n - 1)
        u = low[..., None] + h[..., None] * np.arange(n)
        away, a_, v = away[..., None], np.asarray(a)[..., None], np.asarray(variance)[..., None]
        spread = 0.5 * unit[..., None] * np.exp(-u)
        width = v + spread
        log = a_ * u - np.exp(u) + 0.5 * (np.log(spread / width) - np.square(away) / width)
        # Below the first node, where outcomes notice no λ, the rule goes on for ever.
        log[..., 0] -= np.log(-np.expm1(-a * h))
        highest = log.max(-1, keepdims=True)
        share = np.exp(log - highest)
        total = share.sum(-1)
        log_z = power * _log_height(phi) - gammaln(a) + np.log(total * h) + highest[..., 0]
        share /= total[..., None]
        u[..., 0] -= h / np.expm1(np.minimum(a * h, 700.0))
        return log_z, share, u, (spread, width, away)


def _nu(phi: Phi) -> np.ndarray:
    """Degrees of freedom."""
    return 2 + _above_2(phi)


def _above_2(phi: Phi) -> np.ndarray:
    """Of these, above 2."""
    # With more it is as normal, and differences of logs of Gamma functions would be rounding errors.
    return np.exp(np.minimum(phi[1], _MOST))


def _reach(a: Any) -> Any:
    """How far below its mode the log density of the log of a Gamma(a) variable has fallen by so much, or more."""
    return _FALL / a + np.sqrt(2 * _FALL / a)


def _log_height(phi: Phi) -> np.ndarray:
    """The log density at its mode."""
    nu = _nu(phi)
    return gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) - phi[0]
