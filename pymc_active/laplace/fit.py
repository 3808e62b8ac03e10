"""The result of a Laplace approximation: modes, evidence, Gaussian and draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_active.inference.ensemble import GAUSSIAN_METHODS, Ensemble, Evidence, Part, Seed, ensemble_of_draws
from pymc_active.inference.fit import Fit
from pymc_active.laplace.draws.annealed import annealed_draws
from pymc_active.laplace.draws.weighted import WeightedDraws, weighted_draws
from pymc_active.laplace.expansion import Expansion, expand
from pymc_active.laplace.modes.search import NO_SEARCH, SearchResult
from pymc_active.models.datatrees import n_affordable
from pymc_active.posterior.row_space import Space
from pymc_active.support.data import Data
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary

# Beyond this condition number half of the digits of a prediction are noise.
ILL_CONDITIONED = 1e12
# A noise level this many prior sds below its mean is suspicious where parameters outnumber observations.
FAR_BELOW_PRIOR = 3.0
# Beyond this many parameters no dense covariance is stored.
_LARGEST_STORED = 1000
# Draws with which others are compared.
_REFERENCE_DRAWS = 400
# Weighted draws to resample from, and the effective number, as a part of the draws taken, below which they anneal.
_WEIGHTED, _ENOUGH = 2000, 0.25
# Where the heaviest mode has a smaller share of their evidence, its Gaussian is told to be doubtful: a guess.
_HEAVY = 0.8


@dataclass(frozen=True, repr=False)
class Mode(Summarized):
    """One mode: point (value-variable name -> unconstrained array), logs in nats, share of all modes' evidence."""

    point: dict[str, np.ndarray]
    log_posterior: float
    log_evidence: float
    weight: float

    def _summary(self) -> Summary:
        facts = {
            "log posterior": f"{self.log_posterior:.2f}",
            "log evidence": f"{self.log_evidence:.2f}",
            "weight": f"{self.weight:.3g}",
            "point of": ", ".join(f"{name}{list(np.shape(value)) or ''}" for name, value in self.point.items()),
        }
        return Summary("Mode", facts)


@dataclass(frozen=True, eq=False, repr=False)
class LaplaceFit(Fit):
    """A Gaussian approximation of the posterior over the hyperparameters, on the unconstrained space.

    The expanded density includes the Jacobian of the transforms; the builders' default priors on log-parameters have
    none. Returned by :func:`fit_laplace`.

    Attributes
    ----------
    gpm, X, y
        As of every :class:`Fit`.
    expansions : list of Expansion
        The expansions at all modes, highest first.
    diagnostics : dict
        * Search: ``converged``, ``gradient_norm``, ``n_starts``, ``n_best`` (starts that reached the mode),
          ``n_evaluations``, ``used_population``.
        * Hessian: ``smallest_eigenvalue`` and ``largest_eigenvalue`` (outside symmetries), ``n_floored`` (directions
          without positive curvature) and ``n_weak`` (with less than 0.3 times the prior's); both kinds were given 0.3
          times the prior's.
        * Symmetry: ``n_symmetry`` (directions), ``log_orbit_volume``, ``log_multiplicity`` (of exchanges).
        * Numerics: ``condition_number`` (of K + noise), ``n_duplicate_rows``, ``noise_below_prior`` (prior sds of
          log_noise at the mode below its prior mean).
        * ``warnings``: what is doubtful, in words.
    """

    expansions: list[Expansion]
    search: SearchResult = NO_SEARCH
    converged: bool = True

    kind: ClassVar[str] = "modes"

    @property
    def log_evidence(self) -> float:
        """Laplace's log p(y) of the mode that has most of it, nats; :attr:`evidence` sums over all modes.

        The orbit of an embedding's rotations (for d = 1 the factor 2 of ±R) is integrated exactly, and copies of the
        mode under exchanges of like kernel terms (``SE + SE``) are counted.
        """
        return self.expansions[self._heaviest].log_evidence

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        """How the search went, curvature, symmetries and numerics of the highest mode, and what is doubtful."""
        best, search = self.best, self.search
        diagnostics: dict[str, Any] = {
            "converged": self.converged,
            "gradient_norm": float(np.abs(best.gradient).max(initial=0.0)),
            "n_starts": search.n_starts,
            "n_best": search.n_best,
            "n_evaluations": search.n_evaluations,
            "used_population": search.used_population,
            "smallest_eigenvalue": best.curvature.smallest,
            "largest_eigenvalue": best.curvature.largest,
            "n_symmetry": len(best.symmetry.directions),
            "log_orbit_volume": best.symmetry.log_volume,
            "log_multiplicity": best.log_multiplicity,
            "n_floored": best.curvature.n_floored,
            "n_weak": best.curvature.n_weak,
            "condition_number": best.state.factor.condition_number(),
            "n_duplicate_rows": _count_duplicates(self.X),
            "noise_below_prior": best.posterior.noise_below_prior(best.z),
        }
        return diagnostics | {"warnings": find_problems(self, diagnostics)}

    def _summary(self) -> Summary:
        d, gpm = self.diagnostics, self.gpm
        reached = f", {d['n_best']} of {d['n_starts']} starts reached the best" if d["n_starts"] else ""
        shares = ", ".join(f"{mode.weight:.2g}" for mode in self.modes[:5]) + (", …" if len(self.modes) > 5 else "")
        facts = {
            "data": self._data_shown(),
            "log evidence": f"{self.log_evidence:.2f} nats",
            "log posterior": f"{self.log_posterior:.2f} nats",
            "modes": f"{len(self.modes)}{reached}",
            "weights of the modes": shares if len(self.modes) > 1 else None,
            "embedding": gpm.embedding and f"{gpm.embedding}, {' × '.join(map(str, gpm.shapes[gpm.embedding]))}",
            "directions of symmetry": d["n_symmetry"] or None,
        }
        doubts = [f"Doubtful: {problem}." for problem in d["warnings"]]
        return Summary(f"LaplaceFit of {gpm.description}", facts, self._parameters(), doubts)

    @cached_property
    def modes(self) -> list[Mode]:
        """Distinct modes found within 10 nats, best first, weighted by their Laplace evidence."""
        evidence = np.array([e.log_evidence for e in self.expansions])
        weights = np.exp(evidence - logsumexp(evidence))
        return [
            Mode(self.gpm.unflatten(e.theta), e.log_posterior, e.log_evidence, float(w))
            for e, w in zip(self.expansions, weights, strict=True)
        ]

    @property
    def theta(self) -> np.ndarray:
        """The mode in the model's unconstrained parameters (P,), in the order of ``labels``.

        An embedding that learns its lengthscale has its mode given the lengthscale, and the lengthscale of the highest
        evidence.
        """
        return self.best.theta

    @property
    def center(self) -> np.ndarray:
        """Unconstrained hyperparameters that stand for the fit (P,): the mode."""
        return self.theta

    @property
    def log_posterior(self) -> float:
        """Log p(y | theta) + log p(theta) (+ log Jacobian) at the mode, all normalised, nats."""
        return self.best.log_posterior

    @property
    def point(self) -> dict[str, np.ndarray]:
        """The mode: value-variable name -> unconstrained array."""
        return self.gpm.unflatten(self.theta)

    @cached_property
    def constrained_point(self) -> dict[str, Any]:
        """The mode in the user's space: variable name -> number or array, Deterministics included."""
        return self.constrained_center

    @property
    def evidence(self) -> Evidence:
        """The log evidence, summed over all proper modes, and how it was obtained."""
        if not self.gpm.shapes:
            return Evidence(self.log_evidence, 0.0, "exact")
        proper = [e.log_evidence for e in self.expansions if not e.curvature.n_floored]
        return Evidence(float(logsumexp(proper or [self.log_evidence])), np.nan, "laplace")

    @property
    def is_doubtful(self) -> bool:
        """Whether the best mode is not a proper one."""
        return not self.converged or self.best.curvature.n_floored > 0

    @property
    def evidence_is_poor(self) -> bool:
        """Whether the data hardly determine one component of an embedding, around which Laplace's evidence fails."""
        return self.best.smallest_singular_value_is_uncertain()

    def sampled_evidence(self, draws: int = 2000, random_seed: Seed = None) -> Evidence:
        """The log evidence from at least 100 weighted draws around the modes, one evaluation of the posterior each.

        It corrects the shape of each mode but finds no new ones; a ValueError if the posterior is finite at no draw.
        """
        if draws < 100:
            raise ValueError(f"draws must be at least 100; got {draws}")
        return self.weighted_draws(draws, random_seed).evidence

    def reference_draws(self, random_seed: Seed = None) -> Ensemble:
        """Draws from the posterior, not from the Gaussians."""
        return self.ensemble_by("draws", _REFERENCE_DRAWS, random_seed)

    @property
    def approximations(self) -> Mapping[str, Ensemble]:
        """The Gaussians at the mode and at all modes, and draws."""
        first = ("mgp", "map", "bbq", "modes", "draws")
        return {method: self.ensemble_by(method, random_seed=0) for method in first}

    @property
    def best(self) -> Expansion:
        """The expansion at the highest mode."""
        return self.expansions[0]

    @cached_property
    def _heaviest(self) -> int:
        """Number of the proper mode that has most of the evidence: its Gaussian stands for the posterior."""
        pairs = zip(self.modes, self.expansions, strict=True)
        return int(np.argmax([0.0 if e.curvature.n_floored else mode.weight for mode, e in pairs]))

    @property
    def lightness(self) -> str | None:
        """That the heaviest mode has a small share of the evidence of all, in words, if so."""
        share = self.modes[self._heaviest].weight
        if share >= _HEAVY:
            return None
        return (
            f"the heaviest of {len(self.modes)} modes has {share:.0%} of their evidence, and methods 'mgp', 'bbq' and "
            "'map' know no other (use pma.fit, or method='modes')"
        )

    @property
    def gradient(self) -> np.ndarray:
        """Gradient (P,) of the NEGATIVE log posterior, exact."""
        return self.best.full_gradient

    @property
    def hessian(self) -> np.ndarray:
        """Hessian (P, P) of the NEGATIVE log posterior; a ValueError for more than 5,000 parameters.

        Exact, but for kernels of inputs (not of an embedding) with P n² above ten million: there it is made of central
        differences of the exact gradient, with about eight right digits.
        """
        return self.best.full_hessian

    @property
    def covariance(self) -> np.ndarray:
        """Inverse Hessian (P, P), zero along directions of symmetry, at most 1.8 prior sds; raises as ``hessian``."""
        return self.best.full_covariance

    def given(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> LaplaceFit:
        """The same modes expanded for other data (user's units), without a search; the model keeps its own data."""
        posterior = self.best.full_posterior.with_data(X, y, y_sd)
        expansions = [expand(posterior, mode.theta, self.gpm.embedding_slice) for mode in self.expansions]
        return replace(self, data=Data(X, y, y_sd), expansions=expansions, search=NO_SEARCH)

    def to_dataset(self) -> xr.Dataset:
        """The modes, best first, in the coordinates of their space, the number of points and how the search went."""
        names = ("converged", "n_starts", "n_evaluations", "n_best", "used_population")
        return xr.Dataset(
            {
                "z": (("mode", "coordinate"), np.stack([expansion.z for expansion in self.expansions])),
                "log_density": ("mode", self.log_densities),
                "log_evidence": ("mode", [mode.log_evidence for mode in self.modes]),
                "weight": ("mode", [mode.weight for mode in self.modes]),
            },
            attrs={"n_observations": len(self.y)} | {name: int(self.diagnostics[name]) for name in names},
        )

    @property
    def log_densities(self) -> np.ndarray:
        """Log posterior density of the modes, up to a constant."""
        return np.array([mode.log_posterior for mode in self.modes])

    @property
    def full_space(self) -> Space:
        """A space whose source is the posterior of all parameters."""
        return self.best.space

    def _distinct_draws(self, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Hyperparameters (M, P), and rows (draws,) of these, which repeat if factorisations take long."""
        thetas = self.draw(min(draws, n_affordable(len(self.y))), rng)
        rows = np.flatnonzero(np.isfinite(self.posterior.values(thetas)))
        # The approximation may reach where K + noise is singular and the posterior density zero.
        if not len(rows):
            thetas, rows = self.theta[None], np.zeros(1, int)
        return thetas, np.resize(rows, draws)

    def _own_groups(self) -> dict[str, xr.Dataset]:
        logs = {"log_evidence": self.log_evidence, "log_posterior": self.log_posterior}
        fit = xr.Dataset(
            {"mean_vector": ("rows", self.theta), **logs}, {"rows": self.labels}, self._plain_diagnostics()
        )
        if len(self.labels) <= _LARGEST_STORED:
            fit["covariance_matrix"] = (("rows", "columns"), self.covariance)
            fit["hessian"] = (("rows", "columns"), self.hessian)
            fit = fit.assign_coords(columns=self.labels)
        return {"fit": fit}

    @cached_property
    def ensemble(self) -> Ensemble:
        """The modes with their Gaussians, weighted by evidence."""
        return self.ensemble_by("modes")

    def ensemble_by(self, method: str | None = None, draws: int | None = None, random_seed: Seed = None) -> Ensemble:
        """The hyperparameters that predictions and criteria average over.

        Parameters
        ----------
        method : {"map", "bbq", "mgp", "modes", "draws"}, optional
            * ``"map"``, ``"bbq"``, ``"mgp"``: the mode of the largest evidence with its Gaussian. Predictions ignore
              its uncertainty, marginalise it in their mean, or in mean and variance. The default is ``"mgp"``.
            * ``"modes"``: all modes with their Gaussians.
            * ``"draws"``: draws from the posterior itself, resampled, with repeats, from a few thousand
              :meth:`weighted_draws` if these have weight, and otherwise annealed from around the modes
              (:mod:`pymc_active.laplace.draws.annealed`).
        draws : int, optional
            For ``"draws"``, at least 2, by default 128. They are in random order.
        random_seed : int or Generator, optional
            For ``"draws"``. The fit keeps the draws of an int, so that several criteria share them.
        """
        method, draws = "mgp" if method is None else method, 128 if draws is None else draws
        best, data = self.expansions[self._heaviest], self.data
        keywords: dict[str, Any] = {"center": best.theta, "evidence": self.evidence}
        if not len(best.z):
            method = "map"
        if method in (*GAUSSIAN_METHODS, "modes"):
            some = self.expansions if method == "modes" else [best]
            weights = [mode.weight for mode in self.modes] if method == "modes" else [1.0]
            rule = "mgp" if method == "modes" else method
            parts = tuple(
                Part(self.gpm, e.space, e.z[None], np.array([weight]), local=(e,), rule=rule)
                for e, weight in zip(some, weights, strict=True)
            )
            return Ensemble(parts, self.X, self.y, method, self.gpm, y_sd=self.y_sd, **keywords)
        return ensemble_of_draws(self.gpm, data, best.space, self._take(draws, random_seed), method, **keywords)

    def weighted_draws(self, draws: int = 2000, random_seed: Seed = None) -> WeightedDraws:
        """Draws with importance weights around all modes and, with few data, from the prior.

        With fewer than 30 observations, twice as many are added from the prior, if it is normal and there is no
        embedding with more than ten parameters. ``z`` (S, P') is in the coordinates of ``best.space``; the exponentials
        of ``log_weights`` (S,) average to the evidence; ``resample(draws, rng)`` gives equally weighted draws.
        """
        return weighted_draws(self.expansions, draws, np.random.default_rng(random_seed))

    @cached_property
    def _taken(self) -> dict[tuple[int, int], np.ndarray]:
        return {}

    def _take(self, n: int, random_seed: Seed) -> np.ndarray:
        """Equally weighted draws z (n, P') from the posterior; the same array again for the same int."""
        count("draws", n, least=2)
        if not isinstance(random_seed, int | np.integer):
            return self._draw_anew(n, np.random.default_rng(random_seed))
        key = int(n), int(random_seed)
        if key not in self._taken:
            self._taken[key] = self._draw_anew(n, np.random.default_rng(random_seed))
        return self._taken[key]

    def _draw_anew(self, n: int, rng: np.random.Generator) -> np.ndarray:
        weighted = self.weighted_draws(max(_WEIGHTED, 10 * n), rng)
        if weighted.effective_sample_size > _ENOUGH * n:
            return weighted.resample(n, rng)
        return rng.permutation(annealed_draws(self.expansions, n, rng).particles.z)

    def draw(self, draws: int, random_seed: Seed = None) -> np.ndarray:
        """Unconstrained draws from the Gaussians at all modes, by their weights, (draws, P)."""
        rng, weights = np.random.default_rng(random_seed), [mode.weight for mode in self.modes]
        if len(weights) == 1:
            return self.best.draw_full(draws, rng)
        counts = rng.multinomial(draws, weights)
        parts = [e.draw_full(k, rng) for e, k in zip(self.expansions, counts, strict=True) if k]
        return rng.permutation(np.concatenate(parts))


def _count_duplicates(X: np.ndarray) -> int:
    """Number of rows that repeat an earlier one, to eight digits of each input's sd."""
    sd = X.std(0)
    rounded = np.round(X / np.where(sd > 0, sd, 1.0), 8) + 0.0
    return len(X) - len({row.tobytes() for row in rounded})


def find_problems(fit: LaplaceFit, d: Mapping[str, Any]) -> list[str]:
    """What is doubtful about a fit with these diagnostics, and what may help."""
    problems = []
    if not d["converged"]:
        problems.append("the mode search did not converge (raise n_restarts, or rescale X and y)")
    if d["n_floored"]:
        problems.append(
            f"the posterior does not curve downwards along {d['n_floored']} direction(s), so this point is not a "
            "proper maximum; they were given 0.3 times the prior's curvature (raise n_restarts, or use tighter priors)"
        )
    if d["condition_number"] > ILL_CONDITIONED:
        rows = f", {d['n_duplicate_rows']} repeated row(s) of X" if d["n_duplicate_rows"] else ""
        problems.append(
            f"K + noise is nearly singular (condition number {d['condition_number']:.0e}{rows}; "
            "give log_noise a prior that keeps it away from zero)"
        )
    if fit.lightness:
        problems.append(fit.lightness)
    if fit.best.smallest_singular_value_is_uncertain():
        problems.append(
            "the smallest singular value of R is below its posterior sd, so the Laplace evidence is poor "
            "(add data, or use fewer components)"
        )
    if d["noise_below_prior"] > FAR_BELOW_PRIOR and len(fit.y) < len(fit.theta):
        problems.append(
            f"log_noise is {d['noise_below_prior']:.1f} prior sds below its prior mean: {len(fit.theta)} parameters "
            f"explain {len(fit.y)} observations without noise (fix log_noise, or give it a tighter prior)"
        )
    return problems
