"""Measurements of a posterior: those at equal settings are one row, whose mean says all about the function.

With k measurements of noise variance v at a setting, p(y) = N(mean | f, v / k) times a factor that knows v only.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import NamedTuple

import numpy as np

from pymc_active.posterior.base import Posterior
from pymc_active.posterior.factor import LOG_2PI, Beside, Factor
from pymc_active.posterior.prior import GaussianPrior, RenewedPrior
from pymc_active.support.scaling import Affine, InputMap, spread

# Only with more measurements than this, and at most so many settings for each of them, it pays: guesses.
_FEW, _SHARE = 40, 0.8


class Replicates(NamedTuple):
    """How many measurements each row stands for (m,), and the sums of their squared deviations from its mean (m,)."""

    counts: np.ndarray
    scatter: np.ndarray

    def beside(self, variance: np.ndarray, log_scale: float) -> Beside:
        """What the means leave out, for noise variances (..., m); ``log_scale`` is the log of the unit of y."""
        more, part = self.counts - 1, self.scatter / variance
        each = more * (np.log(variance) + LOG_2PI + 2 * log_scale) + np.log(self.counts) + part
        slope, curvature = (more - part) / variance, (2 * part - more) / variance**2
        return Beside(*(-0.5 * values.sum(-1) for values in (each, slope, curvature)))


def find_replicates(
    X: np.ndarray, y: np.ndarray, known_variance: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray, Replicates] | None:
    """Rows (m,) that stand for rows of equal X (n, D) and ``known``, the means of y there; None if few are equal."""
    n = len(y)
    if n <= _FEW:
        return None
    # 0.0 is equal to -0.0, of other bytes.
    table, seen = np.column_stack([X, np.broadcast_to(known_variance, n)]) + 0.0, dict[bytes, int]()
    group = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in table])
    if len(seen) > _SHARE * n:
        return None
    counts = np.bincount(group)
    # A shift that rounding does not notice: some data are far from zero.
    means = y.mean() + np.bincount(group, y - y.mean()) / counts
    scatter = np.bincount(group, np.square(y - means[group]))
    return np.unique(group, return_index=True)[1], means, Replicates(counts, scatter)


@dataclass(eq=False, repr=False)
class MeasuredPosterior(Posterior):
    """A posterior by the means of replicates, where there are many, with the known variances of measurements.

    X, y and y_sd are given in the user's units.
    """

    X: np.ndarray
    y: np.ndarray
    y_sd: InitVar[np.ndarray | None]
    _: KW_ONLY
    x_map: InputMap
    y_map: Affine
    n_parameters: int
    constants: np.ndarray
    prior: GaussianPrior
    # Position of the log noise sd in (theta, constants); the mean is ``mean_basis(X) @ theta[mean_indices]``.
    log_noise: int
    mean_indices: np.ndarray
    mean_basis: Callable[[np.ndarray], np.ndarray]
    # Positions of the parameters of a likelihood that is not normal.
    phi_indices: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    # Makes the prior from scaled y, if it is renewed when data are added.
    renewed_prior: RenewedPrior | None = None
    replicates: Replicates | None = field(default=None, init=False)

    def __post_init__(self, y_sd):
        self._set_data(self.X, self.y, y_sd)

    def _set_data(self, X, y, y_sd):
        self._given = X, y, y_sd
        self._hold_each()
        if self.renewed_prior is not None:
            self.prior = self.renewed_prior.given(self.y)
        if (means := find_replicates(self.X, self.y, self.known_variance)) is not None:
            self._take(means[0])
            _, self.y, self.replicates = means
            self.counts = self.replicates.counts

    def _hold_each(self):
        X, y, y_sd = self._given
        self.X, self.y = self.x_map(X), self.y_map(y)
        self.known_variance = 0.0 if y_sd is None else np.square(y_sd / self.y_map.scale)
        self._basis, self.counts, self.replicates = self.mean_basis(self.X), 1, None
        self.forget()

    @property
    def of_each(self):
        if self.replicates is None:
            return self
        other = copy(self)
        other._hold_each()
        return other

    @property
    def noise_unit(self):
        within = 0.0 if self.replicates is None else self.replicates.scatter.sum() / self.counts.sum()
        return float(np.hypot(spread(self.y), np.sqrt(within))) or 1.0

    def forget(self):
        self.__dict__.pop("pairs", None)

    def subset(self, rows):
        other = copy(self)
        other._take(rows)
        return other

    def _take(self, rows):
        self.forget()
        self.X, self.y, self._basis = self.X[rows], self.y[rows], self._basis[rows]
        if isinstance(self.known_variance, np.ndarray):
            self.known_variance = self.known_variance[rows]
        if self.replicates is not None:
            self.replicates = Replicates(*(part[rows] for part in self.replicates))
            self.counts = self.replicates.counts

    def noise_variances(self, theta: np.ndarray, extra_noise: float = 0.0) -> np.ndarray | float:
        """Variances of the measurements about the function, a number or (n,), for (theta, constants)."""
        return (np.exp(2 * theta[self.log_noise]) + extra_noise + self.known_variance) / self.counts

    def beside(self, noise: np.ndarray | float) -> Beside:
        """What means of replicates leave out of the log likelihood, for noise variances (S,) or one."""
        if self.replicates is None:
            return Beside()
        return self.replicates.beside(
            np.asarray(noise)[..., None] + self.known_variance, float(np.log(self.y_map.scale))
        )

    def _noise_curvature(self, noise: float, factor: Factor) -> float:
        """Second derivative of the negative log likelihood in the log noise, at constant W."""
        _, slope, curvature = factor.beside
        return float(2 * noise * (self.trace(factor.W) - 2 * slope - 2 * noise * curvature))
