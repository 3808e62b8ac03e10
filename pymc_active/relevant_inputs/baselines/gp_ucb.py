"""GP-UCB with known scales, on some inputs of f while the others stay where they are; and its regret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize as minimise

from pymc_active.posterior.factor import Factor
from pymc_active.relevant_inputs.covariance import VAGUE, least_noise, squared_exponential, with_noise
from pymc_active.relevant_inputs.evaluations import EvaluationError, Record, keeping, warn_of_failures
from pymc_active.relevant_inputs.settings import read_bandwidth, read_box
from pymc_active.support.arguments import checked
from pymc_active.support.options import count, not_negative, positive
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_inputs, read_numbers, read_outputs
from pymc_active.support.threads import one_blas_thread

# Random places at which the bound is compared, and how many of the best are polished.
_CANDIDATES, _POLISHED = 2000, 5


@dataclass(frozen=True, repr=False, eq=False)
class UCBRun(Summarized):
    """Evaluations of GP-UCB, in order: the inputs that were searched, X (n, d) in the user's units, and y (n,).

    y is NaN where an evaluation failed. ``best``, (d,), is where the posterior mean is largest in the end.
    """

    X: np.ndarray
    y: np.ndarray
    best: np.ndarray

    def _summary(self) -> Summary:
        facts = {"best at": ", ".join(f"{value:.4g}" for value in self.best), "y": value_range(self.y)}
        return Summary(f"UCBRun of {len(self.y)} evaluations", facts)


def value_range(y: np.ndarray) -> str | None:
    """Smallest and largest y, of evaluations that succeeded."""
    y = y[np.isfinite(y)]
    return f"{y.min():.4g} to {y.max():.4g}" if len(y) else None


def check_beta(beta: Any) -> None:
    """Refuse a number that is negative; None and functions pass."""
    if beta is None or callable(beta):
        return
    if not (isinstance(beta, int | float | np.number) and 0 <= beta < np.inf):
        raise ValueError(f"beta must not be negative; got {beta!r}")


@checked
def theorem_beta(t: int, n_active: int, *, signal_variance: float, bandwidth: float, delta: float = 0.1) -> float:
    r"""β of theorem 4.1 at evaluation t, from 1, with which the regret bound holds with a probability of 1 - delta.

    :math:`2 \log(2 \pi^2 t^2 / (3 \delta)) + 2 d \log(2 t^2 d \sigma_s b^{-1} \sqrt{\log(4 d / \delta)})` for d
    ``n_active``, the signal variance σ_s² in squared units of y, and the paper's bandwidth b, for inputs in a unit
    interval. In practice a fifth of it is plenty. The bound's constant is :math:`C_1 = 8 / \log(1 + \sigma^{-2})`, with
    the noise as in theorem 2 of Srinivas et al. (2010), and not with the bandwidth that is printed.

    Examples
    --------
    >>> theorem_beta(1, 2, signal_variance=1.0, bandwidth=0.1).__round__(2)
    26.08
    """
    if t < 1 or n_active < 1 or not 0 < delta < 1:
        raise ValueError(f"need t >= 1, n_active >= 1 and 0 < delta < 1; got {t!r}, {n_active!r}, {delta!r}")
    signal_variance, bandwidth = positive("signal_variance", signal_variance), positive("bandwidth", bandwidth)
    lipschitz = np.sqrt(signal_variance) / bandwidth * np.sqrt(np.log(4 * n_active / delta))
    grid = max(2 * t**2 * n_active * lipschitz, 1.0)
    return float(2 * np.log(2 * np.pi**2 * t**2 / (3 * delta)) + 2 * n_active * np.log(grid))


class _Surrogate:
    """A GP of unknown mean and given scales, in units of the box."""

    def __init__(self, U: np.ndarray, y: np.ndarray, bandwidth: np.ndarray, signal_variance: float, noise: float):
        self.U, self.bandwidth, self.signal_variance = U, bandwidth, signal_variance
        self.shift = float(y.mean())
        self.factor = Factor(with_noise(self._kernel(U), noise).T, y - self.shift)
        self.alpha = self.factor.alpha

    def _kernel(self, U: np.ndarray) -> np.ndarray:
        a, b = U / self.bandwidth, self.U / self.bandwidth
        square = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
        return self.signal_variance * (VAGUE + squared_exponential(np.maximum(square, 0)))

    def bound(self, U: np.ndarray, width: float) -> np.ndarray:
        """Mean plus ``width`` sds, (m,)."""
        k = self._kernel(U)
        half = lapack.dtrtrs(self.factor.L, k.T, lower=1)[0]
        variance = self.signal_variance * (1 + VAGUE) - np.square(half).sum(0)
        return self.shift + k @ self.alpha + width * np.sqrt(np.maximum(variance, 0))

    def value_and_gradient(self, u: np.ndarray, width: float) -> tuple[float, np.ndarray]:
        """The bound's negative and its gradient at one point, for a minimiser."""
        k = self._kernel(u[None])[0]
        weights = self.factor.solve(k)
        sd = np.sqrt(max(self.signal_variance * (1 + VAGUE) - k @ weights, 1e-12 * self.signal_variance))
        dk = (-2 * (u - self.U) / self.bandwidth**2) * (k - VAGUE * self.signal_variance)[:, None]
        gradient = dk.T @ (self.alpha - width / sd * weights)
        return -float(self.shift + k @ self.alpha + width * sd), -gradient

    def maximum(self, width: float, rng: np.random.Generator) -> np.ndarray:
        """Where the bound is largest in the unit box."""
        d = self.U.shape[1]
        best = self.U[np.argsort(-self.bound(self.U, 0.0))[:20]]
        near = np.clip(best + rng.normal(0, 0.3, best.shape) * self.bandwidth, 0, 1)
        places = np.concatenate([rng.random((_CANDIDATES, d)), best, near])
        starts = places[np.argsort(-self.bound(places, width), kind="stable")[:_POLISHED]]
        keywords = {"args": (width,), "jac": True, "method": "L-BFGS-B", "bounds": [(0, 1)] * d}
        found = [minimise(self.value_and_gradient, u, **keywords) for u in starts]
        return np.clip(min(found, key=lambda result: result.fun).x, 0, 1)


@checked
def gp_ucb(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n: int,
    bandwidth: float | np.ndarray,
    signal_variance: float,
    noise_variance: float,
    inputs: list[int] | None = None,
    others: np.ndarray | None = None,
    X: np.ndarray | None = None,
    y: np.ndarray | None = None,
    beta: float | Callable[[int], float] | None = None,
    minimize: bool = False,
    bounds: Any = None,
    random_seed: int | np.random.Generator | None = None,
) -> UCBRun:
    """Maximise f by upper confidence bounds.

    Parameters
    ----------
    f : callable
        As in :func:`hds`. NaN is an EvaluationWarning; the run goes on as if the prediction had been observed.
    n : int
        Number of evaluations.
    inputs, others : list of int and ndarray of shape (D,), optional
        The d inputs to search, by default all; and where the others stay, by default in the middle of their intervals.
    X, y : ndarray, shapes (m, d) and (m,), optional
        Data, of the inputs searched; both or neither.
    beta : float or callable, optional
        A number, or a function of the evaluation's number (from 1); by default that of :func:`theorem_beta`.
    n_dims, bandwidth, signal_variance, noise_variance, bounds, random_seed
        As in :class:`HDSLearner`. The scales are known; several bandwidths are those of the inputs searched.

    Raises
    ------
    EvaluationError, EvaluationInterrupt
        As :meth:`HDSLearner.run`, if ``beta`` raises, or if f always fails; ``X`` and ``y`` hold what was evaluated.
    TypeError, ValueError
        For scales that are not positive, malformed data, or inputs that do not exist or are named twice.
    """
    low, high = (np.broadcast_to(end, n_dims) for end in read_box(bounds, count("n_dims", n_dims)))
    inputs = list(range(n_dims)) if inputs is None else list(inputs)
    is_number = all(isinstance(i, int | np.integer) and 0 <= i < n_dims for i in inputs)
    if not inputs or not is_number or len(set(inputs)) < len(inputs):
        raise ValueError(f"inputs must be numbers from 0 to {n_dims - 1}, at least one and each once; got {inputs!r}")
    signal_variance = positive("signal_variance", signal_variance)
    noise = least_noise(signal_variance, not_negative("noise_variance", noise_variance))
    n = count("n", n)
    check_beta(beta)
    if (X is None) != (y is None):
        raise ValueError("data are X and y: pass both or neither")
    base = (low + high) / 2 if others is None else read_numbers(others, "others")
    if base.shape != (n_dims,):
        raise ValueError(f"others must have a value for each of the {n_dims} inputs; got shape {base.shape}")
    rng = np.random.default_rng(random_seed)
    start, width = low[inputs], (high - low)[inputs]
    relative = read_bandwidth(bandwidth, len(inputs)) / width
    sign = -1.0 if minimize else 1.0
    U, values = np.empty((0, len(inputs))), np.empty(0)
    if X is not None:
        given = read_inputs(X, width=len(inputs))
        U, values = (given - start) / width, sign * read_outputs(y, len(given), X)

    def fitted(U: np.ndarray, values: np.ndarray) -> _Surrogate | None:
        known = np.isfinite(values)
        return _Surrogate(U[known], values[known], relative, signal_variance, noise) if known.any() else None

    # With predictions where an evaluation failed, so that another place is asked.
    assumed, record = values, Record(f, inputs, base)
    with one_blas_thread(), keeping(record.succeeded):
        for t in range(1, n + 1):
            if beta is None:
                b = theorem_beta(t, len(inputs), signal_variance=signal_variance, bandwidth=float(relative.min()))
            else:
                b = float(beta(t)) if callable(beta) else float(beta)
                check_beta(b)
            surrogate = fitted(U, assumed)
            u = surrogate.maximum(np.sqrt(b), rng) if surrogate else rng.random(len(inputs))
            value = sign * record.evaluate(start + width * u)
            guess = float(surrogate.bound(u[None], 0.0)[0]) if surrogate and np.isnan(value) else value
            U, values, assumed = np.vstack([U, u]), np.append(values, value), np.append(assumed, guess)
        surrogate = fitted(U, values)
        if surrogate is None:
            raise EvaluationError(f"f returned NaN or infinity at all {n} point(s)")
        best = surrogate.maximum(0.0, rng)
    warn_of_failures(record.y)
    return UCBRun(record.X, record.y, start + width * best)


@dataclass(frozen=True, repr=False, eq=False)
class Regret(Summarized):
    """Regret of evaluations, (n,) each, in units of y: the maximum minus f at each evaluation.

    ``cumulative`` is the running sum, the paper's R_T, ``average`` R_T / T, and ``minimum`` the smallest so far.
    Failures are NaN in ``instantaneous``; the others leave them out, and are NaN (0) before the first success.
    """

    instantaneous: np.ndarray
    cumulative: np.ndarray
    average: np.ndarray
    minimum: np.ndarray

    def _summary(self) -> Summary:
        last = {"smallest": self.minimum, "average": self.average, "cumulative": self.cumulative}
        facts = {name: f"{values[-1]:.4g}" for name, values in last.items() if len(values)}
        return Summary(f"Regret of {len(self.minimum)} evaluations", facts)


@checked
def regret(values: np.ndarray, optimum: float, *, minimize: bool = False) -> Regret:
    """Regret of evaluations ``values``, (n,), best from f without noise; NaN where an evaluation failed.

    ``optimum`` is the largest value of f, or the smallest if ``minimize``.

    Examples
    --------
    >>> regret([1.0, 3.0, 2.0], 3.5).minimum
    array([2.5, 0.5, 0.5])
    """
    found = read_numbers(values, "values")
    if found.ndim != 1 or (found.size and not np.isfinite(found).any()) or not np.isfinite(optimum):
        raise ValueError(
            "values must be a vector of numbers, NaN where some evaluations failed, and optimum a number; "
            f"got {values!r} and {optimum!r}"
        )
    step = (found - float(optimum)) * (1 if minimize else -1)
    cumulative = np.nancumsum(step)
    count = (~np.isnan(step)).cumsum()
    average = np.where(count > 0, cumulative / np.maximum(count, 1), np.nan)
    return Regret(step, cumulative, average, np.fmin.accumulate(step))
