"""Random functions with (nearly) the covariance of a Gaussian process: sums of features with normal weights.

A stationary kernel is a mixture of cosines (Bochner). Frequencies are drawn from its spectral density, and a cosine and
a sine of each get independent normal weights. The variance is then exact everywhere; the error of the covariance, which
functions with the same frequencies share, falls with their number. Between dense data, only rare fast waves contribute
to the variance left: densities with heavy tails get more frequencies there than their share, with smaller weights.

The terms of a sum divide the frequencies, the factors of a product add theirs, and a linear kernel or a step multiplies
by a function of one input. A kernel without a known density gets a basis of its values at points spread over the box.
See Rahimi & Recht (2007), Random features for large-scale kernel machines.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from pymc_active.kernels.spectra import Factors, Spectrum, Term, radial_spectrum
from pymc_active.paths.kernel_sums import Functions, KernelSums, cache_blocks
from pymc_active.posterior.array import EmbeddingPosterior, KernelPosterior
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.support.user_warnings import SamplingWarning, warn_user

# Functions that share features, at most. With fewer, moments improve, and maxima take longer to find.
_GROUP = 25
# A term of a sum has at least this many frequencies, however small its variance.
_FEWEST = 16
# Points of the box: to compare variances at, and to choose a basis from.
_REFERENCE, _CANDIDATES = 256, 512
# The smallest prior variance of a basis point given the others, as a share of the largest.
_NEGLIGIBLE = 1e-10
# Phases from which a compiled loop is faster than NumPy.
_MANY = 4096
# The share of missed prior variance above which to warn.
_MISSED = 0.05


class Waves:
    """S functions Σ_f p(x) (a_f cos(w_f x) + b_f sin(w_f x)), p(x) a product of ``factors``; a, b are (S, F)."""

    def __init__(self, factors: Factors, frequencies: np.ndarray, cosine: np.ndarray, sine: np.ndarray):
        self.factors, self.frequencies, self.cosine, self.sine = factors, frequencies, cosine, sine
        self._pairs = np.triu_indices(frequencies.shape[1])

    @cached_property
    def _squares(self) -> np.ndarray:
        """Products of frequencies, (F, D (D + 1) / 2)."""
        i, j = self._pairs
        return self.frequencies[:, i] * self.frequencies[:, j]

    def value(self, X):
        out = np.empty((len(self.cosine), len(X)))
        for rows in cache_blocks(len(X), len(self.frequencies) // 4):
            cosine, sine = cosine_and_sine(X[rows] @ self.frequencies.T)
            out[:, rows] = self.cosine @ cosine.T + self.sine @ sine.T
        for factor in self.factors:
            out *= factor.derivatives(X)[0]
        return out

    def derivatives(self, X, which):
        m, D = X.shape
        value, gradient, upper = np.empty(m), np.empty((m, D)), np.empty((m, len(self._pairs[0])))
        for rows in cache_blocks(m, len(self.frequencies)):
            cosine, sine = cosine_and_sine(X[rows] @ self.frequencies.T)
            a, b = self.cosine[which[rows]], self.sine[which[rows]]
            wave = a * cosine
            wave += b * sine
            b *= cosine
            a *= sine
            b -= a
            value[rows] = wave.sum(1)
            gradient[rows] = b @ self.frequencies
            upper[rows] = wave @ self._squares
        hessian = np.empty((m, D, D))
        i, j = self._pairs
        hessian[:, i, j] = hessian[:, j, i] = -upper
        for factor in self.factors:
            column, (t, slope, bend) = factor.column, factor.derivatives(X)
            hessian *= t[:, None, None]
            hessian[:, column] += np.multiply(gradient.T, slope).T
            hessian[:, :, column] += np.multiply(gradient.T, slope).T
            hessian[:, column, column] += value * bend
            gradient *= t[:, None]
            gradient[:, column] += value * slope
            value *= t
        return value, gradient, hessian


def cosine_and_sine(phase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both of phases, which may be overwritten."""
    if phase.size < _MANY:
        return np.cos(phase), np.sin(phase)
    # Imports a compiler, which few numbers do without.
    from pymc_active.posterior.compiled import cosine_and_sine as compiled

    return compiled(phase)


class Groups:
    """Functions in groups of given sizes; each function is the sum of the parts of its group."""

    def __init__(self, groups: list[list[Functions]], sizes: list[int]):
        self.groups, self.ends = groups, np.cumsum([0, *sizes])

    def value(self, X):
        return np.concatenate([sum(part.value(X) for part in group) for group in self.groups])

    def derivatives(self, X, which):
        m, D = X.shape
        out = np.zeros(m), np.zeros((m, D)), np.zeros((m, D, D))
        owners = np.searchsorted(self.ends, which, side="right") - 1
        for owner in np.unique(owners):
            rows = np.flatnonzero(owners == owner)
            for part in self.groups[owner]:
                for whole, share in zip(out, part.derivatives(X[rows], which[rows] - self.ends[owner]), strict=True):
                    whole[rows] += share
        return out


class Features(NamedTuple):
    """Functions whose weights are normal with sds ``amplitudes`` (F,); see :class:`Waves`."""

    factors: Factors
    frequencies: np.ndarray
    amplitudes: np.ndarray


# Draws from a prior with mean zero, the sum of parts, and their diagnostics; see ``Paths``.
type Prior = tuple[list[Functions], dict[str, float]]


def draw_prior(
    gp: ConditionedGP, n_paths: int, n_features: int, rng: np.random.Generator, low: np.ndarray, high: np.ndarray
) -> Prior:
    """Functions from the prior of a Gaussian process in a box from ``low`` to ``high`` (D,), in the kernel's units.

    Features are cosines and sines that ``_GROUP`` functions share, or half as many basis points that all share.
    """
    posterior = gp.posterior
    full = np.concatenate([gp.theta, posterior.constants])
    if isinstance(posterior, KernelPosterior):
        terms = posterior.kernel.terms(full, len(low))
    elif isinstance(posterior, EmbeddingPosterior):
        spectrum = radial_spectrum(posterior.profile, posterior.embedding(gp.theta))
        terms = [Term(np.exp(2 * full[posterior.log_outputscale]), (), (spectrum,))]
    else:
        return draw_on_basis(gp, n_paths, n_features, rng, low, high)
    sizes = np.diff(np.linspace(0, n_paths, -(-n_paths // _GROUP) + 1).round().astype(int)).tolist()
    priors = [draw_waves(spread(terms, n_features, rng, low, high), size, rng) for size in sizes]
    return [Groups([parts for parts, _ in priors], sizes)], priors[0][1]


def spread(
    terms: list[Term], n_features: int, rng: np.random.Generator, low: np.ndarray, high: np.ndarray
) -> list[Features]:
    """Features of a sum of terms, divided in proportion to the variances of the terms in the box."""
    reference = rng.uniform(low, high, (_REFERENCE, len(low)))
    squares = [math.prod(factor.derivatives(reference)[0] ** 2 for factor in term.factors) for term in terms]
    variances = [t.variance * np.mean(s) if t.spectra else 0.0 for t, s in zip(terms, squares, strict=True)]
    # A kernel of vanishing variance still has features, of amplitudes near zero.
    shares = np.array(variances) / max(np.sum(variances), np.finfo(float).tiny)
    numbers = np.maximum(np.rint(shares * (n_features // 2)).astype(int), min(_FEWEST, n_features // 2))
    # Terms with the same factors make one sum of waves.
    merged: dict[Factors, list[tuple[np.ndarray, np.ndarray]]] = {}
    for term, n in zip(terms, numbers.tolist(), strict=True):
        frequencies, weights = _frequencies(term.spectra, n, len(low), rng)
        amplitudes = np.sqrt(term.variance * weights / weights.sum())
        merged.setdefault(tuple(sorted(term.factors)), []).append((frequencies, amplitudes))
    return [Features(factors, *map(np.concatenate, zip(*each, strict=True))) for factors, each in merged.items()]


def draw_waves(features: list[Features], n_paths: int, rng: np.random.Generator) -> Prior:
    """Functions with independent normal weights."""
    parts: list[Functions] = []
    for factors, frequencies, amplitudes in features:
        cosine, sine = rng.normal(size=(2, n_paths, len(frequencies))) * amplitudes
        parts.append(Waves(factors, frequencies, cosine, sine))
    return parts, {"n_features": 2 * sum(len(each.frequencies) for each in features)}


def _frequencies(
    spectra: tuple[Spectrum, ...], n: int, n_inputs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (n, D) of a product of stationary kernels and their weights (n,); a single zero without kernels."""
    if not spectra:
        return np.zeros((1, n_inputs)), np.ones(1)
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    ends = np.cumsum([0] + [spectrum.width for spectrum in spectra])
    # A Sobol sequence covers the density more evenly than independent draws, and scrambling keeps it unbiased. Its
    # numbers are multiples of 2⁻³⁰; the shift avoids zero.
    U = qmc.Sobol(int(ends[-1]), rng=rng).random_base2(max(n - 1, 0).bit_length())[:n]
    U = U * (1 - 2.0**-30) + 2.0**-31
    weights = np.ones(len(U))
    for spectrum, last in zip(spectra, ends[1:] - 1, strict=True):
        if spectrum.heavy:
            # The square of a uniform number u has the density 1 / 2u.
            weights *= 2 * U[:, last]
            U[:, last] *= U[:, last]
    frequencies = [s.frequencies(U[:, a:b]) for s, a, b in zip(spectra, ends[:-1], ends[1:], strict=True)]
    return np.sum(frequencies, axis=0), weights


def draw_on_basis(
    gp: ConditionedGP, n_paths: int, n_features: int, rng: np.random.Generator, low: np.ndarray, high: np.ndarray
) -> Prior:
    """Draws from the prior as interpolants of its values at points of the box and the data, by pivoted Cholesky."""
    from scipy.stats import qmc

    n = max(_CANDIDATES, n_features - 1).bit_length() - 1
    parts = qmc.Sobol(len(low), rng=rng).random_base2(n), rng.random((_REFERENCE, len(low)))
    box, test = (low + (high - low) * u for u in parts)
    # Whole numbers may be codes of categories, which mean nothing between them.
    codes = (np.vstack([gp.X, low, high]) % 1 == 0).all(0)
    for X, u in zip((box, test), parts, strict=True):
        X[: len(X) // 2, codes] = (low + np.floor((high - low + 1) * u))[: len(X) // 2, codes]
    candidates = np.concatenate([box, gp.X])
    K = gp.covariance(candidates, candidates)
    L, pivots, rank, _ = lapack.dpstrf(K, tol=_NEGLIGIBLE * K.diagonal().max(), lower=1)
    rank = min(rank, max(n_features // 2, 1))
    L, Z = np.tril(L[:rank, :rank]), candidates[pivots[:rank] - 1]
    half = solve_triangular(L, gp.covariance(Z, test), lower=True)
    missed = float(np.maximum(1 - np.square(half).sum(0).sum() / gp.prior_variance(test).sum(), 0.0))
    if missed > _MISSED:
        text = "basis functions of sample paths miss over 5 % of the prior variance in the box, so paths are too smooth"
        warn_user(f"{text} far from the data. Raise n_features, or narrow the bounds.", SamplingWarning)
    weights = solve_triangular(L, rng.normal(size=(rank, n_paths)), lower=True, trans="T").T
    return [KernelSums(gp, Z, weights)], {"n_features": rank, "missed_variance": missed}
