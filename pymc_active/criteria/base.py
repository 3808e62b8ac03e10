"""Base classes: a criterion holds options; ``criterion.prepare(source)`` returns a :class:`Scorer` of candidates.

Both are immutable, so a score depends on the source and its own candidate only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, override

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import METHODS, Ensemble, Seed
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.model import Model
from pymc_active.predictions.ensembles import Source, as_ensemble, ensemble_from, is_of_processes, is_several
from pymc_active.predictions.latent_outcomes import LatentOutcomes
from pymc_active.predictions.mixtures import Mixture, mixture, mixture_gradients
from pymc_active.predictions.model_average import ModelAverage, as_model_average
from pymc_active.process.process import Process
from pymc_active.support.tables import point_labels, read_inputs
from pymc_active.support.threads import one_blas_thread

# Criteria of any PyMC model.
INFORMATION = ("bald", "epig", "bams")
ANY_MODEL = (*INFORMATION, "expected_improvement", "upper_confidence_bound")
# Candidates scored at a time, divided by the number of models: bounds the memory of a mixture's arrays.
_BLOCK = 32_768
# Draws of a posterior; of outcomes without a formula 96 members score, and more if more than these are asked for.
_DRAWS = 128
# Candidates that are scored with all draws where outcomes are not normal, at most (guess).
_FULL = 200

Partials = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(eq=False)
class Scorer(ABC):
    """A criterion prepared for one ensemble; ``diagnostics`` come from its preparation."""

    ensemble: Ensemble
    units: str
    diagnostics: dict[str, Any] = field(default_factory=dict, kw_only=True)
    # Up to this many candidates times models are scored with all draws.
    n_full = 1000
    # Of more, the share that is scored with all draws.
    share = 0.05

    @abstractmethod
    def score(self, X: np.ndarray) -> np.ndarray:
        """Values (m,) at candidates (m, D) in the user's units; larger is better."""

    def gradient(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Values (m,) and derivatives in the inputs (m, D); None if there are no formulas for them."""
        return None

    def coarse(self, n: int) -> Scorer | None:
        """The same over the first n draws, if there are more than twice as many; else None."""
        return None

    def fine(self) -> Scorer | None:
        """A scorer over more draws, too slow for many candidates, if there is one."""
        return None

    @property
    def finest(self) -> Scorer:
        """What decides between the best candidates."""
        return self.fine() or self

    @property
    def n_models(self) -> int:
        """The number of models that a score is over."""
        return self.ensemble.n_models

    @property
    def seeds(self) -> np.ndarray:
        """Points (k, D) near which a maximum of the criterion is likely; none, by default."""
        return np.empty((0, self.ensemble.X.shape[1]))


class Criterion(ABC):
    """What a measurement is worth; larger is better."""

    name: str
    units: str

    @abstractmethod
    def prepare(self, source: Source, *, model: GPModel | None = None) -> Scorer:
        """A scorer of candidates for an ensemble or anything that makes one; ``model`` is required for a trace."""

    def of_outcomes(self, ensemble: Ensemble, pending: np.ndarray) -> Scorer:
        """A scorer of candidates of any PyMC model, given that rows ``pending`` (k, D) are being measured."""
        raise NotImplementedError(self.name)

    def check_outcomes(self, models: Sequence[Process]) -> None:
        """Raise a ValueError for models whose outcomes the criterion cannot judge."""
        if self.name not in ANY_MODEL:
            raise ValueError(
                f"the criterion {self.name} is for GP models; for other models there are {', '.join(ANY_MODEL)}"
            )
        if self.name not in INFORMATION:
            for process in models:
                process.check_mean()

    def scorer(self, source: Source, model: GPModel | None = None, pending: np.ndarray | None = None) -> Scorer:
        """A scorer of candidates for models of any kind."""
        if not is_of_processes(source):
            return self.prepare(source, model=model)
        ensemble = as_ensemble(self.weigh(as_model_average(source)) if is_several(source) else source)
        self.check_outcomes(ensemble.processes)
        return self.of_outcomes(ensemble, np.empty((0, ensemble.X.shape[1])) if pending is None else pending)

    def weigh(self, average: ModelAverage) -> ModelAverage:
        """The average with the criterion's weights of the models; by default unchanged."""
        return average

    def over(self, source: Source, X_pool: Any, model: GPModel | None = None) -> xr.DataArray:
        """Scores of a pool of any kind; lazily over a dask array."""
        scorer = self.scorer(source, model)
        return score_pool(scorer.score, scorer.ensemble.gpm, X_pool, self.name, scorer.units)


class MomentCriterion(Criterion):
    """A function of the predictive mixture at one point.

    ``method``, ``draws`` and ``random_seed`` say how to marginalise a fit, as in :func:`pymc_active.predict`: without a
    method over the particles of a ParticleFit, and as ``"mgp"`` for a LaplaceFit.
    """

    methods: tuple[str, ...] = METHODS
    # Where outcomes are not normal.
    outcomes: LatentOutcomes | None = None
    # Whether partials are known where the criterion is one of the function.
    has_partials_of_function = False

    def __init__(self, method: str | None = None, draws: int = _DRAWS, random_seed: Seed = None):
        if method is not None and method not in self.methods:
            raise ValueError(f"method must be one of {', '.join(self.methods)}; got {method!r}")
        self.method, self.draws, self.random_seed = method, draws, random_seed

    @override
    def prepare(self, source, *, model=None):
        how = {"method": self.method, "draws": self.draws, "random_seed": self.random_seed}
        ensemble = ensemble_from(source, self.name, model=model, **how, weigh=self.weigh)
        outcomes = LatentOutcomes.of(ensemble)
        if outcomes is not None and outcomes.n_members is not None:
            ensemble = ensemble.first(max(outcomes.n_members, self.draws if self.draws > _DRAWS else 0))
        return MomentScorer(self, ensemble)

    def bind(self, ensemble: Ensemble) -> MomentCriterion:
        """A copy with what the criterion needs from an ensemble besides the candidates' moments."""
        bound = copy(self)
        bound.outcomes = LatentOutcomes.of(ensemble)
        return bound

    @property
    def is_of_function(self) -> bool:
        """Whether the criterion is one of the function, where outcomes that are not normal have no upper end."""
        if self.outcomes is None or not self.outcomes.has_no_end:
            return False
        # The functions of all members must have the same unit.
        return len({likelihood.has_unit for likelihood, _, _ in self.outcomes.parts}) == 1

    @property
    def has_partials(self) -> bool:
        """Whether :meth:`partials` are known."""
        return self.outcomes is None or (self.is_of_function and self.has_partials_of_function)

    @abstractmethod
    def value(self, p: Mixture) -> np.ndarray:
        """At m points, (m,)."""

    @abstractmethod
    def partials(self, p: Mixture) -> Sequence[np.ndarray]:
        """Derivatives in the components' means, variances and, if it has any, conditional variances, (S, m) each."""


class MatchedCriterion(MomentCriterion):
    """A function of the mixture's mean and variance."""

    @abstractmethod
    def of_moments(self, mean: np.ndarray, variance: np.ndarray) -> Partials:
        """Value, and its derivatives in mean and variance, (m,) each."""

    @override
    def value(self, p):
        return self.of_moments(*mixture_moments(p.means, p.variances, p.weights))[0]

    @override
    def partials(self, p):
        mean, variance = mixture_moments(p.means, p.variances, p.weights)
        _, in_mean, in_variance = self.of_moments(mean, variance)
        in_variance = p.weights[:, None] * in_variance
        return p.weights[:, None] * in_mean + 2 * in_variance * (p.means - mean), in_variance


class MomentScorer(Scorer):
    """A function of the predictive mixture of one ensemble."""

    def __init__(self, criterion: MomentCriterion, ensemble: Ensemble):
        self.criterion = criterion.bind(ensemble)
        super().__init__(ensemble, self.criterion.units)
        if self.criterion.outcomes is not None:
            # No formula lets few draws do.
            self.n_full, self.share = _FULL, 0.0

    @override
    def score(self, X):
        parts = np.array_split(X, -(-len(X) // (_BLOCK // self.n_models)))
        return np.concatenate([self.criterion.value(mixture(self.ensemble, part)) for part in parts])

    @override
    def gradient(self, X):
        with one_blas_thread():
            gradients = mixture_gradients(self.ensemble, X) if self.criterion.has_partials else None
            if gradients is None:
                return None
            p, inputs = gradients
            # Where there are gradients, the conditional variances are the variances.
            pairs = zip(self.criterion.partials(p), (*inputs, inputs.variance), strict=False)
            return self.criterion.value(p), sum(np.einsum("sm,smd->md", w, g) for w, g in pairs)

    @override
    def coarse(self, n):
        draws = max(len(part.z) for part in self.ensemble.parts)
        if self.ensemble.method != "draws" or draws <= 2 * n:
            return None
        return MomentScorer(self.criterion, self.ensemble.first(n))


def rounding(p: Mixture) -> np.ndarray:
    """Variances below these (m,) are rounding errors; latent variances may vanish at a data point."""
    return 1e-10 * (p.variances + p.noises).max(0) + np.finfo(float).tiny


def is_lazy(X_pool: Any) -> bool:
    """Whether a pool is a dask array."""
    return hasattr(X_pool, "dask") and not isinstance(X_pool, xr.DataArray)


def score_lazily(score: Callable[[np.ndarray], np.ndarray], X_pool: Any, meta: np.ndarray, **shape: Any) -> Any:
    """Scores of a dask array (m, D), block by block.

    ``meta`` are the scores of no candidate, and ``shape`` is ``drop_axis`` or ``chunks`` of ``dask.array.map_blocks``.
    """
    from dask import delayed

    width = X_pool.shape[1]

    def of_block(block, score, block_id):
        return score(read_inputs(block, f"block {block_id[0]} of X_pool", width)) if len(block) else meta

    # As a value of the graph the scorer, with its draws and functions, is sent to each process once.
    scorer = delayed(score, traverse=False)
    return X_pool.rechunk({1: -1}).map_blocks(of_block, score=scorer, dtype=float, meta=meta, **shape)


def score_pool(score: Callable[[np.ndarray], np.ndarray], gpm: Any, X_pool: Any, name: str, units: str) -> xr.DataArray:
    """Scores of a pool of any kind; of a dask array lazily, block by block."""
    X_pool = gpm.read_pool(X_pool) if isinstance(gpm, Model) else X_pool
    if isinstance(gpm, Process) and not is_lazy(X_pool):
        gpm.check_rows(read_inputs(X_pool, "X_pool", inputs=gpm.inputs))
    width = len(gpm.inputs)
    if is_lazy(X_pool):
        if X_pool.ndim != 2 or X_pool.shape[1] != width:
            raise ValueError(f"X_pool must have shape (m, {width}); got {X_pool.shape}")
        values, coords = score_lazily(score, X_pool, np.empty(0), drop_axis=1), {}
    else:
        values = score(read_inputs(X_pool, "X_pool", inputs=gpm.inputs))
        coords = {"point": point_labels(X_pool)}
    return xr.DataArray(values, dims="point", coords=coords, name=name, attrs={"units": units})


def relative_utility(name: str, utility: np.ndarray, pick: int) -> float:
    """Utility at a pick as a share of the largest; 1 if no candidate has any.

    Expected improvement comes as its logarithm; criteria without a natural zero are measured from their lowest value.
    ``name`` may have arguments.
    """
    name = name.partition("(")[0]
    if name == "expected_improvement":
        return float(np.exp(utility[pick] - utility.max()))
    gained, most = utility[pick], utility.max()
    if name == "upper_confidence_bound":
        gained, most = gained - utility.min(), most - utility.min()
    return float(gained / most) if most > 0 else 1.0
