"""Criteria that improve predictions at targets: expected predictive information gain, and integrated variance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, override

import numpy as np
import xarray as xr
from scipy.special import ndtr, xlogy

from pymc_active.criteria.base import Criterion, Scorer, is_lazy
from pymc_active.criteria.of_process import of_information
from pymc_active.inference.ensemble import Ensemble, Seed
from pymc_active.likelihoods.binary import Bernoulli, Binomial
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.conditioned import ConditionedGP, in_fewest_inputs
from pymc_active.predictions.ensembles import Source, as_ensemble, conditioned_gps, ensemble_of, models_of
from pymc_active.process.information import of_predictions
from pymc_active.process.members import Members
from pymc_active.process.process import Process
from pymc_active.support.options import count
from pymc_active.support.tables import in_order_of, read_bounds, read_inputs
from pymc_active.support.threads import one_blas_thread

# Targets drawn from a pool or a box, numbers in the largest array of one block, and the smallest variance (of y).
N_TARGETS, _BLOCK, _SMALLEST = 100, 4_000_000, 1e-10
_LABEL = Bernoulli()


def epig(
    fit: Source,
    X_pool: Any,
    *,
    X_target: Any = None,
    bounds: Any = None,
    model: GPModel | None = None,
    draws: int = 32,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    r"""Expected predictive information gain: what measuring each candidate tells about new observations, in nats.

    The mean over targets x* of the mutual information of the outcomes y at x and y* at x*. Outcomes are averaged over
    the hyperparameters and taken as jointly normal with their exact covariance, :math:`-\tfrac12 \log(1 - \rho^2)`.
    Labels are taken as what they are; counts as the normal measurements of the latent function that they are worth.

    Parameters
    ----------
    fit, X_pool, model, random_seed
        As in :func:`bald`.
    X_target : array_like, DataFrame or DataArray, shape (T, D), optional
        Where predictions matter, in the user's units; repeat a place, or draw from a density, to weigh it. By default
        100 points of ``bounds``, or else 100 rows of the pool, of a dask array 100 points of the model's box.
    bounds : list of (low, high), or dict by input, optional
        A box whose points are the default targets.
    draws : int
        Hyperparameter draws to average over.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better.

    References
    ----------
    .. [1] Bickford Smith et al. (2023), Prediction-oriented Bayesian active learning.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 8)[:, None]
    >>> fit = pma.fit(pma.ard_gp(x, np.sin(x[:, 0])), random_seed=1, progressbar=False)
    >>> pma.active.epig(fit, np.linspace(-4, 4, 5)[:, None], bounds=[(-4, 4)], random_seed=1).attrs["units"]
    'nats'
    """
    make = partial(Epig, draws=draws, random_seed=random_seed)
    return over_targets(make, fit, X_pool, X_target, bounds, model)


def integrated_variance(
    fit: Source,
    X_pool: Any,
    *,
    X_target: Any = None,
    bounds: Any = None,
    model: GPModel | None = None,
    draws: int = 32,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """By how much measuring each candidate lowers the variance of predictions, the mean over targets, in units of y².

    Parameters
    ----------
    fit, X_pool, X_target, bounds, model, draws, random_seed
        As in :func:`epig`. The variance belongs to the average over the hyperparameters.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better.

    References
    ----------
    .. [1] Cohn, Ghahramani & Jordan (1996), Active learning with statistical models.
    """
    make = partial(IntegratedVariance, draws=draws, random_seed=random_seed)
    return over_targets(make, fit, X_pool, X_target, bounds, model)


class Epig(Criterion):
    """:func:`epig` at targets (T, D) as a criterion with a gradient."""

    name, units = "epig", "nats"

    def __init__(self, targets: np.ndarray, *, draws: int = 32, random_seed: Seed = None):
        self.targets, self.draws, self.random_seed = targets, count("draws", draws), random_seed

    @override
    def prepare(self, source, *, model=None):
        ensemble = ensemble_of(source, model, draws=self.draws, random_seed=self.random_seed)
        with one_blas_thread():
            gps = conditioned_gps(ensemble, self.draws, random_seed=self.random_seed)
            return self.scorer_of(ensemble, [at_targets(in_fewest_inputs(gp), self.targets) for gp in gps])

    def scorer_of(self, ensemble: Ensemble, parts: list[AtTargets]) -> Scorer:
        """What scores candidates, given each GP at the targets."""
        if self.name == "epig" and isinstance(ensemble.gpm.likelihood, Binomial):
            return LabelScorer(ensemble, self.units, parts)
        return GainScorer(ensemble, self.units, parts, self.gain)

    @override
    def of_outcomes(self, ensemble, pending):
        def quantity(members: Members) -> Any:
            return of_predictions(members, self.targets, np.random.default_rng(0))

        return of_information(ensemble, quantity, pending)

    @staticmethod
    def gain(c: np.ndarray, v: np.ndarray, at_target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value (m, T) and its derivatives in c and v, from covariances (m, T) and variances v (m, 1) and (T,)."""
        left = np.maximum(1 - c * c / (v * at_target), _SMALLEST)
        return -0.5 * np.log(left), c / (v * at_target * left), -0.5 * c * c / (v * v * at_target * left)


class IntegratedVariance(Epig):
    """:func:`integrated_variance` at targets (T, D) as a criterion with a gradient."""

    name, units = "integrated_variance", "units of y, squared"

    @staticmethod
    @override
    def gain(c, v, at_target):
        return c * c / v, 2 * c / v, -c * c / (v * v)


class AtTargets(NamedTuple):
    """One GP: targets in the kernel's units, G⁻¹ k(data, targets), and predictions there in the user's units.

    ``variance`` is an outcome's, ``latent`` the function's.
    """

    gp: ConditionedGP
    targets: np.ndarray
    solved: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    latent: np.ndarray

    @property
    def unit(self) -> float:
        """The unit of the GP's outputs, in the user's."""
        return float(self.gp.posterior.y_map.scale)

    def joint(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance (m,) of f at points Z, and its covariances (m, T) with the targets; kernel's units."""
        cross = self.gp.covariance(self.gp.X, Z)
        mean, variance = self.gp.moments(Z, cross)
        return mean, variance, self.gp.covariance(Z, self.targets) - cross.T @ self.solved


def at_targets(gp: ConditionedGP, targets: np.ndarray) -> AtTargets:
    """What a criterion needs of one GP at targets (T, D) in the user's units."""
    Z, unit = gp.x_map(targets), float(gp.posterior.y_map.scale)
    mean, variance = gp.moments(Z)
    solved = gp.factor.solve(gp.covariance(gp.X, Z))
    of_outcome = unit**2 * (variance + gp.noise_variance(Z))
    return AtTargets(gp, Z, solved, gp.to_user_y(mean), of_outcome, unit**2 * variance)


@dataclass(eq=False)
class TargetScorer(Scorer):
    """What scores candidates by their covariances with targets, given each of several GPs, the ``parts``."""

    parts: list[AtTargets]
    # Arrays of the size of candidates and targets that are held at once.
    n_arrays: ClassVar[int] = 1

    @property
    def width(self) -> int:
        """Numbers that one candidate needs."""
        return len(self.parts[0].targets) * self.n_arrays

    @override
    def score(self, X):
        blocks = np.array_split(X, max(1, -(-len(X) * self.width // _BLOCK)))
        with one_blas_thread():
            return np.concatenate([self.score_block(block) for block in blocks])

    @override
    def coarse(self, n):
        # Some of each model. In ten cases the best of 5,000 by 32 draws was among the best 3 % by 16, but not by 8.
        return None if len(self.parts) < 2 * n else replace(self, parts=self.parts[:: len(self.parts) // n])

    @abstractmethod
    def score_block(self, X: np.ndarray) -> np.ndarray:
        """:meth:`score` of a few candidates."""


@dataclass(eq=False)
class GainScorer(TargetScorer):
    """A gain from the joint covariance of outcomes at candidates and targets, averaged over ``parts``."""

    gain: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]

    def __post_init__(self):
        means = np.stack([part.mean for part in self.parts])
        self._deviations = means - means.mean(0)
        self._at_target = np.mean([part.variance for part in self.parts], axis=0) + np.square(self._deviations).mean(0)

    @property
    @override
    def width(self):
        return len(self.parts[0].targets) + len(self.parts[0].gp.X)

    @override
    def score_block(self, X):
        return self._evaluate(X, False)[0]

    @override
    def gradient(self, X):
        with one_blas_thread():
            return self._evaluate(X, True)

    def _evaluate(self, X: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray]:
        share, T = 1 / len(self.parts), len(self._at_target)
        means, v, c = np.empty((len(self.parts), len(X))), np.zeros(len(X)), np.zeros((len(X), T))
        for s, part in enumerate(self.parts):
            Z, unit = part.gp.x_map(X), part.unit
            mean, variance, covariance = part.joint(Z)
            means[s] = part.gp.to_user_y(mean)
            v += share * unit**2 * (variance + part.gp.noise_variance(Z))
            c += share * unit**2 * covariance
        away = means - means.mean(0)
        v += np.square(away).mean(0)
        c += share * away.T @ self._deviations
        v = np.maximum(v, _SMALLEST * self._at_target.max() + np.finfo(float).tiny)
        value, in_c, in_v = self.gain(c, v[:, None], self._at_target)
        value, in_c, in_v = value.mean(1), in_c / T, in_v.sum(1) / T
        if not gradient:
            return value, np.empty(0)
        slope = np.zeros_like(X)
        for s, (gp, targets, solved, *_) in enumerate(self.parts):
            Z, unit = gp.x_map(X), self.parts[s].unit
            in_mean = unit * gp.sign * (2 * in_v * away[s] + in_c @ self._deviations[s])
            in_variance, in_covariance = unit**2 * in_v, unit**2 * in_c.T
            pulled = in_mean[:, None] * gp.prior_mean(Z)[1]
            pulled += in_variance[:, None] * (gp.prior_variance_gradient(Z) + gp.noise_variance_gradient(Z))
            # All else goes through covariances with the data and the targets.
            with_data = gp.alpha[:, None] * in_mean - 2 * in_variance * gp.factor.solve(gp.covariance(gp.X, Z))
            weights = np.concatenate([with_data - solved @ in_covariance, in_covariance])
            pulled += gp.pull(Z, weights, np.concatenate([gp.X, targets]))
            slope += share * gp.x_map.pullback(X, pulled)
        return value, slope


class LabelScorer(TargetScorer):
    """The mutual information of the labels of a candidate and a target, averaged over targets.

    Given a label the function at a target has the moments that :class:`~pymc_active.likelihoods.base.Tilted` says; it
    is taken to be normal, and a logit to be a probit of other units. The label also tells which of the ``parts`` is
    right.
    """

    n_full, share, n_arrays = 400, 0.0, 8

    @override
    def score_block(self, X):
        joint, share = np.zeros((2, len(X), len(self.parts[0].targets))), 1 / len(self.parts)
        label, probit = np.zeros((2, len(X))), self.ensemble.gpm.likelihood.per_probit
        for part in self.parts:
            unit = part.unit / probit
            center, variance, covariance = part.joint(part.gp.x_map(X))
            covariance = unit**2 * covariance
            f = part.gp.to_user_y(center) / probit, np.maximum(unit**2 * variance, np.finfo(float).tiny)
            for k, told in enumerate(_LABEL.tilted(*f, y, 1.0, ()) for y in (0.0, 1.0)):
                m = part.mean / probit + covariance * told.slope[:, None]
                v = np.maximum(part.latent / probit**2 - np.square(covariance) * told.bend[:, None], 0.0)
                label[k] += share * np.exp(told.log_z)
                joint[k] += share * np.exp(told.log_z)[:, None] * ndtr(m / np.sqrt(1 + v))
        after = entropy_of_label(joint / label[:, :, None])
        return np.maximum(entropy_of_label(joint.sum(0)) - (label[:, :, None] * after).sum(0), 0.0).mean(1)


def entropy_of_label(p: np.ndarray) -> np.ndarray:
    """Of labels that are yes with probability p, nats."""
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def targets_in(low: np.ndarray, high: np.ndarray, n: int = N_TARGETS) -> np.ndarray:
    """Points of a box (n, D), evenly spread; always the same."""
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    cube = qmc.Sobol(len(low), rng=np.random.default_rng(0)).random_base2((n - 1).bit_length())
    return low + (high - low) * cube[:n]


def rows_among(n_rows: int, n: int = N_TARGETS) -> np.ndarray:
    """Up to n of so many rows, always the same ones, sorted."""
    if n_rows <= n:
        return np.arange(n_rows)
    # At random: every k-th row of a grid may be a line through it.
    return np.sort(np.random.default_rng(0).choice(n_rows, n, replace=False))


def over_targets(
    make: Callable[[np.ndarray], Epig], fit: Any, X_pool: Any, X_target: Any, bounds: Any, model: GPModel | None
) -> xr.DataArray:
    """Scores of a pool by a criterion, at the targets that a user gave or that stand for a box or the pool."""
    # An average would warn twice.
    gpm = models[0] if (models := models_of(fit)) else as_ensemble(fit, model=model).gpm
    X_pool = gpm.read_pool(X_pool)
    if X_target is not None:
        X_target = gpm.read_pool(X_target)
        targets = read_inputs(in_order_of(gpm.inputs, X_target, "X_target"), "X_target", inputs=gpm.inputs)
    elif bounds is not None:
        targets = targets_in(*read_bounds(bounds, len(gpm.inputs), gpm.inputs))
    elif is_lazy(X_pool) and gpm.box is not None:
        targets = targets_in(*gpm.box)
    elif is_lazy(X_pool):
        raise ValueError("a dask pool does not say where predictions matter: pass X_target=... or bounds=...")
    else:
        X = read_inputs(in_order_of(gpm.inputs, X_pool, "X_pool"), "X_pool", inputs=gpm.inputs)
        targets = X[rows_among(len(X))]
    if isinstance(gpm, Process):
        gpm.check_rows(targets)
    return make(targets).over(fit, X_pool, model)
