"""``check``: compare a fit with a reference, in what it predicts, what it decides, and its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.checking.compare import compare, compare_decisions, make_reference, picked, read_criteria
from pymc_active.checking.verdict import Differences, verdict
from pymc_active.inference.fit import Fit
from pymc_active.particles.particle_fit import FEWEST
from pymc_active.predictions.ensembles import is_of_processes
from pymc_active.support.arguments import kind_of
from pymc_active.support.options import count
from pymc_active.support.tables import point_labels, read_inputs, read_outputs

# The criteria whose decisions are looked at unless others are named.
_DEFAULTS = ("bald", "integrated_variance", "expected_improvement")
_OF_ANY_MODEL = ("bald", "epig", "expected_improvement")
# Draws of the reference by which decisions are judged, of a pm.Model more, since outcomes are drawn (guesses).
_DRAWS, _MORE = 400, 1000


def check(
    fit: Fit,
    reference: Any = None,
    *,
    X_new: Any = None,
    y_new: Any = None,
    pool: Any = None,
    criteria: str | Sequence[Any] | None = None,
    minimize: bool = False,
    trace: Any = None,
    n_particles: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Compare a fit with a more expensive reference: predictions, evidence, decisions.

    It checks the computation. Whether the model suits the data is another question, which
    ``az.plot_loo_pit(fit.to_datatree())`` answers.

    Parameters
    ----------
    fit : ParticleFit or LaplaceFit
        Of a GP or any ``pm.Model``; of several models, ``learner.fit.best`` or each one, ``learner.fit[label]``.
    reference : None, xarray.DataTree or fit, optional
        By default a longer run: annealed from the prior up to about 110 points (embeddings 130), and around modes that
        are searched anew where :func:`fit` searches them; of a ``pm.Model`` by ``fit(method="auto")``. A trace of the
        same model, from :func:`sample` or ``pm.sample``, is truth by another method, except for embeddings, whose modes
        chains do not reach.
    X_new : array_like, shape (m, D), optional
        Points to compare at. Default: the pool, else the inputs of the data, the only ones for a ``pm.Model`` without
        outcomes at new rows.
    y_new : array_like, shape (m,), optional
        Observations at ``X_new``, whose negative log densities take the place of expectations. The verdict speaks
        against the model if they exceed these by three sds on average, or one of them by fifteen.
    pool : array_like, shape (m', D), optional
        Candidates for the decisions.
    criteria : sequence of str or callable, optional
        As :class:`pymc_active.Learner` takes them. Default: ``"bald"``, ``"integrated_variance"`` (of a ``pm.Model``
        ``"epig"``) and ``"expected_improvement"``.
    minimize : bool
        Whether criteria such as ``"pes"`` look for the minimum over the pool, not the maximum.
    trace : xarray.DataTree, optional
        Another name of ``reference``.
    n_particles : int, optional
        Of the longer run. Default: 16 times the number that :func:`fit` takes.
    random_seed : int or Generator, optional
        For the longer run, and for criteria that draw.
    progressbar : bool
        Show the progress of a longer run, which may take a minute.

    Returns
    -------
    xarray.DataTree
        ``attrs["verdict"]`` says in a few sentences what follows, ``attrs["reference"]`` is "run", "trace" or "fit",
        ``attrs["reference_by"]`` how its evidence was obtained, ``attrs["n_draws"]`` the number of its draws, and
        ``attrs["doubts"]`` what is doubtful about it. Groups:

        * ``predictions``: over ``approximation`` (``particles``; of a LaplaceFit mgp, map, bbq, and the mixtures over
          its modes and draws) and ``point``, in nats: ``nll``, minus the log density of an observation, and over
          ``point`` ``true_nll``, the same of the reference; the difference of their means is what the approximation
          loses, ``nll_loss_error`` its standard error from the outcomes that were drawn. ``skl``, KL(p‖q) + KL(q‖p) of
          the function, an expected outcome of a ``pm.Model`` (NaN where there is none), with p and q the Gaussians that
          have the moments of the reference and the approximation: ``f_mean`` and ``f_variance``, with ``true_`` before
          them for the reference; with ``y_new`` ``surprise``, by how many sds of a negative log density the density of
          an observation is smaller than expected.
        * ``evidence``: over ``estimator`` (fit, reference), ``log_evidence`` and ``standard_error``, nats; NaN where it
          is unknown, as for a trace, NUTS, and the error of Laplace's evidence.
        * ``decision`` (with ``pool``): over ``criterion`` and ``candidate``, ``score`` by the fit and ``true_utility``
          under 400 draws of the reference, of a ``pm.Model`` 1,000; over ``criterion``, their largest, ``pick`` and
          ``best``, and ``regret_ratio``, the true utility of the pick divided by the best in the pool, 1 being perfect
          (for an expected improvement, itself and not its logarithm; for an upper confidence bound, counted from the
          lowest in the pool).

    Raises
    ------
    TypeError, ValueError
        For anything but a fit and a reference of the same model and data, points that do not match, or unknown
        criteria; all before a longer run begins.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 3 and Table 1. Vehtari et al. (2021) for R-hat.
    """
    if reference is not None and trace is not None:
        raise ValueError("reference and trace are two names of one argument: pass one of them")
    reference = trace if reference is None else reference
    if isinstance(random_seed, np.random.Generator):
        random_seed = int(random_seed.integers(2**31))
    if not isinstance(fit, Fit):
        raise TypeError(f"check takes a fit of one model, of several learner.fit.best; got {kind_of(fit)}")
    gpm = fit.gpm
    if n_particles is not None:
        count("n_particles", n_particles, least=FEWEST)
    if pool is None and criteria is not None:
        raise ValueError("criteria choose between candidates: pass pool= as well")
    if pool is not None:
        candidates, names = _read_rows(pool, "pool", fit)
        if criteria is None and is_of_processes(fit):
            criteria = _OF_ANY_MODEL[: 3 if gpm.has_mean else 2]
        elif criteria is None:
            criteria = _DEFAULTS[: 3 if np.ptp(fit.y) > 0 else 2]
        named = read_criteria(criteria, fit, candidates, minimize=minimize, random_seed=random_seed)
    points = pool if X_new is None else X_new
    X, labels = (fit.X, point_labels(fit.X)) if points is None else _read_rows(points, "X_new", fit)
    if not len(X):
        raise ValueError("the fit has no data, so there is nothing to compare at: pass X_new=")
    observed = None
    if y_new is not None:
        observed = read_outputs(y_new if np.ndim(y_new) else [y_new], len(X), points, "y_new")
        gpm.check_outcomes(observed, np.ones(len(X)))

    truth = make_reference(fit, reference, X, n_particles, random_seed, progressbar)
    groups, doubts = compare(fit, truth, X, labels, observed), list(truth.doubts)
    if Differences.of(groups).reference_misses_mass:
        doubts.append("its evidence is lower than the evidence of the fit, so it misses a part of the posterior")
    if pool is not None:
        n = _MORE if is_of_processes(fit) else _DRAWS
        groups["decision"] = compare_decisions(named, picked(truth.ensemble, n), candidates, names)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs |= {
        "reference": truth.kind,
        "reference_by": truth.evidence.by,
        "n_draws": len(truth.ensemble),
        "doubts": "; ".join(doubts),
    }
    tree.attrs["verdict"] = verdict(tree)
    return tree


def _read_rows(points: Any, what: str, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Points (m, D) for which a model has predictions, and their labels."""
    rows = fit.gpm.read_pool(points)
    X = read_inputs(rows, what, inputs=fit.gpm.inputs)
    if is_of_processes(fit):
        fit.gpm.check_rows(X)
    return X, point_labels(rows)
