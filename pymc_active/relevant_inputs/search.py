"""``hds``: find the inputs that matter, in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.relevant_inputs.scales import scales_of_model
from pymc_active.relevant_inputs.settings import count


def hds(
    f: Callable[[np.ndarray], Any],
    n_dims: int | None = None,
    *,
    model: GPModel | LaplaceFit | None = None,
    test: str = "anchored",
    bandwidth: Any = None,
    signal_variance: float | None = None,
    noise_variance: float | None = None,
    accept: float | None = None,
    reject: float | None = None,
    budget: int = 2000,
    recovery: float = 0.99,
    n_active: int = 4,
    share: float = 0.6,
    retest: bool | None = None,
    offset_variance: float = 0.0,
    bounds: Any = None,
    batch_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> HDSResult:
    """Find the inputs of f that matter by hierarchical diagonal sampling.

    Parameters
    ----------
    f : callable
        Takes (k, D), returns k values, noisy or not; NaN says that an evaluation failed. For one point a number will
        do.
    n_dims : int, optional
        D; by default the number of inputs of ``model``.
    model : GPModel or LaplaceFit, optional
        Gives bandwidth, signal and noise variance unless they are passed; a model is fitted first. The shortest
        lengthscale counts, since those of irrelevant inputs are long.
    test, bandwidth, signal_variance, noise_variance, accept, reject, budget, recovery, n_active, share, retest
        See :class:`HDSLearner`, which does the work and can be asked and told by hand.
    offset_variance, bounds, random_seed
        See :class:`HDSLearner`.
    batch_size : int, optional
        Number of points evaluated at once, on several nodes. By default those that belong together: scans and pairs.

    Returns
    -------
    HDSResult

    Raises
    ------
    EvaluationError
        If f raises or keeps returning NaN. Its ``learner`` holds everything evaluated so far and can go on.
    EvaluationInterrupt
        If the user interrupts f: a :class:`KeyboardInterrupt` with the same attribute.
    TypeError, ValueError
        As :class:`HDSLearner`, before anything is evaluated.

    Warns
    -----
    DoubtfulSearchWarning
        If what was seen does not agree with the scales: then inputs may be missed. See :attr:`HDSResult.diagnostics`.
    EvaluationWarning
        If f returned NaN somewhere.

    References
    ----------
    .. [1] Chen, Castro & Krause (2012), Joint Optimization and Variable Selection of High-dimensional Gaussian
       Processes.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> def f(X):
    ...     return 2 * np.sin(5 * X[:, 3]) * np.cos(4 * X[:, 70]) + rng.normal(0, 0.1, len(X))
    >>> hds(f, 100, bandwidth=0.5, signal_variance=1.0, noise_variance=0.01, random_seed=1).active
    [3, 70]
    """
    if not callable(f):
        raise TypeError(f"f must be callable, taking (k, D) and returning (k,); got {type(f).__name__}")
    if model is not None:
        scales = scales_of_model(model, bandwidth)
        if n_dims is not None and n_dims != scales.n_dims:
            raise ValueError(f"model has {scales.n_dims} inputs, and n_dims is {n_dims!r}: leave n_dims out")
        n_dims = scales.n_dims
        bandwidth = scales.bandwidth if bandwidth is None else bandwidth
        signal_variance = scales.signal_variance if signal_variance is None else signal_variance
        noise_variance = scales.noise_variance if noise_variance is None else noise_variance
    if batch_size is not None:
        batch_size = count("batch_size", batch_size)
    learner = HDSLearner(
        n_dims,  # type: ignore[arg-type]
        test=test,
        bandwidth=bandwidth,
        signal_variance=signal_variance,
        noise_variance=noise_variance,
        accept=accept,
        reject=reject,
        budget=budget,
        recovery=recovery,
        n_active=n_active,
        share=share,
        retest=retest,
        offset_variance=offset_variance,
        bounds=bounds,
        random_seed=random_seed,
    )
    learner.run(f, batch_size=batch_size)
    result = HDSResult(learner)
    result.diagnostics.warn()
    return result
