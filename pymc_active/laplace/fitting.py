"""Fit by modes: search for them in the posterior of one model, or of several, and expand it there; or read them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

import numpy as np
import xarray as xr

from pymc_active.laplace.expansion import Expansion, expand
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.modes.search import SearchResult, SearchTask
from pymc_active.laplace.modes.task import FoundModes, search_and_expand
from pymc_active.laplace.modes.warm_starts import starts_from_parent
from pymc_active.models.gpmodel import GPModel, check_model
from pymc_active.posterior.array import ArrayPosterior, KernelPosterior
from pymc_active.posterior.base import NoFiniteStartError
from pymc_active.posterior.row_space import find_space
from pymc_active.support.arguments import check_executor, check_flags
from pymc_active.support.data import Data
from pymc_active.support.options import count
from pymc_active.support.progress import progress
from pymc_active.support.threads import in_threads, one_blas_thread
from pymc_active.support.user_warnings import DoubtfulFitWarning, RunWarning, warn_user
from pymc_active.support.workers import Call

# Up to this many restarts of several models known modes are followed, and a population is not worth its cost.
_FOLLOW = 2

type Start = dict[str, Any] | LaplaceFit | Sequence[dict[str, Any] | LaplaceFit] | None


def fit_laplace(
    gpm: GPModel,
    *,
    point: dict[str, Any] | None = None,
    optimize: bool = True,
    start: Start = None,
    n_restarts: int = 12,
    population: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    compile_kwargs: dict | None = None,
) -> LaplaceFit:
    """Find the modes of the posterior over the hyperparameters and expand it there.

    If every parameter of the model is fixed, nothing is searched and the evidence is exact. For an embedding that
    learns its lengthscale, the modes are those at the lengthscale of the highest Laplace evidence
    (``laplace/modes/learned_lengthscale.py``), where the gradient in the lengthscale need not vanish.

    With more than 200 points the search runs on a quarter of them, but at least 150 (if these are many, first on a
    quarter of them), and follows the three most probable of its modes and of the warm starts to all points.

    Parameters
    ----------
    point : dict, optional
        Value-variable name -> unconstrained value: an additional start.
    optimize : bool
        ``False`` searches for nothing and expands the posterior at ``point``.
    start : dict, LaplaceFit, or list of these, optional
        Warm starts: unconstrained points, or all modes of earlier fits. For a kernel expression, a fit of another
        expression will do: shared base kernels keep their parameters.
    n_restarts : int
        Fresh starts. Embeddings and single stationary kernels anneal the noise and follow the mode (the *noise ladder*
        of :mod:`pymc_active.laplace.modes.search`). Sums and products of kernels alternate several kinds of starts
        (:mod:`pymc_active.laplace.modes.composite_kernels`); with warm starts, one or two fresh starts follow just the
        three best warm modes, which is cheap.
    population : int, optional
        Particles of the population annealing, which runs after the noise ladder. 0 never runs it, a number always. By
        default it uses at most 64 particles and runs where the other starts disagree: for embeddings always, unless
        every ladder start ends at the same mode as the warm ones; for other models if fewer than two thirds of the
        ladder starts (single stationary kernel: fewer than three starts) reach the best mode; for sums and products of
        kernels never.
    random_seed : int or Generator, optional
        The same seed gives the same fit, bit for bit.
    executor : concurrent.futures.Executor, optional
        Runs the search for the modes of a model with an array route in another process, a thread or a cluster (dask's
        ``Client.get_executor()``); results do not depend on it. The work of a killed process is repeated here.
    compile_kwargs : dict, optional
        For ``pytensor.function``, e.g. ``{"mode": "NUMBA"}``: use the PyTensor graphs, compiled this way. By default
        builders' models compile nothing, and other models use PyTensor without a JIT.

    Raises
    ------
    TypeError, ValueError
        If ``gpm`` is not a GPModel, ``start`` not a point or fit, a point has missing, unknown or wrongly shaped
        entries, or the posterior is not finite at any start.

    Warns
    -----
    DoubtfulFitWarning, RunWarning
        If the fit is doubtful (``diagnostics["warnings"]`` of the fit); if a worker process died.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 2.1, eqs. 3-4.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> gpm = pma.ard_gp(x[:, None], np.sin(x))
    >>> fit = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    >>> fit.labels
    ['log_lengthscale[0]', 'log_outputscale', 'log_noise']
    """
    check_model(gpm, "fit_laplace")
    check_flags(optimize=optimize)
    check_executor(executor)
    count("n_restarts", n_restarts, least=0)
    if population is not None:
        count("population", population, least=0)
    posterior, embedding = gpm.posterior(compile_kwargs), gpm.embedding_slice
    with one_blas_thread():
        if not optimize or not gpm.shapes:
            if point is None and gpm.shapes:
                raise ValueError("optimize=False expands at a given point: pass point={...}")
            theta = gpm.flatten(point or {})
            if not np.isfinite(posterior.value_and_gradient(theta)[0]):
                raise ValueError("the log posterior is not finite at this point: K + noise is not positive definite")
            fit = LaplaceFit(gpm, gpm.data, [expand(posterior, theta, embedding)])
        else:
            rng = np.random.default_rng(random_seed)
            starts = [] if point is None else [gpm.flatten(point)]
            starts += read_starts(gpm, start, rng)
            task = SearchTask(posterior, embedding, starts, n_restarts, population, rng)
            with progress("Searching modes", task.n_steps, progressbar) as advance:
                if executor is None or not isinstance(posterior, ArrayPosterior):
                    modes = search_and_expand(task, advance)
                else:
                    modes = Call(executor, search_and_expand, task).result()
            fit = LaplaceFit(gpm, gpm.data, *modes)
    if fit.diagnostics["warnings"]:
        warn_user("the Laplace fit is doubtful: " + "; ".join(fit.diagnostics["warnings"]), DoubtfulFitWarning)
    return fit


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
        fits = {label: LaplaceFit(gpm, gpm.data, *modes[label]) for label, gpm in models.items() if label in modes}
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


def read_starts(gpm: GPModel, start: Start, rng: np.random.Generator) -> list[np.ndarray]:
    """Warm starts as points theta (P,) of this model."""
    if start is None:
        return []
    if not isinstance(start, dict | LaplaceFit | list | tuple):
        raise TypeError(f"start must be a point, a fit, or a list of these; got {start!r}")
    thetas = []
    for one in [start] if isinstance(start, dict | LaplaceFit) else start:
        if isinstance(one, LaplaceFit) and one.gpm.shapes != gpm.shapes:
            child, parent = gpm.posterior(), one.best.full_posterior
            if not (isinstance(child, KernelPosterior) and isinstance(parent, KernelPosterior)):
                raise ValueError(
                    "start must be points or fits of this model, or between kernel expressions a fit of another one; "
                    f"got a fit of {one.gpm.description} for {gpm.description}"
                )
            thetas += starts_from_parent(child, parent, [e.theta for e in one.expansions], rng)
        elif isinstance(one, LaplaceFit):
            thetas += [gpm.flatten(mode.point) for mode in one.modes]
        else:
            thetas.append(gpm.flatten(one))
    return thetas


def fit_from_dataset(gpm: GPModel, stored: xr.Dataset) -> LaplaceFit:
    """The fit that :meth:`LaplaceFit.to_dataset` wrote; the data of ``gpm`` begin with the data of that fit."""
    counts = {name: int(value) for name, value in stored.attrs.items()}
    data = first_points(gpm, counts.pop("n_observations"))
    with one_blas_thread():
        space = find_space(gpm.posterior().with_data(*data), gpm.embedding_slice)
        modes, n = np.array(stored["z"].to_numpy(), float), space.posterior.n_parameters
        if modes.shape[1] != n:
            raise ValueError(f"the stored modes have {modes.shape[1]} parameters, but the model has {n}")
        expansions = [Expansion(space, z) for z in modes]
        converged, used_population = bool(counts.pop("converged")), bool(counts.pop("used_population"))
        search = SearchResult([], **counts, used_population=used_population)
        return LaplaceFit(gpm, data, expansions, search, converged)


def first_points(gpm: GPModel, n: int) -> Data:
    """The first n points that a model holds; a ValueError if there are fewer."""
    if not 0 <= n <= len(gpm.y):
        raise ValueError(f"the stored fit has {n} points, and the model {len(gpm.y)}")
    return gpm.data.rows(slice(n))
