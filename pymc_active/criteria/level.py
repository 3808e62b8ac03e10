"""Where the function, or the probability of success, crosses a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, override

import numpy as np
import xarray as xr
from scipy.special import ndtr

from pymc_active.criteria.epig import AtTargets, Epig, TargetScorer, entropy_of_label, over_targets
from pymc_active.inference.ensemble import Seed
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import Source

# Outcomes that stand for a Gaussian one.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def level(
    fit: Source,
    X_pool: Any,
    threshold: float,
    *,
    X_target: Any = None,
    bounds: Any = None,
    model: GPModel | None = None,
    draws: int = 32,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """What measuring each candidate tells about on which side of a threshold the function is, in nats.

    The mean over targets x* of the mutual information of the outcome at x and whether f(x*) is above the threshold,
    given the hyperparameters and averaged over these. Outcomes that are not normal count as the Gaussian measurement of
    f that they are worth.

    Parameters
    ----------
    fit, X_pool, X_target, bounds, model, draws, random_seed
        As in :func:`epig`.
    threshold : float
        In units of y; with a ``likelihood`` a probability of success between 0 and 1, or an expected count.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better. Ask by it with ``criterion=functools.partial(level, threshold=0.9)``.

    Raises
    ------
    ValueError
        For a threshold that is no number, or that no outcome can have on average.

    References
    ----------
    .. [1] Gotovos, Casati, Hitz & Krause (2013), Active learning for level set estimation, has the question; the
       information is as in :func:`epig`, about the sign of f - threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 8)[:, None]
    >>> fit = pma.fit(pma.ard_gp(x, x[:, 0] > 0.3, likelihood="bernoulli"), random_seed=1, progressbar=False)
    >>> pool = np.linspace(-2, 2, 9)[:, None]
    >>> pool[int(pma.active.level(fit, pool, 0.5).argmax("point"))]
    array([0.5])
    """
    make = partial(Level, threshold=threshold, draws=draws, random_seed=random_seed)
    return over_targets(make, fit, X_pool, X_target, bounds, model)


class Level(Epig):
    """:func:`level` at targets (T, D) as a criterion."""

    name, units = "level", "nats"

    def __init__(self, targets: np.ndarray, *, threshold: Any = None, draws: int = 32, random_seed: Seed = None):
        super().__init__(targets, draws=draws, random_seed=random_seed)
        is_number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
        if not (is_number and np.isfinite(threshold)):
            example = "criterion=functools.partial(level, threshold=0.9)"
            raise ValueError(f"level needs a threshold, a number: {example}; got {threshold!r}")
        self.threshold = float(threshold)

    @override
    def scorer_of(self, ensemble, parts):
        places = [part.gp.from_expected(self.threshold) for part in parts]
        if not np.isfinite(places).all():
            raise ValueError(f"threshold={self.threshold:g} is no expected outcome of {ensemble.gpm.description}")
        return LevelScorer(ensemble, self.units, parts, places)


@dataclass(eq=False)
class LevelScorer(TargetScorer):
    """Information about the sign of f less its ``places``, one a part, at targets, averaged over ``parts``."""

    places: list[float]
    n_full, share, n_arrays = 200, 0.0, 2 * len(_NODES)

    @override
    def coarse(self, n):
        if len(self.parts) <= n // 2:
            return None
        return LevelScorer(self.ensemble, self.units, self.parts[: n // 2], self.places[: n // 2])

    @override
    def score_block(self, X):
        return np.mean([self._of(*pair, X) for pair in zip(self.parts, self.places, strict=True)], axis=0)

    def _of(self, part: AtTargets, place: float, X: np.ndarray) -> np.ndarray:
        Z, unit = part.gp.x_map(X), part.unit
        _, variance, shift = part.joint(Z)
        shift /= np.sqrt(np.maximum(variance + part.gp.noise_variance(Z), np.finfo(float).tiny))[:, None]
        before, removed = part.latent / unit**2, np.square(shift)
        left = np.sqrt(np.maximum(before - removed, 1e-10 * before))
        # In sds of f at the targets.
        away = (part.mean - place) / unit
        outcome = entropy_of_label(ndtr((away + shift * _NODES[:, None, None]) / left))
        return np.maximum(
            entropy_of_label(ndtr(away / np.sqrt(before))) - np.einsum("k,kmt->mt", _WEIGHTS, outcome), 0.0
        ).mean(1)
