"""Modes of several models, each in a process of its own if wished: what a kernel search fits."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from concurrent.futures import Executor
from typing import Literal

import numpy as np

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import Start, read_starts
from pymc_active.laplace.modes.search import SearchTask
from pymc_active.laplace.modes.task import FoundModes, search_and_expand
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.base import NoFiniteStartError
from pymc_active.support.progress import progress
from pymc_active.support.threads import in_threads, one_blas_thread
from pymc_active.support.user_warnings import DoubtfulFitWarning, RunWarning, warn_user
from pymc_active.support.workers import Call

# Up to this many restarts known modes are followed, and a population is not worth its cost.
_FOLLOW = 2


def fit_laplace_models[Label: Hashable](
    models: Mapping[Label, GPModel],
    *,
    start: Mapping[Label, Start] | None = None,
    n_restarts: int = 20,
    population: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    progressbar: bool = True,
    errors: Literal["raise", "warn"] = "raise",
) -> dict[Label, LaplaceFit]:
    """Fit each of several models, as :func:`fit_laplace` fits one; the result has the order of ``models``.

    ``start`` has warm starts by label; with at most two restarts the known modes are followed, and no population runs.
    An executor runs one task for each model; results do not depend on it. With ``errors="warn"`` a model whose log
    posterior is not finite at any start is left out. Doubtful fits and models left out are warned of once each.
    """
    start = start or {}
    if population is None and n_restarts <= _FOLLOW and start:
        population = 0
    # One seed for each model, so that an executor changes nothing.
    seeds = np.random.default_rng(random_seed).integers(2**63, size=len(models))
    modes: dict[Label, FoundModes] = {}
    with one_blas_thread(), progress("Fitting models", len(models), progressbar) as advance:
        tasks = {}
        for (label, gpm), seed in zip(models.items(), seeds, strict=True):
            rng = np.random.default_rng(seed)
            warm = read_starts(gpm, start.get(label), rng)
            tasks[label] = SearchTask(gpm.posterior(), gpm.embedding_slice, warm, n_restarts, population, rng)
        elsewhere: dict[Label, Call[FoundModes]] = {}
        if executor is not None:
            # The longest first, so that the processes end together.
            for label in sorted(tasks, key=lambda label: -tasks[label].posterior.n_parameters):
                if isinstance(tasks[label].posterior, ArrayPosterior):
                    elsewhere[label] = Call(executor, search_and_expand, tasks[label])
        failed: dict[Label, NoFiniteStartError] = {}

        def attempt(label: Label) -> FoundModes | ValueError:
            try:
                return elsewhere[label].result() if label in elsewhere else search_and_expand(tasks[label])
            except ValueError as error:
                return error
            finally:
                advance()

        here = [task.posterior for label, task in tasks.items() if label not in elsewhere]
        run = in_threads if all(posterior.climbs_apart for posterior in here) else map
        labels = sorted(tasks, key=lambda label: label in elsewhere)
        try:
            for label, result in zip(labels, run(attempt, labels), strict=True):
                if isinstance(result, NoFiniteStartError):
                    failed[label] = result
                elif isinstance(result, ValueError):
                    raise ValueError(f"{label}: {result}") from result
                else:
                    modes[label] = result
        finally:
            for call in elsewhere.values():
                call.cancel()
        fits = {
            label: LaplaceFit(gpm, gpm.data, modes[label].expansions, modes[label].search, modes[label].converged)
            for label, gpm in models.items()
            if label in modes
        }
    if failed:
        what = f"{', '.join(map(str, failed))}: {next(iter(failed.values()))}"
        if errors == "raise":
            raise ValueError(what)
        warn_user(f"models that cannot be fitted are left out; {what}", RunWarning)
    doubtful = {label: problems for label, fit in fits.items() if (problems := fit.diagnostics["warnings"])}
    if doubtful:
        what = "; ".join(f"{label}: {', '.join(problems)}" for label, problems in doubtful.items())
        warn_user(f"{len(doubtful)} of {len(fits)} Laplace fits are doubtful: {what}", DoubtfulFitWarning)
    return fits
