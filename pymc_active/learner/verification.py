"""Verify the fits of a run: compare them with a longer run, which replaces those that lose too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import xarray as xr

from pymc_active.checking.comparison import compare_predictions
from pymc_active.checking.reference import make_reference
from pymc_active.checking.verdict import WORSE, misses_mass
from pymc_active.criteria.base import Criterion, relative_utility
from pymc_active.criteria.maximum.max_value import Thompson
from pymc_active.inference.fit import Fit
from pymc_active.particles.particle_fit import ParticleFit, default_particles
from pymc_active.predictions.mixtures import mixture
from pymc_active.support.user_warnings import DoubtfulFitWarning, warn_user

# "sometimes" verifies when there are this many times the points of the last verification.
_GROWTH = 1.5
# The longer run has so many times the default number of particles.
_LONGER = 4
# Candidates at which predictions are compared.
PLACES = 100


class Verdict(NamedTuple):
    """The verification of one fit.

    ``nll_loss`` is what its predictions lose against the longer run, in nats a point; ``evidence_difference`` its log
    evidence less that of the longer run, ``evidence_error`` their common standard error.
    """

    nll_loss: float
    evidence_difference: float = np.nan
    evidence_error: float = np.nan
    replaced: bool = False


@dataclass(frozen=True, eq=False)
class Verification:
    """When to verify (``every`` is the argument ``verify`` of a learner), and the results.

    ``verdicts`` are those of each model, by label, at each number of points; ``regret`` the true utility of the choice
    of a fit that was replaced, relative to the best, at numbers of points; ``longer`` the longer run, by label of the
    model, in place of its last fit.
    """

    every: str | int
    random_seed: int
    verdicts: Mapping[int, Mapping[Any, Verdict]] = field(default_factory=dict)
    regret: Mapping[int, float] = field(default_factory=dict)
    longer: Mapping[Any, ParticleFit] = field(default_factory=dict)

    def __post_init__(self):
        if isinstance(self.every, int | np.integer) and not isinstance(self.every, bool) and self.every >= 1:
            object.__setattr__(self, "every", int(self.every))
        elif not isinstance(self.every, str) or self.every not in ("never", "sometimes"):
            raise ValueError(
                "verify must be 'never', 'sometimes' or a whole number k >= 1 (every k-th point told); "
                f"got {self.every!r}"
            )

    def is_due(self, n: int, n_start: int) -> bool:
        """Whether to verify a fit to ``n`` points, of which a run began with ``n_start``."""
        if self.every == "never" or not self.verdicts:
            return self.every != "never"
        last = max(self.verdicts)
        if any(verdict.replaced for verdict in self.verdicts[last].values()):
            return True
        if self.every == "sometimes":
            return n >= _GROWTH * last
        assert isinstance(self.every, int)
        return (n - n_start) // self.every > (last - n_start) // self.every

    def verify(self, fits: Mapping[Any, Fit], X: np.ndarray, progressbar: bool = False) -> Self:
        """Compare fits to the same data with longer runs, at the points X (m, D); those that are better are kept."""
        n = len(next(iter(fits.values())).y)
        verdicts, longer = {}, {}
        for i, (label, fit) in enumerate(fits.items()):
            seed = int(np.random.default_rng((self.random_seed, n, 2, i)).integers(2**31))
            verdicts[label], run = _verdict(fit, X, seed, progressbar)
            if verdicts[label].replaced:
                longer[label] = run
        if longer and not any(v.replaced for known in self.verdicts.values() for v in known.values()):
            which = " and ".join(
                f"{fits[label].gpm.description} (predictions lose {verdicts[label].nll_loss:.2f} nats a point)"
                for label in longer
            )
            warn_user(
                f"the fit of {which} to {n} points is worse than a longer run, which replaces it until a fit is as "
                "good; see learner.verification",
                DoubtfulFitWarning,
            )
        return replace(self, verdicts={**self.verdicts, n: verdicts}, longer=longer)

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

    def remembering(self, data: xr.Dataset, label: Any) -> Self:
        """With what :meth:`dataset` returned; ``label`` is that of a single model."""
        regrets = data["regret_ratio"].to_numpy()
        if "model" not in data.dims:
            data = data.expand_dims(model=[label], axis=1)
        labels = data["model"].to_numpy().tolist()
        columns = [data[name].transpose("n_observations", "model", ...).to_numpy() for name in Verdict._fields]
        verdicts, regret = {}, {}
        for row, n in enumerate(data["n_observations"].to_numpy().tolist()):
            known = {}
            for i, label in enumerate(labels):
                *numbers, replaced = (column[row, i] for column in columns)
                if not np.isnan(numbers[0]):
                    loss, difference, error = map(float, numbers)
                    known[label] = Verdict(loss, difference, error, bool(replaced))
            verdicts[int(n)] = known
            if not np.isnan(regrets[row]):
                regret[int(n)] = float(regrets[row])
        return replace(self, verdicts=verdicts, regret=regret)


def _verdict(fit: Fit, X: np.ndarray, seed: int, progressbar: bool) -> tuple[Verdict, Any]:
    reference = make_reference(fit, None, _LONGER * default_particles(len(fit.y)), seed, progressbar)
    compared = compare_predictions(fit, X, np.arange(len(X)), mixture(reference.ensemble, X), None)
    loss = float((compared.nll[0] - compared.true_nll).mean())
    error = float(np.hypot(fit.log_evidence_error, reference.evidence.error))
    difference = fit.evidence.value - reference.evidence.value
    replaced = loss > WORSE and not misses_mass(difference, error)
    # A model without free parameters is its own reference.
    return Verdict(loss, difference, error, replaced and reference.source is not fit), reference.source


def regret_ratio(criterion: Criterion, chosen: np.ndarray, true: np.ndarray) -> float:
    """True utility of the candidate with the largest score ``chosen`` (m,), relative to the best; NaN if unknown."""
    known = np.flatnonzero(np.isfinite(chosen) & np.isfinite(true))
    # Sample paths differ between sources of the hyperparameters, so their maxima are not comparable.
    if isinstance(criterion, Thompson) or not len(known):
        return np.nan
    return relative_utility(criterion.name, true[known], int(np.argmax(chosen[known])))
