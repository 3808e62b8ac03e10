"""Verify the fits of a run: compare them with a longer run, which replaces those that lose too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import xarray as xr

from pymc_active.checking.compare import compare, make_reference
from pymc_active.checking.verdict import Differences
from pymc_active.inference.fit import Fit
from pymc_active.particles.particle_fit import ParticleFit
from pymc_active.predictions.ensembles import is_of_processes
from pymc_active.support.user_warnings import DoubtfulFitWarning, warn_user

# "sometimes" verifies when there are this many times the points of the last verification.
_GROWTH = 1.5
# The longer run has so many times the default number of particles.
_LONGER = 4
# Candidates at which predictions are compared.
PLACES = 100


class Verdict(NamedTuple):
    """The verification of one fit: what it lost (see :class:`Differences`), and whether the longer run replaced it."""

    nll_loss: float
    evidence_difference: float = np.nan
    evidence_error: float = np.nan
    replaced: bool = False


@dataclass(frozen=True, eq=False)
class Verification:
    """When to verify (``every`` is the argument ``verify`` of a learner), and the results.

    ``verdicts`` hold the verification of each model, by label, at each number of points; ``longer`` the longer run, by
    label of the model, in place of its last fit.
    """

    every: str | int
    random_seed: int
    verdicts: Mapping[int, Mapping[Any, Verdict]] = field(default_factory=dict)
    longer: Mapping[Any, ParticleFit] = field(default_factory=dict)

    def __post_init__(self):
        if isinstance(self.every, int | np.integer) and not isinstance(self.every, bool) and self.every >= 1:
            object.__setattr__(self, "every", int(self.every))
        elif not isinstance(self.every, str) or self.every not in ("never", "sometimes"):
            raise ValueError(f"verify must be 'never', 'sometimes' or a whole number k >= 1; got {self.every!r}")

    def is_due(self, n: int, n_start: int) -> bool:
        """Whether to verify a fit to ``n`` points in a run that began with ``n_start``."""
        if self.every == "never" or not self.verdicts:
            # Draws from the prior are exact.
            return self.every != "never" and n > 0
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
        labels = list(dict.fromkeys(label for row in self.verdicts.values() for label in row)) or [""]
        missing = Verdict(np.nan)
        rows = [[row.get(label, missing) for label in labels] for row in self.verdicts.values()]
        data = xr.Dataset(coords={"n_observations": np.array(list(self.verdicts), int), "model": labels})
        for i, name in enumerate(Verdict._fields):
            values = np.array([[verdict[i] for verdict in row] for row in rows])
            data[name] = (("n_observations", "model"), values.reshape(len(rows), len(labels)))
        return data.isel(model=0, drop=True) if is_single else data

    def remembering(self, data: xr.Dataset, label: Any) -> Self:
        """With what :meth:`dataset` returned; ``label`` is the label of a single model."""
        if "model" not in data.dims:
            data = data.expand_dims(model=[label])
        verdicts: dict[int, dict[Any, Verdict]] = {}
        for (n, model), row in data.to_dataframe(dim_order=["n_observations", "model"]).iterrows():
            of_models = verdicts.setdefault(int(n), {})
            if not np.isnan(row.nll_loss):
                loss, difference, error = map(float, row[list(Verdict._fields[:3])])
                of_models[model] = Verdict(loss, difference, error, bool(row.replaced))
        return replace(self, verdicts=verdicts)


def _verdict(fit: Fit, X: np.ndarray, seed: int, progressbar: bool) -> tuple[Verdict, Any]:
    # Several PyMC models are told apart by their evidences, which NUTS would not know: as the fit was made.
    renew = cast("ParticleFit", fit).renew if is_of_processes(fit) else None
    n_particles = _LONGER * fit.gpm.n_particles(len(fit.y))
    reference = make_reference(fit, None, X, n_particles, seed, progressbar, renew)
    differences = Differences.of(compare(fit, reference, X, np.arange(len(X))))
    is_replaced = differences.is_worse and not differences.reference_misses_mass
    # A model without free parameters is its own reference.
    return Verdict(*differences[:3], is_replaced and reference.source is not fit), reference.source
