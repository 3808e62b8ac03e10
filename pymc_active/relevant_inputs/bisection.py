"""Inputs that matter, by bisecting pairs of points: what changed f between two points is found by going half way.

Two points differ in all inputs not found yet. If f differs, so it does between one of them and the point that has half
of these inputs from each, or between that and the other: in the end a single input is left, and f differs with it. No
smoothness, no scales and no tie can mislead this; inputs that change f together are found as well. Without noise an
input takes about log₂ D evaluations. With noise every difference is measured as often as it must be, once where single
values show whatever matters, and a single input counts once new measurements confirm it. The search ends when many
pairs in a row show nothing that is left.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import suppress
from hashlib import blake2b
from itertools import count

import numpy as np
from scipy.special import chdtri

Points = Generator[np.ndarray, np.ndarray, None]
Verdict = Generator[np.ndarray, np.ndarray, bool]
# Two points, and as many fair values of each: two, one if noise is faint, none without noise.
Pair = tuple[np.ndarray, np.ndarray, list[float]]

# Points that are measured twice at first, to see whether there is noise.
_REPEATED = 4
# What a number of double precision does not have, and differences that rounding or a solver makes, as a part of y.
_DIGITS, _ROUNDING = 4e-15, 1e-9
# Standard errors at which a difference is worth following, and at which a single input is believed.
_FOLLOWED, _BELIEVED = 3.0, 4.0
# Standard errors, of the two values at each end, at which these are enough: a t with two degrees of freedom.
_CLEAR = 20.0
# With noise, measurements of a point on the way to an input, and most of each end where a single input is confirmed.
_FEWEST, _MOST, _MOST_AT_ENDS = 4, 16, 32
# Pairs that must show nothing at the end.
_PAIRS = 32
# More are drawn until noise explains them that easily; at most four times as many as without doubt, twice.
_LIKELY, _LONGEST = 0.2, 4
# At a p-value below this something is left; it is negligible if it accounts for less than this part of the variance,
# and noise that may hide a quarter of it is faint.
_SURPRISING, _NEGLIGIBLE, _FAINT = 0.01, 0.005, 0.25
_PERMUTATIONS = 2000
# Pairs whose differences, the largest of those that show nothing, are measured more precisely.
_LARGEST = 4


class _FailedError(Exception):
    """A point has no value."""


class Bisection:
    """A search on the unit box of ``n_dims`` inputs for those that matter, beside those already ``found``.

    ``noise_variance``, in squared units of y, is needed only if f is rough and repeats agree: the size of changes that
    do not matter. :meth:`run` yields points (k, D), and takes their values (k,), NaN where f failed. ``found`` grows.
    The last ``n_shown`` pairs have shown nothing, and ``p_value`` is that noise explains them; ``n_shown`` is 0 while
    there are too few. With noise, ``share_of_others`` is an estimate of the part of the variance of f, or while none is
    found of y, that inputs not found account for, and two standard errors more.
    """

    def __init__(self, n_dims: int, found: Iterable[int], rng: np.random.Generator, noise_variance: float = 0.0):
        self.n_dims, self.found, self.is_finished = n_dims, sorted(found), False
        self._rng, self._assumed = rng, noise_variance
        self._values: dict[bytes, list[float]] = {}
        # Different values, and the number of all.
        self._levels: set[float] = set()
        self._n_values = 0
        # Of repeats: the sum of squared deviations, and whether any two differ.
        self._squares, self._freedom, self._is_noisy = 0.0, 0, False
        self._ends: list[np.ndarray] = []
        # Inputs that were confirmed by repeats without noise, and their ends.
        self._unsure: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        # Whether single values of pairs have left a doubt.
        self._is_doubtful = False
        self._forget()

    def _forget(self) -> None:
        """Begin the last pairs anew, since an input was found."""
        self.p_value, self.n_shown = 1.0, 0
        self.share_of_others: tuple[float, float] | None = None
        self._pairs: list[Pair] = []
        self._n_wanted, self._is_second_try = _PAIRS, False

    @property
    def shows_nothing(self) -> bool | None:
        """Whether nothing is left that would be seen; None before the end."""
        return self.p_value > _SURPRISING or self._is_negligible if self.is_finished else None

    @property
    def _is_negligible(self) -> bool:
        return bool(self.found) and self.share_of_others is not None and self.share_of_others[1] < _NEGLIGIBLE

    # Measuring

    def _measure(self, points: list[np.ndarray], n: int) -> Points:
        """Have at least n values at each point."""
        # Repeats last: then the range of y tells what is rounding.
        missing = [x for k in range(n) for x in points if k >= len(self._of(x))]
        if missing:
            y = yield np.array(missing)
            for x, value in zip(missing, y.tolist(), strict=True):
                self._enter(self._of(x), value)
        if any(np.isnan(self._of(x)).all() for x in points):
            raise _FailedError

    def _enter(self, values: list[float], y: float) -> None:
        """One more value at a point; sums over all points are kept up to date."""
        old = [value for value in values if np.isfinite(value)]
        values.append(y)
        if not np.isfinite(y):
            return
        self._n_values += 1
        self._levels.add(y)
        if old:
            # How much one more value adds to the sum of squared deviations.
            self._squares += (y - float(np.mean(old))) ** 2 * len(old) / (len(old) + 1)
            self._freedom += 1
            self._is_noisy = self._is_noisy or abs(y - old[0]) > self._rounding(max(abs(y), abs(old[0])))

    def _of(self, x: np.ndarray) -> list[float]:
        # Points may be very long.
        return self._values.setdefault(blake2b(x.tobytes(), digest_size=16).digest(), [])

    @property
    def noise_variance(self) -> float:
        """Of the noise, pooled over all repeats; 0 if these agree."""
        return self._squares / self._freedom if self._is_noisy else 0.0

    @property
    def _is_faint(self) -> bool:
        """Whether noise is so small that what single values of the last pairs hide is far below what is negligible."""
        if not self._is_noisy or self._is_doubtful:
            return False
        # A few penalties must not make it faint.
        levels = np.sort(list(self._levels))
        variance = np.clip(levels, *np.quantile(levels, (0.05, 0.95))).var()
        # Two standard errors of the mean of half their squared differences are half the noise variance.
        return bool(self._most_noise / 2 < _FAINT * _NEGLIGIBLE * variance)

    @property
    def _most_noise(self) -> float:
        """What its variance is below, with 99 %."""
        return self._squares / float(chdtri(self._freedom, 0.99))

    def _rounding(self, size: float) -> float:
        """Differences that rounding makes of values of a size; a penalty elsewhere must not hide what happens here."""
        levels = np.array(list(self._levels))
        part = max(size, float(np.median(np.abs(levels))))
        return max(_DIGITS * size, _ROUNDING * min(part, float(np.ptp(levels))))

    def _error(self, n: int, m: int) -> float:
        """Standard error of a difference of means of noisy values."""
        noise = self._most_noise if self._is_faint else self.noise_variance
        return float(np.sqrt(noise * (1 / n + 1 / m)))

    def _difference(self, a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
        """Of f between two points, in size, and its standard error."""
        one, other = (float(np.nanmean(self._of(x))) for x in (a, b))
        if self._is_noisy:
            return abs(other - one), self._error(len(self._of(a)), len(self._of(b)))
        # If repeats agree, a noise that is assumed all the same is a roughness of f, which they do not average out.
        return abs(other - one), max(self._rounding(max(abs(one), abs(other))), float(np.sqrt(2 * self._assumed)))

    # The search

    def run(self) -> Points:
        """All points of the search, in turn."""
        with suppress(_FailedError):
            yield from self._measure(list(self._rng.random((_REPEATED, self.n_dims))), 2)
        for kind in count():
            if len(self.found) == self.n_dims:
                break
            # A pair that differs, and cannot be followed, does not count as one that shows nothing.
            with suppress(_FailedError):
                yield from self._confirm_anew()
                pair = yield from self._new_pair(kind)
                if not (self._is_followed(*pair[:2]) and (yield from self._follow(pair, _FEWEST))):
                    self._pairs.append(pair)
            if not self._is_faint:
                # Single values are no measure of the noise.
                self._pairs = [pair for pair in self._pairs if len(pair[2]) != 2]
            if len(self._pairs) >= self._n_wanted and (yield from self._is_decided()):
                break
        self.is_finished = True

    def _is_decided(self) -> Verdict:
        """Whether the pairs say enough; if not, more are wanted, or others."""
        values = [y for _, _, y in self._pairs]
        self.p_value, self.share_of_others, self.n_shown = self._p_value(values), self._share(values), len(values)
        if self._is_faint and not self._is_negligible:
            self._is_doubtful = True
            self._forget()
            return False
        if self.p_value > _LIKELY or self._is_negligible:
            return True
        if self._n_wanted >= _LONGEST * _PAIRS:
            # One search in a hundred comes here by chance: as many new pairs decide.
            is_decided = self._is_second_try or self.p_value > _SURPRISING
            self._pairs, self._is_second_try = [], True
            return is_decided
        self._n_wanted += _PAIRS // 2
        # Single differences may be too small to be seen: the largest are measured more precisely.
        by_size = sorted(self._pairs, key=lambda pair: self._difference(*pair[:2])[0])
        for pair in by_size[: -_LARGEST - 1 : -1]:
            with suppress(_FailedError):
                if (yield from self._follow(pair, _MOST)):
                    break
        return False

    def _new_pair(self, kind: int) -> Generator[np.ndarray, np.ndarray, Pair]:
        """A pair and its first values: with noise, new ones at each end."""
        a, b = self._draw_pair(kind)
        if not self._is_noisy:
            yield from self._measure([a, b], 1)
            return a, b, []
        # Old values, for which a point was chosen, are no fair sample; corners of few inputs come again.
        fair: list[float] = []
        n = 1 if self._is_faint else 2
        for x in (a, b):
            before = len(self._of(x))
            yield from self._measure([x], before + n)
            fair += self._of(x)[before : before + n]
        return a, b, fair

    def _follow(self, pair: Pair, n: int) -> Verdict:
        """Bisect a pair if f differs, with n values at each end; whether that has found inputs, or noise."""
        a, b, _ = pair
        before = len(self.found), self._is_noisy
        if self._is_noisy and not self._is_faint:
            yield from self._measure([a, b], n)
        if self._is_followed(a, b):
            yield from self._bisect(a, b, self._rng.permutation(np.flatnonzero(a != b)))
        has_found = before != (len(self.found), self._is_noisy)
        if has_found:
            self._forget()
        return has_found

    def _draw_pair(self, kind: int) -> tuple[np.ndarray, np.ndarray]:
        """Two points that differ in all inputs not found: anywhere or on opposite faces, and around known changes."""
        rest = np.setdiff1d(np.arange(self.n_dims), self.found)
        a, b = self._rng.random((2, self.n_dims))
        is_known = kind % 4 >= 2 and len(self._ends) > 0
        if kind % 2:
            b = b.round()
        if is_known:
            a = self._ends[self._rng.integers(len(self._ends))].copy()
        elif kind % 2:
            a[rest] = 1 - b[rest]
        other = a.copy()
        other[rest] = b[rest]
        return a, other

    def _is_followed(self, a: np.ndarray, b: np.ndarray) -> bool:
        size, error = self._difference(a, b)
        return size > _FOLLOWED * error

    def _bisect(self, a: np.ndarray, b: np.ndarray, moved: np.ndarray) -> Points:
        """Find inputs among those moved that explain the difference of f between a and b."""
        if len(moved) == 1:
            if (yield from self._is_confirmed(a, b)):
                self.found = sorted({*self.found, int(moved[0])})
                self._ends += [a, b]
                if not self._is_noisy:
                    self._unsure[int(moved[0])] = a, b
            return
        if self._is_noisy:
            size, error = self._difference(a, b)
            n = int(np.ceil(2 * self.noise_variance * (_BELIEVED / max(size, error)) ** 2))
            n = int(np.clip(n, 1 if self._is_faint else 2, _MOST))
            yield from self._measure([a, b], n)
        else:
            n = 1
        half = moved[: len(moved) // 2]
        middle = a.copy()
        middle[half] = b[half]
        yield from self._measure([middle], n)
        ways = [(a, middle, half), (middle, b, moved[len(half) :])]
        followed = [way for way in ways if self._is_followed(way[0], way[1])]
        for way in followed or [max(ways, key=lambda way: self._difference(way[0], way[1])[0])]:
            yield from self._bisect(*way)

    def _is_confirmed(self, a: np.ndarray, b: np.ndarray) -> Verdict:
        """Whether new measurements confirm that f differs between two points."""
        first = len(self._of(a)), len(self._of(b))
        n = 1
        if self._is_noisy:
            # A few readings that were rounded, or counts, agree by chance.
            n = 8 if len(self._levels) < self._n_values / 2 else 2 if self._is_faint else 4
        while True:
            yield from self._measure([a], first[0] + n)
            yield from self._measure([b], first[1] + n)
            if not self._is_noisy:
                return self._is_followed(a, b)
            new = [np.array(self._of(x)[k:]) for x, k in zip((a, b), first, strict=True)]
            new = [y[np.isfinite(y)] for y in new]
            if min(map(len, new)) < 2:
                return False
            size = abs(new[0].mean() - new[1].mean())
            # The noise here may be larger than elsewhere.
            local = np.sqrt(sum(y.var(ddof=1) / len(y) for y in new))
            error = self._error(len(new[0]), len(new[1]))
            is_clear = n > 2 or (local < _BELIEVED * error and size > _CLEAR * local)
            error = max(error, local)
            if is_clear and size > _BELIEVED * error:
                return True
            if size < error or n >= _MOST_AT_ENDS:
                return False
            n *= 2

    def _confirm_anew(self) -> Points:
        """Drop inputs found before any repeat differed, unless they are confirmed with noise."""
        while self._is_noisy and self._unsure:
            i, (a, b) = self._unsure.popitem()
            if not (yield from self._is_confirmed(a, b)):
                self.found.remove(i)

    def _fair(self, values: list[list[float]]) -> np.ndarray:
        """As many of each end of all pairs, (pairs, 2, n), but of those that failed."""
        n = min(map(len, values)) // 2
        y = np.array([[y[:n], y[len(y) // 2 :][:n]] for y in values])
        return y[np.isfinite(y).all((1, 2))]

    def _share(self, values: list[list[float]]) -> tuple[float, float] | None:
        """Part of the variance of f that differs between the ends of pairs, and two standard errors more."""
        # Half of the squared difference at two random points is what the inputs in which they differ account for, in
        # total; at opposite corners it is more.
        y = self._fair(values)
        if not y.size:
            return None
        # Of a difference of means.
        noise = np.square(np.diff(y)).sum((1, 2)) / 4 if y.shape[2] == 2 else np.full(len(y), 2 * self.noise_variance)
        changes = (np.square(np.diff(y.mean(2))[:, 0]) - noise) / 2
        variance = float(y.var()) - (float(noise.mean()) * y.shape[2] / 2 if self.found else 0.0)
        if variance <= 0:
            return None
        mean, error = max(float(changes.mean()), 0.0), float(changes.std(ddof=1) / np.sqrt(len(y)))
        return min(mean / variance, 1.0), min((mean + 2 * error) / variance, 1.0)

    def _p_value(self, values: list[list[float]]) -> float:
        """That all pairs differ by noise alone, whatever its distribution: by permuting the four values of each."""
        y = self._fair(values)
        if len(y) == 0 or y.shape[2] < 2:
            return 1.0
        y = y.reshape(-1, 4)
        total = y.sum(1)
        splits = np.abs(np.stack([2 * (y[:, 0] + y[:, i]) - total for i in (1, 2, 3)]))
        drawn = splits[self._rng.integers(3, size=(_PERMUTATIONS, len(y))), np.arange(len(y))].sum(1)
        return float((1 + np.sum(drawn >= splits[0].sum() * (1 - _ROUNDING))) / (1 + _PERMUTATIONS))
