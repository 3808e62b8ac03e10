"""``hds``: find the inputs that matter, in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.evaluations import of_rows
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.result import HDSResult
from pymc_active.support.arguments import checked
from pymc_active.support.user_warnings import DoubtfulFitWarning, DoubtfulSearchWarning, ignoring, warn_user

_LENGTHSCALES = ("lengthscale", "lengthscale_SE", "ls")


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
        Gives bandwidth (of the shortest lengthscale), signal and noise variance unless they are passed; a model is
        fitted first.
    batch_size : int, optional
        Most points evaluated at once. By default all that can be without loss, see :meth:`HDSLearner.ask`.
    bandwidth, signal_variance, noise_variance, random_seed, **settings
        As in :class:`HDSLearner`, which does the work and raises. Errors of f have a ``learner`` that can go on.

    Warns
    -----
    DoubtfulSearchWarning, EvaluationWarning
        For what ``HDSResult.doubt`` says; if f returned NaN somewhere.

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
    told: dict[str, Any] = {"n_dims": n_dims} | scales
    if model is not None:
        of_model = _scales_of_model(model, bandwidth)
        if n_dims not in (None, of_model["n_dims"]):
            raise ValueError(f"model has {of_model['n_dims']} inputs, and n_dims is {n_dims!r}: leave n_dims out")
        told = of_model | {name: value for name, value in told.items() if value is not None}
    learner = HDSLearner(**told, random_seed=random_seed, **settings)
    learner.run(f, batch_size=batch_size)
    result = HDSResult(learner)
    if result.doubt:
        warn_user(result.doubt, DoubtfulSearchWarning)
    return result


def _scales_of_model(model: GPModel | Fit, bandwidth: Any = None) -> dict[str, Any]:
    """Keywords of :func:`hds`, in the user's units: the scales at the highest mode or particle of a fit, and n_dims.

    The signal variance is the mean prior variance over the data. A model is fitted first, without warnings.
    """
    if not isinstance(model, GPModel | Fit):
        raise TypeError(f"model must be a GPModel or a fit; got {type(model).__name__}")
    with ignoring(DoubtfulFitWarning):
        fit = fit_laplace(model, random_seed=0, progressbar=False) if isinstance(model, GPModel) else model
    n_dims, point = fit.X.shape[1], fit.constrained_center
    if bandwidth is None:
        lengthscale = next((np.asarray(point[name], float) for name in _LENGTHSCALES if name in point), None)
        if lengthscale is None:
            raise ValueError(
                f"the model has no variable {' or '.join(_LENGTHSCALES)}, but {', '.join(sorted(point))}: pass "
                "bandwidth=, which is √2 times the lengthscale of the squared exponential kernel"
            )
        bandwidth = np.sqrt(2) * (lengthscale if lengthscale.shape == (n_dims,) else lengthscale.min())
    moments = fit.posterior.moments(fit.posterior.state(fit.center), fit.X)
    signal, noise = float(moments.prior_variance.mean()), float(moments.noise_variance.mean())
    return {"n_dims": n_dims, "bandwidth": bandwidth, "signal_variance": signal, "noise_variance": noise}
