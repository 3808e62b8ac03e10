"""BALD for any PyMC model, from draws of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_active.criteria.base import is_lazy, score_lazily
from pymc_active.inference.ensemble import ensemble_of_draws
from pymc_active.posterior.row_space import FullSpace
from pymc_active.process.information import AllParameters, Information
from pymc_active.process.members import Members
from pymc_active.process.process import Process
from pymc_active.support.options import count
from pymc_active.support.tables import point_labels, read_inputs
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import SamplingWarning, warn_user


def bald_from_trace(
    trace: xr.DataTree,
    model: pm.Model,
    X_pool: Any,
    *,
    observed: str | None = None,
    draws: int = 400,
    random_seed: int | np.random.Generator | None = None,
    group: str = "posterior",
) -> xr.DataArray:
    """Expected information about all parameters of a ``pm.Model`` from measuring each candidate, in nats.

    What :func:`bald` is for a fit by :func:`pymc_active.fit`, for draws of your own, as from ``pm.sample``: the mutual
    information of an outcome, of any distribution, and the parameters (Houlsby, Huszár, Ghahramani & Lengyel 2011).

    Parameters
    ----------
    trace, model : xarray.DataTree, pm.Model
        Draws from the model, whose inputs must be ``pm.Data``. It is not changed. Variables that the outcome does not
        depend on may be missing.
    X_pool : array_like, DataFrame, dict or dask array, shape (m, D) or (m,)
        Candidates, a column for each input; a dict is by the names of the ``pm.Data``. A dask array is scored lazily,
        block by block.
    observed : str, optional
        The variable to measure, if the model observes several.
    draws, random_seed
        How many draws to use: evenly spaced over each chain, or at random if a seed (int or Generator) is given.
    group : str
        Group of the trace. ``"prior"``, as from ``pm.sample_prior_predictive``, designs the first experiment.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better. The coordinate ``standard_error`` (nats) is the Monte Carlo error of outcomes
        and draws, as if the draws were independent.

    Raises
    ------
    TypeError, ValueError
        As :class:`Learner` does for what cannot be measured at new inputs; if the trace lacks variables, or the
        candidates do not fit.

    Warns
    -----
    SamplingWarning
        If a value is within one nat of log S, the upper limit of any estimate from S draws.

    Examples
    --------
    Where to measure next if yields saturate with the dose:

    >>> import numpy as np, pymc as pm
    >>> import pymc_active as pma
    >>> dose = np.array([0.5, 1.0, 4.0])
    >>> with pm.Model() as model:
    ...     x = pm.Data("dose", dose)
    ...     top, half = pm.LogNormal("top", 1, 0.5), pm.LogNormal("half", 0, 1)
    ...     _ = pm.Normal("yield", top * x / (half + x), 0.2, observed=[0.9, 1.4, 2.3])
    ...     trace = pm.sample_prior_predictive(400, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    >>> score = pma.active.bald_from_trace(trace, model, np.array([0.0, 2.0, 8.0]), group="prior")
    >>> int(score.argmax("point"))
    2
    """
    if not isinstance(model, pm.Model):
        raise TypeError(f"model must be the pm.Model that the draws came from; got {type(model).__name__}")
    if observed is None and len(model.observed_RVs) > 1:
        outcomes = ", ".join(sorted(rv.name for rv in model.observed_RVs))
        raise ValueError(f"the model observes {outcomes}; name the one to measure: observed=...")
    process = Process(model, observed)
    process.check_replaceable()
    z = _read_draws(trace, group, process, draws, random_seed)
    ensemble = ensemble_of_draws(process, process.data, FullSpace(process.posterior()), z, "trace")
    members = Members.of(ensemble)
    question = Information(members, AllParameters(members.weights))

    def score(X: np.ndarray) -> np.ndarray:
        """Value and standard error, (m, 2)."""
        with one_blas_thread():
            return np.stack(question.at(X), axis=1)

    attrs = {"units": "nats", "draws": len(z), "outcome": process.distribution}
    if is_lazy(X_pool):
        rows = X_pool[:, None] if X_pool.ndim == 1 else X_pool
        process.check_rows(read_inputs(rows[:2].compute(), "X_pool", len(process.inputs)))
        values, at = score_lazily(score, rows, np.empty((0, 2)), chunks=(rows.chunks[0], (2,))), {}
    else:
        pool = process.read_pool(X_pool)
        X = read_inputs(pool, "X_pool", inputs=process.inputs)
        process.check_rows(X)
        values, at = score(X), {"point": point_labels(pool)}
        if values[:, 0].max() > np.log(len(z)) - 1:
            warn_user(
                f"at some candidates the information is near log({len(z)}) = {np.log(len(z)):.2f} nats, the most that "
                f"{len(z)} draws can show: it is too low there. Raise draws=.",
                SamplingWarning,
            )
    coords: dict[str, Any] = at | {"standard_error": ("point", values[:, 1])}
    return xr.DataArray(values[:, 0], dims="point", coords=coords, name="bald_from_trace", attrs=attrs)


def _read_draws(
    trace: Any, group: str, process: Process, draws: int, random_seed: int | np.random.Generator | None
) -> np.ndarray:
    """Unconstrained draws (S, P), equally many from each chain."""
    if not isinstance(trace, xr.DataTree):
        raise TypeError(f"trace must be a DataTree of draws, as pm.sample returns it; got {type(trace).__name__}")
    if group not in trace.children:
        raise ValueError(f"the trace has no group {group!r}; it has {', '.join(sorted(trace.children)) or 'none'}")
    count("draws", draws, least=2)
    table = trace[group].to_dataset()
    if not {"chain", "draw"} <= set(table.sizes) or not table.sizes["chain"] * table.sizes["draw"]:
        raise ValueError(f"the group {group!r} must have draws over chain and draw; it has {dict(table.sizes)}")
    if missing := [name for name in process.needed if name not in table]:
        raise ValueError(
            f"the outcome depends on {', '.join(missing)}, which the trace does not have: it was drawn from another "
            "model, or these were left out (var_names=)"
        )
    n_chains, length = table.sizes["chain"], table.sizes["draw"]
    each = min(length, max(draws // n_chains, 1))
    if n_chains * each < 2:
        raise ValueError("the trace has a single draw: disagreement needs at least two")
    if random_seed is None:
        rows = ((np.arange(each) + 0.5) / each * length).astype(int)
    else:
        rows = np.sort(np.random.default_rng(random_seed).choice(length, each, replace=False))
    names = [name for name in process.free if name in table]
    chosen = table[names].isel(draw=rows).transpose("chain", "draw", ...)
    coords: Mapping[Any, Any] = {dim: values for dim, values in process.model.coords.items() if values is not None}
    for dim in set(chosen.sizes) & set(coords):
        labels = list(coords[dim])
        # In the order of the model.
        if dim in chosen.coords and set(chosen[dim].to_numpy().tolist()) == set(labels):
            chosen = chosen.sel({dim: labels})
    # What the outcome does not depend on may be anything.
    values = {name: chosen[name].to_numpy() for name in names}
    flat = {name: v.reshape(-1, *v.shape[2:]) for name, v in values.items()}
    if len(names) < len(process.free):
        flat = process.draw_prior(n_chains * each, 0) | flat
    return process.unconstrain(flat)
