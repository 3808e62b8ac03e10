"""``check``: compare everything computed from a fit with MCMC on the same model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.checking.comparison import compare_predictions
from pymc_active.checking.convergence import trace_diagnostics
from pymc_active.checking.decisions import Question, compare_decisions, decide_between, read_question
from pymc_active.checking.evidences import compare_evidences
from pymc_active.checking.models import compare_models, node_names
from pymc_active.checking.verdict import verdict_on_fit, verdict_on_models
from pymc_active.laplace.draws.importance import pareto_k
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.sampling import sample
from pymc_active.models.traces import trace_thetas
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average
from pymc_active.predictions.moments import draw_moments
from pymc_active.support.arguments import checked
from pymc_active.support.tables import point_labels, read_inputs, read_outputs


@checked
def check(
    fit: LaplaceFit | Fits,
    trace: xr.DataTree | Mapping[Any, xr.DataTree | None] | None = None,
    *,
    X_new: Any = None,
    pool: Any = None,
    y_new: Any = None,
    criteria: Sequence[str] | None = None,
    bounds: Any = None,
    minimize: bool = False,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataTree:
    """Compare what is computed from a fit with draws from the exact posterior of the same model.

    Parameters
    ----------
    fit : LaplaceFit, ModelAverage, dict or list of LaplaceFit
        Of several models, each one is checked, and so is their comparison.
    trace : xarray.DataTree, optional
        From :func:`sample`, by default sampled here with its defaults (NUTS). For several models a dict by label;
        models that are missing, or None, are sampled here.
    X_new : array_like, shape (m, D), optional
        Points to compare at. Default: the pool, else the inputs of the data.
    pool : array_like, shape (m', D), optional
        Candidates for the decision regret.
    y_new : array_like, shape (m,), optional
        Observations at ``X_new``. Without them the NLL is its expectation under the trace.
    criteria : sequence of str, optional
        Criteria whose decisions are checked, by the names that :class:`pymc_active.active.Learner` takes. Default for
        one model: all functions of the predictive moments (such as ``"bald"``, ``"bald_draws"``, ``"uncertainty"``
        and ``"expected_improvement"``), and ``"max_value_entropy"`` and ``"pes"``, which take some seconds, if there
        are at most six inputs and the y differ. Default for several models: ``"bams"``, ``"bams_modes"``,
        ``"bams_draws"`` and ``"committee"``.
    bounds, minimize : list of (low, high), optional, and bool
        Box in which criteria such as ``"pes"`` look for the maximum (or minimum). Default: they look in the pool.
    random_seed : int or Generator, optional
        For a trace sampled here, for weighted draws, and for criteria that draw.

    Returns
    -------
    xarray.DataTree
        ``attrs["verdict"]`` says in a few sentences what follows. Groups of one model:

        * ``posterior``, ``sample_stats``: those of the trace. ``fit``: as written by :meth:`LaplaceFit.to_datatree`,
          with ``mean_vector`` and ``covariance_matrix``.
        * ``predictions``: over ``approximation`` (map, bbq, mgp, and the mixtures over modes and draws of the fit, by
          their first two moments) and ``point``, in nats: ``skl``, KL(p‖q) + KL(q‖p) of the latent function, with p
          the Gaussian that has the moments of the trace's mixture; ``skl_mixture``, the same with the exact mixture,
          by quadrature over at most 400 draws; ``skl_y``, as ``skl`` for an observation; ``nll``, -log q(y). The
          moments are ``f_mean``, ``f_variance`` and ``y_variance``, those of the trace the same with ``true_``
          before.
        * ``trace_diagnostics``: ``rhat`` and ``ess_bulk`` of every free variable and of the predictive means at
          X_new, the worst over their entries; ``largest_rhat`` and ``smallest_ess`` over variables without a
          symmetry; ``n_divergences``, ``n_draws``, ``n_chains``.
        * ``laplace``: ``pareto_k`` of draws from the Gaussian weighted to the posterior. Up to 0.7, importance
          sampling can repair the approximation. ``log_evidence``, Laplace's, summed over modes.
        * ``evidence``: over ``estimator`` (laplace, importance, bridge), ``log_evidence``, ``standard_error`` (nats)
          and ``effective_sample_size``; ``pareto_k`` of the importance weights. ``attrs["reference"]`` names the
          estimate that serves as truth: bridge sampling unless its standard error is above 0.35 nats; else the
          sampled estimate without a problem that has the smaller error; or "none". Bridge sampling integrates over an
          embedding's rotations.
        * ``decision`` (with ``pool``): over ``criterion`` and ``candidate``, ``score`` by the fit and
          ``true_utility`` under the trace (400 draws); over ``criterion``, their largest, ``pick`` and ``best``;
          ``regret_ratio``, the true utility of the pick divided by the best in the pool, 1 being perfect (for an
          expected improvement, itself and not its logarithm; for an upper confidence bound, counted from the lowest
          in the pool); ``split_half``, the same ratio between the picks of the two halves of the trace, which shows
          how well the truth is known.

        Of several models: ``fits`` with such a tree for each (without ``decision``); ``models``, over ``model`` and
        ``estimator``, ``probability``, ``log_evidence`` and ``standard_error``, and over ``model``
        ``true_probability``, by each model's ``reference``; ``decision`` (with ``pool``), where the true utility of
        bams is the mutual information of y* and the model under the traces' predictive mixtures and
        ``true_probability``, and that of committee is counted from the lowest in the pool.

    Raises
    ------
    TypeError, ValueError
        For anything but fits and traces of their models, points that do not match, or unknown criteria; without a
        trace, if the model's data changed since the fit. All before sampling begins.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 3 and Table 1. Vehtari et al. (2021, 2024) for R-hat and Pareto
       k.
    """
    if isinstance(random_seed, np.random.Generator):
        random_seed = int(random_seed.integers(2**31))
    if isinstance(fit, LaplaceFit):
        members: dict[Any, LaplaceFit] = {None: fit}
        given: dict[Any, Any] = {None: trace}
    elif isinstance(fit, Mapping | Sequence):
        average = as_model_average(fit)
        members = dict(average)
        given = _read_traces(trace, average)
    else:
        raise TypeError(f"check takes a LaplaceFit (see fit_laplace) or several; got {type(fit).__name__}")
    one = next(iter(members.values()))
    inputs = one.gpm.inputs
    candidates = None if pool is None else read_inputs(pool, "pool", inputs=inputs)
    if X_new is None:
        X_new = one.X if pool is None else pool
    X, labels = read_inputs(X_new, "X_new", inputs=inputs), point_labels(X_new)
    observed = None if y_new is None else read_outputs(y_new, len(X), X_new)
    question = None
    if candidates is not None:
        of = one if None in members else average
        question = read_question(of, candidates, point_labels(pool), criteria, bounds, minimize)
    elif criteria is not None:
        raise ValueError("criteria choose between candidates: pass pool= as well")
    for label, member in members.items():
        _check_trace(member, given[label])
    traces = {
        label: sample(member.gpm, random_seed=random_seed, progressbar=False) if given[label] is None else given[label]
        for label, member in members.items()
    }
    one_question = question if None in members else None
    trees = {
        label: _check_one(member, traces[label], X, labels, observed, one_question, random_seed)
        for label, member in members.items()
    }
    if None in members:
        return trees[None]

    tree = xr.DataTree.from_dict({f"fits/{name}": trees[label] for label, name in node_names(average).items()})
    tree["models"] = xr.DataTree(compare_models(average, trees))
    if question is not None:
        true = tree["models"].true_probability.to_numpy()
        tree["decision"] = xr.DataTree(decide_between(average, traces, true, question))
    tree.attrs["verdict"] = verdict_on_models(tree)
    return tree


def _read_traces(trace: Any, average: ModelAverage) -> dict[Any, Any]:
    if trace is None:
        trace = {}
    if not isinstance(trace, Mapping) or isinstance(trace, xr.DataTree):
        raise TypeError(f"traces must be a dict with the labels {list(average)}; got {type(trace).__name__}")
    if not set(trace) <= set(average):
        raise ValueError(f"labels of the traces must be among those of the fits, {list(average)}; got {list(trace)}")
    return {label: trace.get(label) for label in average}


def _check_trace(fit: LaplaceFit, trace: Any) -> None:
    """Check that the trace belongs to the fit, or can be sampled."""
    if trace is None:
        if not (np.array_equal(fit.gpm.X, fit.X) and np.array_equal(fit.gpm.y, fit.y)):
            raise ValueError("the model's data changed since this fit: fit again, or pass the trace of the fit's data")
    elif not isinstance(trace, xr.DataTree):
        raise TypeError(f"trace must be a DataTree of draws, as pma.sample returns it; got {type(trace).__name__}")
    elif not np.isfinite(trace_thetas(fit.gpm, trace)).all():
        raise ValueError("the trace holds draws that are NaN or infinite: sample again")


def _check_one(
    fit: LaplaceFit,
    trace: xr.DataTree,
    X: np.ndarray,
    labels: np.ndarray,
    observed: np.ndarray | None,
    question: Question | None,
    random_seed: int | None,
) -> xr.DataTree:
    thetas = trace_thetas(fit.gpm, trace)
    draws = draw_moments(fit.best.full_posterior, thetas, X)
    evidence = compare_evidences(fit, trace, random_seed)
    groups: dict[str, Any] = {name: trace[name] for name in ("posterior", "sample_stats") if name in trace.children}
    laplace = {
        "pareto_k": pareto_k(fit, random_seed=random_seed),
        "log_evidence": float(evidence.log_evidence.sel(estimator="laplace")),
        "n_modes": len(fit.modes),
    }
    groups |= {
        "fit": fit.to_datatree(draws=1, random_seed=0)["fit"],
        "predictions": compare_predictions(fit, X, labels, draws, observed),
        "trace_diagnostics": trace_diagnostics(fit, trace, draws[0]),
        "laplace": xr.Dataset(laplace),
        "evidence": evidence,
    }
    if question is not None:
        groups["decision"] = compare_decisions(fit, question, thetas, random_seed)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs["verdict"] = verdict_on_fit(tree)
    return tree
