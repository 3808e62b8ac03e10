"""Outcomes of an ensemble that are not all normal: densities, moments and information given latent Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri, xlogy

from pymc_active.inference.ensemble import Ensemble
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.information.mixture_quantiles import mixture_quantiles
from pymc_active.likelihoods.base import Likelihood, Phi
from pymc_active.likelihoods.binary import Bernoulli
from pymc_active.likelihoods.warped import Mapped
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.predictions.mixtures import Mixture, mixture
from pymc_active.predictions.outcomes import weighted_quantiles

# Members of a model that score outcomes without a formula.
_SOME = 96
# Equally probable values of a standard normal, which stand for f, and numbers in one array.
_NODES, _BLOCK = ndtri((np.arange(16) + 0.5) / 16), 4_000_000
# Steps of a bisection, down to rounding errors.
_BISECTIONS = 50


@dataclass(frozen=True)
class LatentOutcomes:
    """What the members of an ensemble say about an outcome, by default of size one, from their latent Gaussians.

    ``parts`` are the likelihoods, their parameters as columns (S_k, 1), and the rows of a mixture that they are for.
    """

    parts: tuple[tuple[Likelihood, Phi, slice], ...]

    @classmethod
    def of(cls, ensemble: Ensemble, normal: Mapped | None = None) -> LatentOutcomes | None:
        """Of an ensemble of builders' models; None if all outcomes are normal, unless these are a map, ``normal``."""
        latent = [isinstance(part.space.posterior, LatentPosterior) for part in ensemble.parts]
        if not any(latent) and normal is None:
            return None
        parts, start = [], 0
        noises = None if all(latent) else mixture(ensemble, ensemble.X[:1]).noises
        for part in ensemble.parts:
            posterior, rows = part.space.posterior, slice(start, start + len(part.z))
            if isinstance(posterior, LatentPosterior):
                parts.append((posterior.likelihood, posterior.phi(posterior.full(part.z)), rows))
            else:
                assert noises is not None
                parts.append((normal or Mapped(), [0.5 * np.log(noises[rows])], rows))
            start = rows.stop
        if not all(latent) and not all(likelihood.is_real for likelihood, _, _ in parts):
            raise ValueError("models of real numbers and models of counts cannot be averaged")
        return cls(tuple(parts))

    @property
    def are_alike(self) -> bool:
        """Whether all members have the same likelihood."""
        return len({type(likelihood) for likelihood, _, _ in self.parts}) == 1

    @property
    def has_one_unit(self) -> bool:
        """Whether the functions of all members have the same unit."""
        return len({likelihood.has_unit for likelihood, _, _ in self.parts}) == 1

    def log_densities(self, Y: np.ndarray, p: Mixture, size: Any = 1.0) -> np.ndarray:
        """Log densities (K, S, m) of outcomes Y (K, m) under each member."""
        densities = [
            likelihood.tilted(p.means[rows], np.maximum(p.variances[rows], 1e-12), Y[:, None], size, phi).log_z
            for likelihood, phi, rows in self.parts
        ]
        return np.concatenate(densities, axis=1)

    def moments(self, p: Mixture, size: Any = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of an outcome under each member, (S, m) each."""
        moments = [
            likelihood.moments(p.means[rows], p.variances[rows], size, phi) for likelihood, phi, rows in self.parts
        ]
        mean, variance = (np.concatenate(one) for one in zip(*moments, strict=True))
        return mean, variance

    def rates(self, p: Mixture) -> np.ndarray:
        """Equally probable expected outcomes (Q, S, m) of each member."""
        return self._rates(p.means + np.sqrt(p.variances) * _NODES[:, None, None])

    def _rates(self, f: np.ndarray) -> np.ndarray:
        """Expected outcomes where the functions of the members are f, (Q, S, m)."""
        return np.concatenate([likelihood.rate(f[:, rows], phi) for likelihood, phi, rows in self.parts], axis=1)

    def log_units(self, f: np.ndarray) -> np.ndarray:
        """Logs of the slopes of outcomes in f where the functions are f, (Q, S, m), by maps of each member."""
        units = []
        for likelihood, phi, rows in self.parts:
            assert isinstance(likelihood, Mapped)
            units.append(-likelihood.map(likelihood.rate(f[:, rows], phi), phi)[1])
        return np.concatenate(units, axis=1)

    def rate_moments(self, p: Mixture) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the expected outcome, (m,) each."""
        each = [likelihood.rate_moments(p.means[rows], p.variances[rows], phi) for likelihood, phi, rows in self.parts]
        means, variances = (np.concatenate(part) for part in zip(*each, strict=True))
        return mixture_moments(means, variances, p.weights)

    def draw(self, p: Mixture, rng: np.random.Generator, size: Any = 1.0) -> np.ndarray:
        """Outcomes (Q, S, m) of each member, with common random numbers at all points."""
        drawn, normals = [], rng.permuted(np.tile(_NODES, (len(p.weights), 1)), axis=1).T
        seed = int(rng.integers(2**31))
        for likelihood, phi, rows in self.parts:
            f = p.means[rows] + np.sqrt(p.variances[rows]) * normals[:, rows, None]
            drawn.append(likelihood.draw(f, size, phi, np.random.default_rng(seed)))
        return np.concatenate(drawn, axis=1)

    def quantiles(self, probabilities: np.ndarray, p: Mixture, size: Any = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles (Q, m) of the expected outcome of size one, and of an outcome."""
        spread = np.maximum(p.variances, np.finfo(float).tiny)
        if self.is_mapped:
            # Each member has a map of its own.
            return self._mapped_quantiles(probabilities, p, spread), self._mapped_quantiles(
                probabilities, p, spread + p.noises
            )
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
            each = [likelihood.link(middle[:, None], phi) + 0 * phi[0] for likelihood, phi, _ in self.parts]
            z = np.concatenate(each, axis=1)
            is_low = np.einsum("s,qsm->qm", p.weights, ndtr((z - p.means) / sd)) < probabilities[:, None]
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        return (low + high) / 2

    @property
    def is_mapped(self) -> bool:
        """Whether the outcomes of all members are normal once they are mapped."""
        return all(isinstance(likelihood, Mapped) for likelihood, _, _ in self.parts)

    def _values(self, p: Mixture) -> tuple[np.ndarray, np.ndarray]:
        """Outcomes (K, m) and log weights (K, m) of a sum over them."""
        likelihood, phi, _ = self.parts[0]
        if len(self.parts) == 1:
            return likelihood.values(p.means, p.variances, 1.0, phi)
        tables = [one.values(p.means[rows], p.variances[rows], 1.0, phi) for one, phi, rows in self.parts]
        if self.are_alike:
            # The widest range is that of all.
            return max(tables, key=lambda pair: float(np.ptp(pair[0])))
        # The values of all, by the trapezoidal rule.
        y = np.sort(np.concatenate([values for values, _ in tables]), axis=0)
        width = np.diff(y, axis=0, prepend=y[:1], append=y[-1:])
        return y, np.log(np.maximum(0.5 * (width[1:] + width[:-1]), np.finfo(float).tiny))

    def information(self, p: Mixture, owner: np.ndarray | None = None) -> np.ndarray:
        """What an outcome tells about the member, or about its ``owner`` (S,), nats, (m,)."""
        Y, log_weights = self._values(p)
        step = max(1, _BLOCK // (len(Y) * len(p.weights) * len(_NODES)))
        information = []
        for i in range(0, Y.shape[1], step):
            some = slice(i, i + step)
            information.append(self._information(_columns(p, some), Y[:, some], log_weights[:, some], owner))
        return np.concatenate(information)

    def entropy(self, p: Mixture) -> np.ndarray:
        """The entropy of an outcome, nats, (m,)."""
        Y, log_weights = self._values(p)
        log = logsumexp(self.marginals(Y, p), axis=1, b=p.weights[:, None])
        return -(np.exp(log + log_weights) * log).sum(0)

    def marginals(self, Y: np.ndarray, p: Mixture) -> np.ndarray:
        """:meth:`log_densities` of many outcomes, by fewer nodes."""
        marginals = [
            likelihood.log_marginal(Y[:, None], p.means[rows], p.variances[rows], 1.0, phi)
            for likelihood, phi, rows in self.parts
        ]
        return np.concatenate(marginals, axis=1)

    @property
    def n_members(self) -> int | None:
        """How many members of a model score a criterion; None for all, where there is a formula."""
        is_known = self.is_mapped or all(isinstance(likelihood, Bernoulli) for likelihood, _, _ in self.parts)
        return None if is_known else _SOME

    def _information(self, p: Mixture, Y: np.ndarray, log_weights: np.ndarray, owner: np.ndarray | None) -> np.ndarray:
        log = self.marginals(Y, p) + log_weights[:, None]
        if owner is None:
            return _mutual(log, p.weights)
        each = [owner == k for k in np.unique(owner)]
        shares = np.array([p.weights[of].sum() for of in each])
        with np.errstate(divide="ignore"):
            own = [logsumexp(log[:, of] + np.log(p.weights[of])[:, None], axis=1) for of in each]
            return _mutual(np.stack(own, axis=1) - np.log(shares)[:, None], shares)

    def information_about_function(self, p: Mixture) -> np.ndarray:
        """What an outcome tells about the latent function there, and the hyperparameters, nats, (m,)."""
        Y, log_weights = self._values(p)
        f = p.means + np.sqrt(p.variances) * _NODES[:, None, None]
        q, m = len(_NODES), Y.shape[1]
        weights, out = np.tile(p.weights / q, q), np.empty(m)
        step = max(1, _BLOCK // (len(Y) * f[..., 0].size))
        for i in range(0, m, step):
            columns = slice(i, i + step)
            densities = [
                likelihood.log_density(f[None, :, rows, columns], Y[:, None, None, columns], 1.0, phi)
                for likelihood, phi, rows in self.parts
            ]
            log = np.concatenate(densities, axis=2) + log_weights[:, None, None, columns]
            out[columns] = _mutual(log.reshape(len(Y), len(weights), -1), weights)
        return out


def _mutual(log: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mutual information (m,) of an outcome and its source: probabilities exp(log) (K, S, m), weights (S,)."""
    probability = np.exp(log)
    total = np.einsum("s,ksm->km", weights, probability)
    inner = np.einsum("s,ksm->m", weights, xlogy(probability, probability))
    return np.maximum(inner - xlogy(total, total).sum(0), 0.0)


def _columns(p: Mixture, columns: slice) -> Mixture:
    own = {name: getattr(p, name)[:, columns] for name in ("means", "variances", "conditional", "noises")}
    return p._replace(**own)
