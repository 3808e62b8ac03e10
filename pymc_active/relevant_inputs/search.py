"""``hds``: find the inputs that matter, in one call; ``hds_then_optimize``: then the maximum on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.learner.learner import Learner
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.evaluations import EvaluationError, evaluate, keeping, of_rows
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.scales import scales_of_model
from pymc_active.support.arguments import checked
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary


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
    """A search for relevant inputs, ``selection``, then for the maximum on them by ``learner``, a :class:`Learner`.

    ``best``, (D,), is where f is probably largest, the other inputs in the middle of their intervals.
    """

    selection: HDSResult
    learner: Learner
    best: np.ndarray

    def _summary(self) -> Summary:
        facts = {
            "best": ", ".join(f"input {i} = {self.best[i]:.4g}" for i in self.selection.active),
            "selection": f"{self.selection.n_evaluations} evaluations, {self.selection.stopped}",
        }
        return Summary("HDSOptimization", facts, remarks=self.selection._summary().remarks)


@checked
def hds_then_optimize(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n: int,
    criterion: str | None = None,
    minimize: bool = False,
    vectorized: bool = True,
    random_seed: int | np.random.Generator | None = None,
    bounds: Any = None,
    **keywords: Any,
) -> HDSOptimization:
    """Find the inputs that matter by :func:`hds`, then the maximum on them, from all samples, by a :class:`Learner`.

    Parameters
    ----------
    f, n_dims, vectorized, bounds, random_seed, **keywords
        For :func:`hds`, which raises and warns likewise, and whose scales, if any, are among the ``keywords``.
    n : int
        Evaluations after the selection.
    criterion, minimize
        For ``Learner(selection.to_model(), "maximum", inference="laplace")``: after a search there are many samples,
        and a Gaussian at the modes is fast. A Learner of your own without ``inference`` averages over particles.

    Raises
    ------
    EvaluationError, EvaluationInterrupt
        If no active input was found; after the search for the inputs they keep ``selection``, and the ``learner``.

    Examples
    --------
    >>> import numpy as np
    >>> found = hds_then_optimize(lambda X: -np.square(X[:, 7] - 0.3) * 4, 50, n=2, random_seed=1)
    >>> found.selection.active, abs(found.best[7] - 0.3) < 0.1
    ([7], np.True_)
    """
    n, f = count("n", n), of_rows(f, vectorized)
    rng = np.random.default_rng(random_seed)
    selection = hds(f, n_dims, bounds=bounds, random_seed=rng, **keywords)
    active = selection.active
    low, high = (np.broadcast_to(end, n_dims) for end in (selection.settings.low, selection.settings.high))
    kept: dict[str, Any] = {"selection": selection}
    with keeping(lambda: kept):
        if not active:
            message = f"no active input was found in {selection.n_evaluations} evaluations, so nothing can be optimised"
            raise EvaluationError(f"{message}; they are kept in error.selection")
        learner = kept["learner"] = Learner(
            selection.to_model(),
            "maximum",
            criterion=criterion,
            bounds=[(low[i], high[i]) for i in active],
            minimize=minimize,
            # With next to no noise fresh particles take a minute, and have doubts.
            inference="laplace",
            random_seed=int(rng.integers(2**32)),
        )

        def whole(x: Any) -> np.ndarray:
            X = (low + high)[None] / 2
            X[:, active] = np.asarray(x)
            return X

        learner.run(lambda x: evaluate(f, whole(x))[0], n, progressbar=False)
        return HDSOptimization(selection, learner, whole(learner.recommend())[0])
