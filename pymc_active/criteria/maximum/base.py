"""Where the maximum may lie: maximisers of posterior sample paths, and what every criterion of them shares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, override

import numpy as np
import xarray as xr

from pymc_active.criteria.base import Criterion, score_pool
from pymc_active.criteria.maximize_in_box import distinct, maximize
from pymc_active.criteria.maximum.domain import Domain, check_data, read_domain
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.paths import PathMaxima, Paths, maximize_over_pool, maximize_paths
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.conditioned_gps import conditioned_gps, model_of
from pymc_active.predictions.model_average import Fits, ModelAverage
from pymc_active.support.tables import in_order_of
from pymc_active.support.threads import one_blas_thread

# Numbers in the largest array of one block of candidates.
_BLOCK = 2_000_000


class Optima(NamedTuple):
    """Sample paths of one GP and their maxima, in the kernel's units."""

    gp: ConditionedGP
    paths: Paths
    maxima: PathMaxima


def sample_optima(
    gps: Sequence[ConditionedGP], domain: Domain, n_optima: int, n_features: int, rng: np.random.Generator
) -> list[Optima]:
    """Global maximisers of ``n_optima`` sample paths, shared evenly between the GPs."""
    shares: dict[ConditionedGP, int] = {}
    for gp, share in zip(gps, np.diff(np.linspace(0, n_optima, len(gps) + 1).round().astype(int)), strict=True):
        shares[gp] = shares.get(gp, 0) + int(share)
    found = []
    for gp, share in shares.items():
        if not share:
            continue
        if domain.pool is not None:
            pool = gp.x_map(domain.pool)
            paths = Paths(gp, share, n_features, rng, pool.min(0), pool.max(0))
            rows, values = maximize_over_pool(paths, pool)
            nothing = np.zeros((share, pool.shape[1]))
            found.append(Optima(gp, paths, PathMaxima(pool[rows], values, nothing == 0, nothing, {})))
        else:
            low, high = gp.x_map(domain.low), gp.x_map(domain.high)
            paths = Paths(gp, share, n_features, rng, low, high)
            found.append(Optima(gp, paths, maximize_paths(paths, low, high, rng)))
    return found


class OptimumCriterion(Criterion):
    """A criterion of the place or height of the maximum, averaged over hyperparameters.

    Parameters
    ----------
    domain : Domain
    minimize : bool
    n_optima : int
        Sample paths in all.
    n_features : int
        Random features of each path.
    n_hyperparameters : int
        Draws of the hyperparameters from a fit, which share the paths.
    method : {"draws", "map"}
        Of a fit: these draws, or its highest mode (of several models: of each).
    random_seed : int or Generator, optional
    """

    def __init__(
        self,
        domain: Domain,
        *,
        minimize: bool = False,
        n_optima: int = 50,
        n_features: int = 1000,
        n_hyperparameters: int = 10,
        method: Literal["draws", "map"] = "draws",
        random_seed: int | np.random.Generator | None = None,
    ):
        if method not in ("draws", "map"):
            raise ValueError(f"method must be 'draws' or 'map'; got {method!r}")
        for name, value in (("n_optima", n_optima), ("n_features", n_features), ("draws", n_hyperparameters)):
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a positive whole number; got {value!r}")
        self.domain, self.minimize = domain, minimize
        self.n_optima, self.n_features, self.n_hyperparameters = n_optima, n_features, n_hyperparameters
        self.method = method
        # One that stays, so that the same question has the same answer.
        if random_seed is None or isinstance(random_seed, np.random.Generator):
            random_seed = int(np.random.default_rng(random_seed).integers(2**62))
        self.random_seed: int = random_seed
        self.prepared_for: LaplaceFit | ModelAverage | None = None
        self.optima: list[Optima] = []
        self.diagnostics: dict[str, Any] = {}

    def begin(self, fit: LaplaceFit | ModelAverage) -> None:
        """Prepare what is the same for all candidates, once for each fit."""
        if fit is not self.prepared_for:
            self.prepare(self.gps(None, fit=fit))
            self.prepared_for = fit

    def gps(self, gpm: GPModel | None, **source: Any) -> list[ConditionedGP]:
        """The GP at draws of the hyperparameters."""
        n = min(self.n_hyperparameters, self.n_optima)
        return conditioned_gps(
            gpm, **source, n=n, method=self.method, minimize=self.minimize, random_seed=self.random_seed
        )

    def prepare(self, gps: Sequence[ConditionedGP]) -> None:
        """As :meth:`begin`, for GPs at given hyperparameters."""
        # Another point told, other paths; but the same ones whenever the question is the same.
        rng = np.random.default_rng((self.random_seed, len(gps[0].y)))
        with one_blas_thread():
            self.set_up(gps, rng)

    @abstractmethod
    def set_up(self, gps: Sequence[ConditionedGP], rng: np.random.Generator) -> None:
        """Draw paths, find maxima."""

    @abstractmethod
    def evaluate(self, X: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Values (m,) and, if asked for, derivatives (m, D) at points in the user's units."""

    @override
    def seeds(self, fit):
        self.begin(fit)
        return self.places

    @property
    def places(self) -> np.ndarray:
        """The maxima found (S, D), in the user's units."""
        return np.concatenate([o.gp.to_user(o.maxima.X) for o in self.optima])

    @property
    def width(self) -> int:
        """Numbers that one candidate needs."""
        return self.n_optima

    def values(self, X: np.ndarray) -> np.ndarray:
        """At the rows of an array (m, D), (m,), once prepared."""
        step = max(1, _BLOCK // self.width)
        with one_blas_thread():
            return np.concatenate([self.evaluate(X[i : i + step], False)[0] for i in range(0, len(X), step)])

    @override
    def score(self, fit, X):
        self.begin(fit)
        return self.values(X)

    @override
    def gradient(self, fit, X, *, all_draws=False):
        self.begin(fit)
        with one_blas_thread():
            values, slopes = self.evaluate(X, True)
        if slopes is None:
            raise TypeError(f"{self.name} has no gradient")
        return values, slopes


def _names(model: GPModel) -> list[str]:
    """Names of the inputs, as coordinates."""
    return [label if isinstance(label, str) else f"x{label}" for label in model.inputs]


class _Prepared(NamedTuple):
    """What a search over a box reads of a fit."""

    gpm: GPModel
    X: np.ndarray
    theta: np.ndarray


def search(
    kind: type[OptimumCriterion],
    gpm: GPModel | None,
    X_pool: Any,
    bounds: Any,
    point: dict[str, Any] | None,
    fit: LaplaceFit | Fits | None,
    trace: xr.DataTree | None,
    **keywords: Any,
) -> xr.DataArray:
    """Score a pool of any kind, or maximise over the box if there is none."""
    model = gpm if gpm is not None else model_of(fit)
    if not isinstance(model, GPModel):
        raise TypeError(f"expected a GPModel as first argument, or None with fit=; got {type(model).__name__}")
    X_pool = in_order_of(model.inputs, X_pool, "X_pool")
    criterion = kind(read_domain(bounds, X_pool, len(model.inputs)), **keywords)
    gps = criterion.gps(gpm, point=point, fit=fit, trace=trace)
    check_data(gps[0].to_user_y(gps[0].y))
    criterion.prepare(gps)
    if X_pool is not None:
        result = score_pool(criterion.values, model, X_pool, criterion.name, criterion.units)
    else:
        rng = np.random.default_rng(criterion.random_seed)
        stand_in: Any = _Prepared(model, gps[0].to_user(gps[0].X), gps[0].theta)
        criterion.prepared_for = stand_in
        found = distinct(maximize(criterion, stand_in, criterion.domain.low, criterion.domain.high, rng))
        coords = {name: ("point", column) for name, column in zip(_names(model), found.X.T, strict=True)}
        attributes = {"units": criterion.units}
        result = xr.DataArray(found.values, dims="point", coords=coords, name=criterion.name, attrs=attributes)
    return result.assign_attrs(criterion.diagnostics)


def mean_over(parts: Iterator[tuple[np.ndarray, np.ndarray | None, float]]) -> tuple[np.ndarray, np.ndarray | None]:
    """Weighted mean of values and gradients."""
    values, gradients, shares = zip(*parts, strict=True)
    weights = np.array(shares) / np.sum(shares)
    known = [gradient for gradient in gradients if gradient is not None]
    return np.einsum("k,km->m", weights, values), np.einsum("k,kmd->md", weights, known) if known else None
