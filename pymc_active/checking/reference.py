"""What a fit is compared with: a longer run of the same engine, a trace of the same model, or another fit."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import Ensemble, ensemble_of_draws
from pymc_active.inference.evidence import UNKNOWN, Evidence
from pymc_active.inference.fit import Fit
from pymc_active.inference.resampling import systematic
from pymc_active.models.traces import trace_thetas
from pymc_active.particles.choose import longer_run
from pymc_active.particles.informative import holding
from pymc_active.posterior.full_space import FullSpace
from pymc_active.predictions.mixtures import Mixture

# A longer run has so many times the default number of particles.
_LONGER = 16
# Chains agree below 1.01, with 400 effective draws (Vehtari et al. 2021); by older standards a trace up to 1.05, with a
# quarter of these draws, is usable.
_USABLE, _FEWEST_EFFECTIVE = 1.05, 100


class Reference(NamedTuple):
    """What serves as truth.

    ``kind`` is "run", "trace" or "fit"; the ``evidence`` of a trace is unknown; ``doubts`` are what is doubtful about a
    run or fit, in words; ``source`` is the run, trace or fit itself.
    """

    kind: str
    ensemble: Ensemble
    evidence: Evidence = UNKNOWN
    doubts: tuple[str, ...] = ()
    source: Any = None


def check_reference(fit: Fit, reference: Any) -> None:
    """Raise a TypeError or ValueError for what cannot be the reference of a fit."""
    if reference is None:
        return
    if isinstance(reference, xr.DataTree):
        _check_trace(fit, reference)
        return
    if not isinstance(reference, Fit):
        raise TypeError(
            f"reference must be a DataTree of draws, as pma.sample returns it, or a fit; got {type(reference).__name__}"
        )
    if not reference.data.equals(fit.data):
        raise ValueError("the reference is a fit to other data: fit both to the same")


def _check_trace(fit: Fit, trace: xr.DataTree) -> None:
    if not np.isfinite(trace_thetas(fit.gpm, trace)).all():
        raise ValueError("the trace holds draws that are NaN or infinite: sample again")
    if "observed_data" not in trace.children or fit.gpm.name not in trace["observed_data"]:
        return
    y = trace["observed_data"][fit.gpm.name].to_numpy().ravel()
    if not (len(y) == len(fit.y) and np.allclose(y, fit.y)):
        # A learner that has been told more adds it to its model.
        raise ValueError(
            f"the trace was sampled given other data ({len(y)} points) than the fit ({len(fit.y)} points): fit the "
            "model again, or sample it again"
        )


def make_reference(
    fit: Fit, reference: Any, n_particles: int | None, seed: int | None, progressbar: bool = False
) -> Reference:
    """What a checked ``reference`` stands for; without one, a longer run, which may take minutes."""
    if isinstance(reference, xr.DataTree):
        space = FullSpace(fit.posterior)
        draws = ensemble_of_draws(fit.gpm, fit.data, space, trace_thetas(fit.gpm, reference), "trace")
        return Reference("trace", draws, source=reference)
    kind = "run" if reference is None else "fit"
    if reference is None:
        # The seed of the fit would make the fit again.
        rng = np.random.default_rng(None if seed is None else (seed, _LONGER))
        reference = _longer_run(fit, n_particles, rng, progressbar)
    draws, doubts = reference.reference_draws(seed), tuple(reference.diagnostics["warnings"])
    if kind == "run" and fit.gpm.shapes and len(draws) <= len(fit.ensemble):
        # As where no more particles are affordable.
        doubts += (f"it has no more draws than the fit, {len(fit.ensemble):,}, so both may miss the same",)
    return Reference(kind, draws, reference.evidence, doubts, reference)


def _longer_run(fit: Fit, n_particles: int | None, rng: np.random.Generator, progressbar: bool) -> Fit:
    if not fit.gpm.shapes:
        # Nothing to be averaged over: the fit is exact.
        return fit
    n = _LONGER * fit.gpm.n_particles(len(fit.y)) if n_particles is None else n_particles
    with nullcontext() if fit.gpm.data.equals(fit.data) else holding(fit.gpm, fit.data):
        return longer_run(fit.gpm, n, rng, progressbar)


def doubt_of_chains(trace: xr.DataTree, p: Mixture) -> str:
    """That the chains of a trace disagree in what they predict, in words, if so; ``p`` are predictions of its draws.

    Chains may differ in parameters by a symmetry of the model.
    """
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_base import dict_to_dataset
    from arviz_stats import ess, rhat

    shape = (trace["posterior"].sizes["chain"], trace["posterior"].sizes["draw"], -1)
    moments = {"f_mean": p.means.reshape(shape), "y_variance": (p.variances + p.noises).reshape(shape)}
    predicted = dict_to_dataset(moments)
    r_hat = np.fmax.reduce([float(values.max()) for values in rhat(predicted).data_vars.values()])
    size = np.fmin.reduce([float(values.min()) for values in ess(predicted).data_vars.values()])
    # Of one chain R-hat is not known.
    if r_hat > _USABLE or size < _FEWEST_EFFECTIVE:
        return f"MCMC has NOT converged (R-hat {r_hat:.3f}, {size:,.0f} effective draws)"
    return ""


def picked(ensemble: Ensemble, n: int) -> Ensemble:
    """At most n equally weighted draws that stand for all draws of an ensemble."""
    [part] = ensemble.parts
    rows = systematic(part.within, min(n, len(part.z)))
    thinned = part._replace(z=part.z[rows], within=np.full(len(rows), 1 / len(rows)), share=1.0, owner=0)
    return Ensemble((thinned,), ensemble.X, ensemble.y, "draws", ensemble.gpm, ensemble.center, y_sd=ensemble.y_sd)
