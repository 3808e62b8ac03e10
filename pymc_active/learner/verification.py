"""Verify the fits of a run by Pareto k, and sample a trace in place of those that fail."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import softmax

from pymc_active.criteria.base import Criterion, MomentCriterion, relative_utility
from pymc_active.criteria.maximum.base import OptimumCriterion
from pymc_active.criteria.maximum.max_value import Thompson
from pymc_active.laplace.draws.importance import PARETO_LIMIT, pareto_k
from pymc_active.laplace.draws.nuts import Chains, nuts
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.datatrees import arviz_groups
from pymc_active.particles.fit import ParticleFit
from pymc_active.predictions.moments import draw_moments
from pymc_active.support.user_warnings import SamplingWarning, warn_user

# Above this R-hat the chains disagree.
RHAT_LIMIT = 1.05
# "sometimes" verifies when there are this many times the points of the last verification.
_GROWTH = 1.5
# A short trace suffices: criteria use at most 128 of its draws.
_TUNE, _DRAWS, _CHAINS = 500, 500, 2
# Candidates at which the chains' predictions are compared.
PLACES = 100


class Verdict(NamedTuple):
    """The verification of one fit: Pareto k, and the convergence of its trace if one was drawn."""

    pareto_k: float
    escalated: bool = False
    sampler_failed: bool = False
    rhat: float = np.nan
    ess_bulk: float = np.nan
    divergences: float = np.nan


class Verification:
    """When to verify (``every`` is the argument ``verify`` of a learner), and the results."""

    def __init__(self, every: str | int, n_start: int, random_seed: int):
        if isinstance(every, int | np.integer) and not isinstance(every, bool) and every >= 1:
            every = int(every)
        elif not isinstance(every, str) or every not in ("never", "sometimes"):
            raise ValueError(
                f"verify must be 'never', 'sometimes' or a whole number k >= 1 (every k-th point told); got {every!r}"
            )
        self.every, self.n_start, self.random_seed = every, n_start, random_seed
        # Number of points -> label of a model -> verdict.
        self.verdicts: dict[int, dict[Any, Verdict]] = {}
        # Number of points -> true utility of the unverified choice, relative to the best.
        self.regret: dict[int, float] = {}
        # Label of a model -> the trace used in place of its last fit; empty unless the run is escalated.
        self.chains: dict[Any, Chains] = {}

    def is_due(self, n: int) -> bool:
        """Whether to verify a fit to ``n`` points."""
        if self.every == "never" or not self.verdicts:
            return self.every != "never"
        last = max(self.verdicts)
        if any(verdict.escalated or verdict.sampler_failed for verdict in self.verdicts[last].values()):
            return True
        if self.every == "sometimes":
            return n >= _GROWTH * last
        assert isinstance(self.every, int)
        return (n - self.n_start) // self.every > (last - self.n_start) // self.every

    def verify(self, fits: Mapping[Any, LaplaceFit], X: np.ndarray, may_escalate: bool) -> dict[Any, LaplaceFit]:
        """Verify fits to the same data; return those that failed with the draws of a trace, if they may escalate.

        The predictions of a trace's chains are compared at the points X (m, D).
        """
        self.chains = {}
        n = len(next(iter(fits.values())).y)
        verdicts, replaced, errors = {}, {}, []
        for i, (label, fit) in enumerate(fits.items()):
            # Particles are no approximation to correct, unless they are doubtful.
            doubtful = np.inf if fit.diagnostics["warnings"] else 0.0
            k = doubtful if isinstance(fit, ParticleFit) else pareto_k(fit, random_seed=self.random_seed)
            # An undetermined shape counts as a bad one.
            verdict = Verdict(k if np.isfinite(k) else np.inf)
            if verdict.pareto_k > PARETO_LIMIT and may_escalate:
                seed = int(np.random.default_rng((self.random_seed, n, 2, i)).integers(2**31))
                try:
                    self.chains[label] = chains = _sample(fit, seed)
                    verdict = _judge(verdict, fit, chains, X)
                    replaced[label] = fit.with_draws(chains.z.reshape(-1, chains.z.shape[-1]))
                except Exception as error:  # A failing sampler must not stop the run.
                    self.chains.pop(label, None)
                    verdict = verdict._replace(sampler_failed=True)
                    errors.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
            verdicts[label] = verdict
        self._warn(n, fits, verdicts, errors)
        self.verdicts[n] = verdicts
        return replaced

    def _warn(self, n: int, fits: Mapping, verdicts: dict[Any, Verdict], errors: list[str]) -> None:
        """Warn once when a run first escalates, and once when the sampler first fails."""
        before = [verdict for known in self.verdicts.values() for verdict in known.values()]
        parts = []
        escalated = [v for v in verdicts.values() if v.escalated]
        if escalated and not any(v.escalated for v in before):
            parts.append(
                f"the criterion is computed over MCMC traces until k is below {PARETO_LIMIT}, which takes more data or "
                "tighter priors; see learner.verification"
            )
            if (rhat := max(v.rhat for v in escalated)) > RHAT_LIMIT:
                parts.append(
                    f"the chains of the trace disagree (R-hat {rhat:.2f}), but their draws are used: look for other "
                    "modes (pymc_active.sample with more chains)"
                )
        if errors and not any(v.sampler_failed for v in before):
            parts.append(
                f"the sampler failed ({errors[0]}), so the criterion still uses the Laplace fit; tighter priors on the "
                "parameters may help"
            )
        if parts:
            which = " and ".join(
                f"{fits[label].gpm.description} (Pareto k {v.pareto_k:.2f})"
                for label, v in verdicts.items()
                if v.escalated or v.sampler_failed
            )
            why = "; ".join(parts)
            warn_user(f"the Laplace fit of {which} to {n} points cannot be trusted: {why}", SamplingWarning)

    def dataset(self, is_single: bool) -> xr.Dataset:
        """The results over ``n_observations``, and for several models over ``model``."""
        labels = list(dict.fromkeys(label for known in self.verdicts.values() for label in known))
        nothing = Verdict(np.nan)
        rows = [[known.get(label, nothing) for label in labels] for known in self.verdicts.values()]
        data = xr.Dataset(coords={"n_observations": np.array(list(self.verdicts), int)})
        for i, name in enumerate(Verdict._fields):
            values = np.array([[verdict[i] for verdict in row] for row in rows]).reshape(len(rows), len(labels))
            data[name] = ("n_observations", values.ravel()) if is_single else (("n_observations", "model"), values)
        data["regret_ratio"] = ("n_observations", np.array([self.regret.get(n, np.nan) for n in self.verdicts]))
        return data if is_single else data.assign_coords(model=labels)

    def remember(self, data: xr.Dataset, label: Any) -> None:
        """Restore what :meth:`dataset` returned; ``label`` is that of a single model."""
        regrets = data["regret_ratio"].to_numpy()
        if "model" not in data.dims:
            data = data.expand_dims(model=[label], axis=1)
        labels = data["model"].to_numpy().tolist()
        columns = [data[name].transpose("n_observations", "model", ...).to_numpy() for name in Verdict._fields]
        for row, n in enumerate(data["n_observations"].to_numpy().tolist()):
            known = {}
            for i, label in enumerate(labels):
                k, escalated, failed, *others = (column[row, i] for column in columns)
                if not np.isnan(k):
                    known[label] = Verdict(float(k), bool(escalated), bool(failed), *map(float, others))
            self.verdicts[int(n)] = known
            if not np.isnan(regrets[row]):
                self.regret[int(n)] = float(regrets[row])


def _sample(fit: LaplaceFit, random_seed: int) -> Chains:
    """A short trace; its chains start at modes chosen by weight."""
    # Modes outside the row space of an embedding have other coordinates.
    expansions = [e for e in fit.expansions if e.posterior is fit.best.posterior]
    share = np.cumsum(softmax([e.log_evidence for e in expansions]))
    modes = np.searchsorted(share, (np.arange(_CHAINS) + 0.5) / _CHAINS)
    starts = np.stack([expansions[min(k, len(expansions) - 1)].z for k in modes])
    return nuts(fit.best.posterior, starts, tune=_TUNE, draws=_DRAWS, random_seed=random_seed)


def _judge(verdict: Verdict, fit: LaplaceFit, chains: Chains, X: np.ndarray) -> Verdict:
    """Add the worst convergence over the predictive means, which symmetries of the model leave unchanged."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_stats.base import array_stats

    n_chains, n_draws, P = chains.z.shape
    means = draw_moments(fit.best.posterior, chains.z.reshape(-1, P), X)[0].reshape(n_chains, n_draws, -1)
    # Means on which all draws agree have nothing to compare.
    means = means[..., np.ptp(means, axis=(0, 1)) > 1e-8 * np.ptp(means)]
    if not means.size:
        return verdict._replace(escalated=True, rhat=1.0, ess_bulk=float(n_chains * n_draws))
    rhat, ess = (np.asarray(f(means, chain_axis=0, draw_axis=1)) for f in (array_stats.rhat, array_stats.ess))
    return verdict._replace(
        escalated=True,
        rhat=float(np.nanmax(rhat)),
        ess_bulk=float(np.nanmin(ess)),
        divergences=float(chains.diverging.sum()),
    )


def over_draws(criterion: Any) -> Criterion | None:
    """The same criterion with the hyperparameters marginalised by draws; None if it takes no draws."""
    takes_draws = "draws" in criterion.methods if isinstance(criterion, MomentCriterion) else None
    if not (takes_draws or isinstance(criterion, OptimumCriterion)):
        return None
    other = copy(criterion)
    other.method = "draws"
    return other


def regret_ratio(criterion: Criterion, chosen: np.ndarray, true: np.ndarray) -> float:
    """True utility of the candidate with the largest score ``chosen`` (m,), relative to the best; NaN if unknown."""
    known = np.flatnonzero(np.isfinite(chosen) & np.isfinite(true))
    # Sample paths differ between sources of the hyperparameters, so their maxima are not comparable.
    if isinstance(criterion, Thompson) or not len(known):
        return np.nan
    return relative_utility(criterion.name, true[known], int(np.argmax(chosen[known])))


def trace_datatree(fit: LaplaceFit, chains: Chains) -> xr.DataTree:
    """Chains with all groups of :meth:`LaplaceFit.to_datatree`, and ``diverging``."""
    n_chains, n_draws, P = chains.z.shape
    thetas = fit.best.space.lift(chains.z.reshape(-1, P), np.random.default_rng(0))
    rows = np.arange(len(thetas)).reshape(n_chains, n_draws)
    groups = arviz_groups(fit.gpm, fit.best.full_posterior, thetas, rows, fit.X, fit.y, 0)
    groups["sample_stats"]["diverging"] = ["chain", "draw"], chains.diverging
    return xr.DataTree.from_dict(groups)
