"""``check``: compare a fit with a reference, in what it predicts, what it decides, and its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.checking.compare import (
    compare_decisions,
    compare_evidences,
    compare_models,
    compare_predictions,
    read_criteria,
)
from pymc_active.checking.reference import Reference, Subject, check_reference, make_reference, picked
from pymc_active.checking.trace import trace_diagnostics
from pymc_active.checking.verdict import verdict_on_fit, verdict_on_models
from pymc_active.criteria.bams import Committee
from pymc_active.criteria.base import Criterion
from pymc_active.inference.ensemble import Ensemble, ensemble_of_models
from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import check_is_gp
from pymc_active.particles.smc import check_arguments
from pymc_active.predictions.mixtures import mixture
from pymc_active.predictions.model_average import Fits, ModelAverage, as_model_average
from pymc_active.support.arguments import kind_of
from pymc_active.support.tables import point_labels, read_inputs, read_outputs

# The criteria whose decisions are looked at unless others are named, of one model and of several.
_DEFAULTS, _BETWEEN = ("bald", "integrated_variance", "expected_improvement"), ("bams",)
# Draws of the reference by which decisions are judged, of one model and of each of several: guesses.
_DRAWS, _OF_EACH = 400, 200
# Models with a lower probability are left out of the truth.
_NEGLIGIBLE = 1e-9


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
    """Compare a fit with a more expensive reference: predictions, evidence, decisions.

    It checks the computation. Whether the model suits the data is another question, which
    ``az.plot_loo_pit(fit.to_datatree())`` answers.

    Parameters
    ----------
    fit : ParticleFit, Fit, Ensemble of one model, ModelAverage, dict or list of fits
        Of several models, each one is checked, and so are their probabilities.
    reference : None, xarray.DataTree, fit or Ensemble, optional
        By default a longer run with ``n_particles``, annealed from the prior as far as that is affordable (up to about
        110 points, of embeddings 130), and around modes that are searched anew where :func:`fit` searches them. For
        embeddings, whose modes chains do not reach, it is the better truth. A trace of the same model, from
        :func:`sample`, is truth by another method. For several models a dict by label; models that are missing, or
        None, get a longer run.
    X_new : array_like, shape (m, D), optional
        Points to compare at. Default: the pool, else the inputs of the data.
    y_new : array_like, shape (m,), optional
        Observations at ``X_new``. Without them negative log densities are expectations under the reference.
    pool : array_like, shape (m', D), optional
        Candidates for the decisions.
    criteria : sequence of str or callable, optional
        Criteria whose decisions are checked, as :class:`pymc_active.Learner` takes them. Default: ``"bald"``,
        ``"integrated_variance"`` and ``"expected_improvement"``; of several models ``"bams"``.
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
        ``attrs["reference_by"]`` how its evidence was obtained, ``attrs["n_draws"]`` the number of its draws,
        ``attrs["n_draws_of_fit"]`` that of the fit, and ``attrs["doubts"]`` what is doubtful about the reference.
        Groups of one model:

        * ``predictions``: over ``approximation`` (``particles``; of a LaplaceFit mgp, map, bbq, and the mixtures over
          its modes and draws) and ``point``, in nats: ``nll``, minus the log density of an observation, and over
          ``point`` ``true_nll``, the same of the reference; the difference of their means is what the approximation
          loses. ``skl``, KL(p‖q) + KL(q‖p) of the latent function, with p and q the Gaussians that have the moments of
          the reference and of the approximation; ``skl_mixture``, the same with the reference's mixture, by quadrature
          over at most 400 draws; ``skl_y``, as ``skl`` for an observation. The moments are ``f_mean``, ``f_variance``
          and ``y_variance``, with ``true_`` before them those of the reference.
        * ``evidence``: over ``estimator`` (fit, reference), ``log_evidence`` and ``standard_error``, nats; NaN where it
          is unknown, as for a trace and for the error of Laplace's evidence.
        * ``trace_diagnostics`` (of a trace): ``rhat`` and ``ess_bulk`` of every free variable and of ``f_mean`` and
          ``y_variance`` at X_new by each draw, the worst over their entries; ``largest_rhat`` and ``smallest_ess`` over
          these two, in which chains agree whatever the symmetries of the parameters; ``n_divergences``, ``n_draws``,
          ``n_chains``.
        * ``laplace`` (of a LaplaceFit): ``pareto_k`` of draws from the Gaussians weighted to the posterior (up to 0.7
          importance sampling can repair the approximation), and ``log_evidence``, Laplace's, summed over ``n_modes``.
        * ``decision`` (with ``pool``): over ``criterion`` and ``candidate``, ``score`` by the fit and ``true_utility``
          under 400 draws of the reference; over ``criterion``, their largest, ``pick`` and ``best``, and
          ``regret_ratio``, the true utility of the pick divided by the best in the pool, 1 being perfect (for an
          expected improvement, itself and not its logarithm; for an upper confidence bound, counted from the lowest in
          the pool).

        Of several models: ``fits`` with such a tree for each (without ``decision``); ``models``, over ``model`` and
        ``estimator``, ``probability``, ``log_evidence`` and ``standard_error``, and over ``model``
        ``true_probability``, by the evidence of each model's reference (of a trace by the evidence of the fit);
        ``decision`` (with ``pool``), judged by the references' predictive mixtures and ``true_probability``.

    Raises
    ------
    TypeError, ValueError
        For anything but fits and references of the same model and data, points that do not match, or unknown criteria;
        all before a longer run begins.

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
        subjects: dict[Any, Subject] = {None: fit}
        references: dict[Any, Any] = {None: reference}
    elif isinstance(fit, Mapping | Sequence):
        average = as_model_average(fit)
        subjects = dict(average)
        references = _read_references(reference, average)
    else:
        raise TypeError(f"check takes a fit (see pma.fit), an Ensemble or several fits; got {kind_of(fit)}")
    first = next(iter(subjects.values()))
    gpm = first.gpm
    check_is_gp(gpm, "fits are compared (fit a pm.Model again, with method='nuts' or more particles)")
    check_arguments(gpm, n_particles, "check")
    if pool is None and criteria is not None:
        raise ValueError("criteria choose between candidates: pass pool= as well")
    candidates = None if pool is None else read_inputs(pool, "pool", inputs=gpm.inputs)
    if X_new is None:
        X_new = first.X if pool is None else pool
    X, labels = read_inputs(X_new, "X_new", inputs=gpm.inputs), point_labels(X_new)
    observed = None if y_new is None else read_outputs(y_new, len(X), X_new)
    named, scorers = {}, {}
    if candidates is not None:
        default = _BETWEEN if average else _DEFAULTS[: 3 if np.ptp(first.y) > 0 else 2]
        options = {"minimize": minimize, "random_seed": random_seed}
        named = read_criteria(criteria, default, gpm, first.y, candidates, bounds, bool(average), **options)
    for label, subject in subjects.items():
        check_reference(subject, references[label])
    if candidates is not None:
        # A criterion that the model cannot have must not cost a longer run.
        scorers = {name: criterion.prepare(average or fit) for name, criterion in named.items()}

    truths, trees = [], {}
    for label, subject in subjects.items():
        truth = make_reference(subject, references[label], n_particles, random_seed, progressbar)
        truths.append(truth.ensemble)
        trees[label] = _check_one(subject, truth, X, labels, observed, random_seed)
    if average is None:
        tree, probability = trees[None], np.ones(1)
    else:
        # In the name of a node a slash would start another level.
        tree = xr.DataTree.from_dict({f"fits/{str(label).replace('/', '∕')}": node for label, node in trees.items()})
        tree["models"] = xr.DataTree(compare_models(average, trees))
        probability = tree["models"].true_probability.to_numpy()
    if candidates is not None:
        judges = partial(_judges, truths, probability)
        decision = compare_decisions(scorers, named, judges, candidates, point_labels(pool))
        tree["decision"] = xr.DataTree(decision)
    tree.attrs["verdict"] = verdict_on_fit(tree) if average is None else verdict_on_models(tree)
    return tree


def _read_references(reference: Any, average: ModelAverage) -> dict[Any, Any]:
    if reference is None:
        reference = {}
    if not isinstance(reference, Mapping) or isinstance(reference, xr.DataTree):
        raise TypeError(f"references must be a dict with the labels {list(average)}; got {type(reference).__name__}")
    if not set(reference) <= set(average):
        raise ValueError(f"references must have labels of the fits, {list(average)}; got {list(reference)}")
    return {label: reference.get(label) for label in average}


def _judges(truths: Sequence[Ensemble], probability: np.ndarray, criterion: Criterion) -> Ensemble:
    """Draws of the references, from which a criterion has its true utilities."""
    if len(truths) == 1:
        return picked(truths[0], _DRAWS)
    used = np.flatnonzero(probability > _NEGLIGIBLE).tolist()
    # The members of a committee have equal votes.
    shares = np.ones(len(used)) if isinstance(criterion, Committee) else probability[used]
    return ensemble_of_models([picked(truths[k], _OF_EACH) for k in used], shares / shares.sum(), 0)


def _check_one(
    fit: Subject,
    reference: Reference,
    X: np.ndarray,
    labels: np.ndarray,
    observed: np.ndarray | None,
    random_seed: int | None,
) -> xr.DataTree:
    predictions = mixture(reference.ensemble, X)
    groups: dict[str, Any] = {
        "predictions": compare_predictions(fit, X, labels, predictions, observed),
        "evidence": compare_evidences(fit, reference),
    }
    if reference.kind == "trace":
        groups["trace_diagnostics"] = trace_diagnostics(fit.gpm, reference.source, predictions)
    if isinstance(fit, Fit):
        groups |= fit.own_checks(random_seed)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs |= {
        "reference": reference.kind,
        "reference_by": reference.evidence.by,
        "n_draws": len(reference.ensemble),
        "n_draws_of_fit": len(fit if isinstance(fit, Ensemble) else fit.ensemble),
        "doubts": "; ".join(reference.doubts),
    }
    tree.attrs["verdict"] = verdict_on_fit(tree)
    return tree
