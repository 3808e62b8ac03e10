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
    bandwidth: Any = None,
    signal_variance: float | None = None,
    noise_variance: float | None = None,
    batch_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    **settings: Any,
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
    bandwidth, signal_variance, noise_variance
        Needed unless ``model`` is given; see :class:`HDSLearner`.
    batch_size : int, optional
        Number of points evaluated at once, on several nodes. By default those that belong together: scans and pairs.
    random_seed : int or Generator, optional
        By default fresh randomness.
    **settings
        All others of :class:`HDSLearner`, which does the work and can be asked and told by hand.

    Returns
    -------
    HDSResult

    Raises
    ------
    EvaluationError
        If f raises or keeps returning NaN. Its ``learner`` holds everything evaluated so far and can go on.
    EvaluationInterrupt
        If the user interrupts the search: a :class:`KeyboardInterrupt` with the same attribute.
    TypeError, ValueError
        As :class:`HDSLearner`, before anything is evaluated.

    Warns
    -----
    DoubtfulSearchWarning, EvaluationWarning
        If what was seen does not agree with the scales, so that inputs may be missed (see
        :attr:`HDSResult.diagnostics`); if f returned NaN somewhere.

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
    result.diagnostics.warn()
    return result
