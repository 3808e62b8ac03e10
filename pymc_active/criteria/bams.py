"""Criteria that discriminate between models: BAMS and query by committee."""

from __future__ import annotations

from typing import Any, Literal, override

import numpy as np
import xarray as xr

from pymc_active.criteria.base import MomentCriterion, rounding
from pymc_active.criteria.of_process import of_information
from pymc_active.inference.ensemble import Seed
from pymc_active.information.mixture_entropy import (
    mixture_entropy,
    mixture_entropy_gradient,
    mixture_information,
    mixture_information_gradient,
)
from pymc_active.predictions.mixtures import Mixture
from pymc_active.predictions.model_average import WEIGHTS, Fits, Prior, as_model_average
from pymc_active.process.information import of_models

# Models with less than this share of the second largest weight: twenty of them change the information by half a percent
# of its bound, the entropy of the models' probabilities, at most.
_NEGLIGIBLE = 1e-4


def bams(
    fits: Fits,
    X_pool: Any,
    *,
    prior: Prior = None,
    weights: Literal["posterior", "tempered", "uniform"] = "posterior",
    method: Literal["mgp", "modes", "draws"] | None = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    r"""Expected information about the model from measuring each candidate, in nats.

    Bayesian active model selection: the mutual information of the outcome y* (with noise) and the model,
    :math:`H[\sum_k p_k q_k(y^*)] - \sum_k p_k H[q_k(y^*)]`. It is at most the entropy of the model probabilities, and
    zero where all models predict the same. Models with less than 1e-4 of the second largest weight are left out.

    Parameters
    ----------
    fits : dict or list of fits, or ModelAverage
        One fit of each model, all of the same data.
    X_pool, draws, random_seed, prior
        As in :func:`bald` and :func:`model_posterior`.
    weights : {"posterior", "tempered", "uniform"}
        The model probabilities p_k. ``"posterior"`` gives the information itself. Early on the posterior may be certain
        of a wrong model, so that no candidate seems informative; ``"tempered"`` uses the normalised square roots of the
        posterior, ``"uniform"`` equal weights for all models with a finite evidence.
    method : {"mgp", "modes", "draws"}, optional
        A model's predictive q_k: by default the mixture over the draws that the fit holds, and of a LaplaceFit the
        marginal GP of its best mode (one Gaussian, as in the paper). ``"modes"`` is the mixture over all modes,
        ``"draws"`` that over draws. Information about a model's own mode or hyperparameters does not count.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better (Malkomes & Garnett 2015, Active Structure Discovery for Gaussian Processes,
        eqs. 4-6). Raises as :class:`pymc_active.ModelAverage`, and for unknown weights or methods.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x, y = np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.6]), np.array([0.1, 0.2, 0.7, 1.0, 1.4, 1.9])
    >>> models = {k: pma.composite_gp(x[:, None], y, k) for k in ("SE", "LIN")}
    >>> fits = {k: pma.fit(gpm, random_seed=1, progressbar=False) for k, gpm in models.items()}
    >>> int(pma.active.bams(fits, np.linspace(0, 1, 6)[:, None]).to_numpy().argmax())
    5
    """
    return Bams(weights, method, draws, random_seed).over(as_model_average(fits, prior), X_pool)


def committee(
    fits: Fits,
    X_pool: Any,
    *,
    method: Literal["mgp", "modes", "draws"] | None = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Query by committee: entropy of the equally weighted mixture of the models' predictives for y*, in nats.

    Parameters
    ----------
    fits, X_pool, method, draws, random_seed
        As in :func:`bams`.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better. A differential entropy may be negative.

    References
    ----------
    .. [1] Malkomes & Garnett (2015), footnote 4; Seung, Opper & Sompolinsky (1992).
    """
    return Committee(method, draws, random_seed).over(as_model_average(fits), X_pool)


class Bams(MomentCriterion):
    """:func:`bams` as a criterion with a gradient."""

    name, units = "bams", "nats"

    def __init__(
        self, weights: str = "posterior", method: str | None = None, draws: int = 128, random_seed: Seed = None
    ):
        if weights not in WEIGHTS:
            raise ValueError(f"weights must be one of {', '.join(WEIGHTS)}; got {weights!r}")
        super().__init__(method, draws, random_seed)
        self.weights = weights

    @override
    def of_outcomes(self, ensemble, pending):
        return of_information(ensemble, of_models, pending)

    @override
    def weigh(self, average):
        return average.weighted(self.weights, _NEGLIGIBLE)

    @override
    def value(self, p):
        if self.outcomes is not None:
            return self.outcomes.information(p, p.owner)
        return mixture_information(p.means, _of_observations(p), p.weights, p.owner)

    @override
    def partials(self, p):
        return mixture_information_gradient(p.means, _of_observations(p), p.weights, p.owner)


class Committee(MomentCriterion):
    """:func:`committee` as a criterion with a gradient."""

    name, units = "committee", "nats"

    @override
    def weigh(self, average):
        return average.weighted("uniform")

    @override
    def value(self, p):
        if self.outcomes is not None:
            return self.outcomes.entropy(p)
        return mixture_entropy(p.means, _of_observations(p), p.weights)

    @override
    def partials(self, p):
        return mixture_entropy_gradient(p.means, _of_observations(p), p.weights)


def _of_observations(p: Mixture) -> np.ndarray:
    return np.maximum(p.variances + p.noises, rounding(p))
