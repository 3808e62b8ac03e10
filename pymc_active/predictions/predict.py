"""Predict the function and new observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.fit import Fit
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.information.mixture_quantiles import mixture_log_density, mixture_quantiles
from pymc_active.likelihoods.base import usual
from pymc_active.likelihoods.warped import LogNormal
from pymc_active.models.advice import far_outside
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.ensembles import Source, as_ensemble, ensemble_from, is_of_processes
from pymc_active.predictions.latent_outcomes import DRAWS, LatentOutcomes, weighted_quantiles
from pymc_active.predictions.mixtures import draw_moments, mixture
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.process.members import Members
from pymc_active.support.tables import point_labels, read_inputs, read_outputs, read_probabilities
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import warn_if

# Members times points of a block; of a pm.Model its points, and the quantiles by default.
_BLOCK, _POINTS, _QUANTILES = 5_000_000, 488, (0.05, 0.5, 0.95)


def predict(
    source: Source,
    X_new: Any,
    *,
    method: str | None = None,
    quantiles: Sequence[float] | None = None,
    y_new: Any = None,
    y_trials: Any = None,
    exposure: Any = None,
    model: GPModel | None = None,
    draws: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    """Predict the function and new observations, including the uncertainty of the hyperparameters.

    Garnett, Osborne & Hennig (2014), section 3; for several models Malkomes & Garnett (2015), eq. 5.

    Parameters
    ----------
    source : ParticleFit, Fit, ModelAverage, dict or list of fits, Ensemble, or xarray.DataTree
        Several models are averaged by their posterior probabilities. Predictions from a trace are the exact moments of
        the mixture over all its draws, given the data that ``model``, which a trace needs, holds now.
    X_new : array_like, DataFrame or DataArray, shape (m, D)
        In the user's units. Row labels are kept.
    method : {"mgp", "bbq", "map", "modes", "draws"}, optional
        How to marginalise the hyperparameters of a fit: by default over its particles, for a LaplaceFit ``"mgp"``.
        ``"map"`` fixes them at the mode with most of the evidence, of the unconstrained parameters with the
        Jacobian, which ``pm.find_MAP`` leaves out; ``"bbq"`` adds the mean's variance; ``"mgp"`` also the
        variance's; ``"modes"`` mixes the MGP predictions of all modes found, weighted by evidence. ``"draws"`` gives
        exact moments of a mixture of GPs at draws from the posterior; unlike the MGP variance, it tends to V, not
        4/3 V, as the hyperparameters become known. For several models: the exact moments of the mixture of their
        predictions.
    quantiles : sequence of float, optional
        Probabilities between 0 and 1, such as ``(0.05, 0.95)``, of a ``pm.Model`` by default 0.05, 0.5 and 0.95. These
        are quantiles of the mixture itself, which is not Gaussian: on few data its tails are heavier.
    y_new : array_like, shape (m,), optional
        Observations at ``X_new``, for their log density under the prediction.
    y_trials, exposure : float or array_like of shape (m,), optional
        The trials or the exposure for ``y_mean``, ``y_variance``, ``y_quantile`` and ``y_log_density``, with a
        ``likelihood`` that has these; by default one.
    model, draws, random_seed
        The model of a trace; for ``method="draws"``, draws from the posterior of each fit (by default all particles, or
        128) and a seed. Equally weighted particles are in random order, and the first are taken, whatever the seed.

    Returns
    -------
    xarray.Dataset
        ``f_mean``, ``f_variance`` (of the latent function) and ``y_variance`` (including noise: of the mode, or
        its mean over the mixture) over ``point``, in units of y and their squares. With ``quantiles`` also
        ``f_quantile`` and ``y_quantile`` over ``quantile`` and ``point``; with ``y_new`` also ``y_log_density`` (nats),
        whose negative mean is the NLL. With a ``likelihood``, and of a ``pm.Model``, ``f`` is the expected outcome,
        such as the probability of success or the expected count (of one trial, or an exposure of one). Where a map of
        outcomes is normal, it is the outcome without noise, and moments are over 40 equally probable values of each
        draw: they leave out the ends, since a mean may be infinite. There is also ``y_mean``, for a ``pm.Model`` by
        draws where PyMC has no formula.

    Raises
    ------
    TypeError, ValueError
        For an unknown method, points of the wrong width or with NaN, probabilities outside (0, 1), ``y_new`` of another
        length, a trace without ``model``, and ``y_trials`` or ``exposure`` where the ``likelihood`` has none.

    Warns
    -----
    DataWarning
        If points lie far outside the ``bounds`` of the model.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> fit = pma.fit(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> list(pma.predict(fit, [[0.5], [3.0]]).data_vars)
    ['f_mean', 'f_variance', 'y_variance']
    """
    probabilities = read_probabilities(quantiles)
    ensemble = ensemble_from(source, "predict", model=model, method=method, draws=draws, random_seed=random_seed)
    if is_of_processes(ensemble):
        ensemble.gpm.check_replaceable()
        probabilities = np.array(_QUANTILES) if quantiles is None else probabilities
    X_new = ensemble.gpm.read_pool(X_new)
    points = _read_points(ensemble.gpm, X_new)
    values = None if y_new is None else read_outputs(y_new if np.ndim(y_new) else [y_new], len(points), X_new, "y_new")
    per_row = ensemble.gpm.read_known(len(points), X_new, y_trials=y_trials, exposure=exposure)
    size = np.ones(len(points)) if per_row is None else per_row
    if values is not None:
        # Beside other models a logarithm has no density where it is undefined.
        real = [gpm for gpm in ensemble.processes if gpm.likelihood is None or gpm.likelihood.has_unit]
        (real or ensemble.processes)[0].check_outcomes(values, size)
    if is_of_processes(ensemble):
        for process in ensemble.processes:
            process.check_rows(points)
        outcomes: LatentOutcomes | Members | None = Members.of(ensemble)
    else:
        outcomes = LatentOutcomes.of(ensemble)
    predicted = _in_blocks(ensemble, outcomes, size, points, probabilities, values)
    return _dataset(predicted, X_new, probabilities, ensemble.method)


def _read_points(gpm: Any, X_new: Any) -> np.ndarray:
    """Points (m, D) of a table; warns of those far outside the box of the model."""
    points = read_inputs(X_new, "X_new", inputs=gpm.inputs)
    if gpm.box is not None:
        (low, high), lost = gpm.box, "there the model knows no more than its prior"
        warn_if(far_outside(points, low, high, gpm.inputs, "X_new", lost))
    return points


def _in_blocks(
    ensemble: Ensemble, outcomes: LatentOutcomes | Members | None, size: np.ndarray, X: np.ndarray,
    probabilities: np.ndarray | None, y: np.ndarray | None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The variables of :func:`predict` at X (m, D), in blocks, so that large tables need little memory."""
    blocks, each, m = [], len(ensemble) if outcomes is None else max(len(ensemble), DRAWS), len(X)
    ends = range(_POINTS, m, _POINTS) if isinstance(outcomes, Members) else each * m // _BLOCK + 1
    for rows in np.array_split(np.arange(m), ends):
        asked = X[rows], probabilities, None if y is None else y[rows]
        if isinstance(outcomes, Members):
            with one_blas_thread():
                blocks.append(_predicted_by_draws(outcomes, *asked))
        elif outcomes is None:
            blocks.append(_predicted(ensemble, *asked))
        else:
            blocks.append(_predicted_outcomes(outcomes, size[rows], ensemble, *asked))
    return {name: np.concatenate([block[name] for block in blocks], axis=-1) for name in blocks[0]}


def _dataset(predicted: dict[str, np.ndarray], X_new: Any, probabilities: np.ndarray | None, method: str) -> xr.Dataset:
    return xr.Dataset(
        {name: (("quantile", "point") if value.ndim == 2 else "point", value) for name, value in predicted.items()},
        coords={"point": point_labels(X_new)} | ({} if probabilities is None else {"quantile": probabilities}),
        attrs={"method": method},
    )


def _predicted(
    ensemble: Ensemble, X: np.ndarray, probabilities: np.ndarray | None, y: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The variables of :func:`predict` at X (m, D), with the points last."""
    p = mixture(ensemble, X)
    mean, f_variance = mixture_moments(p.means, p.variances, p.weights)
    predicted = {"f_mean": mean, "f_variance": f_variance, "y_variance": f_variance + p.weights @ p.noises}
    variances = p.variances + p.noises
    if probabilities is not None:
        for name, spread in (("f_quantile", p.variances), ("y_quantile", variances)):
            # A latent variance may vanish at a data point.
            spread = np.maximum(spread, np.finfo(float).tiny)
            predicted[name] = mixture_quantiles(probabilities, p.means, spread, p.weights)
    if y is not None:
        predicted["y_log_density"] = mixture_log_density(y, p.means, variances, p.weights)
    return predicted


def _predicted_outcomes(
    outcomes: LatentOutcomes, size: np.ndarray, ensemble: Ensemble, X: np.ndarray, probabilities: np.ndarray | None,
    y: np.ndarray | None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The same where outcomes, of ``size`` (m,), are not normal."""
    p = mixture(ensemble, X)
    mean, variance = outcomes.moments(p, size)
    mean, variance = mixture_moments(mean, variance, p.weights)
    rate_mean, rate_variance = outcomes.rate_moments(p)
    predicted = {"f_mean": rate_mean, "f_variance": rate_variance, "y_mean": mean, "y_variance": variance}
    if probabilities is not None:
        predicted["f_quantile"], predicted["y_quantile"] = outcomes.quantiles(probabilities, p, size)
    if y is not None:
        log = outcomes.log_densities(y[None], p, size)[0]
        with np.errstate(divide="ignore"):
            predicted["y_log_density"] = logsumexp(log + np.log(p.weights)[:, None], axis=0)
    return predicted


def _predicted_by_draws(
    members: Members, X: np.ndarray, probabilities: np.ndarray | None, y: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The same of any PyMC model."""
    w = members.weights
    predicted: dict[str, np.ndarray] = {}
    draws, weights = members.draw_many(X, max(1, DRAWS // len(w)))
    if all(process.has_mean for process in members.processes):
        means = members.means(X)
        mean = w @ means
        predicted |= {"f_mean": mean, "f_variance": w @ np.square(means - mean)}
        if probabilities is not None:
            predicted["f_quantile"] = weighted_quantiles(means, w, probabilities)
        predicted |= {"y_mean": mean, "y_variance": weights @ np.square(draws - mean)}
    if probabilities is not None:
        predicted["y_quantile"] = weighted_quantiles(draws, weights, probabilities)
    if y is not None:
        predicted["y_log_density"] = members.log_mean(members.log_densities(y[None], X))[0]
    return predicted


def predict_from_logarithms(
    source: Source, X_new: Any, *, quantiles: Sequence[float] | None = None, y_new: Any = None, **options: Any
) -> xr.Dataset:
    """:func:`predict` of a model of logarithms, in units of the numbers themselves, with ``y_mean`` besides."""
    ensemble, y = ensemble_from(source, "predict", **options), None
    X, probabilities = _read_points(ensemble.gpm, X_new), read_probabilities(quantiles)
    if y_new is not None:
        y = read_outputs(y_new if np.ndim(y_new) else [y_new], len(X), X_new, "y_new")
    predicted = _in_blocks(ensemble, LatentOutcomes.of(ensemble, LogNormal()), np.ones(len(X)), X, probabilities, y)
    return _dataset(predicted, X_new, probabilities, ensemble.method)


def imagined(fit: Fit | ModelAverage, X: np.ndarray) -> Fit | ModelAverage:
    """The fit given that points X (k, D) come out as predicted, by the mean, or the median if outcomes have no end."""
    with one_blas_thread():
        ensemble, y, size = as_ensemble(fit), posterior_mean(fit, X), None
        if (outcomes := LatentOutcomes.of(ensemble)) is not None and outcomes.has_no_end:
            y = outcomes.quantiles(np.array([0.5]), mixture(ensemble, X))[0][0]
        if fit.gpm.likelihood is not None and not fit.gpm.likelihood.is_real:
            size = np.full(len(X), usual(fit.data.sizes))
            y = np.round(size * y)
        # A fit may use some of the data only.
        return fit.given(*fit.data.joined(X, y, size))


def posterior_mean(source: Source, X: np.ndarray) -> np.ndarray:
    """The mean of :func:`predict` (m,), without the variances that take longer."""
    if is_of_processes(source):
        members = Members.of(as_ensemble(source))
        return members.weights @ members.means(X)
    ensemble = as_ensemble(source)
    if (outcomes := LatentOutcomes.of(ensemble)) is not None:
        p = mixture(ensemble, X)
        return p.weights @ outcomes.moments(p)[0]
    total = np.zeros(len(X))
    for part in ensemble.parts:
        if part.local:
            means = np.stack([one.moments(X).mean for one in part.local])
        else:
            means, _, _ = draw_moments(part.space.posterior, part.z, X)
        total += part.share * (part.within @ means)
    return total
