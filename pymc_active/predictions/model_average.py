"""Posterior probabilities of several models of the same data, and the average over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from math import isclose
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

from pymc_active.inference.fit import Fit
from pymc_active.kernels.expressions import Expression, on_inputs
from pymc_active.laplace.like_terms import kernel_priors
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.factor import NotPositiveDefiniteError
from pymc_active.support.arguments import kind_of
from pymc_active.support.data import Data, OfData
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_numbers
from pymc_active.support.user_warnings import DoubtfulFitWarning, warn_user

# A model below this weight that cannot be expanded for other data is left out.
_IMPOSSIBLE = 1e-9
WEIGHTS = ("posterior", "tempered", "uniform")

Fits = Mapping[Any, Fit] | Sequence[Fit]
Prior = Mapping[Any, float] | Sequence[float] | None


def model_posterior(fits: Fits, *, prior: Prior = None) -> xr.DataArray:
    r"""Posterior probabilities of models of the same data, from their evidences.

    Parameters
    ----------
    fits : dict or sequence of fits, or ModelAverage
        One fit of each model, labelled by the keys of a dict or numbered. Inputs may differ, rows must correspond.
    prior : dict or sequence, optional
        Prior weights by key or in order, normalised here; by default the weights of a ModelAverage, else equal.

    Returns
    -------
    xarray.DataArray
        Probabilities over ``model``, with the coordinates ``log_evidence`` (nats), ``description`` and ``doubtful``
        (whether ``fit.is_doubtful``).

    Raises
    ------
    TypeError, ValueError
        For anything but fits, a model that occurs twice (up to the order of terms and factors), fits of different y,
        labels neither all text nor all numbers, a prior that does not match, or if no evidence is finite.

    Warns
    -----
    DoubtfulFitWarning
        If an evidence is not finite (that model gets probability 0), or the most probable model's fit is doubtful.

    Notes
    -----
    The evidence of :func:`fit_laplace` (Malkomes & Garnett 2015, Active Structure Discovery for Gaussian Processes) is
    the sum over the modes found, :math:`\log \sum_k \exp E_k` over ``fit.modes``, without secondary modes whose
    curvature had to be floored. It counts the overlap of modes twice, and on small data it is wrong by up to a few
    nats, differently for each model: compare models by :func:`pymc_active.fit`.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> models = {k: pma.ard_gp(x[:, None], np.sin(x), kernel=k) for k in ("ExpQuad", "Matern12")}
    >>> fits = {k: pma.fit(gpm, random_seed=1, progressbar=False) for k, gpm in models.items()}
    >>> print(pma.active.model_posterior(fits).idxmax().item())
    ExpQuad
    """
    labels, members = _read_fits(fits)
    log_evidence = np.array([fit.evidence.value for fit in members])
    probability = xr.DataArray(
        softmax(log_weights(log_evidence, prior_weights(_own_prior(fits, prior), labels))),
        dims="model",
        coords={
            "model": labels,
            "log_evidence": ("model", log_evidence, {"units": "nats"}),
            "description": ("model", [fit.gpm.description for fit in members]),
            "doubtful": ("model", np.array([fit.is_doubtful for fit in members])),
        },
        name="probability",
    )
    _warn(probability, members)
    return probability


def log_weights(log_evidence: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Log posterior weights up to a constant; -inf for excluded models."""
    with np.errstate(divide="ignore"):
        weights = np.where(np.isfinite(log_evidence), log_evidence + np.log(prior), -np.inf)
    if not np.isfinite(weights).any():
        raise ValueError("no model with a positive prior weight has a finite evidence: fit them again (pma.fit)")
    return weights


def _warn(probability: xr.DataArray, members: Sequence[Fit]) -> None:
    """Give one warning of everything doubtful about the probabilities."""
    problems = []
    labels, finite = probability.model.values.tolist(), np.isfinite(probability.log_evidence.values)
    if not finite.all():
        excluded = ", ".join(repr(label) for label, included in zip(labels, finite, strict=True) if not included)
        problems.append(
            f"the evidence of {excluded} is not finite, so its probability is 0: fit it again, a pm.Model with "
            "method='anneal'; or give log_noise a prior that keeps the noise away from zero"
        )
    best = int(np.argmax(probability.values))
    if probability.doubtful.values[best]:
        doubts = "; ".join(members[best].diagnostics["warnings"])
        problems.append(f"model {labels[best]!r} is the most probable, but its fit is doubtful: {doubts}")
    if problems:
        warn_user("; ".join(problems), DoubtfulFitWarning)


def _read_fits(fits: Any) -> tuple[list, list[Fit]]:
    if not isinstance(fits, Mapping | Sequence) or not len(fits):
        raise TypeError(f"fits must be a dict or a list with at least one fit; got {type(fits).__name__}")
    by_label = dict(fits if isinstance(fits, Mapping) else enumerate(fits))
    labels, members = list(by_label), list(by_label.values())
    check_labels(labels)
    for label, fit in by_label.items():
        if not isinstance(fit, Fit):
            raise TypeError(f"fits must hold fits (see pma.fit); {label!r} is {kind_of(fit)}")
        if not np.array_equal(fit.y, members[0].y):
            both = f"{labels[0]!r} and {label!r}"
            raise ValueError(f"the fits {both} have different y: fit every model to the same data (see gpm.set_data)")
    check_distinct({label: fit.gpm for label, fit in by_label.items()})
    return labels, members


def check_labels(labels: list) -> None:
    """Raise a ValueError for labels that a coordinate would not keep, such as tuples or text beside numbers."""
    if any(isinstance(label, tuple) for label in labels) or np.asarray(labels).tolist() != labels:
        raise ValueError(f"labels of models must be all text or all numbers; got {labels}")


def check_one_fit(fit: Any, function: str) -> None:
    """Raise a TypeError for anything but a fit of one model."""
    if not isinstance(fit, Fit):
        hint = "such as average.best" if isinstance(fit, ModelAverage) else "see pma.fit"
        raise TypeError(f"{function} takes a fit of one model ({hint}); got {kind_of(fit)}")


def _own_prior(fits: Any, prior: Any) -> Any:
    return fits.prior if prior is None and isinstance(fits, ModelAverage) else prior


def prior_weights(prior: Any, labels: list) -> np.ndarray:
    """Prior probabilities in the order of the labels, from a dict, a sequence or None (equal ones)."""
    if prior is None:
        return np.full(len(labels), 1 / len(labels))
    if isinstance(prior, Mapping):
        if set(prior) != set(labels):
            raise ValueError(f"prior must have the keys of fits, {labels}; got {list(prior)}")
        prior = [prior[label] for label in labels]
    weights = read_numbers(prior, "prior")
    if weights.shape != (len(labels),) or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"prior must hold {len(labels)} weights >= 0, one for each model, not all 0; got {prior}")
    return weights / weights.sum()


class ModelAverage(Mapping[Any, Fit], Summarized, OfData):
    """Fits of several models of the same data, with the models' posterior probabilities.

    A read-only mapping from labels to fits. ``predict`` and every criterion of ``pymc_active.active`` accept it in
    place of one fit. Arguments, errors and warnings are as in :func:`model_posterior`, with at least two fits, of
    the same X too.

    Attributes
    ----------
    probability : xarray.DataArray
        Posterior probabilities over ``model``, from :func:`model_posterior`.
    prior, weights : ndarray, shape (K,)
        Prior probabilities, and weights in predictions: the probabilities, unless changed by :meth:`weighted`.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 1, 12)
    >>> models = {k: pma.composite_gp(x[:, None], 3 * x + 0.1 * np.cos(40 * x), k) for k in ("SE", "LIN")}
    >>> fits = {k: pma.fit(gpm, random_seed=1, progressbar=False) for k, gpm in models.items()}
    >>> pma.ModelAverage(fits).best.gpm.description
    'composite_gp(LIN)'
    """

    def __init__(self, fits: Fits, *, prior: Prior = None):
        if isinstance(fits, Mapping | Sequence) and len(fits) < 2:
            raise ValueError(f"an average needs at least two models; got {len(fits)}: use the fit itself")
        labels, members = _read_fits(fits)
        self._fits = dict(zip(labels, members, strict=True))
        for label, fit in self._fits.items():
            if not np.array_equal(fit.X, members[0].X):
                both = f"{labels[0]!r} and {label!r}"
                raise ValueError(f"the fits {both} have different X: give every model of an average the same inputs")
        self.prior: np.ndarray = prior_weights(_own_prior(fits, prior), labels)
        self.probability = model_posterior(self._fits, prior=self.prior.tolist())
        self.weights = self.probability.to_numpy()

    def __getitem__(self, label: Any) -> Fit:
        return self._fits[label]

    def __iter__(self) -> Iterator:
        return iter(self._fits)

    def __len__(self) -> int:
        return len(self._fits)

    @property
    def best(self) -> Fit:
        """The fit of the most probable model."""
        return list(self._fits.values())[int(np.argmax(self.probability.values))]

    @property
    def gpm(self) -> GPModel:
        """The most probable model."""
        return self.best.gpm

    @property
    def data(self) -> Data:  # type: ignore[override]
        """The data of the fits."""
        return self.best.data

    def given(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> ModelAverage:
        """Each fit conditioned on other data, such as imagined outcomes; see :meth:`Fit.given`.

        The probabilities stay: their expectation over imagined outcomes is what they are now, whereas the predicted
        mean would favour the most certain models.
        """
        fits = {}
        for (label, fit), weight in zip(self._fits.items(), self.weights, strict=True):
            try:
                fits[label] = fit.given(X, y, y_sd)
            except NotPositiveDefiniteError as error:
                # A model of negligible weight must not stop the others.
                if weight > _IMPOSSIBLE:
                    raise NotPositiveDefiniteError(f"{label}: {error}") from error
        other = copy(self)
        other._fits = fits
        if len(fits) < len(self):
            kept = [label in fits for label in self]
            other.probability = self.probability[kept] / self.probability[kept].sum()
            other.prior = self.prior[kept] / self.prior[kept].sum()
            other.weights = self.weights[kept] / self.weights[kept].sum()
        return other

    def weighted(self, weights: str, negligible: float = 0.0) -> ModelAverage:
        """The same models with ``weights`` "posterior", "tempered" (square roots of the posterior) or "uniform".

        Models without prior weight or finite evidence always get zero, and so do those with a weight below
        ``negligible`` times the second largest.
        """
        if weights not in WEIGHTS:
            raise ValueError(f"weights must be one of {', '.join(WEIGHTS)}; got {weights!r}")
        logs = log_weights(self.probability.log_evidence.values, self.prior)
        power = {"posterior": 1.0, "tempered": 0.5, "uniform": 0.0}[weights]
        kept = np.isfinite(logs)
        values = np.zeros(len(self))
        values[kept] = softmax(power * logs[kept])
        values[values < negligible * np.sort(values)[-2:][0]] = 0.0
        other = copy(self)
        other.weights = values / values.sum()
        return other

    def with_prior(self, prior: Prior) -> ModelAverage:
        """The same models and evidences with other prior weights (dict or sequence); repeats the warnings."""
        other = copy(self)
        other.prior = prior_weights(prior, list(self))
        other.weights = softmax(log_weights(self.probability.log_evidence.values, other.prior))
        other.probability = self.probability.copy(data=other.weights)
        _warn(other.probability, list(self.values()))
        return other

    @property
    def table(self) -> xr.Dataset:
        """``probability`` and its coordinates as variables over ``model``, the most probable first."""
        return self.probability.sortby(self.probability, ascending=False).reset_coords()

    def _summary(self) -> Summary:
        frame = self.table[["probability", "log_evidence", "doubtful"]].to_dataframe().reset_index()
        frame["probability"] = frame.probability.map("{:.4f}".format)
        frame["log_evidence"] = frame.log_evidence.map("{:.2f}".format)
        frame["doubtful"] = np.where(frame.doubtful, "doubtful", "")
        return Summary(f"ModelAverage of {len(self)} models, {len(self.y)} points", tables=[frame])


def as_model_average(fits: Any, prior: Prior = None) -> ModelAverage:
    """A ModelAverage of a dict or list of fits; one that is given is returned as it is, or with another prior."""
    if not isinstance(fits, ModelAverage):
        return ModelAverage(fits, prior=prior)
    return fits if prior is None else fits.with_prior(prior)


def check_distinct(models: Mapping[Any, GPModel]) -> None:
    """Raise a ValueError if a model occurs twice, with kernels compared up to the order of terms and factors."""
    alike: dict[Expression | str, dict[Any, GPModel]] = {}
    for label, gpm in models.items():
        kernel = gpm.description if gpm.expression is None else on_inputs(gpm.expression, gpm.X.shape[1])
        others = alike.setdefault(kernel, {})
        for other_label, other in others.items():
            if gpm is other or (isinstance(gpm, GPModel) and _have_equal_priors(gpm, other)):
                raise ValueError(f"{other_label!r} and {label!r} are the same model and would count twice: drop one")
        others[label] = gpm


def _have_equal_priors(gpm: GPModel, other: GPModel) -> bool:
    """Whether two models with the same kernel also have the same priors, mean and scales."""
    if sorted(gpm.shapes.values()) != sorted(other.shapes.values()):
        return False
    posteriors = [one.posterior().with_data(*gpm.data) for one in (gpm, other)]
    if len({kernel_priors(posterior) for posterior in posteriors}) > 1:
        return False
    # With all parameters equal their order does not matter; means, noise and scales still show.
    theta = np.full(gpm.n_parameters, 0.3)
    return isclose(*(posterior.value(theta) for posterior in posteriors))
