"""Criteria that search for the maximum by predictive mean and variance alone."""

from __future__ import annotations

from typing import Any, override

import numpy as np
import xarray as xr
from scipy.special import erfcx, log_ndtr, logsumexp, ndtr

from pymc_active.criteria.base import MatchedCriterion, rounding
from pymc_active.criteria.of_process import of_bound, of_improvement
from pymc_active.inference.ensemble import GAUSSIAN_METHODS, Seed
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.predictions.ensembles import Source
from pymc_active.predictions.mixtures import mixture
from pymc_active.predictions.predict import posterior_mean
from pymc_active.support.arguments import check_flags
from pymc_active.support.threads import one_blas_thread


def expected_improvement(
    fit: Source,
    X_pool: Any,
    *,
    model: GPModel | None = None,
    minimize: bool = False,
    method: str | None = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    r"""Log of the expected improvement over the best posterior mean at the data.

    Parameters
    ----------
    fit, X_pool, model, draws, random_seed
        As in :func:`bald`.
    minimize : bool
        Improve downwards.
    method : {"mgp", "bbq", "map", "modes", "draws"}, optional
        ``"map"``, ``"bbq"`` and ``"mgp"`` use one Gaussian with the marginal mean and variance (of the models'
        average). The other methods, and a trace, average each component's improvement over its own best mean.

    Returns
    -------
    xarray.DataArray
        :math:`\log(\sigma h(z))` over ``point``, with z = (mean - best) / sd and h(z) = φ(z) + z Φ(z), the argument in
        units of y. The logarithm keeps a useful gradient where improvement is unlikely. Where outcomes that are not
        normal have no upper end, as counts and ``"warped"`` ones, improvements are of the latent function, in units of
        y at the best mean: the mean outcome is out of all proportion where little is known.

    References
    ----------
    .. [1] Jones, Schonlau & Welch (1998); Ament et al. (2023) for the logarithm.
    """
    return ExpectedImprovement(minimize, method, draws, random_seed).over(fit, X_pool, model)


def upper_confidence_bound(
    fit: Source,
    X_pool: Any,
    *,
    model: GPModel | None = None,
    beta: float = 4.0,
    minimize: bool = False,
    method: str | None = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """The posterior mean plus sqrt(beta) sds, in units of y; with ``minimize``, sqrt(beta) sds minus the mean.

    Of counts and mapped outcomes (``likelihood="poisson"``, ``"warped"``, ...) these are of the latent function.

    Parameters
    ----------
    fit, X_pool, model, method, draws, random_seed
        As in :func:`expected_improvement`; a mixture enters by its mean and variance.
    beta : float
        Finite, not negative.
    minimize : bool

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better.

    References
    ----------
    .. [1] Srinivas et al. (2010), eq. 6.
    """
    return UpperConfidenceBound(beta, minimize, method, draws, random_seed).over(fit, X_pool, model)


class ExpectedImprovement(MatchedCriterion):
    """:func:`expected_improvement` as a criterion with a gradient."""

    name, units, has_partials_of_function = "expected_improvement", "log of units of y", True

    def __init__(self, minimize: bool = False, method: str | None = None, draws: int = 128, random_seed: Seed = None):
        super().__init__(method, draws, random_seed)
        check_flags(minimize=minimize)
        self.sign = -1.0 if minimize else 1.0
        # The best mean at the data: of a Gaussian approximation (0-d), or of each component (S, 1).
        self.best = np.array(np.nan)
        # Where outcomes have no upper end, the log of their slope in f: improvements are to the first order (S, 1).
        self.log_unit: np.ndarray | float = 0.0

    @override
    def bind(self, ensemble):
        bound = super().bind(ensemble)
        with one_blas_thread():
            if bound.is_of_function:
                best = (self.sign * mixture(ensemble, ensemble.X).means).max(1, keepdims=True)
                bound.best, bound.log_unit = best, bound.outcomes.log_units(self.sign * best[None])[0]
            elif bound.outcomes is not None:
                bound.best = (self.sign * bound.outcomes.moments(mixture(ensemble, ensemble.X))[0]).max(1)[:, None]
            elif ensemble.method in GAUSSIAN_METHODS:
                bound.best = np.max(self.sign * posterior_mean(ensemble, ensemble.X))
            else:
                bound.best = (self.sign * mixture(ensemble, ensemble.X).means).max(1, keepdims=True)
        return bound

    @override
    def of_outcomes(self, ensemble, pending):
        return of_improvement(ensemble, self.sign, pending)

    def _improvement(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sd, standardised mean and log improvement."""
        sd = np.sqrt(variance)
        z = (self.sign * mean - self.best) / sd
        return sd, z, np.log(sd) + log_h(z) + self.log_unit

    def _slopes(self, share: Any, sd: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of a share of the log improvement in mean and variance."""
        slope = np.exp(log_ndtr(z) - log_h(z))
        return share * self.sign * slope / sd, share * (0.5 - 0.5 * z * slope) / (sd * sd)

    @override
    def of_moments(self, mean, variance):
        sd, z, each = self._improvement(mean, variance)
        return each, *self._slopes(1.0, sd, z)

    @override
    def value(self, p):
        if self.outcomes is not None and not self.is_of_function:
            return logsumexp(self.outcomes.log_improvement(p, self.best, self.sign), axis=0, b=p.weights[:, None])
        if not self.best.ndim:
            return super().value(p)
        _, _, each = self._improvement(p.means, np.maximum(p.variances, rounding(p)))
        return logsumexp(each, axis=0, b=p.weights[:, None])

    @override
    def partials(self, p):
        if not self.best.ndim:
            return super().partials(p)
        sd, z, each = self._improvement(p.means, np.maximum(p.variances, rounding(p)))
        share = p.weights[:, None] * np.exp(each - logsumexp(each, axis=0, b=p.weights[:, None]))
        return self._slopes(share, sd, z)


def log_h(z: np.ndarray) -> np.ndarray:
    """log(φ(z) + z Φ(z)), accurate for every z."""
    z = np.asarray(z, float)
    log_phi = -0.5 * (LOG_2PI + z * z)
    low = np.minimum(z, -1.0)
    # z Φ(z) / φ(z) by the scaled complementary error function; far out, the asymptotic series has more digits.
    ratio = 1 + low * np.sqrt(np.pi / 2) * erfcx(-low / np.sqrt(2))
    far = low**-2 * (1 - 3 * low**-2 * (1 - 5 * low**-2))
    tail = np.log(np.where(low < -300, far, ratio))
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        near = np.log(np.exp(log_phi) + np.where(z > -1, z, 0.0) * ndtr(z))
    return np.where(z > -1, near, log_phi + tail)


class UpperConfidenceBound(MatchedCriterion):
    """:func:`upper_confidence_bound` as a criterion with a gradient; ``beta=0`` is the posterior mean."""

    name, units, has_partials_of_function = "upper_confidence_bound", "units of y", True

    def __init__(
        self, beta: float = 4.0, minimize: bool = False, method: str | None = None, draws: int = 128,
        random_seed: Seed = None,
    ):  # fmt: skip
        super().__init__(method, draws, random_seed)
        check_flags(minimize=minimize)
        if not (isinstance(beta, int | float | np.number) and 0 <= beta < np.inf):
            raise ValueError(f"beta must be a finite number that is not negative; got {beta!r}")
        self.width, self.sign = float(np.sqrt(beta)), -1.0 if minimize else 1.0

    @override
    def bind(self, ensemble):
        bound = super().bind(ensemble)
        bound.units = "units of the function" if bound.is_of_function else self.units
        return bound

    @override
    def of_outcomes(self, ensemble, pending):
        return of_bound(ensemble, self.sign, self.width)

    @override
    def value(self, p):
        if self.outcomes is None or self.is_of_function:
            # Of outcomes without an end the mean is out of all proportion where little is known.
            return super().value(p)
        rates = self.outcomes.rates(p)
        mean = p.weights @ rates.mean(0)
        return self.sign * mean + self.width * np.sqrt(p.weights @ np.square(rates - mean).mean(0))

    @override
    def of_moments(self, mean, variance):
        sd = np.sqrt(variance)
        return self.sign * mean + self.width * sd, np.full_like(mean, self.sign), 0.5 * self.width / sd
