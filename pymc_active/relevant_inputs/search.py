"""``hds``: find the inputs that matter, in one call; and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.builders import ard_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.learner import HDSLearner, of_rows
from pymc_active.relevant_inputs.settings import least_noise
from pymc_active.spaces.space import Space
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring, warn_user

# Names of the lengthscale in a model.
_LENGTHSCALES = ("lengthscale", "lengthscale_SE", "ls")
# Bandwidth as a part of an input's interval, where nothing is known about it.
_GUESS = 0.5
# Least sd of the noise of a model of the inputs found, relative to that of the signal.
_LEAST_NOISE = 1e-3


class HDSResult(Summarized):
    """What hierarchical diagonal sampling found until now; what the ``learner`` does later does not change it.

    ``active`` are the inputs that matter, sorted; in a space their names. ``undecided`` nodes, such as ``"24-31"``, are
    open: inputs in them may matter. ``contradicted`` nodes were found active, but both halves were rejected: an active
    input may be lost in them, or the last check says that one is. ``check`` is that check, with its ``n_shown`` pairs,
    their ``p_value`` and ``share_of_others``, or None. ``stopped`` is ``"decided"``, ``"budget"`` or ``"interrupted"``:
    after an interruption the ``learner`` can go on. ``history`` has the ``n_evaluations`` evaluations.
    """

    def __init__(self, learner: HDSLearner):
        self.learner, self.check, self.active = learner, copy(learner.check), learner.recommend()
        self.settings, self.history = learner.settings, learner.history
        self.n_evaluations = len(self.history.y)
        self.undecided, self.contradicted = learner.nodes("open"), learner.nodes("contradicted")
        self.stopped = "decided" if not self.undecided else "budget" if learner.is_finished else "interrupted"

    @property
    def changed_by_others(self) -> float:
        """Upper end of a one-sided 95 % interval: share of pairs at which inputs not found visibly change f.

        Pairs of points that differ in all inputs not found (labels may agree), as the last check draws them. A change
        is visible if it is more than noise. 1 without a finished check that showed none, 0 if all inputs were found.
        """
        if len(self.active) == self.settings.n_dims:
            return 0.0
        return float(1 - 0.05 ** (1 / self.check.n_shown)) if self.check and self.check.shows_nothing else 1.0

    def _summary(self) -> Summary:
        settings, check = self.settings, self.check
        noise = f"{check.noise_variance:.3g} in repeats" if check else f"{settings.noise_variance:.3g} assumed"
        facts = {
            "active inputs": ", ".join(map(str, self.active)) or "none",
            "evaluations": f"{self.n_evaluations} of at most {settings.budget}, {self.stopped}",
            "UNDECIDED nodes": ", ".join(self.undecided) or None,
            "CONTRADICTED nodes": ", ".join(self.contradicted) or None,
            "test": settings.test,
            "noise variance": noise,
        }
        if 0 < self.changed_by_others < 1:
            most, of = check.share_of_others if check else None, "f" if self.active else "y"
            unseen = f"; within the noise, at most {most[1]:.1%} of the variance of {of}" if most else ""
            share = f"{self.changed_by_others:.1%} of pairs of points (95 % confidence)"
            facts["inputs not found"] = f"change f between fewer than {share}{unseen}"
        return Summary(f"HDSResult of {settings.n_dims} inputs", facts, remarks=(self.doubt,) if self.doubt else ())

    @property
    def doubt(self) -> str | None:
        """Why inputs may be missed."""
        settings, check, y = self.settings, self.check, self.data()[1]
        if check and check.shows_nothing is False:
            share = check.share_of_others if self.active else None
            about = f", about {share[0]:.1%} of its variance" if share else ""
            return (
                f"inputs not found change f{about}, too little to tell which (p = {check.p_value:.2g}). Less noise "
                "would show them; if very many matter a little, fit a model to all evaluations (ard_gp, or a lasso)."
            )
        if len(y) and not self.active and y.min() == y.max():
            return (
                f"f was {y[0]:.6g} at all {len(y)} points: no input matters, or f changes in so small a part of the "
                "bounds that it was missed. Narrow them to where f changes."
            )
        if self.stopped == "budget":
            return (
                f"the budget of {settings.budget} ended before the search, so inputs may be missed: raise it. If very "
                "many inputs matter, or noise hides them, coordinate_wise or a lasso needs fewer evaluations."
            )
        if check is None and self.contradicted:
            return (
                f"{', '.join(self.contradicted[:3])} changed f, but neither half did, so inputs may be missed: pass "
                "retest=True or check=True, or search without scales."
            )
        return None

    def data(self) -> tuple[Any, np.ndarray]:
        """Active inputs X (n, d) in the user's units, or a table, and y (n,) of all evaluations that succeeded."""
        rows = np.flatnonzero(np.isfinite(self.history.y))
        if self.settings.space is not None:
            return self.settings.shown(list(self.history.X(rows)))[self.active], self.history.y[rows]
        return self.history.X(rows, self.active), self.history.y[rows]

    def to_model(self) -> GPModel:
        """An :func:`ard_gp` on the inputs found, named by their numbers among the D, holding all samples.

        Without noise, equal ones are there once. The mean is constant; lengthscales, output scale and noise have Normal
        priors with sd 1 around the values of the search, on the log scale. Noise below a thousandth of the signal's sd
        is fixed there, since the samples repeat many rows of these inputs. In a space priors are the defaults of
        :func:`ard_gp`. For other models see :meth:`data`.
        ValueError if no active input was found.
        """
        import pymc as pm

        if not self.active:
            raise ValueError("no active input was found, so there is nothing to model")
        settings, check, (X, y) = self.settings, self.check, self.data()
        if settings.space is not None:
            space = Space({one.name: one for one in settings.space.variables if one.name in self.active})
            new = ~X.assign(y=y).duplicated() if check and not check.noise_variance else np.full(len(y), True)
            return ard_gp(X[new], y[new], mean="constant", space=space)
        bandwidth, signal, noise = settings.bandwidth, settings.signal_variance, settings.noise_variance
        if np.isnan(bandwidth):
            # A bisection without scales: what its evaluations show.
            noise = max(check.noise_variance if check else 0.0, np.nan_to_num(noise))
            bandwidth, signal = _GUESS, max(float(y.var()) - noise, noise) or 1.0
            noise = least_noise(signal, noise)
        if check and not check.noise_variance:
            # Without noise, rows that repeat others or differ from them in other inputs only say nothing new.
            rows = np.sort(np.unique(np.column_stack([X, y]), axis=0, return_index=True)[1])
            X, y = X[rows], y[rows]
        low, high = settings.low[self.active], settings.high[self.active]
        # Of a simulator without noise, K of rows that differ in other inputs only would be singular.
        signal, noise, least = np.sqrt(signal), np.sqrt(noise), _LEAST_NOISE * np.sqrt(signal)
        priors = {
            "log_lengthscale": pm.Normal.dist(np.log(bandwidth * (high - low) / np.sqrt(2)), 1.0),
            "log_outputscale": pm.Normal.dist(np.log(signal), 1.0),
            "log_noise": pm.Normal.dist(np.log(noise), 1.0) if noise > least else float(np.log(least)),
            "mean_constant": pm.Normal.dist(float(np.mean(y)), 2 * signal),
        }
        gpm = ard_gp(pd.DataFrame(X, columns=self.active), y, mean="constant", priors=priors)
        gpm.box = low, high
        return gpm

    def to_datatree(self) -> xr.DataTree:
        """``observed_data`` (y) and ``constant_data`` (X) over ``obs``, as ArviZ reads them."""
        return xr.DataTree.from_dict(self.history.groups())


def hds(
    f: Callable[[Any], Any],
    n_dims: int | Space | Mapping[str, Any] | pd.DataFrame | None = None,
    *,
    model: GPModel | Fit | None = None,
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
        In a space it takes a DataFrame of k rows.
    vectorized : bool
        False for an f that takes one point, (D,) or a DataFrame of one row, and returns a number.
    n_dims : int, or Space, dict or DataFrame, optional
        D; by default the number of inputs of ``model``. Or the :class:`Space` of inputs, some of which are labels or
        steps, without constraints: an input with labels counts as one, and results have the names of inputs.
    model : GPModel or a fit, optional
        Gives bandwidth (of the shortest lengthscale, if it has any), signal and noise variance unless they are passed;
        a model is fitted first.
    batch_size : int, optional
        Most points evaluated at once. By default all that can be without loss, see :meth:`HDSLearner.ask`.
    random_seed, **settings
        As in :class:`HDSLearner`, which does the work and raises. Errors of f have a ``learner`` that can go on.

    Warns
    -----
    DoubtfulFitWarning, RunWarning
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
    told = {"n_dims": n_dims} if model is None else _scales_of_model(model)
    if not (model is None or n_dims is None or (np.isscalar(n_dims) and n_dims == told["n_dims"])):
        raise ValueError(f"model has {told['n_dims']} inputs, and n_dims is {n_dims!r}: leave n_dims out")
    told |= {name: value for name, value in settings.items() if value is not None}
    learner = HDSLearner(**told, random_seed=random_seed)
    learner.run(f, batch_size=batch_size)
    result = HDSResult(learner)
    if result.doubt:
        warn_user(result.doubt, DoubtfulFitWarning)
    return result


def _scales_of_model(model: GPModel | Fit) -> dict[str, Any]:
    """Keywords of :func:`hds`, in the user's units: the scales at the highest mode or particle of a fit, and n_dims."""
    if not isinstance(model, GPModel | Fit):
        raise TypeError(f"model must be a GPModel or a fit; got {type(model).__name__}")
    with ignoring(DoubtfulFitWarning):
        fit = fit_laplace(model, random_seed=0, progressbar=False) if isinstance(model, GPModel) else model
    n_dims, point = fit.X.shape[1], fit.constrained_center
    moments = fit.posterior.moments(fit.posterior.state(fit.center), fit.X)
    signal, noise = float(moments.prior_variance.mean()), float(moments.noise_variance.mean())
    scales = {"n_dims": n_dims, "signal_variance": signal, "noise_variance": noise}
    for lengthscale in [np.asarray(point[name], float) for name in _LENGTHSCALES if name in point][:1]:
        scales["bandwidth"] = np.sqrt(2) * (lengthscale if lengthscale.shape == (n_dims,) else lengthscale.min())
    return scales
