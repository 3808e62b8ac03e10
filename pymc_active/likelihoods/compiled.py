"""A likelihood of which only functions are known: the log density and its derivatives, the expected outcome, draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, override

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from pymc_active.likelihoods.base import LogConcave, Phi, counts_between

# The log density of what cannot be: finite, since zero times infinity is not a number.
_IMPOSSIBLE = -1e100
# Doublings of a step that brackets a mode, and Newton steps or bisections within the bracket.
_DOUBLINGS, _STEPS, _CLOSE = 40, 60, 1e-9
# Outcomes drawn to see where they are, and standard normal places of f and of outcomes among these.
_FEW, _DRAWN, _FAR, _PLACES = 600, 3000, np.linspace(-3.5, 3.5, 15), ndtr(np.linspace(-3.2, 3.2, 48))
_LOG_SHARES = np.log(np.diff([0.0, *(_PLACES[1:] + _PLACES[:-1]) / 2, 1.0]))
# Equally probable places of f.
_NORMAL = ndtri((np.arange(40) + 0.5) / 40)
# Places of f where moments of outcomes are summed; between them they are interpolated.
_TABLE = np.linspace(0, 1, 48)
_HERMITE, _SHARES = np.polynomial.hermite_e.hermegauss(16)
_SHARES = _SHARES / _SHARES.sum()


class Functions(NamedTuple):
    """Functions of f (A, S, B), of y and sizes (A, 1, B), and of parameters phi (1, S, 1, q).

    ``terms`` are log p(y | f), its first and minus its second derivative in f, and ``slopes`` its derivatives in phi.
    ``expected`` takes f and sizes (N,) and phi (q,), and returns expected outcomes; ``draw`` takes a generator and
    lists of f and sizes (N,) and phi (q,), and returns a list of outcomes.
    """

    terms: Callable[..., Sequence[np.ndarray]]
    slopes: Callable[..., np.ndarray]
    expected: Callable[..., np.ndarray]
    draw: Callable[[np.random.Generator, list], list[np.ndarray]]


class CompiledLikelihood(LogConcave):
    """Any log-concave likelihood by its functions; its parameters are unconstrained, and 0 in ``parameters``."""

    def __init__(
        self, name: str, labels: Sequence[str], functions: Functions, *, is_discrete: bool, size_name: str | None = None
    ):
        self.name, self.functions, self.is_discrete, self.size_name = name, functions, is_discrete, size_name
        self.parameters = tuple((label, 0.0, 1.0) for label in labels)
        # Places where the function may be (k,), and values of phi (T, 1) each, as the prior has them.
        self.places, self.typical = np.linspace(-3, 3, 13), [np.zeros((1, 1)) for _ in labels]
        # Whether outcomes are real numbers about f.
        self.is_real = False

    @override
    def read(self, y, size):
        y = np.asarray(y, float)
        wrong = y != np.round(y) if self.is_discrete else ~np.isfinite(y)
        if not wrong.any():
            f, of = self.places[:, None, None], 1.0 if size is None else np.asarray(size, float)
            wrong = (self.log_density(f, y, of, self.typical) <= _IMPOSSIBLE).all((0, 1))
        if wrong.any():
            raise ValueError(
                f"outcomes of {self.name} cannot be {', '.join(f'{v:g}' for v in np.unique(y[wrong])[:5])}"
            )

    def nearest(self, y: np.ndarray) -> np.ndarray:
        """The outcomes nearest to expected ones."""
        return np.round(y) if self.is_discrete else y

    def _call(self, function: Callable, f: Any, y: Any, size: Any, phi: Phi) -> tuple[Any, tuple[int, ...]]:
        """A function of arrays that broadcast, and the shape of its results."""
        shape = np.broadcast_shapes(*map(np.shape, (f, y, size, *phi)))
        lengths = np.broadcast_shapes(*map(np.shape, phi), (1,) * len(shape))
        axis = int(np.argmax(lengths)) if phi and max(lengths, default=1) > 1 else 0
        split = lengths[axis] if shape and lengths[axis] > 1 else 1
        before, after = shape[: axis if split > 1 else 0], shape[axis + 1 :] if split > 1 else shape
        folded, single = (int(np.prod(before)), split, int(np.prod(after))), (*before, 1, *after)
        if split == 1:
            single = shape
        of_rows = [
            np.broadcast_to(np.asarray(part, float), single).reshape(folded[0], 1, folded[2]) for part in (y, size)
        ]
        columns = [np.broadcast_to(np.asarray(part, float), lengths).reshape(1, split, 1) for part in phi]
        given = np.stack(columns, -1) if columns else np.empty((1, split, 1, 0))
        f = np.broadcast_to(np.asarray(f, float), shape).reshape(folded)
        with np.errstate(all="ignore"):
            return function(f, *of_rows, given), folded

    def _shape(self, f: Any, y: Any, size: Any, phi: Phi) -> tuple[int, ...]:
        return np.broadcast_shapes(*map(np.shape, (f, y, size, *phi)))

    @override
    def terms(self, f, y, size, phi):
        found, folded = self._call(self.functions.terms, f, y, size, phi)
        shape = self._shape(f, y, size, phi)
        log, first, second = (np.broadcast_to(part, folded).reshape(shape) for part in found)
        good = np.isfinite(log) & np.isfinite(first) & np.isfinite(second)
        return np.where(good, log, _IMPOSSIBLE), np.where(good, first, 0.0), np.where(good, second, 0.0)

    @override
    def slopes(self, f, y, size, phi):
        if not phi:
            return ()
        found, folded = self._call(self.functions.slopes, f, y, size, phi)
        found = np.nan_to_num(np.broadcast_to(found, (*folded, len(phi))), posinf=0.0, neginf=0.0)
        return tuple(found[..., k].reshape(self._shape(f, y, size, phi)) for k in range(len(phi)))

    @override
    def first_sites(self, mean, variance, y, size, phi, power):
        """What each outcome alone makes of the prior."""
        told = self.tilted(mean, variance, y, size, phi, None, power)
        bend = np.maximum(told.bend, 1 / (variance * (1 + self.worthless)))
        return mean + told.slope / bend, 1 / bend - variance

    @override
    def guess(self, y, size, phi):
        of_prior = np.zeros(self._shape(0.0, y, size, phi))
        return self.first_sites(of_prior, of_prior + 1, y, size, phi, 1.0)

    @override
    def _mode(self, mean, variance, y, size, phi):
        """By a bracket, since nothing is known of the scale of f, and Newton steps that stay in it."""
        mean, variance = (np.broadcast_to(part, self._shape(mean, y, size, phi)) for part in (mean, variance))

        def rise(f):
            log, first, second = self.terms(f, y, size, phi)
            slope = first - (f - mean) / variance
            return slope, second + 1 / variance, log <= _IMPOSSIBLE

        side = np.sign(rise(mean)[0])
        near, far, step, done = mean, mean, side * np.sqrt(variance), side == 0
        for _ in range(_DOUBLINGS):
            far = np.where(done, far, near + step)
            slope, _, is_beyond = rise(far)
            done = done | is_beyond | (slope * side <= 0)
            if done.all():
                break
            near, step = np.where(done, near, far), np.where(done, step, 2 * step)
        f = 0.5 * (near + far)
        for _ in range(_STEPS):
            slope, bend, is_beyond = rise(f)
            is_past = is_beyond | (slope * side <= 0)
            far, near = np.where(is_past, f, far), np.where(is_past, near, f)
            new = f + slope / np.maximum(bend, 1e-3 / variance)
            new = np.where(~is_beyond & ((new - near) * (new - far) < 0), new, 0.5 * (near + far))
            moved, f = np.abs(new - f), new
            if (moved <= _CLOSE * np.sqrt(variance)).all():
                break
        return f

    @override
    def rate(self, f):
        return self._expected(f, 1.0)

    def _expected(self, f: Any, size: Any) -> np.ndarray:
        return self._mean(f, size, np.array([part.flat[0] for part in self.typical]))

    def expected(self, f: np.ndarray, size: float) -> np.ndarray:
        """Expected outcomes (T, k) at f (k,) with the typical parameters."""
        columns = [part.ravel() for part in self.typical]
        return np.stack(
            [self._mean(f, size, np.array(phi)) for phi in (zip(*columns, strict=True) if columns else [()])]
        )

    def _mean(self, f: Any, size: Any, phi: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(np.shape(f), np.shape(size))
        of_all = [np.broadcast_to(np.asarray(part, float), shape).ravel() for part in (f, size)]
        with np.errstate(all="ignore"):
            return np.broadcast_to(self.functions.expected(*of_all, phi), of_all[0].shape).reshape(shape)

    @override
    def link(self, rate):
        rate = np.asarray(rate, float)
        low, high = -np.ones(rate.shape), np.ones(rate.shape)
        for _ in range(_DOUBLINGS):
            low = np.where(self.rate(low) < rate, low, 2 * low)
            high = np.where(self.rate(high) > rate, high, 2 * high)
        is_between = (self.rate(low) < rate) & (self.rate(high) > rate)
        for _ in range(2 * _STEPS):
            middle = 0.5 * (low + high)
            is_low = self.rate(middle) < rate
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        return np.where(is_between, 0.5 * (low + high), np.nan)

    @override
    def draw(self, f, size, phi, rng):
        f = np.asarray(f, float)
        shape = self._shape(f, 0.0, size, phi)
        lengths = np.broadcast_shapes(*map(np.shape, phi), (1,) * len(shape))
        axis = int(np.argmax(lengths)) if phi else 0
        split = lengths[axis] if phi and shape else 1
        moved = [
            np.moveaxis(np.broadcast_to(np.asarray(part, float), shape), axis, 0).reshape(split, -1)
            for part in (f, size)
        ]
        columns = [np.broadcast_to(part, lengths).reshape(split) for part in phi]
        of_each = [(moved[0][s], moved[1][s], np.array([column[s] for column in columns], float)) for s in range(split)]
        drawn = np.stack(self.functions.draw(rng, of_each)).astype(float)
        first = (shape[axis], *shape[:axis], *shape[axis + 1 :]) if shape else ()
        return np.moveaxis(drawn.reshape(first), 0, axis) if shape else drawn.reshape(())

    @override
    def values(self, mean, variance, size, phi):
        # Of counts only the ends matter.
        places, least = (_FAR, _FEW) if self.is_discrete else (_NORMAL, _DRAWN)
        f = mean + np.sqrt(variance) * np.tile(places, max(1, least // (len(places) * len(mean))))[:, None, None]
        # The same at each call, so that sums are smooth in the inputs.
        drawn = self.draw(f, size, phi, np.random.default_rng(0)).reshape(-1, mean.shape[-1])
        drawn = np.where(np.isfinite(drawn), drawn, np.nan_to_num(self._expected(f.reshape(drawn.shape), size)))
        if self.is_discrete:
            low, high = drawn.min(0), drawn.max(0)
            return counts_between(low - 1 - 0.2 * (high - low), high + 1 + 0.6 * (high - low))
        # Quantiles of outcomes stand for all between them, whatever the units and the skew.
        Y = np.quantile(drawn, _PLACES, axis=0)
        density = logsumexp(self.log_marginal(Y[:, None], mean, variance, size, phi), axis=1) - np.log(len(mean))
        return Y, _LOG_SHARES[:, None] - np.maximum(density, _IMPOSSIBLE)

    def _given(self, f: np.ndarray, size: Any, phi: Phi) -> tuple[np.ndarray, np.ndarray]:
        """Variance of an outcome given f (S, k), and its Fisher information in f, (S, k) each; one size for all."""
        at = np.unique(np.quantile(f, _TABLE))
        S = max([1, *map(len, phi)])
        F = np.broadcast_to(at, (S, len(at)))
        Y, log_weights = self.values(F, np.zeros_like(F), size, phi)
        log, _, second = self.terms(F[None], Y[:, None], size, phi)
        with np.errstate(all="ignore"):
            share = np.exp(log + log_weights[:, None])
            share = share / share.sum(0)
            away = np.square(Y[:, None] - self._expected(F, size))
            if self.is_discrete:
                # Within bins of several counts.
                away = away + (np.exp(2 * log_weights[:, None]) - 1) / 12
            # Logarithms, since both often grow exponentially with f.
            tables = [np.log(np.maximum((share * part).sum(0), 1e-300)) for part in (away, second)]
            variance, information = (
                np.exp([np.interp(row, at, table[s % S]) for s, row in enumerate(f)]) for table in tables
            )
        return variance, information

    @override
    def moments(self, mean, variance, size, phi):
        mean, variance = np.broadcast_arrays(*np.atleast_2d(mean, variance))
        sizes, out = np.broadcast_to(np.asarray(size, float), mean.shape[-1:]), np.empty((2, *mean.shape))
        for one in np.unique(sizes):
            of = sizes == one
            f = mean[:, of] + np.sqrt(variance[:, of]) * _HERMITE[:, None, None]
            expected, (q, S, k) = self._expected(f, one), f.shape
            given = self._given(f.swapaxes(0, 1).reshape(S, q * k), one, phi)[0].reshape(S, q, k)
            out[0][:, of] = center = np.einsum("q,qsk->sk", _SHARES, expected)
            spread = np.square(expected - center) + given.swapaxes(0, 1)
            out[1][:, of] = np.einsum("q,qsk->sk", _SHARES, spread)
        return out[0], out[1]

    @override
    def noise(self, mean, variance, size, phi):
        """By the Fisher information at the median."""
        shape = np.shape(mean)
        columns = [np.reshape(part, (-1, 1)) for part in phi]
        information = self._given(np.atleast_2d(mean), size, columns)[1].reshape(shape)
        return 1 / np.maximum(information, 1e-300)

    @override
    def pymc(self, name, f, size, variables, **keywords):
        raise NotImplementedError("the PyMC model exists already")
