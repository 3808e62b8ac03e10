"""What the next outcome tells about something else: one estimator for parameters, targets, predictions and models.

Particles with weights w stand for the posterior. Outcomes y_k of a candidate are drawn, one from each particle; of few
possible values all are taken, with their probabilities. The particles' weights given y_k follow from their densities,
q_k ∝ w p(y_k | particle). The information about a quantity v is the mean over k of the divergence of v given y_k from v
before: exact in v, and Monte Carlo in y only. Log densities of pending outcomes, drawn from the same particles, add up,
so that the information of a batch is joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, xlogy

from pymc_active.process.members import Members

# Numbers of one array.
_BLOCK = 2_000_000
# How far whole outcomes may be beyond the drawn ones on either side, as a share of their range (guess).
_BEYOND = 0.3
# Sd of the virtual outcome that stands for a target, in sds of the target: between 0.15 and 0.3 picks had 0.96 of the
# best information about an EC50 (DESIGN 10).
BANDWIDTH = 0.25


@dataclass(frozen=True, eq=False)
class AllParameters:
    """What is to be learned: the particle itself."""

    weights: np.ndarray

    def divergence(self, q: np.ndarray) -> np.ndarray:
        """Divergences (K, m) of its distribution under weights q (K, S, m) from that before."""
        return xlogy(q, q / self.weights[:, None]).sum(1)


@dataclass(frozen=True, eq=False)
class ModelIdentity:
    """Which of the models a particle is of."""

    weights: np.ndarray
    owner: np.ndarray

    def divergence(self, q: np.ndarray) -> np.ndarray:
        """As of :class:`AllParameters`."""
        each = [(self.owner == k) for k in range(self.owner.max() + 1)]
        shares = np.stack([q[:, of].sum(1) for of in each])
        prior = np.array([self.weights[of].sum() for of in each])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(xlogy(shares, shares / prior[:, None, None])).sum(0)


@dataclass(frozen=True, eq=False)
class Virtual:
    """A virtual outcome v drawn from each particle; ``ratios`` (V, S) are p(v | particle) / p(v), ``weights`` (V,)."""

    weights: np.ndarray
    ratios: np.ndarray

    def divergence(self, q: np.ndarray) -> np.ndarray:
        """As of :class:`AllParameters`."""
        relative = np.einsum("vs,ksm->kvm", self.ratios, q, optimize=True)
        return np.einsum("v,kvm->km", self.weights, xlogy(relative, relative))

    @classmethod
    def of(cls, weights: np.ndarray, log: np.ndarray) -> Virtual:
        """From log densities (S, S) of the outcomes v of the particles, in rows, under each particle."""
        shifted = np.exp(log - log.max(1, keepdims=True))
        return cls(weights, shifted / (shifted @ weights)[:, None])


def of_targets(w: np.ndarray, values: np.ndarray, rng: np.random.Generator, bandwidth: float = BANDWIDTH) -> Virtual:
    """The information about numbers (S, t) of particles of weights w, by normal scores and a Gaussian bandwidth."""
    from scipy.stats import rankdata  # takes long to load

    scores = ndtri((rankdata(values, axis=0) - 0.5) / len(values))
    v = scores + bandwidth * rng.normal(size=scores.shape)
    return Virtual.of(w, -0.5 * np.square((v[:, None] - scores[None]) / bandwidth).sum(2))


def of_predictions(members: Members, X_target: np.ndarray, rng: np.random.Generator) -> Virtual:
    """The information about an outcome at a row of X_target (T, D), the mean over rows; each particle has one row."""
    # Where the model is undefined there is nothing to predict.
    X_target = X_target[np.isfinite(members.draw(X_target)).all(0)]
    if not len(X_target):
        raise ValueError("the outcome of the model is not defined at any of the targets")
    S, T = len(members), len(X_target)
    rows = rng.permutation(np.arange(S) % T)
    log = np.empty((S, S))
    for t in np.unique(rows):
        of, x = rows == t, X_target[[t]]
        # Other noise than the candidates have.
        y = members.draw(x, shift=S // 2)[of]
        log[of] = members.log_densities(y, x)[:, :, 0]
    return Virtual.of(members.weights, log)


@dataclass(frozen=True, eq=False)
class Information:
    """The information about a quantity from an outcome at candidates, given outcomes at pending rows.

    ``pending`` (S, S) are log densities of these, drawn from each particle, in rows, under each particle.
    """

    members: Members
    quantity: AllParameters | ModelIdentity | Virtual
    pending: np.ndarray | None = None

    def given(self, X: np.ndarray) -> Information:
        """The same with more pending rows (k, D)."""
        log = np.zeros((len(self.members),) * 2) if self.pending is None else self.pending
        for shift, x in enumerate(X, 1):
            # Noise that differs from that of the candidates.
            log = log + self.members.log_densities(self.members.draw(x[None], shift), x[None])[:, :, 0]
        return replace(self, pending=log)

    def at(self, X: np.ndarray, shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The information (m,) at rows of X (m, D), nats, and its Monte Carlo error for these particles."""
        S = len(self.members)
        n = max(1, _BLOCK // S**2)
        with np.errstate(invalid="ignore"):
            blocks = [self._at(X[k : k + n], shift) for k in range(0, len(X), n)]
        value, error = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        # Where the model is undefined nothing is learned.
        return np.maximum(np.nan_to_num(value), 0.0), error

    def _at(self, X: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
        members, w = self.members, self.members.weights
        Y = members.draw(X, shift)
        # A censored outcome may be whole in all draws, and is not a count.
        is_count = self.pending is None and all(process.is_whole for process in members.processes)
        values, few = _possible(Y)
        if is_count and few.any():
            value, error = np.empty((2, len(X)))
            log = members.log_densities(values[:, few], X[few])
            probability = np.exp(members.log_mean(log))
            value[few] = (probability * self.quantity.divergence(posterior_weights(log, w))).sum(0)
            error[few] = 0.0
            if not few.all():
                value[~few], error[~few] = self._by_draws(Y[:, ~few], X[~few])
            return value, error
        return self._by_draws(Y, X)

    def _by_draws(self, Y: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        members, w = self.members, self.members.weights
        log = members.log_densities(Y, X)
        before = np.zeros(len(w))
        if self.pending is not None:
            before = self.quantity.divergence(posterior_weights(self.pending[:, :, None], w))[:, 0]
            log = log + self.pending[:, :, None]
        gain = self.quantity.divergence(posterior_weights(log, w)) - before[:, None]
        mean = w @ gain
        return mean, np.sqrt(np.square(w) @ np.square(gain - mean))


def posterior_weights(log: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The particles' weights (K, S, m) given outcomes of log densities (K, S, m)."""
    top = log.max(1, keepdims=True)
    q = weights[:, None] * np.exp(log - np.where(np.isfinite(top), top, 0.0))
    total = q.sum(1, keepdims=True)
    # An outcome that is impossible under all tells nothing.
    return np.where(total > 0, q / np.where(total > 0, total, 1.0), weights[:, None])


def _possible(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All values (K, m) that whole outcomes drawn (S, m) may have, and at which candidates (m,) these are few."""
    low, high = Y.min(0), Y.max(0)
    beyond = np.ceil(_BEYOND * (high - low)) + 2
    counts = np.where((np.round(Y) == Y).all(0), high - low + 2 * beyond + 1, np.inf)
    # No more than would be drawn.
    few = counts <= len(Y)
    n = int(counts[few].max(initial=0))
    return low - beyond + np.arange(n)[:, None], few


def read_targets(members: Members, names: Sequence[str]) -> np.ndarray:
    """The values (S, t) of variables of the models, by name."""
    blocks = []
    for process, z in zip(members.processes, members.z, strict=True):
        process.check_targets(names)
        values = process.constrain(z)
        blocks.append(np.concatenate([values[name].reshape(len(z), -1) for name in names], axis=1))
    return np.concatenate(blocks).astype(float)
