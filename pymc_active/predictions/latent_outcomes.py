"""Outcomes of an ensemble that are not all normal: densities, moments and information given latent Gaussians."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp, xlogy

from pymc_active.inference.ensemble import Ensemble
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.information.mixture_quantiles import mixture_quantiles
from pymc_active.likelihoods.base import Likelihood, Phi, usual
from pymc_active.likelihoods.binary import Bernoulli
from pymc_active.likelihoods.warped import Mapped
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.predictions.mixtures import Mixture, mixture

# Draws of an outcome in all.
DRAWS = 8192
# Members of a model that score outcomes without a formula.
_SOME = 96
# The middles of equally probable parts, values of a standard normal there, which stand for f, and numbers in an array.
_PARTS, _BLOCK = (np.arange(16) + 0.5) / 16, 4_000_000
_NODES = ndtri(_PARTS)
# Edges of what cannot be, as a probability above one; step of differences; steps of a bisection, down to rounding.
_NOWHERE, _STEP, _BISECTIONS = 1e6, 1e-4, 50


@dataclass(frozen=True)
class LatentOutcomes:
    """What the members of an ensemble say about an outcome, from their latent Gaussians.

    ``parts`` are the likelihoods, their parameters as columns (S_k, 1), and the rows of a mixture that they are for;
    ``size`` is the number of trials, or the exposure, of the next outcome: the median of those before.
    """

    parts: tuple[tuple[Likelihood, Phi, slice], ...]
    size: float = 1.0

    @classmethod
    def of(cls, ensemble: Ensemble, normal: Mapped | None = None) -> LatentOutcomes | None:
        """Of an ensemble of builders' models; None if all outcomes are normal, unless these are a map, ``normal``."""
        latent = [isinstance(part.space.posterior, LatentPosterior) for part in ensemble.parts]
        if not any(latent) and normal is None:
            return None
        parts, start, size = [], 0, 1.0
        noises = None if all(latent) else mixture(ensemble, ensemble.X[:1]).noises
        for part in ensemble.parts:
            posterior, rows = part.space.posterior, slice(start, start + len(part.z))
            if isinstance(posterior, LatentPosterior):
                parts.append((posterior.likelihood, posterior.phi(posterior.full(part.z)), rows))
                size = usual(posterior.size)
            else:
                assert noises is not None
                parts.append((normal or Mapped(), [0.5 * np.log(noises[rows])], rows))
            start = rows.stop
        if not all(latent) and not all(likelihood.is_real for likelihood, _, _ in parts):
            raise ValueError("models of real numbers and models of counts cannot be averaged")
        return cls(tuple(parts), size)

    @property
    def are_alike(self) -> bool:
        """Whether all members have the same likelihood."""
        return len({type(likelihood) for likelihood, _, _ in self.parts}) == 1

    def _each(self, of: Callable[[Any, Phi, slice], Any], axis: int = 1) -> np.ndarray:
        """What a function says of each likelihood with its parameters and rows, joined along the members."""
        return np.concatenate([of(*part) for part in self.parts], axis)

    def log_densities(self, Y: np.ndarray, p: Mixture, size: Any = 1.0) -> np.ndarray:
        """Log densities (K, S, m) of outcomes Y (K, m) under each member."""
        v, Y = np.maximum(p.variances, 1e-12), Y[:, None]
        return self._each(lambda one, phi, rows: one.tilted(p.means[rows], v[rows], Y, size, phi).log_z)

    def moments(self, p: Mixture, size: Any = 1.0) -> np.ndarray:
        """Mean and variance of an outcome under each member, (2, S, m)."""
        return self._each(lambda one, phi, rows: one.moments(p.means[rows], p.variances[rows], size, phi))

    def rates(self, p: Mixture) -> np.ndarray:
        """Equally probable expected outcomes (Q, S, m) of each member."""
        return self._rates(p.means + np.sqrt(p.variances) * _NODES[:, None, None])

    def _rates(self, f: np.ndarray) -> np.ndarray:
        """Expected outcomes where the functions of the members are f, (Q, S, m)."""
        return self._each(lambda one, phi, rows: one.rate(f[:, rows], phi))

    def log_improvement(self, p: Mixture, best: np.ndarray, sign: float) -> np.ndarray:
        """Log of how much the expected outcome of each member is above its ``best`` (S, 1), or below it, (S, m)."""
        sd = np.sqrt(np.maximum(p.variances, np.finfo(float).tiny))
        edge = self._each(lambda one, phi, rows: one.link(sign * best[rows], phi), 0)
        log_share = log_ndtr(sign * (p.means - np.clip(edge, -_NOWHERE, _NOWHERE)) / sd)
        f = p.means - sign * sd * ndtri_exp(log_share + np.log(_PARTS)[:, None, None])
        return log_share + np.log(np.maximum((sign * self._rates(f) - best).mean(0), np.finfo(float).tiny))

    def log_units(self, f: np.ndarray) -> np.ndarray:
        """Logs of the slopes of expected outcomes in f where the functions are f, (Q, S, m)."""
        return np.log(np.maximum(self._rates(f + _STEP) - self._rates(f - _STEP), 1e-300) / (2 * _STEP))

    def rate_moments(self, p: Mixture) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the expected outcome, (m,) each."""
        mean, variance = self._each(lambda one, phi, rows: one.rate_moments(p.means[rows], p.variances[rows], phi))
        return mixture_moments(mean, variance, p.weights)

    def draw(self, p: Mixture, rng: np.random.Generator, size: Any = 1.0) -> np.ndarray:
        """Outcomes (Q, S, m) of each member, with common random numbers at all points."""
        S, seed = len(p.weights), int(rng.integers(2**31))
        n = max(len(_NODES), -(-DRAWS // S))
        normals = ndtri((rng.permuted(np.tile(np.arange(n), (S, 1)), axis=1).T + rng.random((n, S))) / n)
        f = p.means + np.sqrt(p.variances) * normals[..., None]
        return self._each(lambda one, phi, rows: one.draw(f[:, rows], size, phi, np.random.default_rng(seed)))

    def quantiles(self, probabilities: np.ndarray, p: Mixture, size: Any = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles (Q, m) of the expected outcome of size one, and of an outcome."""
        spread = np.maximum(p.variances, np.finfo(float).tiny)
        if self.is_mapped:
            # Each member has a map of its own.
            of_rate, of_y = (self._mapped_quantiles(probabilities, p, v) for v in (spread, spread + p.noises))
            return of_rate, of_y
        if self.are_alike:
            likelihood, phi, _ = self.parts[0]
            # The rate increases with the latent function, by no parameter.
            of_rate = likelihood.rate(mixture_quantiles(probabilities, p.means, spread, p.weights), phi)
        else:
            of_rate = self._mapped_quantiles(probabilities, p, spread)
        draws = self.draw(p, np.random.default_rng(0), size)
        weights = np.tile(p.weights / len(draws), len(draws))
        return of_rate, weighted_quantiles(draws.reshape(-1, draws.shape[-1]), weights, probabilities)

    def _mapped_quantiles(self, probabilities: np.ndarray, p: Mixture, variances: np.ndarray) -> np.ndarray:
        """Quantiles (Q, m) of outcomes whose maps have variances (S, m), by bisection."""
        sd = np.sqrt(variances)
        ends = self._rates(p.means + sd * ndtri(probabilities)[:, None, None])
        low, high = ends.min(1), ends.max(1)
        for _ in range(_BISECTIONS if len(p.weights) > 1 else 0):
            middle = (low + high) / 2
            at = middle[:, None] + np.zeros((len(sd), 1))
            z = self._each(lambda one, phi, rows: one.link(at[:, rows], phi))  # noqa: B023
            is_low = np.einsum("s,qsm->qm", p.weights, ndtr((z - p.means) / sd)) < probabilities[:, None]
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        return (low + high) / 2

    @property
    def is_mapped(self) -> bool:
        """Whether the outcomes of all members are normal once they are mapped."""
        return all(isinstance(likelihood, Mapped) for likelihood, _, _ in self.parts)

    @property
    def has_no_end(self) -> bool:
        """Whether the expected outcomes of all members have no upper end."""
        return all(likelihood.has_no_end for likelihood, _, _ in self.parts)

    def _values(self, p: Mixture) -> tuple[np.ndarray, np.ndarray]:
        """Outcomes (K, m) and log weights (K, m) of a sum over them."""
        likelihood, phi, _ = self.parts[0]
        if len(self.parts) == 1:
            return likelihood.values(p.means, p.variances, self.size, phi)
        tables = [one.values(p.means[rows], p.variances[rows], self.size, phi) for one, phi, rows in self.parts]
        if self.are_alike:
            # The widest range is that of all.
            return max(tables, key=lambda pair: float(np.ptp(pair[0])))
        # The values of all, by the trapezoidal rule.
        y = np.sort(np.concatenate([values for values, _ in tables]), axis=0)
        width = np.diff(y, axis=0, prepend=y[:1], append=y[-1:])
        return y, np.log(np.maximum(0.5 * (width[1:] + width[:-1]), np.finfo(float).tiny))

    def tables(self, p: Mixture) -> Iterator[np.ndarray]:
        """Log probabilities (K, S, k) of outcomes under each member, at some of the points at a time."""
        Y, log_weights = self._values(p)
        step = max(1, _BLOCK // (len(Y) * len(p.weights) * len(_NODES)))
        for k in (slice(i, i + step) for i in range(0, Y.shape[1], step)):
            yield self.marginals(Y[:, k], _columns(p, k)) + log_weights[:, None, k]

    def information(self, p: Mixture, owner: np.ndarray | None = None) -> np.ndarray:
        """What an outcome tells about the member, or about its ``owner`` (S,), nats, (m,)."""
        if owner is None:
            return np.concatenate([_mutual(log, p.weights) for log in self.tables(p)])
        each = [owner == k for k in np.unique(owner)]
        shares = np.array([p.weights[of].sum() for of in each])
        out = []
        for log in self.tables(p):
            with np.errstate(divide="ignore"):
                own = [logsumexp(log[:, of] + np.log(p.weights[of])[:, None], axis=1) for of in each]
                out.append(_mutual(np.stack(own, axis=1) - np.log(shares)[:, None], shares))
        return np.concatenate(out)

    def entropy(self, p: Mixture) -> np.ndarray:
        """The entropy of an outcome, nats, (m,)."""
        Y, log_weights = self._values(p)
        log = logsumexp(self.marginals(Y, p), axis=1, b=p.weights[:, None])
        return -(np.exp(log + log_weights) * log).sum(0)

    def marginals(self, Y: np.ndarray, p: Mixture) -> np.ndarray:
        """:meth:`log_densities` of many outcomes, by fewer nodes."""
        m, v, Y = p.means, p.variances, Y[:, None]
        return self._each(lambda one, phi, rows: one.log_marginal(Y, m[rows], v[rows], self.size, phi))

    @property
    def n_members(self) -> int | None:
        """How many members of a model score a criterion; None for all, where there is a formula."""
        is_known = self.is_mapped or all(isinstance(likelihood, Bernoulli) for likelihood, _, _ in self.parts)
        return None if is_known else _SOME

    def information_about_function(self, p: Mixture) -> np.ndarray:
        """What an outcome tells about the latent function there, and the hyperparameters, nats, (m,)."""
        Y, log_weights = self._values(p)
        f = p.means + np.sqrt(p.variances) * _NODES[:, None, None]
        q, m = len(_NODES), Y.shape[1]
        weights, out = np.tile(p.weights / q, q), np.empty(m)
        step = max(1, _BLOCK // (len(Y) * f[..., 0].size))
        for columns in (slice(i, i + step) for i in range(0, m, step)):
            at, y = f[None, ..., columns], Y[:, None, None, columns]
            log = self._each(lambda one, phi, rows: one.log_density(at[:, :, rows], y, self.size, phi), 2)  # noqa: B023
            log += log_weights[:, None, None, columns]
            out[columns] = _mutual(log.reshape(len(Y), len(weights), -1), weights)
        return out


def _mutual(log: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mutual information (m,) of an outcome and its source: probabilities exp(log) (K, S, m), weights (S,)."""
    probability = np.exp(log)
    total = np.einsum("s,ksm->km", weights, probability)
    inner = np.einsum("s,ksm->m", weights, xlogy(probability, probability))
    return np.maximum(inner - xlogy(total, total).sum(0), 0.0)


def weighted_quantiles(draws: np.ndarray, weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Weighted quantiles (q, m) of draws (S, m), values that were drawn."""
    weights = np.broadcast_to(weights[:, None], draws.shape)
    return np.quantile(draws, probabilities, axis=0, weights=weights, method="inverted_cdf")


def _columns(p: Mixture, columns: slice) -> Mixture:
    """The mixture at some of the points."""
    own = {name: getattr(p, name)[:, columns] for name in ("means", "variances", "conditional", "noises")}
    return p._replace(**own)
