"""What the next outcome tells about something else: one estimator for parameters, targets, predictions and models.

Particles with weights w stand for the posterior. Outcomes y_k of a candidate are drawn, one from each particle; of few
possible values all are taken, with their probabilities. The particles' weights given y_k follow from their densities,
q_k ∝ w p(y_k | particle). The information about all parameters is the mean over k of the divergence of q_k from w.

About a quantity v, where some parameters are no part of it, these divergences may mislead: an outcome that tells only
what is no part of v still leaves few particles, and thereby few values of v. So the *other* particles judge the v_k of
the particle that the outcome is of: the mean of log p(v_k | y_k) - log p(v_k), with densities from all particles but
k, is a lower bound of the information (Barber & Agakov 2003) for whatever stands for p(v | y). The best one of a few is
taken: likelihoods to a power, kernels for v of several widths, and a share of the prior. The divergence counts where it
is within two standard errors of the bound, and else the nearer end: where little is learned it varies less.

Log densities of pending outcomes, drawn from the same particles, add up, so that the information of a batch is joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp, ndtri, xlogy

from pymc_active.process.members import Members

# Numbers of one array, how far whole outcomes may be beyond the drawn ones, as a share of their range, and how many of
# them take about as long as the outcomes of all particles, and values of v for a divergence (guesses).
_BLOCK, _BEYOND, _FEW, _SOME = 2_000_000, 0.3, 32, 128
# Powers of a density, sds of a kernel for the normal scores of targets, and shares of the prior. Of lines with noise of
# 0.003 to 1 sds and 256 particles (12 seeds), 0.00 to 0.02 nats on average where nothing is learned, 0.04 at most, and
# for one target 0.8 to 1.1 of the exact value above 0.1 nats, for three 0.78 to 1.0; divergences alone said up to 1.
_POWERS, _WIDTHS = (1.0, 0.1, 0.01), (1.0, 0.5, 0.25, 0.1, 0.04)
_TYPE = np.float32  # Bounds need few digits.
_SHARES = (0.0, 0.03, 0.1, 0.3, 0.6, 0.85)


@dataclass(frozen=True, eq=False)
class AllParameters:
    """What is to be learned: the particle itself."""

    weights: np.ndarray

    def of_values(self, log: np.ndarray) -> np.ndarray:
        """The information (m,) from one of K possible values, of log probabilities (K, S, m)."""
        return (np.exp(logsumexp(log, axis=1, b=self.weights[:, None])) * self._divergence(log)).sum(0)

    def of_draws(self, log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The information (m,) from outcomes of the particles, of log densities (S, S, m), and its standard error."""
        gain = self._divergence(log)
        mean = self.weights @ gain
        return mean, np.sqrt(np.square(self.weights) @ np.square(gain - mean))

    def _divergence(self, log: np.ndarray) -> np.ndarray:
        """Divergences (K, m) of the weights given each outcome from those before."""
        q = self.weights[:, None] * np.exp(_relative(log))
        total = q.sum(1, keepdims=True)
        # An outcome that is impossible under all tells nothing.
        q = np.where(total > 0, q / np.where(total > 0, total, 1.0), self.weights[:, None])
        return xlogy(q, q / self.weights[:, None]).sum(1)


@dataclass(frozen=True, eq=False)
class Virtual:
    """A quantity v_k of each particle; ``ratios`` (S, R, S) are p(v_k | particle) / p(v_k) in R ways.

    They are zero for k itself and its repeats, which ``is_own`` (S, S) tells; p(v_k) is the mean over all others. The
    ``plain`` way is the one for divergences.
    """

    weights: np.ndarray
    ratios: np.ndarray
    is_own: np.ndarray
    plain: int = 0

    @classmethod
    def of(cls, weights: np.ndarray, logs: Sequence[np.ndarray], which: np.ndarray, plain: int = 0) -> Virtual:
        """From log densities (S, S) of each particle's v, in rows, under each; repeats have equal numbers ``which``."""
        is_own = which[:, None] == which
        density = np.stack([np.exp(_relative(np.where(is_own, -np.inf, log)), dtype=_TYPE) for log in logs], axis=1)
        mean = (density @ weights) / np.maximum((~is_own) @ weights, np.finfo(float).tiny)[:, None]
        return cls(weights, density / np.where(mean > 0, mean, 1.0)[:, :, None].astype(_TYPE), is_own, plain)

    def of_values(self, log: np.ndarray) -> np.ndarray:
        """As of :class:`AllParameters`."""
        q = self.weights[:, None] * np.exp(log)
        others = np.maximum(np.tensordot(~self.is_own, q, (1, 1)), np.finfo(float).tiny)
        given = np.tensordot(self.ratios, q.astype(_TYPE), (2, 1)) / others[:, None]
        share = q.sum(1)
        return self._within(
            share, q / np.maximum(share, np.finfo(float).tiny)[:, None], *_bound(given, q.swapaxes(0, 1)[:, None])
        )

    def of_draws(self, log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As of :class:`AllParameters`."""
        w, log, given = self.weights[:, None].astype(_TYPE), _relative(log).astype(_TYPE), []
        all_q = w * np.exp(log)
        all_q /= np.maximum(all_q.sum(1, keepdims=True), np.finfo(_TYPE).tiny)
        log = _relative(np.where(self.is_own[:, :, None], _TYPE(-np.inf), log))
        for power in _POWERS:
            q = w * np.exp(_TYPE(power) * log)
            given.append(self.ratios @ q / np.maximum(q.sum(1, keepdims=True), np.finfo(_TYPE).tiny))
        value, error = _bound(np.concatenate(given, axis=1)[:, :, None], self.weights[:, None, None, None])
        return self._within(np.broadcast_to(self.weights[:, None], all_q[:, 0].shape), all_q, value, error), error

    def _within(self, share: np.ndarray, q: np.ndarray, value: np.ndarray, error: np.ndarray) -> np.ndarray:
        """The mean divergence of v given outcomes, of ``share`` (K, m), within two errors of a bound (m,).

        With weights q (K, S, m) it varies less than the bound where little is learned, and is too large where few
        particles are left.
        """
        some = slice(None, None, max(len(self.weights) // _SOME, 1))
        w, relative = self.weights[some], self.ratios[some, self.plain] @ q.astype(_TYPE, copy=False)
        plain = (share * np.einsum("v,kvm->km", w / w.sum(), xlogy(relative, relative))).sum(0)
        return np.clip(plain, np.maximum(value - 2 * error, 0.0), value + 2 * error)


def _relative(log: np.ndarray) -> np.ndarray:
    """Log densities (K, S, ...) relative to the largest of each outcome."""
    top = log.max(1, keepdims=True)
    return log - np.where(np.isfinite(top), top, 0.0)


def _bound(ratios: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the log of ratios (S, R, V, m), mixed with some of one, in the best of R ways; its standard error."""
    best, error = np.zeros((2, ratios.shape[3]))
    for share in _SHARES:
        gains = np.log(np.maximum((1 - share) * ratios + share, 1e-30))
        values = (weights * gains).sum((0, 2))
        errors = np.sqrt(np.square((weights * (gains - values[:, None])).sum(2)).sum(0))
        way = values.argmax(0)[None]
        value, its_error = (np.take_along_axis(of, way, axis=0)[0] for of in (values, errors))
        best, error = np.maximum(value, best), np.where(value > best, its_error, error)
    return best, error


def of_models(members: Members) -> Virtual:
    """The information about which of the models a particle is of."""
    with np.errstate(divide="ignore"):
        return Virtual.of(members.weights, [np.log(members.owner[:, None] == members.owner)], members.distinct)


def of_targets(w: np.ndarray, values: np.ndarray) -> Virtual:
    """The information about numbers (S, t) of particles of weights w, by kernels for their normal scores."""
    from scipy.stats import rankdata  # takes long to load

    scores = ndtri((rankdata(values, axis=0) - 0.5) / len(values))
    squares = np.square(scores[:, None] - scores).sum(2)
    which = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    return Virtual.of(w, [-0.5 * squares / width**2 for width in _WIDTHS], which, _WIDTHS.index(0.25))


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
    return Virtual.of(members.weights, [power * log for power in _POWERS], members.distinct)


@dataclass(frozen=True, eq=False)
class Information:
    """The information about a quantity from an outcome at candidates, given outcomes at pending rows.

    ``pending`` (S, S) are log densities of these, drawn from each particle, in rows, under each particle.
    """

    members: Members
    quantity: AllParameters | Virtual
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
        members = self.members
        Y = members.draw(X, shift)
        # A censored outcome may be whole in all draws, and is not a count.
        is_count = self.pending is None and all(process.is_whole for process in members.processes)
        values, few = _possible(Y, len(Y) if isinstance(self.quantity, AllParameters) else _FEW)
        if is_count and few.any():
            value, error = np.empty((2, len(X)))
            value[few] = self.quantity.of_values(members.log_densities(values[:, few], X[few]))
            error[few] = 0.0
            if not few.all():
                value[~few], error[~few] = self._by_draws(Y[:, ~few], X[~few])
            return value, error
        return self._by_draws(Y, X)

    def _by_draws(self, Y: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log = self.members.log_densities(Y, X)
        if self.pending is None:
            return self.quantity.of_draws(log)
        before, _ = self.quantity.of_draws(self.pending[:, :, None])
        value, error = self.quantity.of_draws(log + self.pending[:, :, None])
        return value - before, error


def _possible(Y: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """All values (K, m) that whole outcomes drawn (S, m) may have, and at which candidates (m,) these are few."""
    low, high = Y.min(0), Y.max(0)
    beyond = np.ceil(_BEYOND * (high - low)) + 2
    counts = np.where((np.round(Y) == Y).all(0), high - low + 2 * beyond + 1, np.inf)
    few = counts <= most
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
