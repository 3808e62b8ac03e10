"""Bandwidth, signal and noise variance from a small held-out design, where nobody knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from pymc_active.relevant_inputs.assumptions import AssumptionCheck, check_assumptions
from pymc_active.relevant_inputs.settings import read_box
from pymc_active.support.summaries import html_summary
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import EvaluationWarning, warn_user

# Lines are far apart in the coordinate that the fit sees.
_APART = 1e3
# Log-normal priors, (log of the median, sd): bandwidth along a line as a fraction of it; noise over signal.
_BANDWIDTH, _RATIO = (np.log(0.15), 1.0), (np.log(0.05), 2.5)
_FEWEST = 16
# Of noise over signal: repeats of f without noise agree exactly, which no noise is too little for.
_LEAST_RATIO = 1e-8


class EstimatedScales(NamedTuple):
    """Scales of f, and the design that they come from.

    Attributes
    ----------
    bandwidth : float
        For a single input, in units of the inputs; where their intervals differ, of one with the longest.
    signal_variance, noise_variance : float
    check : AssumptionCheck
        Whether the design looks like a draw from the fitted process.
    X, y : ndarray, shapes (n, D) and (n,)
        What was evaluated without failure; :meth:`HDSLearner.tell` takes it as data for the model that follows.
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    check: AssumptionCheck
    X: np.ndarray
    y: np.ndarray

    def __repr__(self) -> str:
        return (
            f"<EstimatedScales: bandwidth {self.bandwidth:.3g}, signal variance {self.signal_variance:.3g}, noise "
            f"variance {self.noise_variance:.3g}, from {len(self.y)} evaluations "
            f"({'plausible' if self.check.is_plausible else 'DOUBTFUL'})>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "bandwidth": f"{self.bandwidth:.3g}, in units of the inputs",
            "signal variance": f"{self.signal_variance:.3g}",
            "noise variance": f"{self.noise_variance:.3g}",
            "from": f"{len(self.y)} evaluations of {self.X.shape[1]} inputs",
        }
        return html_summary("EstimatedScales", facts, remarks=[repr(self.check)[1:-1]])

    def keywords(self) -> dict[str, float]:
        """The scales as keywords of :func:`hds`."""
        return {
            "bandwidth": self.bandwidth,
            "signal_variance": self.signal_variance,
            "noise_variance": self.noise_variance,
        }


def estimate_scales(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n_evaluations: int = 48,
    n_active: int = 2,
    bounds: Any = None,
    random_seed: int | np.random.Generator | None = None,
) -> EstimatedScales:
    """Fit a Gaussian process to f along two random lines through the box.

    All inputs move at once, so that f shows its variation whichever of them matter.

    Parameters
    ----------
    f : callable
        Takes (n, D), returns (n,), NaN where an evaluation failed.
    n_dims : int
    n_evaluations : int
        At least 16, and as many must succeed; a quarter of them are repeats, which tell noise from signal.
    n_active : int
        A guess of how many inputs matter: the bandwidth of f along a line is 1/√n_active of that along one input.
        The search is not sensitive to it.
    bounds : (low, high) or list of (low, high)
        As in :func:`hds`; default [-1, 1].
    random_seed : int or Generator, optional

    Returns
    -------
    EstimatedScales
        Maximum a posteriori, under wide priors: the bandwidth along a line within a factor of 2.7 (one sd) around
        0.15 of its length, the noise variance within 12 around 0.05 of the signal variance. Where repeats agree
        exactly, as of a simulator without noise, it is 1e-8 of the signal variance, and never less.

    Raises
    ------
    ValueError
        For too few evaluations, or an f that fails at too many of them or is constant.

    Warns
    -----
    UserWarning
        If f returned NaN somewhere, or if it does not look like a draw from a Gaussian process, see
        :func:`check_assumptions`.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> scales = estimate_scales(lambda X: np.sin(5 * X[:, 3]) + rng.normal(0, 0.1, len(X)), 100, random_seed=1)
    >>> 0.003 < scales.noise_variance < 0.03
    True
    """
    if not isinstance(n_evaluations, int | np.integer) or n_evaluations < _FEWEST:
        raise ValueError(f"n_evaluations must be at least {_FEWEST}; got {n_evaluations!r}")
    if not isinstance(n_active, int | np.integer) or n_active < 1:
        raise ValueError(f"n_active must be a positive whole number; got {n_active!r}")
    low, high = read_box(bounds, n_dims)
    rng = np.random.default_rng(random_seed)
    n_repeats = n_evaluations // 4
    n_places = n_evaluations - n_repeats
    line = np.arange(n_places) % 2
    # Stratified along each line.
    z = (np.arange(n_places) // 2 + rng.random(n_places)) / np.array([(n_places + 1) // 2, n_places // 2])[line]
    again = rng.choice(n_places, n_repeats, replace=False)
    z, line = np.concatenate([z, z[again]]), np.concatenate([line, line[again]])
    # Each input starts anywhere, and turns where its interval ends: corners of the box, where f may be unlike itself
    # elsewhere, are not favoured.
    phase = rng.uniform(0, 2, (2, n_dims))
    unit = 1 - np.abs((phase[line] + z[:, None]) % 2 - 1)
    X = low + (high - low) * unit
    # A copy, since f may write into it.
    y = np.asarray(f(X.copy()), float)
    if y.shape != (len(X),):
        raise ValueError(f"f must return one number for each row of x, shape ({len(X)},); got shape {y.shape}")
    succeeded = np.isfinite(y)
    if succeeded.sum() < _FEWEST:
        raise ValueError(
            f"f returned NaN or infinity at {(~succeeded).sum()} of {len(X)} points; at least {_FEWEST} must succeed"
        )
    if not succeeded.all():
        warn_user(
            f"f returned NaN or infinity at {(~succeeded).sum()} of {len(X)} points; the others tell the scales",
            EvaluationWarning,
        )
        X, y, z, line = X[succeeded], y[succeeded], z[succeeded], line[succeeded]
    if not y.std() > 0:
        raise ValueError("f is constant, without any noise: there is nothing to estimate")
    coordinate = z + _APART * line
    with one_blas_thread():
        bandwidth, signal, noise = _fit(coordinate, y)
    check = check_assumptions(coordinate[:, None], y, bandwidth=bandwidth, signal_variance=signal, noise_variance=noise)
    check.warn()
    # A search takes the smallest bandwidth as a fraction of its input's interval.
    width = float(np.max(np.asarray(high) - np.asarray(low)))
    return EstimatedScales(float(bandwidth * width * np.sqrt(n_active)), signal, noise, check, X, y)


def _fit(z: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Bandwidth, signal and noise variance of a GP of unknown mean, at the mode; the signal's scale is profiled."""
    square = np.square(z[:, None] - z)
    differences = y[1:] - y[0]
    n = len(differences)

    def solve(theta: np.ndarray) -> tuple[float, float]:
        K = np.exp(-square * np.exp(-2 * theta[0]))
        K.flat[:: len(y) + 1] += np.exp(theta[1])
        L, info = lapack.dpotrf(K[1:, 1:] - K[1:, :1] - K[:1, 1:] + K[0, 0], lower=1)
        if info != 0:
            return np.inf, np.nan
        white = lapack.dtrtrs(L, differences, lower=1)[0]
        variance = float(white @ white / n)
        prior = sum(0.5 * ((t - mean) / sd) ** 2 for t, (mean, sd) in zip(theta, (_BANDWIDTH, _RATIO), strict=True))
        return float(0.5 * n * np.log(variance) + np.log(np.diagonal(L)).sum() + prior), variance

    grid = [(b, r) for b in np.log([0.03, 0.08, 0.2, 0.5]) for r in np.log([1e-3, 0.03, 0.3, 3.0])]
    values = [solve(np.array(theta))[0] for theta in grid]
    best = min(
        (
            minimize(
                lambda t: solve(t)[0],
                grid[i],
                method="Nelder-Mead",
                bounds=[(None, None), (np.log(_LEAST_RATIO), None)],
                options={"xatol": 1e-3, "fatol": 1e-4},
            )
            for i in np.argsort(values)[:3]
        ),
        key=lambda found: found.fun,
    )
    variance = solve(best.x)[1]
    return float(np.exp(best.x[0])), variance, float(np.exp(best.x[1]) * variance)
