"""Maximisers of posterior sample paths, and the base classes of criteria that depend on the maximum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, override

import numpy as np
import xarray as xr

from pymc_active.criteria.base import Criterion, Scorer, score_pool
from pymc_active.criteria.maximize import distinct_maxima, maximize
from pymc_active.criteria.maximum.domain import Domain, check_data, read_domain
from pymc_active.inference.ensemble import Ensemble, Seed
from pymc_active.models.gpmodel import GPModel
from pymc_active.paths import PathMaxima, Paths, maximize_over_pool, maximize_paths
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import Source, conditioned_gps, ensemble_of, model_of, models_of
from pymc_active.support.arguments import check_flags
from pymc_active.support.options import count
from pymc_active.support.tables import in_order_of
from pymc_active.support.threads import one_blas_thread

# Numbers in the largest array of one block of candidates.
_BLOCK = 2_000_000


class OptimizedPaths(NamedTuple):
    """Sample paths of one GP and their maxima, in the kernel's units."""

    gp: ConditionedGP
    paths: Paths
    maxima: PathMaxima


def sample_optima(
    gps: Sequence[ConditionedGP],
    domain: Domain,
    n_optima: int,
    n_features: int,
    rng: np.random.Generator,
    advance: Callable[..., None] = lambda: None,
) -> list[OptimizedPaths]:
    """Global maximisers of ``n_optima`` sample paths, divided evenly between the GPs; ``advance()`` after each GP."""
    shares: dict[ConditionedGP, int] = {}
    for gp, share in zip(gps, np.diff(np.linspace(0, n_optima, len(gps) + 1).round().astype(int)), strict=True):
        shares[gp] = shares.get(gp, 0) + int(share)
    optima = []
    for gp, share in shares.items():
        if not share:
            continue
        if domain.pool is not None:
            pool = gp.x_map(domain.pool)
            paths = Paths(gp, share, n_features, rng, pool.min(0), pool.max(0))
            rows, values = maximize_over_pool(paths, pool)
            nothing = np.zeros((share, pool.shape[1]))
            optima.append(OptimizedPaths(gp, paths, PathMaxima(pool[rows], values, nothing == 0, nothing, {})))
        else:
            low, high = gp.x_map(domain.low), gp.x_map(domain.high)
            paths = Paths(gp, share, n_features, rng, low, high)
            optima.append(OptimizedPaths(gp, paths, maximize_paths(paths, low, high, rng)))
        advance()
    return optima


class OfOneGP(NamedTuple):
    """A criterion given one GP, and its weight among several.

    ``evaluate`` takes points (m, D) in the kernel's units and whether to compute the gradient, and returns values (m,)
    and derivatives (m, D), or None for these.
    """

    gp: ConditionedGP
    weight: float
    evaluate: Callable[[np.ndarray, bool], tuple[np.ndarray, np.ndarray | None]]


class OptimumCriterion(Criterion):
    """A criterion of the place or height of the maximum in a domain, averaged over hyperparameters.

    The ``n_optima`` sample paths, of ``n_features`` random features each, are shared by ``n_hyperparameters`` draws of
    the hyperparameters. ``method`` takes draws from a fit, or its highest mode (with several models, of each).
    """

    def __init__(
        self, domain: Domain, *, minimize: bool = False, n_optima: int = 50, n_features: int = 1000,
        n_hyperparameters: int = 10, method: Literal["draws", "map"] = "draws", random_seed: Seed = None,
    ):  # fmt: skip
        if method not in ("draws", "map"):
            raise ValueError(f"method must be 'draws' or 'map'; got {method!r}")
        for name, value in (("n_optima", n_optima), ("n_features", n_features), ("draws", n_hyperparameters)):
            count(name, value)
        check_flags(minimize=minimize)
        self.domain, self.minimize = domain, minimize
        self.n_optima, self.n_features = n_optima, n_features
        self._n_gps = min(n_hyperparameters, n_optima)
        self.method = method
        # A fixed number, so that the same question has the same answer.
        if random_seed is None or isinstance(random_seed, np.random.Generator):
            random_seed = int(np.random.default_rng(random_seed).integers(2**62))
        self.random_seed: int = random_seed

    @override
    def prepare(self, source, *, model=None):
        ensemble = self.ensemble(source, model)
        gps = conditioned_gps(ensemble, self._n_gps, minimize=self.minimize, random_seed=self.random_seed)
        # New data get new paths; the same data always get the same ones.
        rng = np.random.default_rng((self.random_seed, len(gps[0].y)))
        with one_blas_thread():
            return self.set_up(ensemble, gps, rng)

    def ensemble(self, source: Source, model: GPModel | None) -> Ensemble:
        """The ensemble from which the criterion takes its draws."""
        return ensemble_of(source, model, draws=self._n_gps, method=self.method, random_seed=self.random_seed)

    @abstractmethod
    def set_up(self, ensemble: Ensemble, gps: Sequence[ConditionedGP], rng: np.random.Generator) -> Scorer:
        """Draw paths and find their maxima."""

    def sample_optima(self, gps: Sequence[ConditionedGP], rng: np.random.Generator) -> list[OptimizedPaths]:
        """Maximisers of the criterion's sample paths."""
        return sample_optima(gps, self.domain, self.n_optima, self.n_features, rng)


@dataclass(eq=False)
class OptimumScorer(Scorer):
    """A criterion of the maximum for one ensemble, the mean over ``parts``; the places of ``optima`` are its seeds.

    ``width`` is the size of the arrays that one candidate needs.
    """

    optima: list[OptimizedPaths]
    parts: list[OfOneGP]
    width: int
    has_gradient: bool = True

    @property
    @override
    def seeds(self):
        return np.concatenate([o.gp.to_user(o.maxima.X) for o in self.optima])

    def evaluate(self, X: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Values (m,) at points in the user's units, and derivatives (m, D) or None."""
        weights = np.array([part.weight for part in self.parts])
        weights = weights / weights.sum()
        values, slopes = zip(*(part.evaluate(part.gp.x_map(X), gradient) for part in self.parts), strict=True)
        pairs = zip(self.parts, slopes, strict=True)
        slopes = [part.gp.x_map.pullback(X, slope) for part, slope in pairs if slope is not None]
        return np.einsum("k,km->m", weights, values), np.einsum("k,kmd->md", weights, slopes) if slopes else None

    @override
    def score(self, X):
        step = max(1, _BLOCK // self.width)
        with one_blas_thread():
            return np.concatenate([self.evaluate(X[i : i + step], False)[0] for i in range(0, len(X), step)])

    @override
    def gradient(self, X):
        if not self.has_gradient:
            return None
        with one_blas_thread():
            values, slopes = self.evaluate(X, True)
        assert slopes is not None
        return values, slopes


def score_or_maximize(
    kind: type[OptimumCriterion], source: Source, X_pool: Any, bounds: Any, model: GPModel | None, **keywords: Any
) -> xr.DataArray:
    """Score a pool of any kind, or maximise over the box if there is no pool; a ValueError if all y are equal."""
    gpm = model_of(source, model)
    X_pool = in_order_of(gpm.inputs, X_pool, "X_pool")
    criterion = kind(read_domain(bounds, X_pool, gpm.inputs), **keywords)
    ensemble = criterion.ensemble(source, model)
    # A learner that asks for several points imagines answers, which may be equal.
    check_data(ensemble.y, gpm)
    scorer = criterion.prepare(ensemble)
    if X_pool is not None:
        result = score_pool(scorer.score, gpm, X_pool, criterion.name, scorer.units)
    else:
        rng = np.random.default_rng(criterion.random_seed)
        maxima = distinct_maxima(maximize(scorer, criterion.domain.low, criterion.domain.high, rng))
        names = [label if isinstance(label, str) else f"x{label}" for label in gpm.inputs]
        coords = {name: ("point", column) for name, column in zip(names, maxima.X.T, strict=True)}
        result = xr.DataArray(maxima.values, dims="point", coords=coords, name=criterion.name)
    return result.assign_attrs(units=scorer.units, **scorer.diagnostics)


def named_source(source: Any, model: GPModel | None, named: dict[str, Any]) -> tuple[Any, GPModel | None]:
    """The source and its model, which may be given as a model and one of some keywords."""
    names = [name for name, value in named.items() if value is not None]
    if not names and not isinstance(source, GPModel) and source is not None:
        return source, model
    if len(names) != 1:
        raise ValueError(
            f"pass a fit, or a GPModel with exactly one of point=, fit= and trace=; got {' and '.join(names) or 'none'}"
        )
    if source is not None and not isinstance(source, GPModel):
        raise TypeError(f"with {names[0]}= the first argument must be its GPModel; got {type(source).__name__}")
    if names == ["fit"]:
        models = models_of(named["fit"])
        if source is not None and models and all(one is not source for one in models):
            raise ValueError("fit= belongs to another model than the first argument: pass the fit alone")
    elif source is None:
        raise TypeError(f"with {names[0]}= the first argument must be its GPModel; got None")
    return named[names[0]], source
