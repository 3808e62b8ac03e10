"""``hds``: find the inputs that matter, in one call; ``hds_then_optimize``: then the maximum on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.learner.learner import Learner
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.baselines.gp_ucb import UCBRun, check_beta, gp_ucb, value_range
from pymc_active.relevant_inputs.evaluations import EvaluationError, Record, keeping, of_rows, warn_of_failures
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.scales import ModelScales, scales_of_model
from pymc_active.support.arguments import checked
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary

METHODS = ("expected_improvement", "gp_ucb", "pes")


@checked
def hds(
    f: Callable[[np.ndarray], Any],
    n_dims: int | None = None,
    *,
    model: GPModel | Fit | None = None,
    bandwidth: Any = None,
    signal_variance: float | None = None,
    noise_variance: float | None = None,
    batch_size: int | None = None,
    vectorized: bool = True,
    random_seed: int | np.random.Generator | None = None,
    **settings: Any,
) -> HDSResult:
    """Find the inputs of f that matter by hierarchical diagonal sampling.

    Parameters
    ----------
    f : callable
        Takes (k, D), returns k values, noisy or not; NaN says that an evaluation failed. One point may give a number.
    vectorized : bool
        False for an f that takes one point (D,) and returns a number.
    n_dims : int, optional
        D; by default the number of inputs of ``model``.
    model : GPModel or a fit, optional
        Gives bandwidth, signal and noise variance unless they are passed; a model is fitted first. The shortest
        lengthscale counts, since those of irrelevant inputs are long.
    batch_size : int, optional
        Number of points evaluated at once, on several nodes. By default those that belong together: scans and pairs.
    bandwidth, signal_variance, noise_variance, random_seed, **settings
        As in :class:`HDSLearner`, which does the work and raises; by bisection without the first two and ``model``.
        Errors of f are those of :meth:`HDSLearner.run`: their ``learner`` can go on.

    Warns
    -----
    DoubtfulSearchWarning, EvaluationWarning
        If the last check was not finished, or inputs not found change f; if the evaluations do not agree with the
        scales (:attr:`HDSResult.diagnostics`); if f returned NaN somewhere.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> def f(X):
    ...     return 2 * np.sin(5 * X[:, 3]) * np.cos(4 * X[:, 70]) + rng.normal(0, 0.1, len(X))
    >>> hds(f, 100, random_seed=1).active
    [3, 70]
    """
    f = of_rows(f, vectorized)
    scales = {"bandwidth": bandwidth, "signal_variance": signal_variance, "noise_variance": noise_variance}
    if model is not None:
        told = scales_of_model(model, bandwidth)
        if n_dims is not None and n_dims != told.n_dims:
            raise ValueError(f"model has {told.n_dims} inputs, and n_dims is {n_dims!r}: leave n_dims out")
        n_dims = told.n_dims
        scales = {name: getattr(told, name) if value is None else value for name, value in scales.items()}
    if batch_size is not None:
        batch_size = count("batch_size", batch_size)
    learner = HDSLearner(n_dims, **scales, random_seed=random_seed, **settings)  # type: ignore[arg-type]
    learner.run(f, batch_size=batch_size)
    result = HDSResult(learner)
    result.warn()
    return result


@dataclass(frozen=True, repr=False, eq=False)
class HDSOptimization(Summarized):
    """A search for relevant inputs, ``selection``, then for the maximum.

    X, (n, d), in the user's units, are the inputs found at the evaluations for the maximum; y, (n,), is NaN where one
    failed. ``best``, (D,), is where f is probably largest, the others in the middle of their intervals. ``values`` are
    y of all evaluations, those of the selection first: for :func:`regret`, unless f without noise is known.
    """

    selection: HDSResult
    X: np.ndarray
    y: np.ndarray
    best: np.ndarray
    values: np.ndarray

    def _summary(self) -> Summary:
        facts = {
            "best": ", ".join(f"input {i} = {self.best[i]:.4g}" for i in self.selection.active),
            "evaluations": f"{len(self.values)}, {len(self.y)} of them for the optimum",
            "y of these": value_range(self.y),
            "selection": self.selection.stopped,
        }
        return Summary("HDSOptimization", facts, remarks=self.selection._summary().remarks)

    def points(self) -> np.ndarray:
        """All points evaluated, (N, D), those of the selection first."""
        X = np.tile(self.best, (len(self.y), 1))
        X[:, self.selection.active] = self.X
        return np.concatenate([self.selection.history.X(), X])


@checked
def hds_then_optimize(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n: int,
    method: str = "gp_ucb",
    beta: float | Callable[[int], float] | None = None,
    minimize: bool = False,
    vectorized: bool = True,
    random_seed: int | np.random.Generator | None = None,
    bounds: Any = None,
    **keywords: Any,
) -> HDSOptimization:
    """Find the inputs that matter by hierarchical diagonal sampling, then the maximum on them from all samples.

    Parameters
    ----------
    f, n_dims, vectorized, bounds, random_seed, **keywords
        For :func:`hds`, which raises and warns likewise, and whose scales, if any, are among the ``keywords``.
    n : int
        Evaluations after the selection.
    method : {"gp_ucb", "expected_improvement", "pes"}
        GP-UCB with the scales that the selection was given, else those of a fit, and with ``beta``, see :func:`gp_ucb`;
        or a :class:`Learner` on :meth:`HDSResult.to_model`, which fits them.

    Raises
    ------
    EvaluationError, EvaluationInterrupt, ValueError
        If no active input was found; after the search for the inputs they keep ``selection``, ``X`` and ``y``.
        For an unknown method or a negative ``beta``, before anything is evaluated.

    Examples
    --------
    >>> import numpy as np
    >>> def f(X):
    ...     return -np.square(X[:, 7] - 0.3) * 4
    >>> found = hds_then_optimize(
    ...     f, 50, n=8, beta=2.0, bandwidth=1.0, signal_variance=5.0, noise_variance=0.001, random_seed=1
    ... )
    >>> found.selection.active, abs(found.best[7] - 0.3) < 0.1
    ([7], np.True_)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if beta is not None and method != "gp_ucb":
        raise ValueError("beta belongs to method='gp_ucb'")
    n = count("n", n)
    check_beta(beta)
    f = of_rows(f, vectorized)
    rng = np.random.default_rng(random_seed)
    selection = hds(f, n_dims, bounds=bounds, random_seed=rng, **keywords)
    settings, active = selection.settings, selection.active
    low, high = (np.broadcast_to(end, settings.n_dims) for end in (settings.low, settings.high))
    best = (low + high) / 2
    with keeping(lambda: {"selection": selection}):
        if not active:
            message = f"no active input was found in {selection.n_evaluations} evaluations, so nothing can be optimised"
            raise EvaluationError(f"{message}; they are kept in error.selection")
        if method == "gp_ucb":
            X, y = selection.data()
            scales = _scales(selection, (high - low)[active])
            run = gp_ucb(
                f,
                settings.n_dims,
                n=n,
                bandwidth=scales.bandwidth,
                signal_variance=scales.signal_variance,
                noise_variance=scales.noise_variance,
                inputs=active,
                X=X,
                y=y,
                beta=beta,
                minimize=minimize,
                bounds=bounds,
                random_seed=rng,
            )
        else:
            learner = Learner(
                selection.to_model(),
                "maximum" if method == "pes" else "function",
                criterion=method,
                bounds=[(low[i], high[i]) for i in active],
                minimize=minimize,
                random_seed=int(rng.integers(2**32)),
            )
            run = _learn(learner, Record(f, active, best), n)
    best[active] = run.best
    return HDSOptimization(selection, run.X, run.y, best, np.concatenate([selection.history.y, run.y]))


def _scales(selection: HDSResult, width: np.ndarray) -> ModelScales:
    """Those of the search; of a fit, if it had none."""
    given = selection.state.settings
    if np.isnan(given.bandwidth):
        return scales_of_model(selection.to_model())
    return ModelScales(len(width), given.bandwidth * width, given.signal_variance, given.noise_variance)


def _learn(learner: Learner, record: Record, n: int) -> UCBRun:
    """The maximum by a learner that fits the scales."""
    with keeping(record.succeeded):
        for _ in range(n):
            x = np.asarray(learner.ask())
            value = record.evaluate(x[0])
            # What failed stays pending: the learner takes it to be as predicted, and asks for another point.
            if np.isfinite(value):
                learner.tell(x, value)
        best = np.asarray(learner.recommend())[0]
    warn_of_failures(record.y)
    return UCBRun(record.X, record.y, best)
