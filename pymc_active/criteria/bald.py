"""Criteria that learn the function or its hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, override

import numpy as np
import xarray as xr

from pymc_active.criteria.base import MatchedCriterion, MomentCriterion, rounding
from pymc_active.criteria.of_process import of_information
from pymc_active.inference.ensemble import MIXTURE_METHODS, Ensemble, Seed
from pymc_active.information.mixture_entropy import gaussian_entropy, mixture_entropy, mixture_entropy_gradient
from pymc_active.likelihoods.warped import Mapped
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import Source
from pymc_active.predictions.latent_outcomes import LatentOutcomes
from pymc_active.predictions.mixtures import Mixture, mixture
from pymc_active.process.information import AllParameters, Virtual, of_targets, read_targets
from pymc_active.process.members import Members


def bald(
    fit: Source,
    X_pool: Any,
    *,
    model: GPModel | None = None,
    target: Literal["y", "f"] = "y",
    method: Literal["mgp", "bbq", "modes", "draws"] | None = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
    targets: Sequence[str] | None = None,
) -> xr.DataArray:
    r"""Expected information about the parameters of a model from measuring each candidate, in nats.

    Bayesian active learning by disagreement: the mutual information of the outcome and the hyperparameters. For the
    marginal GP it is :math:`\tfrac12 \log(\tilde V / V)`, where V is the predictive variance with the hyperparameters
    at the mode and :math:`\tilde V` the marginal one; for a mixture, its entropy minus the mean entropy of its
    components.

    Parameters
    ----------
    fit : Fit, ModelAverage, dict or list of fits, Ensemble, or xarray.DataTree
        With several models: the information about model and hyperparameters together; :func:`bams` counts the model
        alone. A trace gives the mixture over its draws.
    X_pool : array_like, DataFrame, DataArray or dask array, shape (m, D)
        Candidates in the user's units. A dask array is scored lazily, block by block, in the memory of one block;
        ``scores.data.argmax()`` is the best row, also lazily.
    target : {"y", "f"}
        ``"y"``: include the noise in both variances, for the information in an *observation*. ``"f"``: the paper's
        latent function. On nearly noise-free data the latent ratio degenerates and prefers points where both variances
        are tiny.
    method : {"mgp", "bbq", "modes", "draws"}, optional
        How to marginalise the hyperparameters of a fit, as in :func:`pymc_active.predict`. ``"mgp"`` and ``"bbq"`` use
        the marginal variance of one mode; under ``"mgp"`` the latent value is at least ½ log(4/3) = 0.144. ``"modes"``
        includes the information about the mode. ``"draws"``, the default of :func:`pymc_active.fit`, decides most like
        MCMC: over 50 problems its pick had 0.99 of the largest true information, the pick of ``"mgp"`` 0.82.
    targets : list of str, optional
        Free variables or Deterministics that the information is to be about, such as ``["EC50"]`` or, of a GP,
        ``["lengthscale"]``, in place of all parameters. For a ``pm.Model`` ``target``, ``method`` and ``draws`` mean
        nothing.
    model, draws, random_seed
        The model of a trace; for ``method="draws"``, draws from the posterior of each fit and a seed. Of counts and
        Student-t outcomes 96 draws score, unless ``draws`` is above 128.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better (Garnett, Osborne & Hennig 2014, eqs. 20-21).

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 8)
    >>> fit = pma.fit(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> pma.active.bald(fit, np.linspace(-4, 4, 5)[:, None]).attrs["units"]
    'nats'
    """
    return Bald(target, method, draws, random_seed, targets).over(fit, X_pool, model)


def _values_of(ensemble: Ensemble, names: Sequence[str]) -> np.ndarray:
    """The values (S, t) of variables of a GP model, by name."""
    if ensemble.n_models > 1 or ensemble.is_gaussian:
        raise ValueError("targets= are of one model, over draws of its posterior: pass method='draws'")
    if ensemble.gpm.likelihood is None and np.ptp(mixture(ensemble, ensemble.X).noises, axis=1).any():
        raise ValueError("targets= need the same noise everywhere")
    values = ensemble.gpm.constrain(ensemble.thetas)
    if not names or not set(names) <= set(values):
        raise ValueError(f"targets must name variables of the model, some of {', '.join(values)}; got {list(names)}")
    return np.concatenate([np.reshape(values[name], (len(ensemble), -1)) for name in names], axis=1)


class Bald(MomentCriterion):
    """:func:`bald` as a criterion with a gradient."""

    name, units = "bald", "nats"
    methods = ("mgp", "bbq", *MIXTURE_METHODS)

    # What the information is about, if not all hyperparameters.
    quantity: Virtual | None = None

    def __init__(
        self, target: str = "y", method: str | None = None, draws: int = 128, random_seed: Seed = None,
        targets: Sequence[str] | None = None,
    ):  # fmt: skip
        if target not in ("y", "f"):
            raise ValueError(f"target must be 'y' or 'f'; got {target!r}")
        super().__init__(method, draws, random_seed)
        self.with_noise, self.targets = float(target == "y"), targets

    @override
    def bind(self, ensemble):
        bound = super().bind(ensemble)
        if self.targets is not None:
            bound.outcomes = bound.outcomes or LatentOutcomes.of(ensemble, Mapped())
            values = _values_of(ensemble, self.targets)
            bound.quantity = of_targets(ensemble.weights, values)
        return bound

    @override
    def check_outcomes(self, models):
        super().check_outcomes(models)
        if not self.with_noise:
            raise ValueError("target='f' is for GP models: a pm.Model has outcomes, and targets= for its parameters")
        for process in models if self.targets is not None else ():
            process.check_targets(self.targets)

    @override
    def of_outcomes(self, ensemble, pending):
        def quantity(members: Members) -> Any:
            if self.targets is None:
                # Of several models, the parameters of each and the model.
                return AllParameters(members.weights)
            return of_targets(members.weights, read_targets(members, self.targets))

        return of_information(ensemble, quantity, pending)

    def _variances(self, p: Mixture) -> tuple[np.ndarray, np.ndarray]:
        noise, floor = self.with_noise * p.noises, rounding(p)
        return np.maximum(p.variances + noise, floor), np.maximum(p.conditional + noise, floor)

    @override
    def value(self, p):
        if self.outcomes is not None:
            if self.quantity is not None:
                return np.concatenate([self.quantity.of_values(log) for log in self.outcomes.tables(p)])
            return self.outcomes.information(p) if self.with_noise else self.outcomes.information_about_function(p)
        variances, conditional = self._variances(p)
        return mixture_entropy(p.means, variances, p.weights) - p.weights @ gaussian_entropy(conditional)

    @override
    def partials(self, p):
        variances, conditional = self._variances(p)
        return *mixture_entropy_gradient(p.means, variances, p.weights), -0.5 * p.weights[:, None] / conditional


def uncertainty(
    fit: Source,
    X_pool: Any,
    *,
    model: GPModel | None = None,
    method: str | None = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Uncertainty sampling: the sd of f at each candidate, in units of y, or of the probability or expected count.

    Of a normal outcome its maximiser also maximises the entropy H[f], the first term of BALD.

    Parameters
    ----------
    fit, X_pool, model, draws, random_seed
        As in :func:`bald`; several models give the sd of their average.
    method : {"mgp", "bbq", "map", "modes", "draws"}, optional
        As in :func:`pymc_active.predict`.

    Returns
    -------
    xarray.DataArray
        Over ``point``; larger is better.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 4.
    """
    return Uncertainty(method, draws, random_seed).over(fit, X_pool, model)


class Uncertainty(MatchedCriterion):
    """:func:`uncertainty` as a criterion with a gradient."""

    name, units = "uncertainty", "units of y"

    @override
    def value(self, p):
        return super().value(p) if self.outcomes is None else np.sqrt(self.outcomes.rate_moments(p)[1])

    @override
    def of_moments(self, mean, variance):
        sd = np.sqrt(variance)
        return sd, np.zeros_like(mean), 0.5 / sd
