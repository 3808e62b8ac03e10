"""Information of one outcome about which of several distributions it comes from, for five families.

For S equally likely distributions p_s with mean p̄, the mutual information of the outcome and s is H[p̄] - mean of
H[p_s], which equals the mean of the divergences KL(p_s‖p̄). The divergences are computed because nothing cancels if
all p_s are nearly equal, and because their scatter gives the Monte Carlo error of the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaln, rel_entr, stdtrit

from pymc_active.information.mixture_entropy import N_NODES, Quadrature, finest, gauss_legendre, halves, quadrature
from pymc_active.posterior.factor import LOG_2PI

# Numbers in the arrays of components of one block, and in the arrays of log densities of one piece.
_BLOCK, _PIECE = 200_000, 100_000
# Smaller probabilities count as exp(-800): an infinite logarithm would give 0 * inf.
_LOWEST = -800.0
_TINY = np.finfo(float).tiny
# Mass of each tail of a Student-t beyond the quadrature, and the largest distance, whose square must not overflow.
_TAIL, _FARTHEST = 1e-8, 1e150
# Length of a panel in the tails of a Student-t, in distances from its centre.
_GROWTH = 6.0
# Sums over counts leave out less than exp(-30) = 1e-13 of either tail of each draw.
_LOG_TAIL = 30.0
# Length of a panel of counts, in sds of the narrowest component that reaches into it.
_COUNT_LENGTH = 3.0


class Divergences(NamedTuple):
    """Divergences of S components from their mean, for each of m candidates."""

    # (S, m): KL(p_s‖p̄) in nats. (m,): mean over s of the integral of p_s²/p̄, minus one.
    kl: np.ndarray
    chi_square: np.ndarray


class Outcome(NamedTuple):
    """A family: the names of its parameters, their constraint, and the divergences of S members."""

    name: str
    parameters: tuple[str, ...]
    is_valid: Callable[..., np.ndarray]
    requirement: str
    divergences: Callable[..., Divergences]


def bernoulli(p: np.ndarray) -> Divergences:
    """Yes or no, with probabilities (S, m)."""
    mean = p.mean(0)
    kl = rel_entr(p, mean) + rel_entr(1 - p, 1 - mean)
    return Divergences(kl, p.var(0) / np.maximum(mean * (1 - mean), _TINY))


def normal(mu: np.ndarray, sigma: np.ndarray) -> Divergences:
    """Normal distributions, (S, m) each; by the quadrature of :mod:`pymc_active.information.mixture_entropy`."""

    def log_density(y: np.ndarray, mu: np.ndarray, precision: np.ndarray, log_height: np.ndarray) -> np.ndarray:
        return log_height - 0.5 * np.square((y - mu) * precision)

    own = mu, 1 / sigma, -np.log(sigma) - 0.5 * LOG_2PI
    return _integrate(lambda mu, sigma: quadrature(mu, np.square(sigma)), (mu, sigma), log_density, own)


def student_t(nu: np.ndarray, mu: np.ndarray, sigma: np.ndarray) -> Divergences:
    """Student-t distributions with nu degrees of freedom, (S, m) each; however heavy their tails."""

    def log_density(y: np.ndarray, mu: np.ndarray, scale: np.ndarray, power: np.ndarray, log_height: np.ndarray):
        return log_height - power * np.log1p(np.square((y - mu) * scale))

    log_height = -betaln(0.5, nu / 2) - 0.5 * np.log(nu) - np.log(sigma)
    own = mu, 1 / (np.sqrt(nu) * sigma), 0.5 * (nu + 1), log_height
    return _integrate(_student_t_nodes, (nu, mu, sigma), log_density, own)


def poisson(mu: np.ndarray) -> Divergences:
    """Poisson counts with means (S, m); six digits for means up to about 1e8."""

    def log_probability(y: np.ndarray, mu: np.ndarray, log_mu: np.ndarray) -> np.ndarray:
        return y * log_mu - mu - gammaln(y + 1)

    return _integrate(
        lambda mu: _count_nodes(mu, mu, np.full(mu.shape, np.inf)), (mu,), log_probability, (mu, _log(mu))
    )


def binomial(n: np.ndarray, p: np.ndarray) -> Divergences:
    """Successes in n trials, (S, m) each; n may differ between candidates."""

    def log_probability(y: np.ndarray, n: np.ndarray, log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
        failures = n - y
        log_choose = -np.log1p(n) - betaln(np.maximum(failures, 0) + 1, y + 1)
        return np.where(failures >= 0, log_choose, -np.inf) + y * log_p + failures * log_q

    # n is nearly always the same in all draws.
    trials = n[:1] if (n == n[:1]).all() else n
    own = trials, _log(p), _log(1 - p)
    return _integrate(lambda n, p: _count_nodes(n * p, n * p * (1 - p), n), (n, p), log_probability, own)


def _log(values: np.ndarray) -> np.ndarray:
    """Logarithm, but finite at zero, so that 0 log 0 = 0."""
    return np.log(np.maximum(values, _TINY))


_TOLD = "|mu| <= 1e13 sigma, or the digits of mu do not tell one outcome from another"


def _is_told(mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    return np.abs(mu) <= 1e13 * sigma


OUTCOMES: dict[str, Outcome] = {
    "BernoulliRV": Outcome("Bernoulli", ("p",), lambda p: (p >= 0) & (p <= 1), "0 <= p <= 1", bernoulli),
    "BinomialRV": Outcome(
        "Binomial", ("n", "p"), lambda n, p: (n >= 0) & (p >= 0) & (p <= 1), "n >= 0 and 0 <= p <= 1", binomial
    ),
    "NormalRV": Outcome(
        "Normal", ("mu", "sigma"), lambda mu, s: (s > 0) & _is_told(mu, s), f"sigma > 0 and {_TOLD}", normal
    ),
    "PoissonRV": Outcome("Poisson", ("mu",), lambda mu: (mu >= 0) & (mu <= 1e15), "0 <= mu <= 1e15", poisson),
    "StudentTRV": Outcome(
        "StudentT",
        ("nu", "mu", "sigma"),
        lambda nu, mu, s: (nu > 0) & (s > 0) & _is_told(mu, s),
        f"nu > 0, sigma > 0 and {_TOLD}",
        student_t,
    ),
}


def _integrate(
    nodes: Callable[..., Quadrature],
    parameters: tuple[np.ndarray, ...],
    log_density: Callable[..., np.ndarray],
    own: tuple[np.ndarray, ...],
) -> Divergences:
    """Divergences from log densities at the nodes of a quadrature or sum, in blocks of candidates.

    ``nodes`` takes the ``parameters`` (S, m) of a block; ``log_density`` takes y (N, 1) and its ``own`` parameters of
    the candidate of each node, (N, S), or (N, 1) for those that are (1, m) because all draws share them.
    """
    S, m = parameters[0].shape
    # Gathering whole rows is several times faster than gathering single numbers.
    rows = [np.ascontiguousarray(values.T) for values in own]
    kl, square = np.zeros((m, S)), np.zeros(m)
    # Make the nodes of many candidates at once, but use them in pieces that stay in the processor's cache.
    many, few = max(1, _BLOCK // S), max(64, _PIECE // S)
    for start in range(0, m, many):
        q = nodes(*(values[:, start : start + many] for values in parameters))
        order = np.argsort(q.owner, kind="stable")
        for first in range(0, len(order), few):
            piece = order[first : first + few]
            owner, weight = start + q.owner[piece], q.weight[piece]
            log_p = log_density(q.y[piece, None], *(values[owner] for values in rows))
            np.maximum(log_p, _LOWEST, out=log_p)
            p = np.exp(log_p)
            mean = np.maximum(p.mean(1), _TINY)
            begins = np.flatnonzero(np.diff(owner, prepend=-1))
            log_p -= np.log(mean)[:, None]
            log_p *= p
            log_p *= weight[:, None]
            kl[owner[begins]] += np.add.reduceat(log_p, begins)
            chi = weight * np.einsum("ns,ns->n", p, p) / (S * mean)
            square[owner[begins]] += np.add.reduceat(chi, begins)
    return Divergences(kl.T, square - 1)


def _student_t_nodes(nu: np.ndarray, mu: np.ndarray, sigma: np.ndarray) -> Quadrature:
    """Gauss-Legendre panels: fine at every centre, growing in proportion to the distance from all of them.

    A Student-t density is analytic except at mu ± i sigma sqrt(nu), so a panel converges if it is not much longer
    than its distance from these points.
    """
    reach = np.minimum(-stdtrit(nu, _TAIL) * sigma, _FARTHEST)
    near = np.minimum(5.0, 2.2 * np.sqrt(nu)) * sigma

    def longest(owner: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        centre, short, sd = mu[:, owner], near[:, owner], sigma[:, owner]
        distance = np.maximum(np.maximum(a - centre, centre - b), 0.0)
        # With many degrees of freedom the bulk is nearly Gaussian, which falls too fast for long panels.
        far = np.where(distance > 6.5 * sd, _GROWTH * distance, np.minimum(_GROWTH * distance, 5 * sd))
        return np.maximum(short, far).min(0)

    low, high, step = mu.min(0), mu.max(0), near.min(0)
    first, last = low - (mu - reach).min(0), (mu + reach).max(0) - high
    n_steps = int(np.ceil(np.log(np.maximum(first, last) / step).max() / np.log(1 + _GROWTH))) + 1
    steps = np.concatenate([[0.0], (1 + _GROWTH) ** np.arange(n_steps)])[:, None] * step
    left, right = low - np.minimum(steps, first)[::-1], high + np.minimum(steps, last)
    edges = np.concatenate([left, right])
    a, b = edges[:-1].ravel(), edges[1:].ravel()
    owner = np.tile(np.arange(mu.shape[1]), len(edges) - 1)
    return gauss_legendre(*halves(owner[a < b], a[a < b], b[a < b], longest))


def _count_nodes(mean: np.ndarray, variance: np.ndarray, n: np.ndarray) -> Quadrature:
    """Nodes for sums over counts up to ``n``: all counts if there are few, else Gauss nodes for sums.

    A panel of N > 12 successive counts, at most three sds long, has 12 nodes whose weighted sum equals the sum over
    all N for polynomials of degree up to 23 (Gauss quadrature for the discrete Chebyshev polynomials). The cost does
    not grow with the mean, and no count with a relevant probability is left out.
    """
    # By Bernstein's inequality, which holds for both distributions.
    reach = _LOG_TAIL / 3 + np.sqrt(_LOG_TAIL**2 / 9 + 2 * _LOG_TAIL * variance)
    low, high = np.floor(np.maximum(mean - reach, 0)), np.minimum(np.ceil(mean + reach), n) + 1
    longest = finest(low, high, np.maximum(_COUNT_LENGTH * np.sqrt(variance), N_NODES))
    owner, a, b = halves(np.arange(mean.shape[1]), low.min(0), high.max(0), longest, whole=True)
    lengths, which = np.unique(b - a, return_inverse=True)
    rules = [_sum_rule(int(N)) for N in lengths]
    offsets, weights = (np.stack(part)[which] for part in zip(*rules, strict=True))
    used = weights.ravel() > 0
    y = (a[:, None] + offsets).ravel()
    return Quadrature(y[used], weights.ravel()[used], np.repeat(owner, N_NODES)[used])


def _sum_rule(N: int) -> tuple[np.ndarray, np.ndarray]:
    """12 nodes and weights for sums over 0, 1, ..., N - 1; surplus nodes have weight zero."""
    if N <= N_NODES:
        return np.arange(N_NODES), (np.arange(N_NODES) < N).astype(float)
    # Golub-Welsch, with the recurrence of the discrete Chebyshev polynomials.
    k = np.arange(1.0, N_NODES)
    beside = 0.5 * k * np.sqrt((N - k) * (N + k) / (4 * k * k - 1))
    nodes, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return nodes + 0.5 * (N - 1), N * np.square(vectors[0])
