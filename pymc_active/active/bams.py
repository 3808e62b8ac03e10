"""Which model the data prefer, from Laplace evidences."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_active.laplace.fit import LaplaceFit

__all__ = ["model_posterior"]


def model_posterior(
    fits: Mapping[Any, LaplaceFit] | Sequence[LaplaceFit],
    *,
    prior: Mapping[Any, float] | Sequence[float] | None = None,
) -> xr.DataArray:
    r"""Posterior probabilities of models of the same data, from their Laplace evidences.

    Parameters
    ----------
    fits : dict or sequence of LaplaceFit
        One fit of each model; a dict's keys become labels, a sequence is numbered.
    prior : dict or sequence, optional
        Prior weights in the order (or by the keys) of ``fits``, normalised here; default equal.

    Returns
    -------
    xarray.DataArray
        Probabilities over ``model``, with the coordinates ``log_evidence`` (nats), ``description`` and ``doubtful``
        (whether the search did not converge or the point has directions without curvature).

    Raises
    ------
    TypeError, ValueError
        For anything but fits, fits of different y, or a prior that does not match.

    Warns
    -----
    UserWarning
        If the fit of the highest evidence is doubtful.

    Notes
    -----
    A model's evidence is the sum over the distinct modes found, :math:`\log \sum_k \exp E_k` over ``fit.modes``;
    modes below the best that are no proper ones (their curvature had to be floored) are left out. The best mode alone
    has ``fit.log_evidence``. Where modes overlap, the sum counts what they share twice.

    The inputs may differ between the models, as long as the rows belong to the same observations.

    References
    ----------
    .. [1] Malkomes & Garnett (2015), Active structure discovery with Gaussian processes.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> models = {k: pma.ard_gp(x[:, None], np.sin(x), kernel=k) for k in ("ExpQuad", "Matern12")}
    >>> fits = {k: pma.fit_laplace(gpm, random_seed=1, progressbar=False) for k, gpm in models.items()}
    >>> print(pma.active.model_posterior(fits).idxmax().item())
    ExpQuad
    """
    labels, members = _read_fits(fits)
    log_evidence = np.array([_summed_over_modes(fit) for fit in members])
    doubtful = np.array([not fit.diagnostics["converged"] or fit.diagnostics["n_floored"] > 0 for fit in members])
    best = int(np.argmax(log_evidence))
    if doubtful[best]:
        warnings.warn(
            f"model {labels[best]!r} has the highest evidence, but its fit is doubtful (not converged, or directions "
            "without curvature): search longer (n_restarts) or give it tighter priors before you believe it",
            UserWarning,
            stacklevel=2,
        )
    with np.errstate(divide="ignore"):
        weights = log_evidence + np.log(prior_weights(prior, labels))
    return xr.DataArray(
        np.exp(weights - logsumexp(weights)),
        dims="model",
        coords={
            "model": labels,
            "log_evidence": ("model", log_evidence, {"units": "nats"}),
            "description": ("model", [fit.gpm.description for fit in members]),
            "doubtful": ("model", doubtful),
        },
        name="probability",
    )


def _summed_over_modes(fit: LaplaceFit) -> float:
    others = zip(fit.modes[1:], fit.expansions[1:], strict=True)
    proper = [mode.log_evidence for mode, expansion in others if not expansion.curvature.n_floored]
    return float(logsumexp([fit.log_evidence, *proper]))


def _read_fits(fits: Any) -> tuple[list, list[LaplaceFit]]:
    if not isinstance(fits, Mapping | Sequence) or not len(fits):
        raise TypeError(f"fits must be a dict or a list with at least one LaplaceFit; got {type(fits).__name__}")
    labels, members = (list(fits), list(fits.values())) if isinstance(fits, Mapping) else (list(range(len(fits))), fits)
    for label, fit in zip(labels, members, strict=True):
        if not isinstance(fit, LaplaceFit):
            raise TypeError(f"fits must hold LaplaceFit objects (see fit_laplace); {label!r} is {type(fit).__name__}")
        if not np.array_equal(fit.y, members[0].y):
            raise ValueError(
                f"evidences compare models of the same observations, but the fits {labels[0]!r} and {label!r} have "
                "different y: fit every model again with the same data (gpm.set_data, then fit_laplace)"
            )
    return labels, list(members)


def prior_weights(prior: Any, labels: list) -> np.ndarray:
    """Prior probabilities in the order of the labels, from a dict, a sequence or None for equal ones."""
    if prior is None:
        return np.full(len(labels), 1 / len(labels))
    if isinstance(prior, Mapping):
        if set(prior) != set(labels):
            raise ValueError(f"prior must have the keys of fits, {labels}; got {list(prior)}")
        prior = [prior[label] for label in labels]
    weights = np.asarray(prior, float)
    if weights.shape != (len(labels),) or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"prior must hold a weight >= 0 for each of the {len(labels)} models, not all 0; got {prior}")
    return weights / weights.sum()
