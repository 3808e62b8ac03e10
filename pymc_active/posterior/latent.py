"""The posterior of models whose outcomes are not normal: Gaussian given sites, found for each particle."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, override

import numpy as np

from pymc_active.likelihoods.base import Likelihood, Phi, usual
from pymc_active.posterior.array import ArrayPosterior, EmbeddingPosterior, KernelPosterior
from pymc_active.posterior.base import Likelihoods, Moments, Posterior, State, difference_hessian
from pymc_active.posterior.factor import Factor, NotPositiveDefiniteError
from pymc_active.posterior.sites import EXACT, FINE, ROUGH, Propagated, Sites, propagate

# Errors of the log evidence, nats, of sites that did not converge, as where all parameters are absurd: none is known.
_UNKNOWN = 0.5
# Steps of central differences, in prior sds: of gradients, and of predictions.
_STEP = 1e-3
# A measurement with so large a variance is worth nothing.
_MOST_NOISE = 1e12
# Points up to which each is left out by a search of its own.
_LEFT_OUT = 40
# Numbers in the covariances of several particles at a time.
_TOGETHER = 500_000


# Takes derivatives in G and in the mean back to those in the parameters.
type Pullback = Callable[[np.ndarray, np.ndarray], np.ndarray]


class _Known(NamedTuple):
    """The sites of one particle: its log evidence, z less the prior mean and variances (n,), slopes in phi (q,)."""

    value: float
    residual: np.ndarray
    variance: np.ndarray
    in_phi: np.ndarray


class LatentPosterior(Posterior):
    """A latent function with any likelihood; the noise of the Gaussian process itself is zero.

    Covariances and their derivatives come from arrays or from graphs. ``y`` are outcomes as they are, and the map of
    outputs is the scale of the latent function.
    """

    likelihood: Likelihood
    # The trials or exposures of the rows (n,), and of arrays, positions of the likelihood's parameters in (theta,
    # constants).
    size: np.ndarray
    phi_indices: np.ndarray
    # Of the one particle that this copy is for.
    _known: _Known | None = None
    # Data, and what the likelihood takes from them.
    _read: tuple[np.ndarray, tuple[float, ...]] | None = None

    @property
    def prior_sds(self) -> np.ndarray:
        """Of the entries of theta (P,), roughly."""
        return self.prior_scale()[1]

    @abstractmethod
    def _covariances(self, full: np.ndarray) -> tuple[np.ndarray, Pullback]:
        """Lower triangles of the prior covariances (S, n, n) for rows (theta, constants), and their pullback.

        It takes W (S, n, n), its lower triangles with the halves of the diagonals, and alpha (S, n), and returns the
        slopes of log evidences in ``full``.
        """

    @abstractmethod
    def _means(self, full: np.ndarray) -> np.ndarray:
        """Prior means (S, n), in the user's units of f, in which the likelihood knows it."""

    @property
    @override
    def is_fused(self):
        # Sites are found by loops in Python.
        return False

    @property
    @override
    def is_tempered(self):
        # Much noise in a function would make counts of any size. Real outcomes are as with normal ones: to a power
        # they would all be noise at first, and particles with little noise would come too late.
        return not self.likelihood.is_real

    @property
    @override
    def noise_unit(self):
        return 1.0 if self.is_tempered else super().noise_unit / float(self.y_map.scale)

    def phi(self, full: np.ndarray) -> Phi:
        """Columns that the likelihood takes, in the user's units, for rows (theta, constants)."""
        units = [np.log(self.y_map.scale) * (name == "log_noise") for name, *_ in self.likelihood.parameters]
        own = [full[:, [index]] + unit for index, unit in zip(self.phi_indices, units, strict=True)]
        if self._read is None or self._read[0] is not self.y:
            self._read = self.y, self.likelihood.of_data(self.y)
        return self.likelihood.given(own, self._read[1])

    def phi_of(self, theta: np.ndarray) -> Phi:
        """:meth:`phi` of one particle."""
        return [part[0] for part in self.phi(self.full(theta[None]))]

    def _pull_phi(self, full: np.ndarray, in_phi: np.ndarray) -> np.ndarray:
        """Slopes in the likelihood's parameters (S, q) as slopes in ``full``."""
        slope = np.zeros_like(full)
        slope[:, self.phi_indices] = in_phi[:, : len(self.phi_indices)]
        return slope

    def _propagate(
        self, full: np.ndarray, K: np.ndarray, tolerance: float, start: np.ndarray | None = None, power: float = 1.0
    ) -> tuple[Propagated, np.ndarray]:
        """The sites of rows (theta, constants), in user's units of f, and prior means (S, n) in these."""
        mean = self._means(full)
        sites = None if start is None else Sites(*np.split(start, 2, axis=1))
        scaled, phi = self.y_map.scale**2 * K, self.phi(full)
        return propagate(scaled, mean, self.likelihood, self.y, self.size, phi, sites, tolerance, power), mean

    @property
    @override
    def is_batched(self):
        # Also where there are many points, so that sites are handed on.
        return True

    @override
    def _likelihoods(self, thetas, extra_noise, gradient, start=None):
        S, n, P = len(thetas), len(self.y), self.n_parameters
        full = self.full(thetas)
        G, pullback = self._covariances(full)
        power = 1 / (1 + extra_noise) if self.is_tempered else 1.0
        if not self.is_tempered:
            G[:, np.arange(n), np.arange(n)] += extra_noise
        ep, _ = self._propagate(full, G, ROUGH, start, power)
        value = np.where(ep.error < _UNKNOWN, ep.value, np.nan)
        sites = np.hstack(ep.sites)
        if not gradient:
            return Likelihoods(value, np.zeros((S, P)), np.zeros(S), sites)
        unit = float(self.y_map.scale)
        W = ep.W * unit**2
        # Entries off the diagonal stand for two.
        W.reshape(S, n * n)[:, :: n + 1] *= 0.5
        in_noise = -(power**2) * ep.in_power if self.is_tempered else -np.diagonal(W, axis1=1, axis2=2).sum(1)
        slope = pullback(W, ep.alpha)
        slope += self._pull_phi(full, ep.in_phi)
        return Likelihoods(value, slope[:, :P], in_noise, sites)

    @override
    def _log_likelihood(self, theta, extra_noise):
        # A search ends at gradients that particles do not need.
        return Posterior._log_likelihood(self, theta, extra_noise)

    @override
    def light_states(self, thetas):
        if len(thetas) == 1:
            # Sums over one particle would have other rounding errors.
            return self.light_states(np.repeat(thetas, 2, axis=0))[:1]
        full, n = self.full(thetas), len(self.y)
        # As many at a time as fit into memory.
        step, states = max(2, _TOGETHER // n**2), []
        for start in range(0, len(full), step):
            rows = slice(start, start + step)
            ep, mean = self._propagate(full[rows], self._covariances(full[rows])[0], FINE)
            for s, theta in enumerate(thetas[rows]):
                other = copy(self)
                other._known = _Known(ep.value[s], ep.sites.z[s] - mean[s], ep.sites.s[s], ep.in_phi[s])
                states.append(other.light_state(theta))
        return states

    def _factor(self, theta: np.ndarray, K: np.ndarray, extra_noise: float) -> Factor:
        """The factor of K (n, n) and the variances of the sites."""
        known = self._known
        if known is None:
            K.flat[:: len(K) + 1] += extra_noise
            ep, mean = self._propagate(theta[None], K[None], EXACT)
            if not ep.error[0] < _UNKNOWN:
                raise NotPositiveDefiniteError("the latent function is so wide that no outcome of it has a density")
            known = _Known(ep.value[0], ep.sites.z[0] - mean[0], ep.sites.s[0], ep.in_phi[0])
        unit = float(self.y_map.scale)
        sites = known.variance / unit**2
        K.flat[:: len(K) + 1] += sites
        factor = Factor(K, known.residual / unit)
        factor.nll, factor.sites, factor.in_phi = -float(known.value), sites, known.in_phi
        return factor

    def leave_one_out(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The function at each row given all others: means, variances, log densities (M, n); log likelihoods (M,)."""
        # Sites are found again without the row: others have adapted to it. With many points they are taken as they are.
        full, n = self.full(thetas), len(self.y)
        unit, phi = float(self.y_map.scale), self.phi(full)
        K, _ = self._covariances(full)
        ep, prior = self._propagate(full, K, FINE)
        sites, K = ep.sites, unit**2 * (K + np.tril(K, -1).swapaxes(1, 2))
        g = np.diagonal(ep.W, axis1=1, axis2=2) + np.square(ep.alpha)
        mean, variance = sites.z - ep.alpha / g, np.maximum(1 / g - sites.s, 0.0)
        for i in range(n if n <= _LEFT_OUT else 0):
            others = np.arange(n) != i
            start, k = Sites(sites.z[:, others], sites.s[:, others]), K[:, i, others]
            outcomes = self.y[others], self.size[others]
            left = propagate(K[:, others][:, :, others], prior[:, others], self.likelihood, *outcomes, phi, start)
            W = left.W + np.tril(left.W, -1).swapaxes(1, 2) - np.triu(left.W, 1)
            explained = np.einsum("si,sij,sj->s", k, W, k) + np.square((k * left.alpha).sum(1))
            mean[:, i] = prior[:, i] + (k * left.alpha).sum(1)
            variance[:, i] = np.maximum(K[:, i, i] - explained, 0.0)
        log_density = self.likelihood.tilted(mean, np.maximum(variance, 1e-12), self.y, self.size, phi).log_z
        return mean, variance, log_density, ep.value

    def draw_outcomes(
        self, thetas: np.ndarray, mean: np.ndarray, variance: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Outcomes (M, n) of the rows where the function has moments (M, n)."""
        f = mean + np.sqrt(np.maximum(variance, 0.0)) * rng.normal(size=mean.shape)
        return self.likelihood.draw(f, self.size, self.phi(self.full(thetas)), rng)

    def simulate(self, thetas: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Data sets (M, n) at the rows."""
        full, n = self.full(thetas), len(self.y)
        f = np.empty((len(thetas), n))
        for m, K in enumerate(self._covariances(full)[0]):
            # Eigenvectors, since the covariance of near rows is singular.
            values, vectors = np.linalg.eigh(K)
            f[m] = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=n))
        f = self._means(full) + self.y_map.scale * f
        return self.draw_outcomes(thetas, f, np.zeros_like(f), rng)

    @override
    def likelihood_gradient(self, state):
        in_phi = self._pull_phi(self.full(state.theta[None]), state.factor.in_phi[None])
        return super().likelihood_gradient(state) - in_phi[0, : self.n_parameters]

    @override
    def likelihood_hessian(self, state):
        return difference_hessian(self, state.theta, _STEP * self.prior_sds)

    def noise_of(self, theta: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The variance of the Gaussian measurement of f that an outcome of the usual size is worth, in units of f."""
        phi = self.phi_of(theta)
        # Where an outcome is certain it is worth nothing; differences of infinities would be NaN.
        return np.minimum(self.likelihood.noise(mean, variance, usual(self.size), phi), _MOST_NOISE)

    @override
    def moments(self, state, X_new, *, gradient=False):
        """Latent moments, with the noise that an outcome is worth; gradients by central differences."""
        plain = self._of_outcomes(state, super().moments(state, X_new))
        if not gradient:
            return plain
        slopes: list[list[np.ndarray]] = []
        for step in np.diag(_STEP * self.prior_sds):
            up, down = (self.moments(self.light_state(state.theta + h), X_new) for h in (step, -step))
            slopes.append([(a - b) / (2 * step.sum()) for a, b in zip(up[:2], down[:2], strict=True)])
        mean, variance_gradient = np.array(slopes).reshape(-1, 2, len(X_new)).transpose(1, 2, 0)
        return plain._replace(mean_gradient=mean, variance_gradient=variance_gradient)

    @override
    def moments_and_slopes(self, state, X_new):
        latent = super().moments_and_slopes(state, X_new)
        return None if latent is None else (self._of_outcomes(state, latent[0]), latent[1])

    def _of_outcomes(self, state: State, plain: Moments) -> Moments:
        variance = np.maximum(plain.variance, 0.0)
        return plain._replace(variance=variance, noise_variance=self.noise_of(state.theta, plain.mean, variance))


@dataclass(eq=False, repr=False)
class LatentArrayPosterior(LatentPosterior, ArrayPosterior):
    """With covariances from arrays."""

    _: KW_ONLY
    likelihood: Likelihood
    _known: _Known | None = None

    @override
    def _set_data(self, X, y, y_sd):
        self.X, self.y = self.x_map(X), np.asarray(y, float)
        self.size = np.ones(len(y)) if y_sd is None else np.where(y_sd > 0, y_sd, 1.0)
        self._basis, self.counts, self.replicates, self.known_variance = self.mean_basis(self.X), 1, None, 0.0
        self.forget()

    @override
    def _take(self, rows):
        super()._take(rows)
        self.size = self.size[rows]

    @override
    def _covariances(self, full):
        n = len(self.y)
        K, pullback = self._batch(full)
        G, where = np.zeros((len(full), n, n)), self.pairs.places
        G.reshape(len(full), n * n)[:, where] = K

        def slopes(W: np.ndarray, alpha: np.ndarray) -> np.ndarray:
            slope = -pullback(W.reshape(len(full), n * n)[:, where])
            slope[:, self.mean_indices] += float(self.y_map.scale) * alpha @ self._basis
            return slope

        return G, slopes

    @override
    def _means(self, full):
        return self.y_map.shift + self.y_map.scale * (full[:, self.mean_indices] @ self._basis.T)


@dataclass(eq=False, repr=False)
class LatentKernelPosterior(LatentArrayPosterior, KernelPosterior):
    """With any covariance of few parameters."""


@dataclass(eq=False, repr=False)
class LatentEmbeddingPosterior(LatentArrayPosterior, EmbeddingPosterior):
    """With a learned embedding."""
