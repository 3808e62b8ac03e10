"""Simulation-based calibration: whether posteriors are right on average, for a model and a way of fitting it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import xarray as xr

from pymc_active.information.mixture_quantiles import mixture_cdf
from pymc_active.models.datatrees import simulate, to_dataset
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.prior_draws import check_prior, draw_prior
from pymc_active.particles import fit
from pymc_active.predictions.mixtures import mixture
from pymc_active.support.progress import progress
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

# Probabilities of the central intervals whose coverage is reported; the second is the default of ArviZ.
_PROBABILITIES = np.array([0.5, 0.89])


def calibrate(
    make_model: Callable[[], GPModel],
    *,
    n_simulations: int = 100,
    draws: int = 100,
    method: Literal["auto", "smc", "laplace"] = "auto",
    n_particles: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Simulation-based calibration (SBC): fit data simulated from the prior, and rank the truth among the draws.

    If fits are right, the rank of each true parameter among its posterior draws is uniform, and so is the quantile of a
    new observation in its prediction. ``az.plot_ecdf_pit`` of the result shows both: curves should stay near zero.
    (``simuk.SBC(gpm.model)`` does the same for ``pm.sample``; it cannot use :func:`fit`.)

    Parameters
    ----------
    make_model : callable
        Without arguments; returns the model, e.g. ``lambda: pma.ard_gp(X, y, bounds=bounds)``. Data are simulated at
        its X, and replace its own. Priors that move with y stay as they are for its own y.
    n_simulations, draws : int
        Number of data sets, each of which is fitted (a second or so), and of posterior draws to rank among.
    method, n_particles
        As in :func:`fit`.
    random_seed, progressbar
        Of all randomness; whether to show progress.

    Returns
    -------
    xarray.DataTree
        * ``prior_sbc``: the ranks, spread over [0, 1], of all entries of the unconstrained parameters, and
          ``prediction``: the quantile of one new observation per data set, at a random place within the range of X.
        * ``ranks``: whole numbers from 0 to ``draws``.
        * ``coverage``: over ``prob``, the share of simulations in which the central 50 % and 89 % intervals hold the
          truth. The standard error of a share p is sqrt(p (1 - p) / n_simulations).

        The attribute ``n_doubtful`` is the number of fits with a warning, which are not left out. Entries of an
        embedding's R are known up to rotations only: look at ``prediction`` there.

    Raises
    ------
    TypeError, ValueError
        If ``make_model`` does not return a :class:`GPModel`, or its prior cannot be drawn from.

    References
    ----------
    .. [1] Talts, Betancourt, Simpson, Vehtari & Gelman (2018), Validating Bayesian Inference Algorithms with
       Simulation-Based Calibration.
    """
    gpm = make_model()
    if not isinstance(gpm, GPModel):
        raise TypeError(f"make_model must return a GPModel; got {type(gpm).__name__}")
    for name, value, least in (("n_simulations", n_simulations, 2), ("draws", draws, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value}")
    gpm.keep_priors()
    check_prior(gpm)
    rng, held = np.random.default_rng(random_seed), gpm.data.copy()
    X = held.X
    posterior = gpm.posterior()
    truths = draw_prior(gpm, posterior, n_simulations, rng)
    ranks, quantiles, n_doubtful = np.empty((n_simulations, gpm.n_parameters), int), np.empty(n_simulations), 0
    with progress("Calibrating", n_simulations, progressbar) as advance:
        for i, truth in enumerate(truths):
            data = held.joined(rng.uniform(X.min(0), X.max(0))[None], held.y[:1])
            points, y = data.X, simulate(posterior.with_data(*data), truth[None], rng)[0]
            if not np.isfinite(y).all():
                raise ValueError(f"the prior allows for data that are not finite, at {gpm.unflatten(truth)}: narrow it")
            gpm.set_data(X, y[:-1], held.y_sd)
            with ignoring(DoubtfulFitWarning):
                found = fit(gpm, method=method, n_particles=n_particles, random_seed=rng, progressbar=False)
            ranks[i] = np.sum(found.draw(draws, rng) < truth, axis=0)
            p = mixture(found.ensemble, points[-1:])
            quantiles[i] = mixture_cdf(y[-1:], p.means, p.variances + p.noises, p.weights)[0]
            n_doubtful += bool(found.diagnostics["warnings"])
            advance()
    # Within its step of 1 / (draws + 1), a rank may be anywhere.
    spread = (ranks + rng.uniform(size=ranks.shape)) / (draws + 1)
    values = gpm.unflatten(spread) | {"prediction": quantiles}
    made = {
        name: to_dataset(gpm, {k: v[None] for k, v in group.items()}, ["chain", "draw"], len(X))
        for name, group in (("prior_sbc", values), ("ranks", gpm.unflatten(ranks)))
    }
    prob = xr.DataArray(_PROBABILITIES, {"prob": _PROBABILITIES})
    made["coverage"] = xr.Dataset(
        {name: (2 * abs(u - 0.5) < prob).mean(("chain", "draw")) for name, u in made["prior_sbc"].items()}
    )
    tree = xr.DataTree.from_dict(made)
    tree.attrs = {"n_simulations": n_simulations, "draws": draws, "n_doubtful": n_doubtful}
    return tree
