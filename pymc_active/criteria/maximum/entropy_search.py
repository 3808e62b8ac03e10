"""Entropy search, the predecessor of PES: the entropy of the maximum's place over representer points."""

from __future__ import annotations

from typing import Any, override

import numpy as np
import xarray as xr
from scipy.special import xlogy

from pymc_active.criteria.maximum.base import OfOneGP, OptimumCriterion, OptimumScorer, named_source, score_or_maximize
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import Source

# Representer points of each GP, joint draws there, and quadrature nodes for the outcome at a candidate.
_REPRESENTERS, _DRAWS, _OUTCOMES = 50, 1000, 5
# Draws that show which representers may be the best.
_SCREEN = 10_000
# Directions of the representers with a smaller share of the variance are rounding errors.
_ROUNDING = 1e-10


class EntropySearch(OptimumCriterion):
    """:func:`entropy_search` as a criterion; it has no gradient."""

    name, units = "entropy_search", "nats"

    @override
    def set_up(self, ensemble, gps, rng):
        # Half of the representers follow the distribution of the maximum.
        optima = self.sample_optima(gps, rng)
        representers = [_Representers(o.gp, self._spread(o, rng), rng) for o in optima]
        parts = [OfOneGP(one.gp, 1, one) for one in representers]
        told = {"n_hyperparameters": len(optima), "n_representers": len(representers[0].X)}
        width = _DRAWS * (_OUTCOMES + 1)
        return OptimumScorer(ensemble, self.units, optima, parts, width, has_gradient=False, diagnostics=told)

    def _spread(self, optima, rng: np.random.Generator) -> np.ndarray:
        """Distinct places: half of them maxima of paths, the others anywhere."""
        gp, places = optima.gp, optima.maxima.X
        half = np.unique(places, axis=0)[: _REPRESENTERS // 2]
        if self.domain.pool is not None:
            pool = gp.x_map(self.domain.pool)
            others = pool[rng.permutation(len(pool))[: _REPRESENTERS - len(half)]]
        else:
            low, high = gp.x_map(self.domain.low), gp.x_map(self.domain.high)
            others = rng.uniform(low, high, (_REPRESENTERS - len(half), len(low)))
        return np.unique(np.concatenate([half, others]), axis=0)


class _Representers:
    """The distribution of the best of a few points, and how an outcome elsewhere would change it."""

    def __init__(self, gp: ConditionedGP, X: np.ndarray, rng: np.random.Generator):
        self.gp, self.X = gp, X
        cross = gp.covariance(gp.X, X)
        self.half = gp.factor.half_solve(cross)
        values, self.vectors = np.linalg.eigh(gp.covariance(X, X) - self.half.T @ self.half)
        self.values = np.maximum(values, 0.0)
        mean = gp.prior_mean(X)[0] + gp.alpha @ cross
        root = self.vectors * np.sqrt(self.values)
        often = np.bincount((mean + rng.normal(size=(_SCREEN, len(X))) @ root.T).argmax(1), minlength=len(X))
        # The others are never the best, and an outcome would hardly change that.
        self.able = np.flatnonzero(often)
        # Common random numbers: the same draws for all candidates and outcomes.
        self.standard = rng.normal(size=(_DRAWS, len(X)))
        self.residual = rng.normal(size=_DRAWS)
        draws = (mean - mean.max() + self.standard @ root.T)[:, self.able]
        self.draws = np.ascontiguousarray(draws.T, np.float32)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_OUTCOMES)
        self.nodes, self.weights = nodes, weights / weights.sum()
        self.before = _choice_entropy(self.draws[:, None])[0]

    def __call__(self, X: np.ndarray, gradient: bool) -> tuple[np.ndarray, None]:
        """Expected fall of the entropy from an outcome at each candidate (m,), nats; there is no gradient."""
        gp = self.gp
        half = gp.factor.half_solve(gp.covariance(gp.X, X))
        total = np.maximum(gp.prior_variance(X) - np.einsum("ij,ij->j", half, half), 0.0) + gp.noise_variance(X)
        C = gp.covariance(X, self.X) - half.T @ self.half
        # y given a draw of the representers: its regression plus an independent residual.
        positive = self.values > _ROUNDING * self.values.max()
        B = C @ (self.vectors[:, positive] / np.sqrt(self.values[positive]))
        y = self.standard[:, positive] @ B.T
        y += np.sqrt(np.maximum(total - np.einsum("mk,mk->m", B, B), 0.0)) * self.residual[:, None]
        surprise = (np.sqrt(total)[:, None, None] * self.nodes[:, None] - y.T[:, None]).astype(np.float32)
        gain = (C[:, self.able] / total[:, None]).astype(np.float32)
        after = np.empty(len(X))
        moved = np.empty((len(self.able), _OUTCOMES, _DRAWS), np.float32)
        # One candidate at a time: its draws, moved to all outcomes, just fit into the cache.
        for j in range(len(X)):
            np.multiply.outer(gain[j], surprise[j], out=moved)
            moved += self.draws[:, None]
            after[j] = self.weights @ _choice_entropy(moved)
        return self.before - after, None


def _choice_entropy(f: np.ndarray) -> np.ndarray:
    """Entropy (k,), in nats, of the number of the best of n points, from draws of their values (n, k, S)."""
    # Several times faster than argmax, which copies the array to move the points last.
    p = np.count_nonzero(f == f.max(0), axis=2) / f.shape[2]
    return -xlogy(p, p).sum(0)


def entropy_search(
    source: Source | GPModel | None,
    X_pool: Any = None,
    *,
    model: GPModel | None = None,
    bounds: Any = None,
    point: dict[str, Any] | None = None,
    fit: Source | None = None,
    trace: xr.DataTree | None = None,
    minimize: bool = False,
    draws: int = 10,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Entropy search: the expected fall of the entropy of the maximum's place over 50 representer points, in nats.

    A baseline for :func:`pes`, with its arguments and result; f needs no derivatives. Where Hennig & Schuler (2012,
    Entropy search for information-efficient global optimization) approximate the distribution of the best representer
    by expectation propagation, it is counted here, in steps of about 0.001 nats, from 1,000 joint draws, the same ones
    for all candidates, moved by Matheron's rule to each of five outcomes at a candidate. The representers are
    maximisers of sample paths and random points; a candidate takes about 0.5 ms for each draw of the hyperparameters.
    """
    hyperparameters, model = named_source(source, model, {"point": point, "fit": fit, "trace": trace})
    return score_or_maximize(
        EntropySearch, hyperparameters, X_pool, bounds, model,
        minimize=minimize, n_hyperparameters=draws, random_seed=random_seed,
    )  # fmt: skip
