"""Bandwidth, signal and noise variance: of a fitted model, or from a small design of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.factor import Factor, NotPositiveDefiniteError
from pymc_active.relevant_inputs.evaluations import evaluate, of_rows
from pymc_active.relevant_inputs.likelihood_ratio import squared_exponential, with_noise
from pymc_active.relevant_inputs.settings import read_box
from pymc_active.support.arguments import checked
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import (
    DoubtfulFitWarning,
    DoubtfulSearchWarning,
    EvaluationWarning,
    ignoring,
    warn_user,
)

_LENGTHSCALES = ("lengthscale", "lengthscale_SE", "ls")
# Distance of the lines in the coordinate that the fit sees.
_APART = 1e3
# Log-normal priors, (log of the median, sd): bandwidth along a line as a fraction of it; noise over signal.
_BANDWIDTH, _RATIO = (np.log(0.15), 1.0), (np.log(0.05), 2.5)
_FEWEST = 16
# Of noise over signal: repeats of f without noise agree exactly, so that no ratio would be too small for them.
_LEAST_RATIO = 1e-8
# p-value at which the design counts as unlike the fitted process, and draws with which its flatness is compared.
_SURPRISING_P, _DRAWS = 1e-3, 1999


class ModelScales(NamedTuple):
    """Scales of f, in the user's units."""

    n_dims: int
    bandwidth: Any
    signal_variance: float
    noise_variance: float


def scales_of_model(model: GPModel | Fit, bandwidth: Any = None) -> ModelScales:
    """Scales at the highest mode or particle of a fit; the signal variance is the mean prior variance over the data.

    A model is fitted first, without warnings.
    """
    if not isinstance(model, GPModel | Fit):
        raise TypeError(f"model must be a GPModel or a fit; got {type(model).__name__}")
    with ignoring(DoubtfulFitWarning):
        fit = fit_laplace(model, random_seed=0, progressbar=False) if isinstance(model, GPModel) else model
    n_dims = fit.X.shape[1]
    if bandwidth is None:
        point = fit.constrained_center
        name = next((name for name in _LENGTHSCALES if name in point), None)
        if name is None:
            raise ValueError(
                f"the model has no variable {' or '.join(_LENGTHSCALES)}, but {', '.join(sorted(point))}: pass "
                "bandwidth=, which is √2 times the lengthscale of the squared exponential kernel"
            )
        lengthscale = np.asarray(point[name], float)
        bandwidth = np.sqrt(2) * (lengthscale if lengthscale.shape == (n_dims,) else lengthscale.min())
        bandwidth = float(bandwidth) if np.ndim(bandwidth) == 0 else bandwidth
    posterior = fit.posterior
    moments = posterior.moments(posterior.state(fit.center), fit.X)
    return ModelScales(n_dims, bandwidth, float(moments.prior_variance.mean()), float(moments.noise_variance.mean()))


def unlike_a_process(z: np.ndarray, y: np.ndarray, bandwidth: float, signal: float, noise: float) -> str | None:
    """How data along lines differ from a Gaussian process of unknown mean and these scales, if they clearly do.

    *Mostly flat*: the sd of y over its interquartile range is larger than in nearly all draws of the process. *Jumps*:
    the residuals of each observation after prediction from all before are far from normal (Shapiro and Wilk).
    """
    from scipy.stats import shapiro

    K = with_noise(signal * squared_exponential(np.square((z[:, None] - z) / bandwidth)), noise)
    residual = whitened_differences(K, y)[0]
    # A fixed seed: the same design has the same verdict.
    draws = np.random.default_rng(0).normal(size=(_DRAWS, len(y))) @ Factor(K, y).L.T
    if (1 + np.sum(_flatness(draws) >= _flatness(y))) / (1 + _DRAWS) <= _SURPRISING_P:
        return "mostly flat with rare large changes"
    return None if shapiro(residual).pvalue > _SURPRISING_P else "with jumps or outliers"


def _flatness(y: np.ndarray) -> np.ndarray:
    low, high = np.quantile(y, [0.25, 0.75], axis=-1)
    return y.std(-1) / np.maximum(high - low, np.finfo(float).tiny)


def whitened_differences(K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardised residuals (n - 1,) of y with covariance K, the mean integrated out, and the factor L behind them."""
    # Differences to the first observation do not depend on the mean. Rounding leaves their covariance asymmetric:
    # its lower triangle counts.
    K = K[1:, 1:] - K[1:, :1] - K[:1, 1:] + K[0, 0]
    factor = Factor(K.T, y[1:] - y[0])
    return factor.half_solve(factor.residual), factor.L


@dataclass(frozen=True, repr=False, eq=False)
class EstimatedScales(Summarized):
    """Scales of f, and the design that they come from.

    ``bandwidth`` is that of a single input, in its units; if intervals differ, of one with the longest. The variances
    are in squared units of y. ``doubt`` says how the evaluations are unlike draws of the fitted process, or is None.
    X, (n, D), and y, (n,), succeeded; :meth:`HDSLearner.tell` takes them as data for the model that follows.
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    doubt: str | None
    X: np.ndarray
    y: np.ndarray

    def _summary(self) -> Summary:
        facts = {
            "bandwidth": f"{self.bandwidth:.3g} in units of the inputs",
            "signal variance": f"{self.signal_variance:.3g}",
            "noise variance": f"{self.noise_variance:.3g}",
            "from": f"{len(self.y)} evaluations of {self.X.shape[1]} inputs",
            "DOUBTFUL, unlike a process": self.doubt,
        }
        return Summary("EstimatedScales", facts)

    def keywords(self) -> dict[str, float]:
        """The scales as keywords of :func:`hds`."""
        return {name: getattr(self, name) for name in ("bandwidth", "signal_variance", "noise_variance")}


@checked
def estimate_scales(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n_evaluations: int = 48,
    n_active: int = 2,
    bounds: Any = None,
    vectorized: bool = True,
    random_seed: int | np.random.Generator | None = None,
) -> EstimatedScales:
    """Fit a Gaussian process to f along two random lines through the box, on which all inputs move at once.

    Parameters
    ----------
    n_evaluations : int
        At least 16, and as many must succeed. A quarter of them are repeats, which tell noise from signal.
    n_active : int
        A guess of how many inputs matter, to which the search is not sensitive: the bandwidth of f along a line is
        1/√n_active of that along one input.
    f, n_dims, bounds, vectorized, random_seed
        As in :func:`hds`.

    Returns
    -------
    EstimatedScales
        Maximum a posteriori, under wide priors: the bandwidth along a line within a factor of 2.7 (one sd) around 0.15
        of its length, the noise variance within 12 around 0.05 of the signal variance, and at least 1e-8 of it.

    Raises
    ------
    EvaluationError, ValueError
        If f raises or returns the wrong number of values; for too few evaluations that succeed, or a constant f.

    Warns
    -----
    EvaluationWarning, DoubtfulSearchWarning
        If f returned NaN somewhere; if f is unlike a draw from a Gaussian process.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> scales = estimate_scales(lambda X: np.sin(5 * X[:, 3]) + rng.normal(0, 0.1, len(X)), 100, random_seed=1)
    >>> 0.003 < scales.noise_variance < 0.03
    True
    """
    if not isinstance(n_evaluations, int | np.integer) or n_evaluations < _FEWEST:
        raise ValueError(f"n_evaluations must be at least {_FEWEST}; got {n_evaluations!r}")
    count("n_active", n_active, count("n_dims", n_dims))
    low, high = read_box(bounds, n_dims)
    rng = np.random.default_rng(random_seed)
    n_repeats = n_evaluations // 4
    n_places = n_evaluations - n_repeats
    line = np.arange(n_places) % 2
    # Stratified along each line.
    z = (np.arange(n_places) // 2 + rng.random(n_places)) / np.array([(n_places + 1) // 2, n_places // 2])[line]
    again = rng.choice(n_places, n_repeats, replace=False)
    z, line = np.concatenate([z, z[again]]), np.concatenate([line, line[again]])
    # Each input starts anywhere, and turns back where its interval ends: corners of the box, where f may be unusual,
    # are not favoured.
    phase = rng.uniform(0, 2, (2, n_dims))
    X = low + (high - low) * (1 - np.abs((phase[line] + z[:, None]) % 2 - 1))
    y = evaluate(of_rows(f, vectorized), X)
    succeeded = np.isfinite(y)
    failed = f"f returned NaN or infinity at {(~succeeded).sum()} of {len(X)} points"
    if succeeded.sum() < _FEWEST:
        raise ValueError(f"{failed}; at least {_FEWEST} must succeed")
    if not succeeded.all():
        warn_user(f"{failed}; the scales come from the others", EvaluationWarning)
        X, y, z, line = X[succeeded], y[succeeded], z[succeeded], line[succeeded]
    if not y.std() > 0:
        raise ValueError("f is constant, without any noise: there is nothing to estimate")
    coordinate = z + _APART * line
    with one_blas_thread():
        bandwidth, signal, noise = _fit(coordinate, y)
        doubt = unlike_a_process(coordinate, y, bandwidth, signal, noise)
    if doubt:
        warn_user(
            f"the data are unlike a Gaussian process: {doubt}. Inputs may be missed. Transform y (log, ranks), or "
            "search without scales.",
            DoubtfulSearchWarning,
        )
    # A search takes the smallest bandwidth as a fraction of its input's interval.
    width = float(np.max(np.asarray(high) - np.asarray(low)))
    return EstimatedScales(float(bandwidth * width * np.sqrt(n_active)), signal, noise, doubt, X, y)


def _fit(z: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Bandwidth, signal and noise variance of a GP of unknown mean at the mode, the signal variance profiled out."""
    square = np.square(z[:, None] - z)
    n = len(y) - 1

    def solve(theta: np.ndarray) -> tuple[float, float]:
        K = with_noise(squared_exponential(square * np.exp(-2 * theta[0])), np.exp(theta[1]))
        try:
            white, L = whitened_differences(K, y)
        except NotPositiveDefiniteError:
            return np.inf, np.nan
        variance = float(white @ white / n)
        prior = sum(0.5 * ((t - mean) / sd) ** 2 for t, (mean, sd) in zip(theta, (_BANDWIDTH, _RATIO), strict=True))
        return float(0.5 * n * np.log(variance) + np.log(np.diagonal(L)).sum() + prior), variance

    grid = [(b, r) for b in np.log([0.03, 0.08, 0.2, 0.5]) for r in np.log([1e-3, 0.03, 0.3, 3.0])]
    starts = sorted(grid, key=lambda theta: solve(np.array(theta))[0])[:3]
    keywords: dict[str, Any] = {"method": "Nelder-Mead", "options": {"xatol": 1e-3, "fatol": 1e-4}}
    keywords["bounds"] = [(None, None), (np.log(_LEAST_RATIO), None)]
    found = [minimize(lambda theta: solve(theta)[0], start, **keywords) for start in starts]
    best = min(found, key=lambda one: one.fun)
    variance = solve(best.x)[1]
    return float(np.exp(best.x[0])), variance, float(np.exp(best.x[1]) * variance)
