"""``fit_smc``: sample the posterior by particles annealed in the noise."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np

from pymc_active.inference.annealing import MOST_LEVELS, anneal
from pymc_active.inference.fit import Fit
from pymc_active.models.advice import warn_of_data
from pymc_active.models.free_variables import draw_prior
from pymc_active.models.gpmodel import GPModel, check_model
from pymc_active.particles.particle_fit import FEWEST, ParticleFit, Swarm
from pymc_active.posterior.row_space import Space, find_space
from pymc_active.support.options import count
from pymc_active.support.progress import progress
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulFitWarning, warn_user


def fit_smc(
    gpm: GPModel,
    *,
    n_particles: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: dict | None = None,
) -> ParticleFit:
    """Sample the posterior over the hyperparameters by sequential Monte Carlo, with its evidence.

    Particles start as draws from the prior and follow the posterior as additional noise is taken away
    (:mod:`pymc_active.inference.annealing`). Unlike a Gaussian at a mode, they represent a posterior of any shape,
    with many modes, ridges and symmetries. The costs grow with n³ and with the number of levels, about n.

    Parameters
    ----------
    gpm : GPModel
        Any model whose priors can be drawn from.
    n_particles : int, optional
        At least 32; by default 256, and with more than 300 points fewer, from 1,200 points on 16: the posterior is
        narrow then, and each particle costs a factorisation. The error of the log evidence falls with its square root.
    random_seed : int or Generator, optional
        The same seed gives the same fit, bit for bit.
    progressbar : bool
        Show the progress.
    compile_kwargs : dict, optional
        As in :func:`fit_laplace`.

    Returns
    -------
    ParticleFit
        ``predict``, the criteria, ``draw_paths`` and ``check`` take it as they take a :class:`LaplaceFit`.

    Raises
    ------
    TypeError, ValueError
        If ``gpm`` is not a GPModel; for fewer than 32 particles, a flat or improper prior, or a ``pm.Potential``, which
        cannot be drawn from; if the likelihood is finite nowhere.

    Warns
    -----
    DoubtfulFitWarning
        If the particles descend from too few draws, hardly move, or leave the evidence uncertain.

    References
    ----------
    .. [1] Del Moral, Doucet & Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> fit = pma.fit_smc(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> fit.ensemble.thetas.shape, fit.diagnostics["method"]
    ((256, 3), 'smc')
    """
    check_model(gpm, "fit_smc")
    n = gpm.n_particles(len(gpm.y)) if n_particles is None else count("n_particles", n_particles, least=FEWEST)
    warn_of_data(gpm)
    fit = run_smc(gpm, n, np.random.default_rng(random_seed), progressbar, compile_kwargs=compile_kwargs)
    warn_if_doubtful(fit)
    return fit


def run_smc(
    gpm: GPModel,
    n_particles: int,
    rng: np.random.Generator,
    progressbar: bool = False,
    *,
    executor: Executor | None = None,
    compile_kwargs: dict | None = None,
    reason: str = "as asked",
    renew: Callable[..., ParticleFit] | None = None,
) -> ParticleFit:
    """:func:`fit_smc` without warnings; nothing runs in the ``executor``. ``renew`` makes later fresh fits."""
    space = find_space(gpm.posterior(compile_kwargs), gpm.embedding_slice)
    start = draw_prior(gpm, space.posterior, n_particles, rng)
    renew = renew or partial(run_smc, compile_kwargs=compile_kwargs)
    return annealed(gpm, space, start, rng, progressbar, reason, renew)


def annealed(
    model: Any, space: Space, start: np.ndarray, rng: np.random.Generator, progressbar: bool, reason: str,
    renew: Callable[..., ParticleFit],
) -> ParticleFit:  # fmt: skip
    """Anneal draws of the prior, ``start`` (S, P'), to the posterior of a space, given the data of its model."""
    # The number of levels is not known before: about one for each observation.
    with one_blas_thread(), progress("Annealing particles", MOST_LEVELS, progressbar) as advance:
        done = anneal(space.posterior, start, rng, advance)
    # In random order, so that the first few represent all.
    rows = rng.permutation(len(start))
    particles = done.particles.take(rows)
    values, evidence = particles.likelihoods.value, (done.log_evidence, done.log_evidence_error)
    swarm = Swarm(space, particles.z, np.zeros(len(rows)), values, particles.ancestors, *evidence, done.step)
    diagnostics = {
        "method": "smc",
        "reason": reason,
        "n_levels": done.n_levels,
        "acceptance": done.acceptance,
        "lag": done.lag,
        "n_evaluations": done.n_evaluations,
    }
    return ParticleFit(model, model.data, swarm, diagnostics, renew)


def warn_if_doubtful(fit: Fit) -> bool:
    """One warning with everything that is doubtful about a fit, or why NUTS made it; whether there was one."""
    d = fit.diagnostics
    if doubts := d["warnings"]:
        warn_user("the fit is doubtful: " + "; ".join(doubts), DoubtfulFitWarning)
    elif is_replaced := d.get("is_replaced", False):
        warn_user(f"{d['reason']}: NUTS replaced it, which leaves the evidence unknown", DoubtfulFitWarning)
    return bool(doubts) or is_replaced
