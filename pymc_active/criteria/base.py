"""What every criterion on predictive moments shares: scoring a pool of any kind, and its gradient in the inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, override

import numpy as np
import xarray as xr

from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.traces import check_trace, trace_thetas
from pymc_active.predictions.mixtures import (
    METHODS,
    MIXTURE_METHODS,
    Mixture,
    mixture,
    mixture_gradients,
    mixture_of_draws,
)
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average
from pymc_active.predictions.moments import Predictive, draw_moments, marginal_gradients, marginal_moments
from pymc_active.support.tables import point_labels, read_inputs
from pymc_active.support.threads import one_blas_thread

# Candidates of one model scored at a time: mixtures hold arrays of components for all of them.
_BLOCK = 32_768

# With draws from the posterior: candidates that are all scored by all draws, draws that screen larger pools, the share
# of them that is scored by all, and draws that a gradient takes.
_FULL, _SCREEN, _SHARE, _CLIMB = 1000, 16, 0.05, 32

Partials = tuple[np.ndarray, np.ndarray, np.ndarray]


class Criterion(ABC):
    """A function of the input, known from what was measured; larger is better."""

    name: str
    units: str

    @abstractmethod
    def score(self, fit: LaplaceFit | ModelAverage, X: np.ndarray) -> np.ndarray:
        """At the rows of an array (m, D), (m,)."""

    @abstractmethod
    def gradient(
        self, fit: LaplaceFit | ModelAverage, X: np.ndarray, *, all_draws: bool = False
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Values (m,) and derivatives in the inputs (m, D); None where the model has no formulas for them."""

    def seeds(self, fit: LaplaceFit | ModelAverage) -> np.ndarray:
        """Points (k, D) near which a maximum of the criterion is likely; none, by default."""
        return np.empty((0, fit.X.shape[1]))

    @property
    def is_coarse(self) -> bool:
        """Whether gradients, unless ``all_draws``, take fewer draws than scores."""
        return False

    def over(self, source: LaplaceFit | Fits | xr.DataTree, X_pool: Any, model: GPModel | None = None) -> xr.DataArray:
        """Over a pool of any kind; lazily over a dask array."""
        if isinstance(source, xr.DataTree):
            raise TypeError(f"{self.name} takes fits, not a trace")
        if isinstance(source, xr.Dataset):
            # A mapping, but not of fits.
            check_trace(source)
        known = source if isinstance(source, LaplaceFit) else as_model_average(source)
        return score_pool(lambda X: self.score(known, X), known.gpm, X_pool, self.name, self.units)


class MomentCriterion(Criterion):
    """A function of the predictive moments at one point.

    What takes a fit takes a ModelAverage as well: the predictive is then the mixture over all models.

    Parameters
    ----------
    method : str
        How the hyperparameters are marginalised, as in :func:`pymc_active.predict`.
    draws, random_seed : int
        For ``method="draws"``.
    """

    methods: tuple[str, ...] = METHODS

    def __init__(self, method: str = "mgp", draws: int = 128, random_seed: int = 0):
        if method not in self.methods:
            raise ValueError(f"method must be one of {', '.join(self.methods)}; got {method!r}")
        self.method, self.draws, self.random_seed = method, draws, random_seed

    def begin(self, fit: LaplaceFit | ModelAverage) -> None:
        """Take from the fit what is the same for all candidates; nothing, by default."""
        return

    def begin_mixture(self, p: Mixture) -> None:
        """As :meth:`begin`, from the predictive mixture at the data; nothing, by default."""
        return

    def reweigh(self, fit: LaplaceFit | ModelAverage) -> LaplaceFit | ModelAverage:
        """With the weights that the criterion gives to models; as they are, by default."""
        return fit

    @abstractmethod
    def value(self, p: Predictive) -> np.ndarray:
        """At m points, (m,)."""

    @abstractmethod
    def partials(self, p: Predictive) -> Partials:
        """Derivatives of ``value`` in mean, variance and plug-in variance, (m,) each."""

    def mixture_value(self, p: Mixture) -> np.ndarray:
        """As ``value``, from a mixture: by default of its two moments."""
        return self.value(_matched(p))

    def mixture_partials(self, p: Mixture) -> Partials:
        """Derivatives in the components' means, variances and conditional variances, (S, m) each."""
        q = _matched(p)
        in_mean, in_variance, in_plug_in = self.partials(q)
        in_variance = p.weights[:, None] * (in_variance + in_plug_in)
        return p.weights[:, None] * in_mean + 2 * in_variance * (p.means - q.mean), in_variance, 0 * in_variance

    @override
    def score(self, fit, X):
        fit = self.reweigh(fit)
        self.begin(fit)
        if isinstance(fit, LaplaceFit) and self.method not in MIXTURE_METHODS:
            return self.value(marginal_moments(fit.best, X, self.method))
        if self.method != "draws" or len(X) <= _FULL or self.draws <= 2 * _SCREEN:
            return self._mixture_score(fit, X)
        score = self._mixture_score(fit, X, _SCREEN)
        best = np.argsort(-score, kind="stable")[: max(_FULL // 2, int(_SHARE * len(X)))]
        exact = self._mixture_score(fit, X[best])
        # Whatever the screening thought of the others, the maximum is one that all draws have seen.
        score = np.minimum(score, np.nextafter(exact.max(), -np.inf))
        score[best] = exact
        return score

    def _mixture_score(self, fit: LaplaceFit | ModelAverage, X: np.ndarray, first: int | None = None) -> np.ndarray:
        block = _BLOCK // (np.count_nonzero(fit.weights) if isinstance(fit, ModelAverage) else 1)
        return np.concatenate(
            [
                self.mixture_value(mixture(fit, part, self.method, self.draws, self.random_seed, first))
                for part in np.array_split(X, -(-len(X) // block))
            ]
        )

    @property
    @override
    def is_coarse(self):
        return self.method == "draws" and self.draws > _CLIMB

    @override
    def gradient(self, fit, X, *, all_draws=False):
        # With draws from the posterior values and gradients are those of the first 32.
        fit = self.reweigh(fit)
        self.begin(fit)
        with one_blas_thread():
            if isinstance(fit, LaplaceFit) and self.method not in MIXTURE_METHODS:
                one = marginal_gradients(fit.best, X, self.method)
                if one is None:
                    return None
                p, inputs = one
                return self.value(p), sum(w[:, None] * g for w, g in zip(self.partials(p), inputs, strict=True))
            first = _CLIMB if self.is_coarse and not all_draws else None
            several = mixture_gradients(fit, X, self.method, self.draws, self.random_seed, first)
            if several is None:
                return None
            mixed, inputs = several
            pairs = zip(self.mixture_partials(mixed), inputs, strict=True)
            return self.mixture_value(mixed), sum(np.einsum("sm,smd->md", w, g) for w, g in pairs)

    @override
    def over(self, source, X_pool, model=None):
        if not isinstance(source, xr.DataTree):
            return super().over(source, X_pool)
        if model is None:
            raise ValueError(
                f"{self.name} over a trace needs the model it came from: pass model=gpm; what has no such argument "
                "has its like in bald_from_trace(trace, model, X_pool) and predict(trace, X_pool, model=gpm)"
            )
        thetas, posterior = trace_thetas(model, source), model.posterior()
        self.method = "draws"

        def at(X: np.ndarray) -> Mixture:
            return mixture_of_draws(*draw_moments(posterior, thetas, X))

        self.begin_mixture(at(model.X))
        return score_pool(lambda X: self.mixture_value(at(X)), model, X_pool, self.name, self.units)


def rounding(p: Mixture) -> np.ndarray:
    """Below these, (m,), variances are rounding errors: latent ones may vanish at a data point."""
    return 1e-10 * (p.variances + p.noises).max(0) + np.finfo(float).tiny


def _matched(p: Mixture) -> Predictive:
    """One Gaussian with a mixture's mean and variance."""
    mean, variance = mixture_moments(p.means, p.variances, p.weights)
    return Predictive(mean, variance, variance, p.weights @ p.noises)


def is_lazy(X_pool: Any) -> bool:
    """Whether a pool is a dask array."""
    return hasattr(X_pool, "dask") and not isinstance(X_pool, xr.DataArray)


def _score_block(
    block: np.ndarray, score: Callable[[np.ndarray], np.ndarray], width: int, block_id: tuple[int, ...]
) -> np.ndarray:
    return score(read_inputs(block, f"block {block_id[0]} of X_pool", width)) if len(block) else np.empty(0)


def score_pool(
    score: Callable[[np.ndarray], np.ndarray], gpm: GPModel, X_pool: Any, name: str, units: str
) -> xr.DataArray:
    """Apply an array criterion to a pool of any kind, lazily and block by block to a dask array.

    Each block is a pool of its own: the bits are those of its rows scored alone, and a criterion that screens its
    candidates screens those of the block.
    """
    width = len(gpm.inputs)
    if is_lazy(X_pool):
        if X_pool.ndim != 2 or X_pool.shape[1] != width:
            raise ValueError(f"X_pool must have shape (m, {width}); got {X_pool.shape}")
        from dask import delayed

        # As a value of the graph the scorer travels to each process once, however many blocks this is given.
        scorer = delayed(score, traverse=False)
        values = X_pool.rechunk({1: -1}).map_blocks(
            _score_block, score=scorer, width=width, drop_axis=1, dtype=float, meta=np.empty(0)
        )
        return xr.DataArray(values, dims="point", name=name, attrs={"units": units})
    X = read_inputs(X_pool, "X_pool", inputs=gpm.inputs)
    return xr.DataArray(
        score(X), dims="point", coords={"point": point_labels(X_pool)}, name=name, attrs={"units": units}
    )


def relative_utility(name: str, utility: np.ndarray, pick: int) -> float:
    """Utility at a pick over the largest, 1 if there is nothing to gain anywhere.

    Expected improvement is given by its logarithm; an upper confidence bound has no zero, and is counted from the
    lowest in the pool.
    """
    if name == "expected_improvement":
        return float(np.exp(utility[pick] - utility.max()))
    gained, most = utility[pick], utility.max()
    if name in ("upper_confidence_bound", "committee"):
        gained, most = gained - utility.min(), most - utility.min()
    return float(gained / most) if most > 0 else 1.0
