"""What a ``pm.gp.Latent`` model must be like, and where it is not, what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.discrete import BetaBinomial
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import BinomialRV
from pytensor.tensor.sharedvar import TensorSharedVariable

from pymc_active.models.pymc_model import data_value

OTHERS = "pma.fit(model) and pma.Learner(model, ...) take any model with a pm.gp.HSGP in place of the pm.gp.Latent"
# Draws from the prior at which a likelihood is looked at, places of f, in prior sds, and rows of the data at most.
_DRAWS, _PLACES, _ROWS = 8, np.linspace(-3, 3, 13), 100
# What rounding may change, beside the largest number.
_ROUNDED = 1e-7
# Of intervals, where slopes that jump go on to do so.
_HALVINGS = 25


def outcome_of(model: pm.Model, gp: pm.gp.Latent, name: str | None, latent: Any) -> Any:
    """The observed variable that depends on the function, as nothing else does; ``latent`` are its values."""
    f, observed = gp.f, {v.name: v for v in model.observed_RVs}
    missing = [v.name for v in model.observed_RVs if isinstance(v.owner.op, PartialObservedRV)]
    if missing:
        raise ValueError(f"{missing[0]!r} has missing values, which PyMC imputes: leave these rows out of X and y")
    if name not in (None, f.name, *observed):
        raise ValueError(f"the model has no observed variable {name!r}; it has {sorted(observed) or 'none'}")
    of_f = [
        v
        for v in [*model.observed_RVs, *model.potentials, *model.free_RVs]
        if v is not latent and {f, latent} & set(ancestors([v]))
    ]
    if not of_f or (name in observed and observed[name] not in of_f):
        what = "no observed variable depends" if name is None else f"{name!r} does not depend"
        raise ValueError(f"{what} on {f.name!r}, the function of gp: use it in the likelihood")
    if len(of_f) > 1 or of_f[0].name not in observed:
        found = ", ".join(sorted(str(v.name) for v in of_f))
        raise ValueError(f"one observed variable, and nothing else, may depend on {f.name!r}; {found} do. {OTHERS}")
    [outcome] = of_f
    others = [v for v in model.free_RVs if v is not latent and v.name.endswith("_rotated_")]
    if several := [v.name for v in others if v in ancestors([outcome], blockers=[f])]:
        raise ValueError(
            f"{outcome.name!r} depends on several GPs, also by {', '.join(several)}: call the prior of their sum "
            f"instead, as in gp = gp_1 + gp_2. {OTHERS}"
        )
    if outcome.owner.op.ndim_supp or outcome.type.ndim != 1:
        raise ValueError(
            f"the rows of {outcome.name!r} must be single numbers that do not depend on each other. {OTHERS}"
        )
    return outcome


def size_of(model: pm.Model, gp: pm.gp.Latent, outcome: Any, X_data: Any, y_data: Any, n: int) -> Any:
    """The pm.Data that has a number for each row of the outcome, besides its function; None without."""
    # The shape of an outcome is that of its data.
    roots = {*ancestors([outcome], blockers=[gp.f])} - {y_data}
    found = [v for v in roots if isinstance(v, TensorSharedVariable) and v.type.ndim and len(data_value(v)) == n]
    if X_data in found:
        raise ValueError(
            f"{outcome.name!r} depends on X not through {gp.f.name!r} alone: put what does into the mean_func of gp"
        )
    if len(found) > 1 or (found and found[0].type.ndim > 1):
        raise ValueError(
            f"besides {gp.f.name!r}, {outcome.name!r} may depend on one number of each row, its trials or exposure; it "
            f"does on {', '.join(str(v.name) for v in found)}: make others columns of X, for the mean_func of gp"
        )
    if found and not np.all(data_value(found[0]) > 0):
        raise ValueError(f"{found[0].name}, the trials or exposure of rows, must be positive")
    return found[0] if found else None


def size_name(outcome: Any) -> str:
    """What the number of each row is called."""
    is_of_trials = isinstance(outcome.owner.op, BinomialRV | type(BetaBinomial.rv_op))
    return "y_trials" if is_of_trials else "exposure"


def check_likelihood(made: Any) -> None:
    """Look at the likelihood where the prior has the function and the parameters, and refuse what would go wrong."""
    likelihood, posterior, f = made.likelihood, made.posterior(), made.gp.f.name
    if any(rv.owner.op.name in ("flat", "half_flat") for rv in made.free_variables):
        thetas = 0.5 * np.random.default_rng(1).normal(size=(_DRAWS, made.n_parameters))
    else:
        thetas = made.unconstrain(made.draw_prior(_DRAWS, 1))
    mean, variance = posterior.function_moments(thetas)
    places = np.nanmedian(mean) + np.sqrt(np.nanmedian(variance)) * _PLACES
    likelihood.places, likelihood.typical = places, posterior.phi(thetas)
    expected = likelihood.expected(places, 1.0)
    size = np.ptp(expected[np.isfinite(expected)])
    if np.abs(expected - expected[:1]).max() > _ROUNDED * size:
        raise ValueError(
            f"the expected {made.name!r} must be a function of {f!r} alone, and depends on "
            f"{', '.join(label for label, *_ in likelihood.parameters)}: an intercept belongs into the mean_func "
            f"of gp, as pm.gp.mean.Constant(intercept), and a factor into its cov_func. {OTHERS}"
        )
    if not size > 0 or np.diff(expected[0]).min() < -_ROUNDED * size:
        raise ValueError(
            f"the expected {made.name!r} must increase with {f!r}: change the sign in the likelihood. {OTHERS}"
        )
    if likelihood.size_name and not np.allclose(likelihood.expected(places, 2.0), 2 * expected, rtol=1e-6):
        raise ValueError(
            f"the expected {made.name!r} must be proportional to {made.y_sd_data.name}, the {likelihood.size_name} of "
            f"rows: make other numbers of rows columns of X, for the mean_func of gp. {OTHERS}"
        )
    likelihood.is_real = not likelihood.is_discrete and np.allclose(
        expected[0], places, rtol=1e-6, atol=_ROUNDED * size
    )
    _, y, sizes = made.data
    likelihood.read(y, sizes)
    at, columns = places[:, None, None], likelihood.typical
    drawn = likelihood.draw(
        places[:, None] + np.zeros((1, _DRAWS)), 1.0, [column.T for column in columns], np.random.default_rng(2)
    )
    for outcomes, of in ((y[:_ROWS], made.data.sizes[:_ROWS]), (np.unique(drawn[np.isfinite(drawn)])[:_ROWS], 1.0)):
        bend = likelihood.terms(at, outcomes, of, columns)[2]
        if bend.min() < -_ROUNDED * max(np.abs(bend).max(), 1e-300):
            wrong = outcomes[np.argmin(bend.min((0, 1)))]
            raise ValueError(
                f"the likelihood {likelihood.name} is not log-concave in {f!r}, as at an outcome of {wrong:g}, so that "
                "Gaussians may not describe the function: pma.ard_gp(X, y, likelihood='student_t') is one with heavy "
                f"tails. {OTHERS}"
            )
        if _has_kink(likelihood, places, outcomes, of):
            raise ValueError(f"the log density of {likelihood.name} must be smooth in {f!r}, and has a kink. {OTHERS}")


def _has_kink(likelihood: Any, places: np.ndarray, y: np.ndarray, size: Any) -> bool:
    """Whether the slope of the log density jumps somewhere between the places."""

    def slope(f: np.ndarray) -> np.ndarray:
        return likelihood.terms(f, y, size, likelihood.typical)[1]

    whole = slope(places[:, None, None])
    low, high = (np.broadcast_to(part[:, None, None], whole[1:].shape) for part in (places[:-1], places[1:]))
    at_low, at_high = whole[:-1], whole[1:]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        at_middle = slope(middle)
        is_low = at_low - at_middle > at_middle - at_high
        low, high = np.where(is_low, low, middle), np.where(is_low, middle, high)
        at_low, at_high = np.where(is_low, at_low, at_middle), np.where(is_low, at_middle, at_high)
    return bool((at_low - at_high > 1e-3 * np.ptp(whole, axis=0)).any())
