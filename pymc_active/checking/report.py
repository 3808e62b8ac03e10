"""``check``: compare a fit with a reference, in what it predicts, what it decides, and its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.checking.comparison import compare_predictions
from pymc_active.checking.convergence import trace_diagnostics
from pymc_active.checking.decisions import Question, compare_decisions, decide_between, read_question
from pymc_active.checking.evidences import compare_evidences, compare_models, node_names
from pymc_active.checking.reference import Reference, Subject, check_reference, make_reference
from pymc_active.checking.verdict import verdict_on_fit, verdict_on_models
from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.fit import Fit
from pymc_active.particles.power_map import offer_output_map
from pymc_active.particles.smc import check_arguments
from pymc_active.predictions.mixtures import mixture
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average
from pymc_active.support.arguments import kind_of
from pymc_active.support.tables import point_labels, read_inputs, read_outputs


def check(
    fit: Subject | Fits,
    reference: Any = None,
    *,
    X_new: Any = None,
    y_new: Any = None,
    pool: Any = None,
    criteria: str | Sequence[Any] | None = None,
    bounds: Any = None,
    minimize: bool = False,
    n_particles: int | None = None,
    trace: Any = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Compare what is computed from a fit with a more expensive reference: predictions, decisions, evidence.

    Parameters
    ----------
    fit : ParticleFit, Fit, Ensemble of one model, ModelAverage, dict or list of fits
        Of several models, each one is checked, and so is their comparison.
    reference : None, xarray.DataTree, fit or Ensemble, optional
        By default a longer run with ``n_particles``, annealed from the prior as far as that is affordable (up to about
        110 points, of embeddings 130), and around modes that are searched anew where :func:`fit` searches them; the
        verdict says which. For embeddings, whose modes chains do not reach, it is the better truth. A trace of the
        same model, from :func:`sample`, is truth by another method. For several models a dict by label; models that
        are missing, or None, get a longer run.
    X_new : array_like, shape (m, D), optional
        Points to compare at. Default: the pool, else the inputs of the data.
    y_new : array_like, shape (m,), optional
        Observations at ``X_new``. Without them negative log densities are expectations under the reference.
    pool : array_like, shape (m', D), optional
        Candidates for the decisions.
    criteria : sequence of str or callable, optional
        Criteria whose decisions are checked, as :class:`pymc_active.Learner` takes them. Default for one model: the
        functions of the predictive moments (such as ``"bald"`` and ``"expected_improvement"``),
        ``"integrated_variance"``, and ``"max_value_entropy"`` and ``"pes"``, which take some seconds, if there are at
        most six inputs and the y differ. Default for several models: ``"bams"`` and ``"committee"``. For a LaplaceFit
        also variants.
    bounds, minimize : list of (low, high), optional, and bool
        Box in which criteria such as ``"pes"`` look for the maximum (or minimum). Default: they look in the pool.
    n_particles : int, optional
        Of the longer run. Default: 16 times the number that :func:`fit` takes, 4,096 for up to 300 points.
    trace : xarray.DataTree, optional
        Another name of ``reference``.
    random_seed : int or Generator, optional
        For the longer run, and for criteria that draw.
    progressbar : bool
        Show the progress of a longer run, which may take a minute.

    Returns
    -------
    xarray.DataTree
        ``attrs["verdict"]`` says in a few sentences what follows, ``attrs["reference"]`` is "run", "trace" or "fit",
        ``attrs["reference_by"]`` how its evidence was obtained, ``attrs["n_draws"]`` the number of its draws, and
        ``attrs["doubts"]`` what is doubtful about it.
        Groups of one model:

        * ``predictions``: over ``approximation`` (``particles``; of a LaplaceFit mgp, map, bbq, and the mixtures over
          its modes and draws) and ``point``, in nats: ``nll``, minus the log density of an observation, and over
          ``point`` ``true_nll``, that of the reference; the difference of their means is what the approximation loses.
          ``skl``, KL(p‖q) + KL(q‖p) of the latent function, with p and q the Gaussians that have the moments of the
          reference and of the approximation; ``skl_mixture``, the same with the reference's mixture, by quadrature over
          at most 400 draws; ``skl_y``, as ``skl`` for an observation. The moments are ``f_mean``, ``f_variance`` and
          ``y_variance``, those of the reference the same with ``true_`` before.
        * ``evidence``: over ``estimator`` (fit, reference), ``log_evidence`` and ``standard_error``, nats; NaN where it
          is unknown, as for a trace and for the error of Laplace's evidence.
        * ``trace_diagnostics`` (of a trace): ``rhat`` and ``ess_bulk`` of every free variable and of the predictive
          means at X_new, the worst over their entries; ``largest_rhat`` and ``smallest_ess`` over variables without a
          symmetry; ``n_divergences``, ``n_draws``, ``n_chains``. ``posterior``, ``sample_stats``: those of the trace.
        * ``laplace`` and ``fit`` (of a LaplaceFit): ``pareto_k`` of draws from the Gaussians weighted to the posterior
          (up to 0.7 importance sampling can repair the approximation), ``log_evidence``, Laplace's, summed over modes;
          and the group of :meth:`Fit.to_datatree`.
        * ``decision`` (with ``pool``): over ``criterion`` and ``candidate``, ``score`` by the fit and ``true_utility``
          under the reference (400 draws); over ``criterion``, their largest, ``pick`` and ``best``; ``regret_ratio``,
          the true utility of the pick divided by the best in the pool, 1 being perfect (for an expected improvement,
          itself and not its logarithm; for an upper confidence bound, counted from the lowest in the pool);
          ``split_half``, the same ratio between the picks of the two halves of the reference, which shows how well the
          truth is known.

        Of several models: ``fits`` with such a tree for each (without ``decision``); ``models``, over ``model`` and
        ``estimator``, ``probability``, ``log_evidence`` and ``standard_error``, and over ``model``
        ``true_probability``, by the evidence of each model's reference (of a trace by that of the fit); ``decision``
        (with ``pool``), where the true utility of bams is the mutual information of y* and the model under the
        references' predictive mixtures and ``true_probability``, and that of committee is counted from the lowest in
        the pool.

    Raises
    ------
    TypeError, ValueError
        For anything but fits and references of the same model and data, points that do not match, or unknown criteria;
        all before a longer run begins.

    Warns
    -----
    OutputScaleWarning
        If the outputs call for a map. A longer run would not show this.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 3 and Table 1. Vehtari et al. (2021, 2024) for R-hat and Pareto
       k.
    """
    if trace is not None:
        if reference is not None:
            raise ValueError("reference and trace are the same argument: pass one")
        reference = trace
    if isinstance(random_seed, np.random.Generator):
        random_seed = int(random_seed.integers(2**31))
    average = None
    if isinstance(fit, Fit | Ensemble):
        if isinstance(fit, Ensemble) and fit.n_models > 1:
            raise ValueError("check takes an Ensemble of one model: pass the ModelAverage of several")
        members: dict[Any, Subject] = {None: fit}
        given: dict[Any, Any] = {None: reference}
    elif isinstance(fit, Mapping | Sequence):
        average = as_model_average(fit)
        members = dict(average)
        given = _read_references(reference, average)
    else:
        raise TypeError(f"check takes a fit (see pma.fit), an Ensemble or several fits; got {kind_of(fit)}")
    one = next(iter(members.values()))
    # A longer run has the same likelihood, so that the comparison says nothing about it.
    if isinstance(fit, Fit):
        offer_output_map(fit)
    inputs = one.gpm.inputs
    check_arguments(one.gpm, n_particles, "check")
    candidates = None if pool is None else read_inputs(pool, "pool", inputs=inputs)
    if X_new is None:
        X_new = one.X if pool is None else pool
    X, labels = read_inputs(X_new, "X_new", inputs=inputs), point_labels(X_new)
    observed = None if y_new is None else read_outputs(y_new, len(X), X_new)
    question = None
    if candidates is not None:
        question = read_question(average or one, candidates, point_labels(pool), criteria, bounds, minimize)
    elif criteria is not None:
        raise ValueError("criteria choose between candidates: pass pool= as well")
    for label, member in members.items():
        check_reference(member, given[label])
    references = {
        label: make_reference(member, given[label], n_particles, random_seed, progressbar)
        for label, member in members.items()
    }
    one_question = None if average else question
    trees = {
        label: _check_one(member, references[label], X, labels, observed, one_question, random_seed)
        for label, member in members.items()
    }
    if average is None:
        return trees[None]

    tree = xr.DataTree.from_dict({f"fits/{name}": trees[label] for label, name in node_names(average).items()})
    tree["models"] = xr.DataTree(compare_models(average, trees))
    if question is not None:
        true = tree["models"].true_probability.to_numpy()
        tree["decision"] = xr.DataTree(decide_between(average, references, true, question))
    tree.attrs["verdict"] = verdict_on_models(tree)
    return tree


def _read_references(reference: Any, average: ModelAverage) -> dict[Any, Any]:
    if reference is None:
        reference = {}
    if not isinstance(reference, Mapping) or isinstance(reference, xr.DataTree):
        raise TypeError(f"references must be a dict with the labels {list(average)}; got {type(reference).__name__}")
    if not set(reference) <= set(average):
        raise ValueError(f"references must have labels of the fits, {list(average)}; got {list(reference)}")
    return {label: reference.get(label) for label in average}


def _check_one(
    fit: Subject,
    reference: Reference,
    X: np.ndarray,
    labels: np.ndarray,
    observed: np.ndarray | None,
    question: Question | None,
    random_seed: int | None,
) -> xr.DataTree:
    predictions = mixture(reference.ensemble, X)
    groups: dict[str, Any] = {
        "predictions": compare_predictions(fit, X, labels, predictions, observed),
        "evidence": compare_evidences(fit, reference),
    }
    if reference.kind == "trace":
        trace = reference.source
        groups |= {name: trace[name] for name in ("posterior", "sample_stats") if name in trace.children}
        groups["trace_diagnostics"] = trace_diagnostics(fit, trace, predictions.means)
    if isinstance(fit, Fit):
        groups |= fit.own_checks(random_seed)
    if question is not None:
        groups["decision"] = compare_decisions(fit, question, reference, random_seed)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs |= {
        "reference": reference.kind,
        "reference_by": reference.evidence.by,
        "n_draws": len(reference.ensemble),
        "doubts": "; ".join(reference.doubts),
    }
    tree.attrs["verdict"] = verdict_on_fit(tree)
    return tree
