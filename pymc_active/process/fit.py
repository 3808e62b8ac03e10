"""``fit``: represent the posterior of any model by draws; of a ``pm.Model`` annealed ones, or NUTS where these fail."""

from __future__ import annotations

import logging
from concurrent.futures import Executor
from functools import partial
from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.exceptions import SamplingError
from pytensor.graph.replace import graph_replace

from pymc_active.inference.ensemble import systematic
from pymc_active.inference.fit import Fit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.advice import warn_of_data
from pymc_active.models.datatrees import arviz_groups, in_chains, scalars, to_dataset
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.choose import METHODS as GP_METHODS
from pymc_active.particles.choose import choose
from pymc_active.particles.outcome_advice import outcome_advice
from pymc_active.particles.particle_fit import FEWEST, ParticleFit, Swarm
from pymc_active.particles.smc import annealed, warn_if_doubtful
from pymc_active.posterior.base import NoFiniteStartError
from pymc_active.posterior.row_space import FullSpace
from pymc_active.process.process import Process
from pymc_active.process.target import AnnealedModel
from pymc_active.support.arguments import check_executor, kind_of
from pymc_active.support.data import Data
from pymc_active.support.options import count
from pymc_active.support.user_warnings import warn_if

METHODS = ("auto", "anneal", "nuts")
# With more parameters than this particles would be too few (guess).
_MANY_PARAMETERS = 200
# Error of the log evidence (nats) from which on so many times as many particles are annealed: as for GPs, and a guess.
_UNSURE, _MORE = 0.5, 4
# Times that as many draws of the prior as particles are made, until enough are within its constraints.
_ROUNDS = 20
# Chains of NUTS, draws of each, at least, and before them, and the acceptance to aim at: PyMC's own, but fewer draws,
# since few are kept, and shorter steps, since what annealing fails at has narrow places.
_CHAINS, _DRAWS, _TUNE, _ACCEPT = 4, 500, 1000, 0.9
# Draws in the groups of the prior.
_PRIOR = 500


def fit(
    model: GPModel | pm.Model | Process,
    *,
    method: Literal["auto", "smc", "laplace", "anneal", "nuts"] = "auto",
    n_particles: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    compile_kwargs: dict | None = None,
    observed: str | None = None,
) -> ParticleFit | Fit:
    """Represent the posterior over the parameters by draws, with its evidence, in the way that suits the model.

    Parameters
    ----------
    model : GPModel or pm.Model
        A ``pm.Model`` is copied and never changed.
    method : {"auto", "anneal", "laplace"} for a GPModel, {"auto", "anneal", "nuts"} for a pm.Model
        ``"anneal"`` (``"smc"``) is :func:`fit_smc`, ``"laplace"`` :func:`fit_laplace`. ``"auto"`` anneals particles
        where this is cheap: with few data, where a Gaussian at a mode is not the posterior. If the kernel may hide
        modes from particles, as periods do, it searches modes and samples around them by importance; unless 150 of
        these draws are effective, it also anneals, and mixes both by their evidences: each can only miss mass. So it
        does where annealed particles have not followed the posterior, as where data are far from what the priors
        expect; where climbing from the best leads to a mode that all have missed, as of an embedding without noise; or
        where they leave the evidence uncertain by half a nat. A run for an embedding with few families left is
        repeated, or, with two points for each parameter, mixed with draws annealed from around modes. With many data,
        where SMC is expensive, draws around the modes suffice if importance sampling confirms them. The choice depends
        on the estimated number of operations and on effective sample sizes, never on a clock; ``diagnostics["method"]``
        and ``["reason"]`` say what was done.

        Of a ``pm.Model``, ``"anneal"`` leads particles from the prior to the posterior by taking noise away from the
        outcome, or, where it has no scale, by lowering a temperature; if the first run is uncertain, with four times
        as many particles, and keeps as many. ``"nuts"`` is ``pm.sample``, which leaves the evidence unknown. ``"auto"``
        anneals, and runs NUTS if that fails or stays doubtful, or cannot work: improper priors, over 200 parameters.
    n_particles, random_seed, progressbar, compile_kwargs
        As in :func:`fit_smc`; by default 512 particles for a ``pm.Model``, which has no ``compile_kwargs``.
    executor : concurrent.futures.Executor, optional
        Runs mode searches, as in :func:`fit_laplace`.
    observed : str, optional
        The outcome of a ``pm.Model`` that predictions and criteria are of, which they need if it observes several; with
        a variable that is not observed yet, the fit is the prior.

    Returns
    -------
    ParticleFit
        A LaplaceFit for ``method="laplace"``, and for a GPModel without free parameters.

    Raises
    ------
    TypeError, ValueError
        As :func:`fit_smc`, and for an unknown method; for a ``pm.Model`` with discrete free variables.

    Warns
    -----
    DoubtfulFitWarning
        As :func:`fit_smc`; in particular if SMC would be too expensive and importance sampling does not confirm the
        modes, and if NUTS had to replace annealed particles.
    DataWarning
        If data, scales and priors of a GP do not suit each other, as numbers in other units, an input over decades,
        codes for missing values, rows that came twice, a limit of detection; and if ``likelihood="warped"`` or
        ``"lognormal"`` makes y more probable by over 12 nats, as of values over orders of magnitude. :func:`advise`
        looks closer.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 10)
    >>> fit = pma.fit(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> fit.diagnostics["method"]
    'smc'

    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 2)
    ...     _ = pm.Normal("y", slope * pm.Data("x", x), 0.5, observed=np.sin(x))
    >>> fit = pma.fit(model, random_seed=1, progressbar=False)
    >>> round(fit.log_evidence)
    -6
    """
    if not isinstance(model, GPModel | pm.Model | Process):
        raise TypeError(f"fit takes a pm.Model or a GPModel (see ard_gp and from_marginal); got {kind_of(model)}")
    methods = GP_METHODS if isinstance(model, GPModel) else METHODS
    if method in ("smc", "anneal"):
        method = "smc" if isinstance(model, GPModel) else "anneal"
    if method not in methods:
        what = ": for NUTS call sample(gpm)" if method == "nuts" else ""
        raise ValueError(f"method must be one of {', '.join(methods)}; got {method!r}{what}")
    check_executor(executor)
    if isinstance(model, GPModel) and observed is not None:
        raise ValueError("observed is for a pm.Model: the outcome of a GPModel is its name")
    made = Process(model, observed) if isinstance(model, pm.Model) else model
    n = made.n_particles(len(made.y)) if n_particles is None else count("n_particles", n_particles, least=FEWEST)
    rng = np.random.default_rng(random_seed)
    if isinstance(made, Process):
        fitted = fit_process(made, n, rng, progressbar, method=method)
        warn_if_doubtful(fitted)
        return fitted
    if not made.shapes:
        return fit_laplace(made, optimize=False)
    warn_of_data(made)
    how: dict[str, Any] = {"progressbar": progressbar, "executor": executor, "compile_kwargs": compile_kwargs}
    if method == "laplace":
        return fit_laplace(made, random_seed=rng, **how)
    fitted = choose(made, n, rng, method=method, **how)
    warn_if_doubtful(fitted)
    warn_if(outcome_advice(fitted))
    return fitted


def fit_process(
    process: Process, n_particles: int, rng: np.random.Generator, progressbar: bool = False, *,
    method: str = "auto", executor: Any = None, compile_kwargs: dict | None = None,
) -> ParticleFit:  # fmt: skip
    """Draws from the posterior of a model given its data, and its evidence, without warnings."""
    renew = partial(fit_process, method=method)
    improper = process.improper
    if (rows := process.impossible(process.data)).size:
        shown = ", ".join(f"{value:g}" for value in process.y[rows[:3]])
        raise ValueError(
            f"{process.name!r} is {shown} in row {', '.join(map(str, rows[:3]))}, which no draw from the prior makes "
            "possible: check these values, and the priors"
        )
    if method == "anneal" and improper:
        raise ValueError(
            f"{', '.join(improper)}: an improper prior cannot be drawn from, nor a logp; give another, or use NUTS"
        )
    if method == "nuts" or improper or process.n_parameters > _MANY_PARAMETERS:
        why = f"the prior of {improper[0]} cannot be drawn from" if improper else "many parameters"
        why = "as asked" if method == "nuts" else why
        return _by_nuts(process, n_particles, rng, progressbar, why, renew)

    def by_annealing(n: int, reason: str) -> ParticleFit:
        space, start = FullSpace(process.posterior()), _prior_draws(process, n, rng)
        return annealed(process, space, start, rng, progressbar, reason, renew)

    try:
        fitted = by_annealing(n_particles, "annealed particles")
        if fitted.diagnostics["warnings"] or not fitted.log_evidence_error <= _UNSURE:
            why = f"{n_particles} particles were uncertain, so {_MORE} times as many were annealed"
            fitted = by_annealing(_MORE * n_particles, why).thinned(n_particles, rng)
    except NoFiniteStartError:
        if method == "anneal":
            raise
        why = "annealing cannot start, since no draw from the prior has a likelihood"
        return _by_nuts(process, n_particles, rng, progressbar, why, renew, is_replaced=True)
    if method == "anneal" or not fitted.diagnostics["warnings"]:
        return fitted
    doubts = "; ".join(text.partition(" (")[0] for text in fitted.diagnostics["warnings"])
    why = f"annealing was doubtful: {doubts}"
    return _by_nuts(process, n_particles, rng, progressbar, why, renew, is_replaced=True)


def _prior_draws(process: Process, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (n, P) of the prior on the unconstrained space, without those that a transform excludes, such as order."""
    kept = np.empty((0, process.n_parameters))
    for _ in range(_ROUNDS):
        with np.errstate(invalid="ignore"):
            z = process.unconstrain(process.draw_prior(n, int(rng.integers(2**31))))
        kept = np.concatenate([kept, z[np.isfinite(z).all(1)]])
        if len(kept) >= n:
            return kept[:n]
    raise NoFiniteStartError(f"only {len(kept)} of {_ROUNDS * n} draws from the prior are within its constraints")


def _by_nuts(
    process: Process, n_particles: int, rng: np.random.Generator, progressbar: bool, reason: str, renew: Any,
    *, is_replaced: bool = False,
) -> ParticleFit:  # fmt: skip
    """Draws by ``pm.sample``, or nutpie if it is installed, thinned; their evidence is not known."""
    from arviz_stats import ess, rhat

    logging.getLogger("pymc_active").info("%s: pm.sample, since %s", process.description, reason)
    target = process.posterior()
    trace = _sampled(process, target, max(_DRAWS, -(-n_particles // _CHAINS)), rng, progressbar)
    chains = trace.posterior["z"].transpose("chain", "draw", ...).to_numpy()
    worst = float(np.max(rhat(trace.posterior, var_names="z")["z"].to_numpy()))
    made = {
        "method": "nuts", "reason": reason, "rhat": worst, "ess": float(np.min(ess(trace.posterior)["z"].to_numpy())),
        "divergences": int(trace.sample_stats["diverging"].sum()), "n_evaluations": 0, "is_replaced": is_replaced,
    }  # fmt: skip
    z = chains.reshape(-1, chains.shape[-1])
    z = z[rng.permutation(systematic(np.full(len(z), 1 / len(z)), n_particles))]
    zero, families = np.zeros(n_particles), np.arange(n_particles)
    swarm = Swarm(FullSpace(target), z, zero, target.likelihood_values(z), families, np.nan, np.nan, 0.3)
    return ParticleFit(process, process.data, swarm, made, renew)


def _sampled(process: Process, target: AnnealedModel, draws: int, rng: np.random.Generator, progressbar: bool) -> Any:
    """A trace of z, by a model of nothing but the log density of the data at hand."""
    graphs = process.graphs
    start = process.flatten({k: np.where(np.isfinite(z), z, 0) for k, z in process.model.initial_point().items()})
    with pm.Model() as flat:
        z = pm.Flat("z", shape=target.n_parameters)
        data: dict[Any, Any] = {graphs.z: z, **dict(zip(graphs.tables, map(pt.as_tensor, target.tables), strict=True))}
        log: Any = graphs.log_densities(pt.as_tensor(graphs.as_outcome(target.y)))
        pm.Potential("log_density", pt.add(*graph_replace(log, data, strict=False)))
    sample = partial(
        pm.sample, draws, tune=_TUNE, chains=_CHAINS, cores=1, random_seed=int(rng.integers(2**31)),
        progressbar=progressbar, quiet=not progressbar, initvals={"z": start}, compute_convergence_checks=False,
        target_accept=_ACCEPT, model=flat,
    )  # fmt: skip
    failed = None
    # Around the initial point nothing may be possible, but at it.
    for init in ("jitter+adapt_diag", "adapt_diag"):
        try:
            return sample(init=init)
        except SamplingError as error:
            failed = error
    raise ValueError(
        "NUTS cannot start, since at the initial point and around it the data are impossible: check the data and the "
        "priors, or give the variables an initval"
    ) from failed


@arviz_groups.register
def groups_of_process(
    process: Process, posterior: AnnealedModel, thetas: np.ndarray, rows: np.ndarray, data: Data, seed: int
) -> dict[str, xr.Dataset]:
    """All groups that ArviZ knows; observations are independent given the parameters, so all terms are plain."""
    n, X, tables = len(data.y), data.X, posterior.tables
    groups = {"posterior": in_chains(process, process.constrain(thetas, tables), rows, n)}
    priors = dict(zip(process.free, posterior.log_prior_terms(thetas).T, strict=True))
    groups["log_prior"] = scalars(priors, rows)
    likelihood = posterior.likelihood_values(thetas)
    groups["sample_stats"] = scalars({"lp": posterior.values(thetas), "log_marginal_likelihood": likelihood}, rows)
    if n:
        log = process.log_densities(thetas, data.y[None, None], X)[0]
        # Drawn anew for each, though particles repeat.
        whole = np.arange(rows.size)[None]
        of_all = log.shape[1] != n
        terms = {process.name: log}
        groups["log_likelihood"] = (
            scalars({process.name: log[:, 0]}, rows) if of_all else in_chains(process, terms, rows, n)
        )
        drawn = process.draw(thetas[rows[0]], X, is_common=False)
        groups["posterior_predictive"] = in_chains(process, {process.name: drawn}, whole, n)
        groups["observed_data"] = to_dataset(process, {process.name: data.y}, [], n)
    names = [table.name for table in process.tables]
    groups["constant_data"] = to_dataset(process, dict(zip(names, tables, strict=False)), [], n)
    if not process.improper:
        prior = process.unconstrain(process.draw_prior(_PRIOR, seed))
        whole = np.arange(_PRIOR)[None]
        groups["prior"] = in_chains(process, process.constrain(prior, tables), whole, n)
        if n:
            drawn = process.draw(prior, X, is_common=False)
            groups["prior_predictive"] = in_chains(process, {process.name: drawn}, whole, n)
    return groups
