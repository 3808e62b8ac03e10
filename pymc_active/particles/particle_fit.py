"""The result of sampling the posterior: weighted particles, evidence and diagnostics."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from scipy.special import expit, logsumexp, softmax

from pymc_active.inference.annealing import MOST_LEVELS, Mover, Particles, effective
from pymc_active.inference.ensemble import GAUSSIAN_METHODS, Ensemble, Evidence, Part, systematic
from pymc_active.inference.fit import Fit
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import first_points
from pymc_active.laplace.modes.search import SearchTask
from pymc_active.laplace.modes.task import evidence_nearby, search_and_expand
from pymc_active.models.gpmodel import GPModel, check_is_gp
from pymc_active.models.model import Model
from pymc_active.particles.informative import holding
from pymc_active.posterior.base import MANY
from pymc_active.posterior.row_space import Space, find_space
from pymc_active.support.arguments import kind_of
from pymc_active.support.data import Data
from pymc_active.support.options import count
from pymc_active.support.summaries import Summary
from pymc_active.support.tables import read_inputs, read_outputs
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulFitWarning, warn_user

# Modes are searched from so many particles, the best of each family.
_CLIMBS = 8
# An estimate with fewer families, a lower acceptance or a larger error of the log evidence (nats) is doubtful.
_FEW_FAMILIES, LOW_ACCEPTANCE, LARGE_ERROR = 3, 0.2, 1.5
# R-hat of chains of NUTS, and divergences for each effective draw, that are told (guess: PyMC's limits cry wolf).
_RHAT, _DIVERGED = 1.05, 0.05
# Nats by which annealed particles may be behind until this is told.
_LARGE_LAG = 1.0
# When points are added: effective shares below which particles are moved, and drawn anew, which with many points takes
# fewer evaluations than moving; trajectories of a move.
_MOVE, _RENEW, _MOVES = 0.5, 0.1, 3
# Trajectories at most, until so many are accepted.
_MOST_MOVES, _ACCEPTED = 8, 0.4
# Points and families, relative to those of the last fresh fit, and error of the evidence since then (nats), at which to
# draw anew.
_GROWTH, _FAMILIES, _ADDED_ERROR = 1.5, 0.4, 0.7
# By how many nats, and standard errors, the evidence of a fresh fit is lower if it misses mass; estimates agree if they
# differ by less than so many of these errors and nats.
_MISSED, _ERRORS, _NATS = 1.0, 2.0, 0.2
# Particles whose density a file holds.
_TOLD = 4
# What files hold of a swarm, besides z: by particle, and single numbers.
COLUMNS, NUMBERS = ("log_weights", "log_likelihood", "families"), ("log_evidence", "log_evidence_error", "step")
# Particles that may be asked for.
FEWEST = 32


def log_fresh(gpm: GPModel, reason: str, what: str = "a fit is drawn anew") -> None:
    """Say why a run does what takes long."""
    logging.getLogger("pymc_active").info("%s, %d points: %s, since %s", gpm.description, len(gpm.y), what, reason)


@dataclass(frozen=True)
class Swarm:
    """Weighted particles z (S, P') of one posterior, in the coordinates of ``space``.

    ``log_weights`` (S,) are up to a constant, ``families`` (S,) number what the particles descend from, ``step`` is the
    step size of their last moves.
    """

    space: Space
    z: np.ndarray
    log_weights: np.ndarray
    log_likelihood: np.ndarray
    families: np.ndarray
    log_evidence: float
    log_evidence_error: float
    step: float

    @property
    def effective_sample_size(self) -> float:
        """(sum w)² / sum w²."""
        return effective(self.log_weights)

    def resample(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of equally weighted draws in random order, with repeats."""
        return rng.permutation(systematic(softmax(self.log_weights), draws, rng))

    def moved(self, rng: np.random.Generator, n_moves: int) -> tuple[Swarm, float]:
        """Equally weighted particles after some trajectories or, until steps suit, more; the last acceptance."""
        rows = self.resample(len(self.z), rng)
        particles = Particles.at(self.space.posterior, self.z[rows], ancestors=self.families[rows])
        mover = Mover(self.space.posterior, rng, self.step)
        for done in range(1, _MOST_MOVES + 1):
            particles = mover.move(particles)
            if done >= n_moves and mover.acceptance > _ACCEPTED:
                break
        swarm = replace(
            self,
            z=particles.z,
            log_weights=np.zeros(len(rows)),
            log_likelihood=particles.likelihoods.value,
            families=particles.ancestors,
            step=mover.step,
        )
        return swarm, mover.acceptance


@dataclass(frozen=True, eq=False, repr=False)
class ParticleFit(Fit):
    """Draws from the posterior over the hyperparameters, with the evidence; returned by :func:`fit` and `fit_smc`.

    Predictions and criteria average over the particles, unless a method of Laplace's approximation is named: for it, as
    in :func:`find_modes`, modes are searched from the particles.

    Attributes
    ----------
    gpm, X, y, log_evidence, log_evidence_error
        As of every :class:`Fit`.
    ensemble : Ensemble
        ``weights`` (S,) and ``thetas`` (S, P), in the order of ``labels``.
    diagnostics : dict
        ``method`` ("smc", "importance", "smc and importance"), how the evidence was obtained, and ``reason``, in words;
        ``n_particles``, ``effective_sample_size``, ``n_families`` (particles at the start that have descendants),
        ``n_levels``, ``acceptance``, ``n_evaluations``; ``lag``, how many nats particles were behind; for draws around
        modes ``n_weighted``, the effective number of importance-weighted draws, and whether these ``confirmed``
        the modes; of two runs, how far ``apart`` their log evidences are; ``n_fresh``, ``families_fresh`` and
        ``error_fresh``, the points, families and error of the last fit that was not an update; ``warnings``: what is
        doubtful, in words.
    """

    swarm: Swarm
    # How the particles were made.
    made: Mapping[str, Any]
    # Makes a fresh fit: (gpm, n_particles, rng, executor=..., progressbar=...).
    renew: Callable[..., ParticleFit]

    kind: ClassVar[str] = "particles"

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        """How the particles were made, how many they are, and what is doubtful."""
        swarm = self.swarm
        n_families = len(np.unique(swarm.families))
        fresh = {"n_fresh": len(self.y), "families_fresh": n_families, "error_fresh": swarm.log_evidence_error}
        own = {
            "n_particles": len(swarm.z),
            "effective_sample_size": swarm.effective_sample_size,
            "n_families": n_families,
        }
        # What belongs to the last fit that was not an update stays.
        diagnostics = fresh | dict(self.made) | own
        return diagnostics | {"warnings": _doubts(self.gpm, diagnostics, swarm.log_evidence_error)}

    def _summary(self) -> Summary:
        d = self.diagnostics
        added = len(self.y) - d["n_fresh"]
        since = f"; since then {added} {'points' if added > 1 else 'point'} by reweighing" if added > 0 else ""
        is_known = np.isfinite(self.log_evidence)
        facts = {
            "data": self._data_shown(),
            "log evidence": f"{self.log_evidence:.2f} ± {self.log_evidence_error:.2f} nats"
            if is_known
            else "not known",
            "method": f"{d['method']}: {d['reason']}{since}",
            "particles": f"{d['n_particles']}, {d['effective_sample_size']:.0f} effective, {d['n_families']} families",
        }
        doubts = [f"Doubtful: {problem}." for problem in d["warnings"]]
        return Summary(f"ParticleFit of {self.gpm.description}", facts, self._parameters(), doubts)

    @cached_property
    def modes_found(self) -> LaplaceFit:
        """The modes that the particles lead to; see :func:`find_modes`."""
        check_is_gp(self.gpm, "modes are searched")
        swarm, posterior = self.swarm, self.swarm.space.posterior
        order = np.argsort(-self._densities, kind="stable")
        _, first = np.unique(swarm.families[order], return_index=True)
        # A search may not start where K is so nearly singular that its density is zero.
        sound = (z for z in swarm.z[order[np.sort(first)]] if np.isfinite(posterior.value(z)))
        starts = swarm.space.lift(np.stack(list(islice(sound, _CLIMBS)) or [swarm.z[order[0]]]))
        task = SearchTask(swarm.space.source, self.gpm.embedding_slice, list(starts), 0, 0, 0)
        with one_blas_thread():
            modes = search_and_expand(task)
        return LaplaceFit(self.gpm, self.data, modes.expansions, modes.search)

    @property
    def has_missed_a_mode(self) -> bool:
        """Whether climbing from the best particle leads to a mode that has more of the posterior than all particles.

        So narrow a mode as of an embedding without noise shows only when its noise has been taken away.
        """
        swarm, error = self.swarm, self.log_evidence_error
        task = SearchTask(swarm.space.source, self.gpm.embedding_slice, [self.center], 0, 0, 0)
        with one_blas_thread():
            nearby = evidence_nearby(task)
        return nearby > self.log_evidence + _MISSED + (_ERRORS * error if np.isfinite(error) else 0.0)

    def to_dataset(self) -> xr.Dataset:
        """The particles in the coordinates of their space, and the number of points that they have seen."""
        swarm = self.swarm
        return xr.Dataset(
            {
                "z": (("particle", "coordinate"), swarm.z),
                # As log_densities, without factorising anything again.
                "log_density": ("some", self._densities[:_TOLD]),
                **{name: ("particle", getattr(swarm, name)) for name in COLUMNS},
                **{name: float(getattr(swarm, name)) for name in NUMBERS},
            },
            attrs={
                "n_observations": len(self.y),
                "diagnostics": json.dumps(self.diagnostics),
            },
        )

    @property
    def log_densities(self) -> np.ndarray:
        """Log posterior density of some particles by the model, up to a constant."""
        return self.swarm.space.posterior.values(self.swarm.z[:_TOLD])

    @cached_property
    def _densities(self) -> np.ndarray:
        """Log posterior density of the particles, up to a constant (S,)."""
        return self.swarm.space.posterior.log_priors(self.swarm.z)[0] + self.swarm.log_likelihood

    @property
    def center(self) -> np.ndarray:
        """Unconstrained hyperparameters that stand for the fit (P,): the particle of highest density."""
        return self.swarm.space.lift(self.swarm.z[int(np.argmax(self._densities))])

    @property
    def evidence(self) -> Evidence:
        """The log evidence, its standard error, and how it was obtained."""
        return Evidence(self.swarm.log_evidence, self.swarm.log_evidence_error, self.made["method"])

    @property
    def has_lost_families(self) -> bool:
        """Whether so few families are left that another run may differ."""
        d = self.diagnostics
        is_behind = d.get("lag", 0.0) > _LARGE_LAG
        return d["n_families"] < _FEW_FAMILIES or is_behind or not self.log_evidence_error <= LARGE_ERROR

    @cached_property
    def ensemble(self) -> Ensemble:
        """All particles with their weights."""
        swarm = self.swarm
        part = Part(self.gpm, swarm.space, swarm.z, softmax(swarm.log_weights))
        return Ensemble((part,), self.X, self.y, "draws", self.gpm, self.center, self.evidence, self.y_sd)

    def ensemble_by(self, method=None, draws=None, random_seed=None):
        """As for a :class:`LaplaceFit`; None and ``"draws"`` give all particles, or ``draws`` of them.

        Equally weighted ones are in random order, and the first are taken, whatever the seed.
        """
        if method not in (None, "draws"):
            modes = self.modes_found
            if method in GAUSSIAN_METHODS and modes.lightness:
                warn_user(modes.lightness, DoubtfulFitWarning)
            return modes.ensemble_by(method, draws, random_seed)
        if draws is None:
            return self.ensemble
        most = min(count("draws", draws, least=2), len(self.ensemble))
        return self.ensemble.first(most, 0 if random_seed is None else random_seed)

    def given(self, X, y, y_sd=None):
        """The same particles conditioned on other data (user's units), such as imagined outcomes."""
        data = Data(X, y, y_sd)
        swarm = in_space(self.gpm, self.swarm, data)
        return replace(self, data=data, swarm=swarm, made=self.diagnostics)

    def draw(self, draws, random_seed=None):
        """Unconstrained draws from the particles, (draws, P), with repeats."""
        rng = np.random.default_rng(random_seed)
        return self.swarm.space.lift(self.swarm.z[self.swarm.resample(draws, rng)], rng)

    def update(
        self, X_new: Any, y_new: Any, *, y_sd: Any = None, y_trials: Any = None, exposure: Any = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> ParticleFit:  # fmt: skip
        """The fit with points added, X_new (k, D) and y_new (k,), at the price of reweighing where that is right.

        ``y_sd``, (k,) or a number, are known standard deviations of the new measurements, as in :func:`ard_gp`,
        ``y_trials`` or ``exposure`` the sizes of outcomes with such a ``likelihood``.

        Particles are weighted by the predictive density of the new points and, when few of them carry the weight,
        resampled and moved (Chopin 2002, IBIS); the evidence is multiplied by the mean weight. Where the posterior
        collapses onto one narrow mode this degenerates. So all is drawn anew when hardly any particle has weight, when
        moves are not accepted, when the evidence has become uncertain, and when there are half as many points again.
        The model keeps its own data.
        """
        points = read_inputs(X_new, "X_new", inputs=self.gpm.inputs)
        values = read_outputs(y_new if np.ndim(y_new) else [y_new], len(points), X_new, "y_new")
        per_row = self.gpm.read_known(len(points), X_new, y_sd, y_trials=y_trials, exposure=exposure)
        self.gpm.check_outcomes(values, per_row)
        with holding(self.gpm, self.data.joined(points, values, per_row)):
            return self.follow(np.random.default_rng(random_seed))

    def follow(self, rng: np.random.Generator, **how: Any) -> ParticleFit:
        """:meth:`update` to the current data of the model, which begin with the fit's; ``how`` to ``renew``."""
        gpm, before, S = self.gpm, self.swarm, len(self.swarm.z)
        data = gpm.data.copy()
        y = data.y
        if len(y) == len(self.y):
            return self
        swarm = in_space(gpm, before, data, rng)
        possible = np.isfinite(before.log_likelihood)
        change = np.where(possible, swarm.log_likelihood - np.where(possible, before.log_likelihood, 0.0), -np.inf)
        # Priors that are stated for standardised y move with it.
        thetas = swarm.space.lift(swarm.z)
        change += swarm.space.source.log_priors(thetas)[0] - before.space.source.log_priors(thetas)[0]
        weights = before.log_weights - logsumexp(before.log_weights) + change
        size, diagnostics = effective(weights), self.diagnostics
        added = self.log_evidence_error**2 - diagnostics["error_fresh"] ** 2
        too_few = size < (_MOVE if len(y) > MANY else _RENEW) * S
        scatter = np.sqrt(max(1 / size - 1 / S, 0.0)) if size > 0 else np.inf
        error = np.hypot(before.log_evidence_error, scatter)
        evidence = before.log_evidence + float(logsumexp(weights))
        swarm = replace(swarm, log_weights=weights, log_evidence=evidence, log_evidence_error=float(error))
        updated = replace(self, data=data, swarm=swarm, made=diagnostics)
        has_grown = len(y) >= _GROWTH * diagnostics["n_fresh"]
        if has_grown or added > _ADDED_ERROR**2 or too_few:
            uncertain = f"only {size:.0f} of {S} particles carry weight" if too_few else "the evidence is uncertain"
            reason = f"there were {diagnostics['n_fresh']} at the last fresh fit" if has_grown else uncertain
            return updated._anew(rng, how, reason)
        if size < _MOVE * S:
            updated = updated._moved(rng)
            few = _FAMILIES * diagnostics["families_fresh"]
            if updated.made["acceptance"] < LOW_ACCEPTANCE or len(np.unique(updated.swarm.families)) < few:
                return updated._anew(rng, how, "moves fail, or leave few families of particles")
        return updated

    def _moved(self, rng: np.random.Generator) -> ParticleFit:
        with one_blas_thread():
            swarm, acceptance = self.swarm.moved(rng, _MOVES)
        return replace(self, swarm=swarm, made={**self.made, "acceptance": acceptance})

    def _anew(self, rng: np.random.Generator, how: Mapping[str, Any], reason: str) -> ParticleFit:
        """A fresh fit to the same data, with as many particles, or the default, if that is what they are.

        Data that a fit did not expect call for a fresh one, which may then miss what the old one knows.
        """
        gpm, S, n = self.gpm, len(self.swarm.z), len(self.y)
        log_fresh(gpm, reason)
        n_particles = gpm.n_particles(n) if S == gpm.n_particles(self.diagnostics["n_fresh"]) else S
        fresh = self.renew(gpm, n_particles, rng, **how)
        gap = self.swarm.log_evidence - fresh.swarm.log_evidence
        if gap > _MISSED + _ERRORS * np.hypot(self.swarm.log_evidence_error, fresh.swarm.log_evidence_error):
            moved = self._moved(rng) if np.ptp(self.swarm.log_weights) else self
            return fresh.mixed(moved, rng, "a fresh fit missed what was known")
        return fresh

    def mixed(
        self, other: ParticleFit, rng: np.random.Generator, reason: str, *, is_repeated: bool = False
    ) -> ParticleFit:
        """Mix two estimates of one posterior in proportion to their evidences: as they fail, each can only miss mass.

        If one is the other repeated, the evidence is their mean. Few families say little about its error, which is
        taken to be 1.5 nats at most, unless they are further apart; ``diagnostics["apart"]`` is by how many nats.
        """
        a, b = self.swarm, other.swarm
        errors = np.maximum([a.log_evidence_error, b.log_evidence_error], 0.01)
        apart = abs(a.log_evidence - b.log_evidence)
        if is_repeated:
            evidence = float(np.logaddexp(a.log_evidence, b.log_evidence) - np.log(2))
            shares = softmax([a.log_evidence, b.log_evidence])
            error = float(max(min(np.hypot(*(shares * errors)), LARGE_ERROR), apart / 2))
        elif np.isfinite(errors).any() and apart < _ERRORS * np.linalg.norm(errors[np.isfinite(errors)]) + _NATS:
            # Of two that differ by more than their errors, both are taken to be too small (Birge 1932).
            evidence = float(np.average([a.log_evidence, b.log_evidence], weights=errors**-2))
            error = float(np.sum(errors**-2) ** -0.5 * max(1.0, apart / np.hypot(*errors)))
        else:
            best = a if a.log_evidence >= b.log_evidence or not np.isfinite(b.log_evidence) else b
            evidence, error = best.log_evidence, best.log_evidence_error
        S = max(len(a.z), len(b.z))
        n_first = int(np.round(S * expit(a.log_evidence - b.log_evidence)))
        rows, others = a.resample(n_first, rng), b.resample(S - n_first, rng)
        order = rng.permutation(S)

        def join(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return np.concatenate([first[rows], second[others]])[order]

        swarm = replace(
            a if n_first >= S / 2 else b,
            space=a.space,
            z=join(a.z, b.z),
            log_weights=np.zeros(S),
            log_likelihood=join(a.log_likelihood, b.log_likelihood),
            families=join(a.families, b.families + 1 + a.families.max()),
            log_evidence=evidence,
            log_evidence_error=error,
        )
        said = {"method": "smc and importance", "reason": reason, "share": n_first / S}
        if is_repeated:
            worse = min(self.diagnostics["acceptance"], other.diagnostics["acceptance"])
            said |= {"method": self.diagnostics["method"], "apart": apart, "acceptance": worse}
        # Those of the mixture itself.
        merged = other.diagnostics | self.diagnostics
        parts = {k: v for k, v in merged.items() if not k.endswith("_fresh") and k not in ("confirmed", "lag")}
        said["n_evaluations"] = self.diagnostics["n_evaluations"] + other.diagnostics["n_evaluations"]
        return ParticleFit(self.gpm, self.data, swarm, parts | said, self.renew)

    def thinned(self, n: int, rng: np.random.Generator) -> ParticleFit:
        """The fit with n of its particles, at random."""
        swarm = self.swarm
        rows = swarm.resample(n, rng)
        own = {name: getattr(swarm, name)[rows] for name in ("z", "log_likelihood", "families")}
        return replace(self, swarm=replace(swarm, log_weights=np.zeros(n), **own))

    @property
    def full_space(self) -> Space:
        """A space whose source is the posterior of all parameters."""
        return self.swarm.space

    @property
    def _n_distinct(self):
        return len(self.swarm.z)

    def _distinct_draws(self, draws, rng):
        rows, where = np.unique(self.swarm.resample(draws, rng), return_inverse=True)
        return self.swarm.space.lift(self.swarm.z[rows], rng), where


def find_modes(fit: Fit) -> LaplaceFit:
    """The modes of the posterior that a fit represents, with the Gaussian at each; takes up to seconds.

    The search climbs from the best particles of different families. It may miss modes to which no particle is near;
    :func:`fit_laplace` searches from many starts.

    Parameters
    ----------
    fit : ParticleFit or LaplaceFit
        A LaplaceFit is returned as it is.

    Returns
    -------
    LaplaceFit
        Given the data of the fit.

    Raises
    ------
    TypeError
        For anything but a fit of one model.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 10)
    >>> fit = pma.fit(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> list(pma.find_modes(fit).point)
    ['log_lengthscale', 'log_outputscale', 'log_noise']
    """
    if isinstance(fit, LaplaceFit):
        return fit
    if not isinstance(fit, ParticleFit):
        raise TypeError(f"find_modes takes a fit of one model; got {kind_of(fit)}")
    return fit.modes_found


def particles_from_dataset(gpm: GPModel, stored: xr.Dataset, renew: Callable[..., ParticleFit]) -> ParticleFit:
    """The fit that :meth:`ParticleFit.to_dataset` wrote; the data of ``gpm`` begin with the data of that fit."""
    data = first_points(gpm, int(stored.attrs["n_observations"]))
    with one_blas_thread():
        space = find_space(gpm.posterior().with_data(*data), gpm.embedding_slice)
    z = np.array(stored["z"].to_numpy(), float)
    if z.shape[1] != (n := space.posterior.n_parameters):
        raise ValueError(f"the stored particles have {z.shape[1]} parameters, but the model has {n}")
    values: dict[str, Any] = {name: stored[name].to_numpy() for name in COLUMNS}
    values |= {name: float(stored[name]) for name in NUMBERS}
    return ParticleFit(gpm, data, Swarm(space, z, **values), json.loads(stored.attrs["diagnostics"]), renew)


def in_space(gpm: GPModel, swarm: Swarm, data: Data, rng: np.random.Generator | None = None) -> Swarm:
    """The same particles for other data; where more data span more of an embedding's inputs, the prior fills in."""
    rng = np.random.default_rng(0) if rng is None else rng
    source = swarm.space.source.with_data(*data)
    space = find_space(source, gpm.embedding_slice)
    thetas = swarm.space.lift(swarm.z, rng)
    z = np.stack([space.shrink(theta, rng) for theta in thetas])
    with one_blas_thread():
        return replace(swarm, space=space, z=z, log_likelihood=space.posterior.likelihood_values(z))


def _doubts(gpm: Model, d: dict[str, Any], error: float) -> list[str]:
    """What is doubtful about particles, and what may help."""
    doubts = []
    if d["method"] == "nuts":
        if d["rhat"] > _RHAT or d["divergences"] > _DIVERGED * d["ess"]:
            doubts.append(
                f"chains of NUTS have an R-hat of {d['rhat']:.3f} and {d['divergences']} divergences "
                f"({gpm.if_stuck.partition(',')[0]})"
            )
        return doubts
    is_confirmed = d.get("confirmed", True)
    if not is_confirmed:
        remedy = "give priors that can be drawn from" if "drawn" in d["reason"] else "pass method='smc' if you can wait"
        doubts.append(
            f"importance sampling does not confirm the draws around modes: only {d['n_weighted']:.0f} are effective "
            f"({remedy})"
        )
    longer = (
        "(raise n_particles of fit, or compare with a longer run: pma.check(fit), or verify='sometimes' of a Learner)"
    )
    # Of two runs, while no family of both together has died out since.
    apart = d.get("apart") if d["n_families"] >= d["families_fresh"] else None
    are_apart = apart is not None and apart > 2 * LARGE_ERROR
    if are_apart:
        doubts.append(
            f"two runs differ by {apart:.1f} nats in the log evidence, so they have not found the same explanations of "
            f"the data {longer}"
        )
    elif apart is None and d.get("n_levels") and d["n_families"] < _FEW_FAMILIES:
        left = "one" if d["n_families"] == 1 else str(d["n_families"])
        doubts.append(
            f"the particles descend from {left} of {d['n_particles']} first draws, so they may miss other "
            f"explanations of the data {longer}"
        )
    if d.get("n_levels", 0) >= MOST_LEVELS:
        doubts.append(
            f"annealing gave up after {MOST_LEVELS} levels, far from the posterior: the data are far from what the "
            f"priors expect ({gpm.if_behind})"
        )
    if d.get("lag", 0.0) > _LARGE_LAG:
        doubts.append(
            "the data are far from what the priors expect, and the particles have not followed: the evidence is too "
            f"low, and predictions may be wrong ({gpm.if_behind})"
        )
    # Draws around modes are independent without any moves.
    if d.get("n_levels") and d.get("acceptance", 1.0) < LOW_ACCEPTANCE:
        doubts.append(f"only {d['acceptance']:.0%} of the moves were accepted ({gpm.if_stuck})")
    if is_confirmed and not are_apart and not error <= LARGE_ERROR:
        stated = f"has a standard error of {error:.1f} nats" if np.isfinite(error) else "is not known"
        doubts.append(f"the log evidence {stated}, so do not compare models by it (raise n_particles)")
    return doubts
