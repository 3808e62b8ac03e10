"""What an outcome says about the latent function f, and what f, if it is Gaussian, says about an outcome.

All is elementwise: ``mean`` and ``variance`` are the moments of f at a row; ``y`` and ``size`` its outcome and how many
trials, or how much exposure, it is of; ``phi`` are the likelihood's own parameters on the log scale. They broadcast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, override

import numpy as np
from scipy.special import ndtri

type Phi = Sequence[np.ndarray]

LOG_2PI = float(np.log(2 * np.pi))
# Newton steps to the mode of a log-concave density times a Gaussian, and their largest size.
_NEWTON, _STEP = 12, 3.0
# Nodes on either side of it, up to where the log density has fallen by so much, and how many ends are tried.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_FALL, _ENDS = 16.0, 6
# Nodes over a Gaussian that is nearly right.
_HERMITE, _LOG_HERMITE = np.polynomial.hermite.hermgauss(16)
_LOG_HERMITE = np.log(_LOG_HERMITE) + np.square(_HERMITE)
# Equally probable values of a standard normal; too far apart where an outcome leaves less of the variance of f.
_NORMAL, _NARROW = ndtri((np.arange(12) + 0.5) / 12), 1.0
# Integers taken one by one in a sum over counts, and values in all.
_EACH, _VALUES = 12, 32


class Tilted(NamedTuple):
    """Log Z of Z = ∫ N(f | mean, variance) p(y | f) df, its slope and minus its second derivative in the mean.

    ``in_phi`` are its derivatives in the likelihood's parameters, ``in_power`` that in a power of the likelihood. The
    mean of f given y is mean + variance * slope, its variance is variance - variance² * bend.
    """

    log_z: np.ndarray
    slope: np.ndarray
    bend: np.ndarray
    in_phi: tuple[np.ndarray, ...] = ()
    in_power: np.ndarray | float = 0.0


class Likelihood(ABC):
    """The distribution of an outcome given the latent function.

    ``parameters`` are names, prior means and prior sds of its own parameters on the natural log scale.
    """

    name: str
    parameters: tuple[tuple[str, float, float], ...] = ()
    # What each row has besides, as an argument of builders.
    size_name: str | None = None
    # Whether outcomes are real numbers, not counts; whether the function then has the unit of y; whether the expected
    # outcome has no upper end, so that its mean is out of all proportion where little is known.
    is_real, has_unit, has_no_end = False, True, False
    # Shares of an update of sites that are made, of the first ones and where errors do not fall; how many times as many
    # updates as usual.
    shares, sweeps = (1.0, 0.2), 1
    # The largest variance of a site, relative to that of the function: outcomes worth less are ignored.
    worthless = 1e6

    def read(self, y: Any, size: np.ndarray | None) -> None:
        """Raise a ValueError for outcomes (n,), or NaN for failures, that cannot be; ``size`` (n,) may be None."""
        if self.is_real:
            return
        y = np.asarray(y, float)
        if (strange := (y < 0) | (y != np.round(y))).any():
            shown = ", ".join(f"{value:g}" for value in np.unique(y[strange])[:5])
            raise ValueError(f"outcomes of likelihood={self.name!r} are counts, 0, 1, 2, …; got {shown}")

    @abstractmethod
    def tilted(
        self, mean: Any, variance: Any, y: Any, size: Any, phi: Phi,
        near: tuple[np.ndarray, np.ndarray] | None = None, power: float = 1.0,
    ) -> Tilted:  # fmt: skip
        """The density of an outcome where f is Gaussian, and what the outcome says about f.

        It takes less time with the mean and variance of a Gaussian that is ``near`` to f given the outcome. The
        likelihood is taken to a ``power``.
        """

    @abstractmethod
    def log_density(self, f: np.ndarray, y: Any, size: Any, phi: Phi) -> np.ndarray:
        """Log p(y | f)."""

    def log_marginal(self, y: Any, mean: Any, variance: Any, size: Any, phi: Phi) -> np.ndarray:
        """Log density of outcomes y (K, 1, m) where f has moments (S, m)."""
        return self.tilted(mean, variance, y, size, phi).log_z

    @abstractmethod
    def guess(self, y: np.ndarray, size: np.ndarray, phi: Phi) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of a Gaussian in f that is roughly like the likelihood."""

    def as_function(self, y: np.ndarray) -> np.ndarray:
        """Real outcomes on the scale of the function, for default priors."""
        return y

    def of_data(self, y: np.ndarray) -> tuple[float, ...]:
        """What :meth:`given` takes from the data y (n,)."""
        return ()

    def given(self, phi: Phi, of_data: tuple[float, ...]) -> Phi:
        """The parameters (S, 1), and what follows from them and the data."""
        return phi

    def rate(self, f: np.ndarray, phi: Phi) -> np.ndarray:
        """The expected outcome of size one given f, which increases with it: f itself, unless there is a link."""
        return f

    def link(self, rate: Any, phi: Phi) -> np.ndarray:
        """The f of an expected outcome of size one; not finite for what that cannot be."""
        return rate

    @abstractmethod
    def rate_moments(self, mean: Any, variance: Any, phi: Phi) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the expected outcome of size one where f is Gaussian."""

    @abstractmethod
    def moments(self, mean: Any, variance: Any, size: Any, phi: Phi) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of an outcome where f is Gaussian."""

    @abstractmethod
    def noise(self, mean: Any, variance: Any, size: Any, phi: Phi) -> np.ndarray:
        """The variance of a Gaussian measurement of f that is worth as much as an outcome."""

    @abstractmethod
    def draw(self, f: np.ndarray, size: Any, phi: Phi, rng: np.random.Generator) -> np.ndarray:
        """Outcomes given f."""

    @abstractmethod
    def values(self, mean: np.ndarray, variance: np.ndarray, size: Any, phi: Phi) -> tuple[np.ndarray, np.ndarray]:
        """Values of an outcome (K, m) and log weights (K, m) of a sum over them, for f of moments (S, m)."""

    @abstractmethod
    def pymc(self, name: str, f: Any, size: Any, variables: dict[str, Any], **keywords: Any) -> Any:
        """The observed variable in PyMC, given the latent function and parameters by name."""


class LogConcave(Likelihood):
    """A likelihood whose log is concave in f."""

    @abstractmethod
    def terms(self, f: np.ndarray, y: Any, size: Any, phi: Phi) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log p(y | f), its first and minus its second derivative in f."""

    @override
    def log_density(self, f, y, size, phi):
        return self.terms(f, y, size, phi)[0]

    @override
    def log_marginal(self, y, mean, variance, size, phi):
        f = mean + np.sqrt(variance) * _NORMAL[:, None, None]
        with np.errstate(over="ignore"):
            log = self.terms(f, np.asarray(y)[:, None], size, phi)[0]
        highest = log.max(1, keepdims=True)
        log = np.log(np.exp(log - highest).mean(1)) + highest[:, 0]
        much = np.broadcast_to(self.noise(mean, variance, size, phi) < _NARROW * variance, log.shape)
        parts = (y, size, mean, variance, *self.guess(np.asarray(y), size, phi), *phi)
        y, size, mean, v, near, s, *phi = (np.broadcast_to(part, log.shape)[much] for part in parts)
        log[much] = self.tilted(mean, v, y, size, phi, ((mean * s + near * v) / (s + v), v * s / (s + v))).log_z
        return log

    def slopes(self, f: np.ndarray, y: Any, size: Any, phi: Phi) -> tuple[np.ndarray, ...]:
        """Derivatives of log p(y | f) in ``phi``."""
        return ()

    @override
    def tilted(self, mean, variance, y, size, phi, near=None, power=1.0):
        """By Gauss-Hermite quadrature over the Gaussian that is ``near``, or else by :meth:`_from_mode`."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if near is None:
                at, log_weights = self._from_mode(mean, variance, y, size, phi)
            else:
                center, width = (np.asarray(part)[..., None] for part in (near[0], np.sqrt(2 * near[1])))
                at, log_weights = center + width * _HERMITE, np.log(width) + _LOG_HERMITE
            y, size, mean, variance = (np.asarray(part)[..., None] for part in (y, size, mean, variance))
            phi = [np.asarray(part)[..., None] for part in phi]
            own, first, second = (power * part for part in self.terms(at, y, size, phi))
            away = at - mean
            log = own - 0.5 * np.square(away) / variance + log_weights
            highest = log.max(-1, keepdims=True)
            share = np.exp(log - highest)
            total = share.sum(-1)
            v = variance[..., 0]
            log_z = np.log(total) + highest[..., 0] - 0.5 * (LOG_2PI + np.log(v))
            share /= total[..., None]
            # Of two formulas each, that with the smaller rounding errors: for outcomes that say much, and little.
            from_prior, slope = (share * away).sum(-1), (share * first).sum(-1)
            left = (share * np.square(away - from_prior[..., None])).sum(-1) / v
            bend = (share * (second - np.square(first - slope[..., None]))).sum(-1)
            says_much = left < 0.5
            slope, bend = np.where(says_much, from_prior / v, slope), np.where(says_much, (1 - left) / v, bend)
            in_phi = tuple(power * (share * part).sum(-1) for part in self.slopes(at, y, size, phi))
        return Tilted(log_z, slope, bend, in_phi, (share * own).sum(-1) / power)

    def _from_mode(self, mean: Any, variance: Any, y: Any, size: Any, phi: Phi) -> tuple[np.ndarray, np.ndarray]:
        """Nodes (..., 40) and log weights of Gauss-Legendre quadrature on both sides of the mode, often unlike."""
        z, s = self.guess(y, size, phi)
        f = (mean * s + z * variance) / (s + variance)
        for _ in range(_NEWTON):
            _, first, second = self.terms(f, y, size, phi)
            step = (first * variance + mean - f) / (1 + second * variance)
            f = f + np.clip(step, -_STEP, _STEP)
        narrow = np.sqrt(variance / (1 + self.terms(f, y, size, phi)[2] * variance))[..., None]
        y, size, mean, variance, f = (np.asarray(part)[..., None] for part in (y, size, mean, variance, f))
        phi = [np.asarray(part)[..., None] for part in phi]

        def log_density(at: np.ndarray) -> np.ndarray:
            return self.terms(at, y, size, phi)[0] - 0.5 * np.square(at - mean) / variance

        # The Gaussian alone falls that far within so many sds.
        widest = np.sqrt(2 * _FALL * variance)
        ends = 4 * narrow * np.maximum(widest / (4 * narrow), 1.0) ** (np.arange(_ENDS) / (_ENDS - 1))
        highest, nodes, weights = log_density(f), [], []
        for side in (-1, 1):
            has_fallen = ~(log_density(f + side * ends) > highest - _FALL)
            has_fallen[..., -1] = True
            half = 0.5 * np.take_along_axis(ends, has_fallen.argmax(-1)[..., None], -1)
            nodes.append(f + side * half * (1 + _NODES))
            weights.append(np.log(half * _WEIGHTS))
        return np.concatenate(nodes, axis=-1), np.concatenate(weights, axis=-1)


def usual(size: np.ndarray) -> float:
    """Of how many trials, or how much exposure, the next outcome is: the median of those before, (n,)."""
    return float(np.sort(size)[(len(size) - 1) // 2])


def counts_between(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers (K, m) between low and high (m,), all of them or some, and log weights that make up for these."""
    low, high = np.floor(low), np.ceil(high)
    if (high - low).max() < _VALUES:
        steps = np.arange(int((high - low).max()) + 1)[:, None]
        values = low + steps
        return values, np.where(values <= high, 0.0, -np.inf)
    # Small ones each, all others in bins that grow with them, about their middle.
    top = np.maximum(high, low + _EACH) + 1
    small = np.concatenate([np.arange(_EACH)[:, None] + low, np.geomspace(low + _EACH, top, _VALUES - _EACH + 1)])
    edges = np.floor(np.where(low < _EACH, small, np.geomspace(np.maximum(low, 1.0), top, _VALUES + 1)))
    edges = np.minimum(edges, high + 1)
    values = np.floor((edges[:-1] + edges[1:] - 1) / 2)
    with np.errstate(divide="ignore"):
        return values, np.log(np.diff(edges, axis=0))
