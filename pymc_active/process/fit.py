"""``fit``: represent the posterior of any model by draws."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Literal

import numpy as np
import pymc as pm

from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles import choose
from pymc_active.particles.particle_fit import FEWEST, ParticleFit
from pymc_active.particles.smc import warn_if_doubtful
from pymc_active.process.fitting import METHODS, fit_process
from pymc_active.process.process import Process
from pymc_active.support.arguments import check_executor, kind_of
from pymc_active.support.options import count


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
    methods = choose.METHODS if isinstance(model, GPModel) else METHODS
    if method in ("smc", "anneal"):
        method = "smc" if isinstance(model, GPModel) else "anneal"
    if method not in methods:
        what = ": for NUTS call sample(gpm)" if method == "nuts" else ""
        raise ValueError(f"method must be one of {', '.join(methods)}; got {method!r}{what}")
    check_executor(executor)
    if isinstance(model, GPModel):
        if observed is not None:
            raise ValueError("observed is for a pm.Model: the outcome of a GPModel is its name")
        return choose.fit_gp(model, method, n_particles, random_seed, progressbar, executor, compile_kwargs)
    process = model if isinstance(model, Process) else Process(model, observed)
    n = process.n_particles(len(process.y)) if n_particles is None else count("n_particles", n_particles, least=FEWEST)
    fitted = fit_process(process, n, np.random.default_rng(random_seed), progressbar, method=method)
    warn_if_doubtful(fitted)
    return fitted
