"""Compare a fit with a longer run, a trace or another fit: predictions, evidence, and what decisions are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import ndtri

from pymc_active.criteria.base import Criterion, Scorer, relative_utility
from pymc_active.criteria.by_name import CRITERIA, Named, criterion_names, make_criterion
from pymc_active.criteria.epig import rows_among
from pymc_active.criteria.maximum.domain import check_data, read_domain
from pymc_active.inference.ensemble import Ensemble, ensemble_of_draws
from pymc_active.inference.evidence import UNKNOWN, Evidence
from pymc_active.inference.fit import Fit
from pymc_active.inference.resampling import systematic
from pymc_active.information.mixture_entropy import mixture_moments, symmetrized_kl
from pymc_active.information.mixture_quantiles import mixture_log_density
from pymc_active.models.traces import trace_thetas
from pymc_active.particles.choose import longer_run
from pymc_active.particles.informative import holding
from pymc_active.posterior.full_space import FullSpace
from pymc_active.predictions.mixtures import Mixture, mixture

# A longer run has so many times the default number of particles.
_LONGER = 16
# Chains agree below 1.01, with 400 effective draws (Vehtari et al. 2021); by older standards a trace up to 1.05, with a
# quarter of these draws, is usable.
_USABLE, _FEWEST_EFFECTIVE = 1.05, 100
# Outcomes at which densities are compared, for every point from as many components of the reference; outcomes at all
# points together suffice for their mean. All three are guesses.
_MOST, _FEWEST, _OUTCOMES = 400, 50, 20_000


class Reference(NamedTuple):
    """What serves as truth.

    ``kind`` is "run", "trace" or "fit"; ``source`` the run, trace or fit itself; ``predicted`` what its draws predict
    at the points of comparison; the ``evidence`` of a trace is unknown; ``doubts`` say in words what is doubtful.
    """

    kind: str
    source: Any
    ensemble: Ensemble
    predicted: Mixture
    doubts: tuple[str, ...] = ()
    evidence: Evidence = UNKNOWN


def make_reference(
    fit: Fit, reference: Any, X: np.ndarray, n_particles: int | None, seed: int | None, progressbar: bool = False
) -> Reference:
    """What ``reference`` stands for, and predicts at X; without one, a longer run, which may take minutes.

    A TypeError or ValueError for what cannot be the reference of the fit.
    """
    gpm = fit.gpm
    if isinstance(reference, xr.DataTree):
        draws = ensemble_of_draws(gpm, fit.data, FullSpace(fit.posterior), _draws_of(reference, fit), "trace")
        predicted = mixture(draws, X)
        return Reference("trace", reference, draws, predicted, _doubts_of_chains(reference, predicted))
    kind = "run" if reference is None else "fit"
    if reference is None:
        # The seed of the fit would make the fit again.
        rng = np.random.default_rng(None if seed is None else (seed, _LONGER))
        n = _LONGER * gpm.n_particles(len(fit.y)) if n_particles is None else n_particles
        with nullcontext() if gpm.data.equals(fit.data) else holding(gpm, fit.data):
            # With nothing to be averaged over the fit is exact.
            reference = longer_run(gpm, n, rng, progressbar) if gpm.shapes else fit
    if not isinstance(reference, Fit):
        raise TypeError(
            f"reference must be a DataTree of draws, as pma.sample returns it, or a fit; got {type(reference).__name__}"
        )
    if not reference.data.equals(fit.data):
        raise ValueError("the reference is a fit to other data: fit both to the same")
    draws, doubts = reference.reference_draws(seed), tuple(reference.diagnostics["warnings"])
    if kind == "run" and gpm.shapes and len(draws) <= len(fit.ensemble):
        # As where no more particles are affordable.
        doubts += (f"it has no more draws than the fit, {len(fit.ensemble):,}, so both may miss the same",)
    if kind == "fit" and gpm.shapes and np.array_equal(reference.ensemble.thetas, fit.ensemble.thetas):
        doubts += ("it has the draws of the fit itself: fit again with another random_seed and more particles",)
    return Reference(kind, reference, draws, mixture(draws, X), doubts, reference.evidence)


def _draws_of(trace: xr.DataTree, fit: Fit) -> np.ndarray:
    """Unconstrained draws (S, P) of a trace that was sampled given the data of the fit."""
    if not np.isfinite(thetas := trace_thetas(fit.gpm, trace)).all():
        raise ValueError("the trace holds draws that are NaN or infinite: sample again")
    if "observed_data" in trace.children and fit.gpm.name in trace["observed_data"]:
        y = trace["observed_data"][fit.gpm.name].to_numpy().ravel()
        if not (len(y) == len(fit.y) and np.allclose(y, fit.y)):
            # A learner that has been told more adds it to its model.
            raise ValueError(
                f"the trace was sampled given other data ({len(y)} points) than the fit ({len(fit.y)} points): fit the "
                "model again, or sample it again"
            )
    return thetas


def _doubts_of_chains(trace: xr.DataTree, p: Mixture) -> tuple[str, ...]:
    """That the chains of a trace disagree in what they predict, in words, if so; ``p`` are predictions of its draws.

    Chains may differ in parameters by a symmetry of the model.
    """
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from arviz_stats import ess, rhat

    shape = (trace["posterior"].sizes["chain"], trace["posterior"].sizes["draw"], -1)
    outcomes = (p.variances + p.noises).reshape(shape)
    predicted = dict_to_dataset({"f_mean": p.means.reshape(shape), "y_variance": outcomes})
    r_hat = np.fmax.reduce([float(values.max()) for values in rhat(predicted).data_vars.values()])
    size = np.fmin.reduce([float(values.min()) for values in ess(predicted).data_vars.values()])
    # Of one chain R-hat is not known.
    if r_hat > _USABLE or size < _FEWEST_EFFECTIVE:
        return (f"MCMC has NOT converged (R-hat {r_hat:.3f}, {size:,.0f} effective draws)",)
    return ()


def picked(ensemble: Ensemble, n: int) -> Ensemble:
    """At most n equally weighted draws that stand for all draws of an ensemble."""
    [part] = ensemble.parts
    rows = systematic(part.within, min(n, len(part.z)))
    thinned = part._replace(z=part.z[rows], within=np.full(len(rows), 1 / len(rows)), share=1.0, owner=0)
    return Ensemble((thinned,), ensemble.X, ensemble.y, "draws", ensemble.gpm, ensemble.center, y_sd=ensemble.y_sd)


def compare(
    fit: Fit, reference: Reference, X: np.ndarray, labels: np.ndarray, observed: np.ndarray | None = None
) -> dict[str, xr.Dataset]:
    """The groups ``predictions`` and ``evidence`` of :func:`pymc_active.check`, at the points X of the reference."""
    p, evidences = reference.predicted, (fit.evidence, reference.evidence)
    true_mean, true_variance = mixture_moments(p.means, p.variances, p.weights)
    n_outcomes = int(np.clip(_OUTCOMES // len(X), _FEWEST, min(_MOST, len(p.weights))))
    y = _outcomes(p, systematic(p.weights, n_outcomes)) if observed is None else observed[None]
    rows: dict[str, list[np.ndarray]] = {"skl": [], "nll": [], "f_mean": [], "f_variance": []}
    for ensemble in fit.approximations.values():
        q = mixture(ensemble, X)
        mean, variance = mixture_moments(q.means, q.variances, q.weights)
        rows["skl"].append(symmetrized_kl(true_mean, true_variance, mean, variance))
        rows["nll"].append(_negative_log_density(y, q))
        rows["f_mean"].append(mean)
        rows["f_variance"].append(variance)
    truth = {"true_nll": _negative_log_density(y, p), "true_f_mean": true_mean, "true_f_variance": true_variance}
    predictions = xr.Dataset(
        {
            **{name: (("approximation", "point"), np.stack(values)) for name, values in rows.items()},
            **{name: ("point", values) for name, values in truth.items()},
        },
        coords={"approximation": list(fit.approximations), "point": labels},
        attrs={"units": "nats", "units_of_moments": "the units of y, and their squares"},
    )
    evidence = xr.Dataset(
        {
            "log_evidence": ("estimator", [evidence.value for evidence in evidences]),
            "standard_error": ("estimator", [evidence.error for evidence in evidences]),
        },
        coords={"estimator": ["fit", "reference"]},
        attrs={"units": "nats"},
    )
    return {"predictions": predictions, "evidence": evidence}


def _outcomes(p: Mixture, thin: np.ndarray) -> np.ndarray:
    """Outcomes (T, m) under the reference: one for each component, in strata in random order."""
    rng, n = np.random.default_rng(0), len(thin)
    strata = np.stack([rng.permutation(n) for _ in range(p.means.shape[1])], axis=1)
    quantiles = ndtri((strata + rng.uniform(size=strata.shape)) / n)
    return p.means[thin] + np.sqrt(p.variances[thin] + p.noises[thin]) * quantiles


def _negative_log_density(y: np.ndarray, q: Mixture) -> np.ndarray:
    """Minus the mean log density of outcomes y (T, m) under predictions, (m,)."""
    variances = q.variances + q.noises
    return -np.mean([mixture_log_density(row, q.means, variances, q.weights) for row in y], axis=0)


def read_criteria(
    criteria: str | Sequence[Any], fit: Fit, pool: np.ndarray, **options: Any
) -> dict[str, tuple[Criterion, Scorer]]:
    """Criteria of the registry by name, with ``options``, and what scores by the fit.

    A ValueError for others, and for those that the model cannot have; criteria of the maximum need y that differ.
    """
    # A single sample path has no utility that another source could judge.
    known = [name for name in criterion_names("moments", "predictions", "maximum") if name != "thompson"]
    asked = (criteria,) if isinstance(criteria, str) or callable(criteria) else tuple(criteria)
    named = [name for entry in asked if (name := Named.read(entry, fit.gpm.inputs)) is not None and name.name in known]
    if not named or len(named) < len(asked):
        raise ValueError(
            f"criteria must be among {', '.join(sorted(known))}; got {', '.join(map(repr, asked)) or 'none'}"
        )
    domain, targets = read_domain(None, pool, fit.gpm.inputs), pool[rows_among(len(pool))]
    if any(CRITERIA[name.name].kind == "maximum" for name in named):
        check_data(fit.y, fit.gpm)
    made = [make_criterion(name, domain=lambda: domain, targets=lambda: targets, **options) for name in named]
    return {str(name): (criterion, criterion.prepare(fit)) for name, criterion in zip(named, made, strict=True)}


def compare_decisions(
    criteria: Mapping[str, tuple[Criterion, Scorer]], truth: Ensemble, X: np.ndarray, labels: np.ndarray
) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`; ``truth`` are draws of the reference."""
    scores = np.stack([scorer.score(X) for _, scorer in criteria.values()])
    utilities = np.stack([criterion.prepare(truth).score(X) for criterion, _ in criteria.values()])
    picks = scores.argmax(1)
    shares = [relative_utility(*one) for one in zip(criteria, utilities, picks, strict=True)]
    both = ("criterion", "candidate")
    return xr.Dataset(
        {
            "score": (both, scores),
            "true_utility": (both, utilities),
            "pick": ("criterion", picks),
            "best": ("criterion", utilities.argmax(1)),
            "regret_ratio": ("criterion", shares),
        },
        coords={
            "criterion": list(criteria),
            "candidate": labels,
            "units": ("criterion", [scorer.units for _, scorer in criteria.values()]),
        },
    )
