"""Compare a fit with a longer run, a trace or another fit: predictions, evidence, and what decisions are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import logsumexp, ndtri

from pymc_active.criteria.base import Criterion, Scorer, relative_utility
from pymc_active.criteria.by_name import CRITERIA, Named, criterion_names, make_criterion
from pymc_active.criteria.epig import rows_among
from pymc_active.criteria.maximum.domain import check_data, read_domain
from pymc_active.inference.ensemble import UNKNOWN, Ensemble, Evidence, ensemble_of_draws, systematic
from pymc_active.inference.fit import Fit
from pymc_active.information.mixture_entropy import mixture_moments, symmetrized_kl
from pymc_active.information.mixture_quantiles import mixture_log_density
from pymc_active.models.traces import trace_thetas
from pymc_active.particles.choose import longer_run
from pymc_active.particles.informative import holding
from pymc_active.posterior.row_space import FullSpace
from pymc_active.predictions.ensembles import is_of_processes
from pymc_active.predictions.latent_outcomes import LatentOutcomes
from pymc_active.predictions.mixtures import Mixture, mixture
from pymc_active.process.fit import fit_process
from pymc_active.process.members import Members

# A longer run has so many times the default number of particles.
_LONGER = 16
# Chains agree below 1.01, with 400 effective draws (Vehtari et al. 2021); by older standards a trace up to 1.05, with a
# quarter of these draws, is usable.
_USABLE, _FEWEST_EFFECTIVE = 1.05, 100
# Outcomes at which densities are compared: at each point at most and at least, and at all points together (guesses).
_MOST, _FEWEST, _OUTCOMES = 400, 50, 20_000
_SOME = 256  # Members that judge outcomes which are not normal (guess).
_COMPARED, _SAME = 20, 0.1  # Draws whose log densities tell models apart, and by how many nats (guesses).
# Numbers in one array of densities (guess), and the sd that is rounding, relative to the mean of an outcome.
_BLOCK, _ROUNDING = 4_000_000, 1e-8


class Predicted(NamedTuple):
    """What the members of an ensemble predict at m points.

    ``mean`` and ``variance`` (m,) describe the function; ``draw(n)`` draws outcomes (n, m), each from one member;
    ``nll(y)`` minus their log densities (n, m); ``of_each()`` are numbers (S, m) in which members differ, by name.
    """

    mean: np.ndarray
    variance: np.ndarray
    draw: Callable[[int], np.ndarray]
    nll: Callable[[np.ndarray], np.ndarray]
    of_each: Callable[[], dict[str, np.ndarray]]


def predicted(ensemble: Ensemble, X: np.ndarray) -> Predicted:
    """What an ensemble predicts at points X (m, D)."""
    if is_of_processes(ensemble):
        return _of_particles(Members.of(ensemble), X)
    return _of_gaussians(mixture(ensemble, X)) if LatentOutcomes.of(ensemble) is None else _of_latent(ensemble, X)


def _of_gaussians(p: Mixture) -> Predicted:
    variances = p.variances + p.noises

    def draw(n: int) -> np.ndarray:
        # In strata in random order.
        thin, rng = systematic(p.weights, n), np.random.default_rng(0)
        strata = np.stack([rng.permutation(n) for _ in range(p.means.shape[1])], axis=1)
        quantiles = ndtri((strata + rng.uniform(size=strata.shape)) / n)
        return p.means[thin] + np.sqrt(variances[thin]) * quantiles

    def nll(y: np.ndarray) -> np.ndarray:
        return -np.array([mixture_log_density(row, p.means, variances, p.weights) for row in y])

    moments = mixture_moments(p.means, p.variances, p.weights)
    return Predicted(*moments, draw, nll, lambda: {"f_mean": p.means, "y_variance": variances})


def _of_latent(ensemble: Ensemble, X: np.ndarray) -> Predicted:
    """Of a GP with a likelihood, where the function is the expected outcome."""
    some = picked(ensemble, _SOME) if len(ensemble) > _SOME else ensemble
    p, outcomes = mixture(some, X), LatentOutcomes.of(some)
    assert outcomes is not None
    mean, variance = outcomes.rate_moments(p)

    def draw(n: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        y = outcomes.draw(p, rng)
        return y[rng.integers(len(y), size=(n, len(X))), systematic(p.weights, n)[:, None], np.arange(len(X))]

    def nll(y: np.ndarray) -> np.ndarray:
        # Counts are often the same.
        rows = y if len(values := np.unique(y)) > len(y) else np.tile(values[:, None], len(X))
        logs = [logsumexp(outcomes.log_densities(row[None], p)[0], axis=0, b=p.weights[:, None]) for row in rows]
        return -(np.array(logs) if rows is y else np.take_along_axis(np.array(logs), values.searchsorted(y), 0))

    variance = np.maximum(variance, np.finfo(float).tiny)
    return Predicted(mean, variance, draw, nll, lambda: {"f_mean": mixture(ensemble, X).means})


def _of_particles(members: Members, X: np.ndarray) -> Predicted:
    """Of any PyMC model, where the function is the expected outcome: NaN without one, or with several a row."""
    [process], [z] = members.processes, members.z
    has_mean = process.has_mean and process.outcome.type.ndim == 1
    means = members.means(X) if has_mean else np.full((len(members), len(X)), np.nan)
    mean, variance = mixture_moments(means, np.zeros_like(means), members.weights)
    # It may be known, as where a slope has no effect.
    variance = np.maximum(variance, np.square(_ROUNDING * mean) + np.finfo(float).tiny)

    def draw(n: int) -> np.ndarray:
        y = process.draw(z[systematic(members.weights, n)], X, is_common=False)
        return y.reshape(n, len(X), *y.shape[2:])

    def nll(y: np.ndarray) -> np.ndarray:
        step = max(1, _BLOCK // means.size)
        blocks = [members.log_densities(y[k : k + step], X) for k in range(0, len(y), step)]
        log = np.concatenate([members.log_mean(block) for block in blocks])
        # Rows that depend on each other have one density together, of which each gets an equal part.
        log = np.broadcast_to(log * log.shape[1] / len(X), (len(y), len(X)))
        # NumPy refuses to draw some.
        return np.where(np.isfinite(y).reshape(*log.shape, -1).all(2), -log, np.nan)

    return Predicted(
        mean, variance, draw, nll, lambda: {"f_mean": means, "log_density": members.log_densities(draw(1), X)[0]}
    )


class Reference(NamedTuple):
    """What serves as truth: a "run", "trace" or "fit" (``kind``), and what its draws predict at the points."""

    kind: str
    source: Any
    ensemble: Ensemble
    predicted: Predicted
    doubts: tuple[str, ...] = ()
    evidence: Evidence = UNKNOWN


def make_reference(
    fit: Fit, reference: Any, X: np.ndarray, n_particles: int | None, seed: int | None, progressbar: bool = False,
    renew: Callable[..., Fit] | None = None,
) -> Reference:  # fmt: skip
    """What ``reference`` stands for, and predicts at X; without one, a longer run (by ``renew``), maybe for minutes."""
    gpm = fit.gpm
    if isinstance(reference, xr.DataTree):
        draws = ensemble_of_draws(gpm, fit.data, FullSpace(fit.posterior), _draws_of(reference, fit), "trace")
        p = predicted(draws, X)
        return Reference("trace", reference, draws, p, _doubts_of_chains(reference, p.of_each()))
    kind = "run" if reference is None else "fit"
    if reference is None:
        # The seed of the fit would make the fit again.
        rng = np.random.default_rng(None if seed is None else (seed, _LONGER))
        n = _LONGER * gpm.n_particles(len(fit.y)) if n_particles is None else n_particles
        longer = renew or (fit_process if is_of_processes(fit) else longer_run)
        with nullcontext() if gpm.data.equals(fit.data) else holding(gpm, fit.data):
            # With nothing to be averaged over the fit is exact.
            reference = longer(gpm, n, rng, progressbar) if gpm.shapes else fit
    if not isinstance(reference, Fit):
        got = type(reference).__name__
        raise TypeError(f"reference must be a DataTree of draws, as pma.sample returns it, or a fit; got {got}")
    if not reference.data.equals(fit.data):
        raise ValueError("the reference is a fit to other data: fit both to the same")
    if kind == "fit":
        thetas, density = reference.ensemble.thetas, reference.posterior.values
        _check_model(fit, thetas, lambda rows: density(thetas[rows]))
    draws, doubts = reference.reference_draws(seed), tuple(reference.diagnostics["warnings"])
    if kind == "run" and gpm.shapes and len(draws) <= len(fit.ensemble):
        doubts += (f"it has no more draws than the fit, {len(fit.ensemble):,}, so both may miss the same",)
    if kind == "fit" and gpm.shapes and np.array_equal(reference.ensemble.thetas, fit.ensemble.thetas):
        doubts += ("it has the draws of the fit itself: fit again with another random_seed and more particles",)
    return Reference(kind, reference, draws, predicted(draws, X), doubts, reference.evidence)


def _draws_of(trace: xr.DataTree, fit: Fit) -> np.ndarray:
    """Unconstrained draws (S, P) of a trace that was sampled given the data of the fit."""
    if not np.isfinite(thetas := trace_thetas(fit.gpm, trace)).all():
        raise ValueError("the trace holds draws that are NaN or infinite: sample again")
    if "observed_data" in trace.children and fit.gpm.name in trace["observed_data"]:
        y = trace["observed_data"][fit.gpm.name].to_numpy().ravel()
        if len(y) != len(fit.y) or not np.allclose(y, fit.y):
            counts = f"({len(y)} points) than the fit ({len(fit.y)} points)"
            raise ValueError(f"the trace was sampled given other data {counts}: fit or sample the model again")
    # The density of latent functions besides is another one.
    if "lp" in (trace.get("sample_stats") or ()) and fit.gpm.likelihood is None:
        _check_model(fit, thetas, trace["sample_stats"]["lp"].to_numpy().ravel().__getitem__)
    return thetas


def _check_model(fit: Fit, thetas: np.ndarray, log_densities: Callable[[np.ndarray], np.ndarray]) -> None:
    """Raise a ValueError unless the posterior of the fit has these log densities of rows, up to a constant."""
    if is_same := thetas.shape[1] == fit.gpm.n_parameters:
        some = np.linspace(0, len(thetas) - 1, min(_COMPARED, len(thetas)), dtype=int)
        with np.errstate(invalid="ignore"):
            apart = fit.posterior.values(thetas[some]) - log_densities(some)
        is_same = not len(apart := apart[np.isfinite(apart)]) or np.ptp(apart) < _SAME
    if not is_same:
        raise ValueError("the reference is of another model than the fit, with other priors or another likelihood")


def _doubts_of_chains(trace: xr.DataTree, of_each: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """That chains disagree in what they predict, ``of_each``, in words; parameters may differ by a symmetry."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from arviz_stats import ess, rhat

    shape = (trace["posterior"].sizes["chain"], trace["posterior"].sizes["draw"], -1)
    chains = dict_to_dataset({name: values.reshape(shape) for name, values in of_each.items()})
    r_hat = np.fmax.reduce([float(values.max()) for values in rhat(chains).data_vars.values()])
    size = np.fmin.reduce([float(values.min()) for values in ess(chains).data_vars.values()])
    # Of one chain R-hat is not known; of few draws nothing is.
    if r_hat > _USABLE or not size >= _FEWEST_EFFECTIVE:
        return (f"MCMC has NOT converged (R-hat {r_hat:.3f}, {size:,.0f} effective draws)",)
    return ()


def picked(ensemble: Ensemble, n: int) -> Ensemble:
    """At most n equally weighted draws that stand for all draws of an ensemble."""
    [part] = ensemble.parts
    z = part.z[systematic(part.within, min(n, len(part.z)))]
    return ensemble_of_draws(ensemble.gpm, ensemble.data, part.space, z, "draws", center=ensemble.center)


def compare(
    fit: Fit, reference: Reference, X: np.ndarray, labels: np.ndarray, observed: np.ndarray | None = None
) -> dict[str, xr.Dataset]:
    """The groups ``predictions`` and ``evidence`` of :func:`pymc_active.check`, at the points X of the reference."""
    p, evidences = reference.predicted, (fit.evidence, reference.evidence)
    n_outcomes = int(np.clip(_OUTCOMES // len(X), _FEWEST, min(_MOST, len(reference.ensemble))))
    y = p.draw(n_outcomes) if observed is None else observed[None]
    surprise, truth = np.zeros(len(X)), p.nll(y)
    if observed is not None:
        usual = p.nll(p.draw(_FEWEST))
        surprise = (truth[0] - usual.mean(0)) / max(usual.std(0).mean(), _ROUNDING)
    each = [predicted(ensemble, X) for ensemble in fit.approximations.values()]
    nlls, both = np.stack([q.nll(y) for q in each]), ("approximation", "point")
    predictions = xr.Dataset(
        {
            "skl": (both, [symmetrized_kl(p.mean, p.variance, q.mean, q.variance) for q in each]),
            "nll": (both, np.nanmean(nlls, 1)),
            "nll_loss_error": ("approximation", np.nanmean(nlls - truth, 2).std(1) / np.sqrt(len(y))),
            "f_mean": (both, [q.mean for q in each]),
            "f_variance": (both, [q.variance for q in each]),
            "true_nll": ("point", np.nanmean(truth, 0)),
            "true_f_mean": ("point", p.mean),
            "true_f_variance": ("point", p.variance),
            "surprise": ("point", surprise),
        },
        coords={"approximation": list(fit.approximations), "point": labels},
        attrs={"units": "nats", "units_of_moments": "the units of y, and their squares"},
    )
    evidence = xr.Dataset(
        {
            "log_evidence": ("estimator", [one.value for one in evidences]),
            "standard_error": ("estimator", [one.error for one in evidences]),
        },
        coords={"estimator": ["fit", "reference"]},
        attrs={"units": "nats"},
    )
    return {"predictions": predictions, "evidence": evidence}


def read_criteria(
    criteria: str | Sequence[Any], fit: Fit, pool: np.ndarray, **options: Any
) -> dict[str, tuple[Criterion, Scorer]]:
    """Criteria of the registry by name, with ``options``, and what scores by the fit; a ValueError for others."""
    # A single sample path has no utility that another source could judge.
    known = [name for name in criterion_names("moments", "predictions", "maximum") if name != "thompson"]
    asked = (criteria,) if isinstance(criteria, str) or callable(criteria) else tuple(criteria)
    named = [name for entry in asked if (name := Named.read(entry, fit.gpm.inputs)) is not None and name.name in known]
    if not named or len(named) < len(asked):
        got = ", ".join(map(repr, asked)) or "none"
        raise ValueError(f"criteria must be among {', '.join(sorted(known))}; got {got}")
    domain, targets = read_domain(None, pool, fit.gpm.inputs), pool[rows_among(len(pool))]
    if any(CRITERIA[name.name].kind == "maximum" for name in named):
        check_data(fit.y, fit.gpm)
    made = [make_criterion(name, domain=lambda: domain, targets=lambda: targets, **options) for name in named]
    return {str(name): (criterion, criterion.scorer(fit).finest) for name, criterion in zip(named, made, strict=True)}


def compare_decisions(
    criteria: Mapping[str, tuple[Criterion, Scorer]], truth: Ensemble, X: np.ndarray, labels: np.ndarray
) -> xr.Dataset:
    """The group ``decision`` of :func:`pymc_active.check`; ``truth`` are draws of the reference."""
    scores = np.stack([scorer.score(X) for _, scorer in criteria.values()])
    utilities = np.stack([criterion.scorer(truth).finest.score(X) for criterion, _ in criteria.values()])
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
