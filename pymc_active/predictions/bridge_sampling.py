"""Evidence by bridge sampling between the draws of a trace and a Gaussian mixture fitted to them.

The mixture is fitted to the first half of every chain; the bridge uses the second halves and as many draws from the
mixture. Its error is nearly independent of that of importance sampling around the modes of a fit.

Symmetries of the posterior are divided out. For exchanges of like terms the mixture's density is averaged over a
point's finitely many images. Rotations of an embedding are integrated exactly by the QR decomposition R = Q [U, rest]
in a frame whose first columns carry most of the mode: Q runs through the orthogonal group, whose volume is known, and
U has a positive diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from pymc_active.inference.ensemble import Seed
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.like_terms import exchanges
from pymc_active.laplace.symmetry import is_rotation_invariant, log_sphere_surface
from pymc_active.models.traces import trace_thetas
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.support.arguments import checked
from pymc_active.support.threads import one_blas_thread

# Fewest draws per dimension for estimating a covariance: of all draws, and of one component of the mixture.
_FEWEST, _FEWEST_IN_COMPONENT = 5, 10
# Sds below this fraction of the values are rounding errors.
_STUCK = 1e-9
# Largest number of draws used from the trace, and from the mixture.
_LARGEST = 2000
# The fixed-point iteration contracts fast; this change of log r is far below any standard error.
_TOLERANCE, _MOST_ITERATIONS = 1e-8, 1000


class BridgeEvidence(NamedTuple):
    """Estimate of log p(y) in nats, its standard error and the effective number of draws from the trace.

    If no estimate is possible all three are NaN and ``problem`` says why.
    """

    log_evidence: float
    standard_error: float
    effective_sample_size: float
    problem: str = ""


@checked
def bridge_evidence(fit: LaplaceFit, trace: xr.DataTree, random_seed: Seed = None) -> BridgeEvidence:
    r"""Log evidence from MCMC draws, in nats; a ValueError if the trace was not drawn from the model of the fit.

    The mixture has one component for each mode of ``fit`` that ``trace``, from :func:`pymc_active.sample`, visits often
    enough. Check R-hat first: the evidence misses modes that no chain found, and is wrong if the chains visit modes in
    wrong proportions.

    The optimal bridge of Meng & Wong (1996, Statistica Sinica 6) is iterated to its fixed point. With N1 and N2
    effective draws of posterior p (unnormalised) and mixture q, s1 = N1 / (N1 + N2), s2 = 1 - s1,
    f1 = q / (s1 p / r + s2 q) and f2 = p / (s1 p / r + s2 q), the estimate is r = mean f2 / mean f1. Its standard error
    (Fruehwirth-Schnatter 2004, Econometrics Journal 7) combines the relative variances of both means; that of f1 uses
    the effective sample size.
    """
    rng = np.random.default_rng(random_seed)
    sizes = trace["posterior"].sizes if "posterior" in trace.children else {"chain": 1}
    thetas = trace_thetas(fit.gpm, trace)
    best = fit.best
    z = np.stack([best.space.shrink(theta, rng) for theta in thetas])
    with one_blas_thread():
        space = _Quotient(fit)
        eta = space.reduce(z)
        chains = eta.reshape(sizes["chain"], -1, eta.shape[1])
        half = chains.shape[1] // 2
        first = chains[:, :half].reshape(-1, eta.shape[1])
        step = max(1, -(-chains.shape[0] * (chains.shape[1] - half) // _LARGEST))
        second = chains[:, half::step]
        fewest = _FEWEST * (eta.shape[1] + 1)
        if half < 4 or len(first) < fewest:
            return _failed(f"the trace has {len(thetas)} draws; {eta.shape[1]} dimensions need at least {2 * fewest}")
        if (first.std(0) <= _STUCK * (1 + np.abs(first).max(0))).any():
            return _failed("the chains hardly move: a parameter has the same value in all draws")
        try:
            mixture = _Mixture(first, space)
        except np.linalg.LinAlgError:
            return _failed("the chains hardly move: the covariance of their draws is singular")
        drawn = mixture.draw(second.shape[0] * second.shape[1], rng)
        flat = second.reshape(-1, eta.shape[1])
        at_trace = space.log_target(flat) - mixture.log_density(flat)
        at_drawn = space.log_target(drawn) - mixture.log_density(drawn)
    if not np.isfinite(at_trace).all():
        return _failed("the log posterior is not finite at some draws of the trace, which probably used other data")
    return _bridge(at_trace.reshape(second.shape[:2]), at_drawn, best.space.log_complement)


def _failed(problem: str) -> BridgeEvidence:
    return BridgeEvidence(np.nan, np.nan, np.nan, problem)


def _bridge(at_trace: np.ndarray, at_drawn: np.ndarray, constant: float) -> BridgeEvidence:
    """The evidence from log p/q at draws of the trace (chain, draw) and of the mixture (N2,)."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_stats.base import array_stats

    if not np.isfinite(at_drawn).any():
        return _failed("the log posterior is not finite at any draw from the mixture fitted to the trace")
    size, n2 = float(at_trace.size), len(at_drawn)
    # The effective size is that of f1, which depends on the estimate.
    for _ in range(2):
        log_r, log_f1, log_f2 = _iterate(at_trace.ravel(), at_drawn, size, n2)
        f1 = np.exp(log_f1 - log_f1.max()).reshape(at_trace.shape)
        if np.ptp(f1) < 1e-12:
            break  # The mixture equals the posterior.
        ess = array_stats.ess(f1, chain_axis=0, draw_axis=1, method="mean")
        size = float(np.clip(ess, 1.0, at_trace.size))
    else:
        log_r, log_f1, log_f2 = _iterate(at_trace.ravel(), at_drawn, size, n2)
    variance = _relative_variance(log_f1) / size + _relative_variance(log_f2) / n2
    return BridgeEvidence(float(log_r + constant), float(np.sqrt(variance)), size)


def _iterate(at_trace: np.ndarray, at_drawn: np.ndarray, n1: float, n2: float) -> tuple[float, np.ndarray, np.ndarray]:
    """The fixed point log r, and log f1 and log f2 there."""
    log_s1, log_s2 = np.log(n1 / (n1 + n2)), np.log(n2 / (n1 + n2))
    log_r = float(np.median(at_trace))
    for _ in range(_MOST_ITERATIONS):
        log_f1 = -np.logaddexp(log_s1 + at_trace - log_r, log_s2)
        log_f2 = at_drawn - np.logaddexp(log_s1 + at_drawn - log_r, log_s2)
        new = float(_log_mean(log_f2) - _log_mean(log_f1))
        done = abs(new - log_r) < _TOLERANCE
        log_r = new
        if done:
            break
    return log_r, log_f1, log_f2


def _log_mean(values: np.ndarray) -> float:
    return float(logsumexp(values) - np.log(len(values)))


def _relative_variance(log_values: np.ndarray) -> float:
    values = np.exp(log_values - log_values.max())
    return float(values.var() / values.mean() ** 2)


class _Quotient:
    """Coordinates eta (Q,) that an embedding's rotations leave unchanged; z itself without such a symmetry."""

    def __init__(self, fit: LaplaceFit):
        best = fit.best
        self.posterior = best.posterior
        self.images = exchanges(best.posterior)
        self.where, self.shape = best.embedding or (slice(0), (0, 0))
        self.turns = best.embedding is not None and is_rotation_invariant(
            best.posterior, best.z, self.where, self.shape
        )
        if self.turns:
            d = self.shape[0]
            self.frame = np.linalg.svd(best.z[self.where].reshape(self.shape))[2].T
            self.log_group = sum(log_sphere_surface(k) for k in range(d))
            self.upper = np.triu_indices(d, 1)
            # A model with an embedding has no like terms to exchange.
            self.images = [np.arange(len(best.z) - len(self.upper[0]))]
        # Expansions in other spaces have other coordinates.
        modes = self.reduce(np.stack([e.z for e in fit.expansions if e.posterior is best.posterior]))
        self.modes = self.toward(modes, modes[0])

    def reduce(self, z: np.ndarray) -> np.ndarray:
        """Eta (S, Q) of z (S, P')."""
        if not self.turns:
            return z
        d = self.shape[0]
        R = z[:, self.where].reshape(-1, *self.shape) @ self.frame
        Q, U = np.linalg.qr(R[:, :, :d])
        sign = np.sign(np.einsum("sii->si", U))
        U, rest = sign[:, :, None] * U, sign[:, :, None] * (Q.transpose(0, 2, 1) @ R[:, :, d:])
        parts = (np.log(np.einsum("sii->si", U)), U[:, *self.upper], rest.reshape(len(R), -1))
        return np.concatenate([z[:, : self.where.start], *parts, z[:, self.where.stop :]], axis=1)

    def lift(self, eta: np.ndarray) -> np.ndarray:
        """A z (S, P') for each eta (S, Q)."""
        if not self.turns:
            return eta
        (d, D), start = self.shape, self.where.start
        middle = start + d * D - d * (d - 1) // 2
        R = np.zeros((len(eta), d, D))
        diagonal, upper, rest = np.split(eta[:, start:middle], [d, d + len(self.upper[0])], axis=1)
        R[:, range(d), range(d)] = np.exp(diagonal)
        R[:, *self.upper] = upper
        R[:, :, d:] = rest.reshape(len(eta), d, D - d)
        flat = (R @ self.frame.T).reshape(len(eta), -1)
        return np.concatenate([eta[:, :start], flat, eta[:, middle:]], axis=1)

    def log_target(self, eta: np.ndarray) -> np.ndarray:
        """Log posterior plus the log volume that eta represents, (S,)."""
        values = np.array([self.posterior.value(theta) for theta in self.lift(eta)])
        if self.turns:
            d, start = self.shape[0], self.where.start
            # Jacobians: the product of U_ii^(d - i), i = 1...d, for the decomposition, and U_ii for the logarithm.
            values = values + eta[:, start : start + d] @ np.arange(d, 0, -1) + self.log_group
        return values

    def toward(self, eta: np.ndarray, center: np.ndarray) -> np.ndarray:
        """The image of each eta by exchange that is nearest to a centre, (S, Q)."""
        images = np.stack([eta[:, image] for image in self.images])
        nearest = np.argmin(np.square(images - center).sum(-1), axis=0)
        return images[nearest, np.arange(len(eta))]


class _Mixture:
    """Gaussians fitted to draws (S, Q), one for each mode with enough of them, weighted by their shares."""

    def __init__(self, eta: np.ndarray, space: _Quotient):
        self.images = space.images
        eta = space.toward(eta, space.modes[0])
        owner = _owners(eta, space.modes, _FEWEST_IN_COMPONENT * eta.shape[1])
        groups = [eta[owner == k] for k in np.unique(owner)]
        self.shares = np.array([len(group) for group in groups]) / len(eta)
        self.means = [group.mean(0) for group in groups]
        self.roots = [np.linalg.cholesky(np.cov(group.T).reshape((eta.shape[1],) * 2)) for group in groups]

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (n, Q)."""
        counts = rng.multinomial(n, self.shares)
        parts = zip(self.means, self.roots, counts, strict=True)
        return np.concatenate([mean + rng.normal(size=(k, len(mean))) @ root.T for mean, root, k in parts])

    def log_density(self, eta: np.ndarray) -> np.ndarray:
        """Log density averaged over the images by exchange, (S,)."""
        terms = [self._log_density(eta[:, image]) for image in self.images]
        return logsumexp(terms, axis=0) - np.log(len(terms))

    def _log_density(self, eta: np.ndarray) -> np.ndarray:
        terms = []
        for share, mean, root in zip(self.shares, self.means, self.roots, strict=True):
            z = solve_triangular(root, (eta - mean).T, lower=True)
            constant = np.log(share) - np.log(np.diagonal(root)).sum() - 0.5 * len(mean) * LOG_2PI
            terms.append(constant - 0.5 * np.square(z).sum(0))
        return logsumexp(terms, axis=0)


def _owners(eta: np.ndarray, modes: np.ndarray, fewest: int) -> np.ndarray:
    """The nearest mode of each draw, (S,), among modes that attract at least ``fewest`` draws."""
    scale = eta.std(0)
    kept = np.arange(len(modes))
    while True:
        distance = np.square((eta[:, None] - modes[kept]) / scale).sum(-1)
        owner = kept[np.argmin(distance, axis=1)]
        counts = np.array([(owner == k).sum() for k in kept])
        if len(kept) == 1 or counts.min() >= fewest:
            return owner
        kept = np.delete(kept, np.argmin(counts))
