"""``fit``: choose how to represent the posterior of a model."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial
from typing import Literal

import numpy as np

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.prior_draws import check_prior
from pymc_active.particles.fit import ParticleFit
from pymc_active.particles.modes import N_WEIGHTED, combine, from_modes
from pymc_active.particles.smc import check_arguments, run_smc, warn_if_doubtful
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.base import Posterior
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

METHODS = ("auto", "smc", "laplace")
# Evaluations of a log density with its gradient, in units of one with few points: what SMC costs without asking, what
# it may cost beside a search of modes, and what it may cost at most.
_CHEAP, _BESIDE, _MOST = 0.15e6, 0.5e6, 4e6
# Share of importance-weighted draws around the modes that are effective if the modes hold the posterior.
_TRUSTED = 0.1


def fit(
    gpm: GPModel,
    *,
    method: Literal["auto", "smc", "laplace"] = "auto",
    n_particles: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    compile_kwargs: dict | None = None,
) -> ParticleFit | LaplaceFit:
    """Represent the posterior over the hyperparameters by draws, with its evidence, in the way that suits the model.

    Parameters
    ----------
    gpm : GPModel
    method : {"auto", "smc", "laplace"}
        ``"smc"`` is :func:`fit_smc` and ``"laplace"`` :func:`fit_laplace`. ``"auto"`` anneals particles (SMC) where
        this is cheap: with few data, where a Gaussian at a mode is not the posterior. If the kernel may hide narrow
        modes from particles, as periods do, it also searches modes and samples around them by importance, and mixes
        both by their evidences: each can only miss mass. With many data, where SMC is expensive, draws around the modes
        suffice if importance sampling confirms them. The choice depends on the estimated number of operations and on
        effective sample sizes, never on a clock; ``diagnostics["method"]`` and ``["reason"]`` say what was done.
    n_particles, random_seed, progressbar, compile_kwargs
        As in :func:`fit_smc`.
    executor : concurrent.futures.Executor, optional
        Runs mode searches, as in :func:`fit_laplace`.

    Returns
    -------
    ParticleFit
        A LaplaceFit for ``method="laplace"``, and for a model without free parameters.

    Raises
    ------
    TypeError, ValueError
        As :func:`fit_smc`, and for an unknown method.

    Warns
    -----
    DoubtfulFitWarning
        As :func:`fit_smc`; in particular if SMC would be too expensive and importance sampling does not confirm the
        modes.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 10)
    >>> fit = pma.fit(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> fit.diagnostics["method"]
    'smc'
    """
    n_particles = check_arguments(gpm, n_particles, "fit")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if not gpm.shapes:
        return fit_laplace(gpm, optimize=False)
    rng = np.random.default_rng(random_seed)
    if method == "laplace":
        return fit_laplace(
            gpm, random_seed=rng, progressbar=progressbar, executor=executor, compile_kwargs=compile_kwargs
        )
    found = choose(gpm, n_particles, rng, progressbar, executor=executor, compile_kwargs=compile_kwargs, method=method)
    warn_if_doubtful(found)
    return found


def choose(
    gpm: GPModel,
    n_particles: int,
    rng: np.random.Generator,
    progressbar: bool = False,
    *,
    executor: Executor | None = None,
    compile_kwargs: dict | None = None,
    method: str = "auto",
) -> ParticleFit:
    """``fit(method="auto")`` or ``"smc"`` without warnings."""
    renew = partial(choose, compile_kwargs=compile_kwargs, method=method)
    if method == "smc":
        return run_smc(gpm, n_particles, rng, progressbar, compile_kwargs=compile_kwargs, renew=renew)
    posterior = gpm.posterior(compile_kwargs)
    is_embedding = gpm.embedding is not None
    hides = posterior.hides_modes and not is_embedding
    try:
        check_prior(gpm)
        cost = _cost(posterior, n_particles)
    except ValueError:
        cost = np.inf

    def smc(reason: str) -> ParticleFit:
        return run_smc(gpm, n_particles, rng, progressbar, compile_kwargs=compile_kwargs, reason=reason, renew=renew)

    def around_modes(reason: str) -> ParticleFit:
        with ignoring(DoubtfulFitWarning):
            modes = fit_laplace(
                gpm,
                random_seed=rng,
                progressbar=progressbar,
                executor=executor,
                compile_kwargs=compile_kwargs,
            )
        return from_modes(modes, n_particles, rng, reason, renew)

    if not hides and cost <= (_MOST if is_embedding else _CHEAP):
        annealed = smc("SMC is cheap for so few data")
        # Around the modes of an embedding hardly any weighted draw is effective.
        if is_embedding or not annealed.diagnostics["warnings"]:
            return annealed
        reason = "SMC was uncertain, so draws around searched modes were mixed in by evidence"
        return combine(annealed, around_modes(reason), rng, reason)
    modes = around_modes("importance sampling confirms the modes, and SMC would cost more")
    trusted = modes.diagnostics["n_weighted"] >= _TRUSTED * N_WEIGHTED
    if trusted and (not hides or cost > _BESIDE):
        return modes
    if cost <= (_BESIDE if hides and trusted else _MOST):
        reason = "modes may hide from SMC, and mass away from the modes from a search: mixed by evidence"
        return combine(smc(reason), modes, rng, reason)
    modes.diagnostics["reason"] = "SMC would be too expensive"
    if not is_embedding:
        modes.diagnostics["warnings"].append(
            f"only {modes.diagnostics['n_weighted']:.0f} of {N_WEIGHTED} weighted draws around the modes are "
            "effective, and SMC would be expensive (pass method='smc' if you can wait)"
        )
    return modes


def _cost(posterior: Posterior, n_particles: int) -> float:
    """Evaluations that SMC takes for n points, in units of one with few points."""
    n = len(posterior.y)
    one = 1 + n**2 / 300 if isinstance(posterior, ArrayPosterior) else 20 + n**2 / 300
    return n_particles * 9 * (4 + 0.65 * n) * one
