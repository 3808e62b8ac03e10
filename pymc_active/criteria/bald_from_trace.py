"""BALD for any PyMC model, from draws of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_active.criteria.base import is_lazy, score_lazily
from pymc_active.information.outcome_of_model import Likelihood
from pymc_active.support.options import count
from pymc_active.support.tables import blocks, point_labels
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import SamplingWarning, warn_user

# Fewest draws in half a chain for estimating autocorrelation.
_SHORTEST = 4


def bald_from_trace(
    trace: xr.DataTree,
    model: pm.Model,
    X_pool: Any,
    *,
    observed: str | None = None,
    data: str | None = None,
    draws: int = 400,
    random_seed: int | np.random.Generator | None = None,
    group: str = "posterior",
    compile_kwargs: dict | None = None,
) -> xr.DataArray:
    r"""Expected information about all parameters of a ``pm.Model`` from measuring each candidate, in nats.

    The mutual information of an outcome and everything that its distribution depends on,

    .. math:: I(y^*; \theta) = H\Big[\frac1S \sum_s p(y^* \mid \theta_s)\Big] - \frac1S \sum_s H[p(y^* \mid \theta_s)],

    (Houlsby, Huszár, Ghahramani & Lengyel 2011, Bayesian active learning for classification and preference learning,
    eq. 2), with the entropies of counts by sums and of continuous outcomes by quadrature (within 1e-6 nats).

    Parameters
    ----------
    trace, model : xarray.DataTree, pm.Model
        Draws from the model, whose inputs must be ``pm.Data``. It is not changed.
    X_pool : array_like, DataFrame, DataArray, dask array or dict, shape (m, D) or (m,)
        Candidates, shaped like the model's ``pm.Data`` of inputs. If several ``pm.Data`` have one row per observation
        (an exposure, the index of a group): a dict, name -> array. A dask array is scored lazily, block by block.
    observed, data : str, optional
        The variable to measure (Normal, StudentT, Bernoulli, Binomial or Poisson), and the ``pm.Data`` that candidates
        replace, if the model has several.
    draws, random_seed
        How many draws to use: evenly spaced over each chain, or at random if a seed (int or Generator) is given.
    group : str
        Group of the trace. ``"prior"``, as from ``pm.sample_prior_predictive``, designs the first experiment.
    compile_kwargs : dict, optional
        For ``pytensor.function``, which by default uses no JIT.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better. Two coordinates state its accuracy in nats: ``standard_error``, the Monte
        Carlo error including autocorrelation and disagreement of the chains, and ``bias``, the amount by which the
        value is too low (see Notes).

    Raises
    ------
    TypeError, ValueError
        For another distribution (hurdle, censored, custom), or a ``pm.gp.Marginal``, for which use :func:`bald`; if the
        variable to measure or its inputs are ambiguous or constant, or depend on variables that the trace lacks or that
        have one value per observation; or if the candidates do not fit.

    Warns
    -----
    SamplingWarning
        If a value is within one nat of log S, the upper limit of any estimate from S draws.

    Notes
    -----
    The value is the mean over draws of KL(p_s‖p̄), where p̄ is the mean of all p_s. To first order these divergences are
    also its influence function, so the standard error is that of their mean. ``bias`` is χ²/(2S), where χ² is the mean
    of ∫ p_s²/p̄ minus one: the first order for S independent draws, at least (e^I - 1)/(2S). It is not added to the
    value.

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
    >>> score.to_numpy().round(1)
    array([0. , 1.6, 1.7])
    """
    is_dict = isinstance(X_pool, Mapping)
    if is_dict and data is not None:
        raise ValueError("give either X_pool as a dict, whose names say what is replaced, or data=")
    replaced = list(X_pool) if is_dict else None if data is None else [data]
    likelihood = Likelihood(model, observed, replaced, compile_kwargs)
    values, n_chains = _read_draws(trace, group, likelihood.variables, likelihood.coords, draws, random_seed)
    likelihood.check_rows(values)
    n_draws = len(next(iter(values.values())))

    def score(pool: Any) -> np.ndarray:
        """Value, standard error and bias, (m, 3)."""
        tables = likelihood.read_candidates(pool)
        m = len(next(iter(tables.values())))
        out = np.empty((m, 3))
        with one_blas_thread():
            for rows in blocks(m, n_draws):
                parameters = likelihood.parameters(values, {name: table[rows] for name, table in tables.items()})
                kl, chi_square = likelihood.outcome.divergences(*parameters)
                # No draw differs more from the mean of all; quadrature may fail where draws differ by orders.
                kl = np.minimum(kl, np.log(n_draws))
                error = standard_error(kl.reshape(n_chains, -1, kl.shape[1]))
                # Quadrature may leave -1e-9 where nothing can be learned.
                columns = np.maximum(kl.mean(0), 0.0), error, np.maximum(chi_square, 0.0) / (2 * n_draws)
                out[rows] = np.stack(columns, axis=1)
        return out

    attrs = {"units": "nats", "draws": n_draws, "outcome": likelihood.outcome.name}
    if is_lazy(X_pool):
        is_vector = X_pool.ndim == 1

        def score_block(block: np.ndarray, called: str) -> np.ndarray:
            return score(block[:, 0] if is_vector else block)

        rows = X_pool[:, None] if is_vector else X_pool
        return _as_array(score_lazily(score_block, rows, np.empty((0, 3)), chunks=(rows.chunks[0], (3,))), {}, attrs)
    found = score(X_pool)
    first = next(iter(X_pool.values())) if is_dict else X_pool
    labels = first.index.to_numpy() if isinstance(first, pd.Series) else point_labels(first)
    if found[:, 0].max() > np.log(n_draws) - 1:
        warn_user(
            f"at some candidates the information is near log({n_draws}) = {np.log(n_draws):.2f} nats, the most that "
            f"{n_draws} draws can show: it is too low there. Raise draws=.",
            SamplingWarning,
        )
    return _as_array(found, {"point": labels}, attrs)


def standard_error(values: np.ndarray) -> np.ndarray:
    """Standard error (m,) of the mean over draws of values (chains, draws, m), by Geyer's monotone sequence.

    Chains are halved, so that a drift counts as disagreement between chains (Vehtari, Gelman, Simpson, Carpenter &
    Bürkner 2021, section 3, without the ranks). ArviZ's ``mcse`` takes one column at a time, ten times slower.
    """
    C, k, m = values.shape
    half = k // 2
    if half < _SHORTEST:
        flat = values.reshape(-1, m)
        return flat.std(0, ddof=1) / np.sqrt(len(flat))
    x = np.concatenate([values[:, :half], values[:, k - half :]])
    means = x.mean(1)
    spectrum = np.fft.rfft(x - means[:, None], n=2 * half, axis=1)
    covariance = np.fft.irfft(np.square(np.abs(spectrum)), axis=1)[:, :half].mean(0) / half
    within = covariance[0] * half / (half - 1)
    total = covariance[0] + means.var(0, ddof=1)
    tiny = np.finfo(float).tiny
    correlation = 1 - (within - covariance * half / (half - 1)) / np.maximum(total, tiny)
    correlation[0] = 1.0
    pairs = correlation[: half // 2 * 2].reshape(half // 2, 2, m).sum(1)
    # Geyer: sums of neighbours are positive and decrease, until they are noise.
    pairs = np.minimum.accumulate(np.where(np.logical_and.accumulate(pairs > 0), pairs, 0.0))
    time = np.maximum(2 * pairs.sum(0) - 1, 1 / np.log10(max(C * k, 10)))
    return np.sqrt(total * time / (C * k))


def _read_draws(
    trace: Any,
    group: str,
    names: list[str],
    coords: Mapping[Any, Any],
    draws: int,
    random_seed: int | np.random.Generator | None,
) -> tuple[dict[str, np.ndarray], int]:
    """Values (S, ...) by name, equally many from each chain, chain after chain; and the number of chains."""
    if not isinstance(trace, xr.DataTree):
        raise TypeError(f"trace must be a DataTree of draws, as pm.sample returns it; got {type(trace).__name__}")
    if group not in trace.children:
        raise ValueError(f"the trace has no group {group!r}; it has {', '.join(sorted(trace.children)) or 'none'}")
    count("draws", draws, least=2)
    table = trace[group].to_dataset()
    if not {"chain", "draw"} <= set(table.sizes) or not table.sizes["chain"] * table.sizes["draw"]:
        raise ValueError(f"the group {group!r} must have draws over chain and draw; it has {dict(table.sizes)}")
    missing = [name for name in names if name not in table]
    if missing:
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
        # In their order, which autocorrelation depends on.
        rows = np.sort(np.random.default_rng(random_seed).choice(length, each, replace=False))
    chosen = table[names].isel(draw=rows).transpose("chain", "draw", ...)
    for dim in set(chosen.sizes) & set(coords):
        labels = list(coords[dim])
        # In the order of the model.
        if dim in chosen.coords and set(chosen[dim].to_numpy().tolist()) == set(labels):
            chosen = chosen.sel({dim: labels})
    values = {name: chosen[name].to_numpy() for name in names}
    return {name: v.reshape(-1, *v.shape[2:]) for name, v in values.items()}, n_chains


def _as_array(found: Any, coords: dict[str, Any], attrs: dict[str, Any]) -> xr.DataArray:
    coords = coords | {"standard_error": ("point", found[:, 1]), "bias": ("point", found[:, 2])}
    return xr.DataArray(found[:, 0], dims="point", coords=coords, name="bald_from_trace", attrs=attrs)
