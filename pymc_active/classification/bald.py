"""BALD for GP classifiers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy.special import log_ndtr, ndtr

from pymc_active.classification.fit import ProbitFit
from pymc_active.criteria.base import score_pool

# Beyond |f| = 9 the entropy of Φ(f) is below 1e-17; beyond 8 sds from its mean a Gaussian's density is negligible.
_CERTAIN, _REACH = 9.0, 8.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# Numbers in the arrays of one block of candidates.
_BLOCK = 100_000


def bald_probit(fit: ProbitFit, X_pool: Any, *, about: Literal["f", "hyperparameters"] = "f") -> xr.DataArray:
    r"""Expected information from observing the label of each candidate, in nats.

    Parameters
    ----------
    fit : ProbitFit
    X_pool : array_like, DataFrame, DataArray or dask array, shape (m, D)
        Candidates in the user's units. A dask array is scored lazily, block by block.
    about : {"f", "hyperparameters"}
        What to learn about. ``"f"``: the latent function with its hyperparameters, :math:`h(\bar p) - E[h(\Phi(f))]`,
        where h is the entropy of a label: the criterion of Houlsby et al. (2011), but with the hyperparameters averaged
        over, and by quadrature where they approximate the integral. ``"hyperparameters"``: only these,
        :math:`h(\bar p) - E[h(p_s)]` with :math:`p_s` the probability given the hyperparameters; much smaller.

    Returns
    -------
    xarray.DataArray
        Over ``point``, between 0 and log 2; larger is better.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-3, 3, 12)[:, None]
    >>> fit = pma.fit_probit(pma.probit_gp(x, x[:, 0] > 0.5), random_seed=1, progressbar=False)
    >>> int(pma.active.bald_probit(fit, np.array([[-2.0], [2.0], [6.0]])).argmax("point"))
    2
    """
    if not isinstance(fit, ProbitFit):
        raise TypeError(f"bald_probit takes a ProbitFit, made by fit_probit; got {type(fit).__name__}")
    if about not in ("f", "hyperparameters"):
        raise ValueError(f"about must be 'f' or 'hyperparameters'; got {about!r}")

    def score(X: np.ndarray) -> np.ndarray:
        means, variances = fit.latent(X)
        scaled = means / np.sqrt(1 + variances)
        yes, no = ndtr(scaled), ndtr(-scaled)
        conditional = _entropy(yes, no) if about == "hyperparameters" else expected_entropy(means, variances)
        weights = fit.weights
        return np.maximum(_entropy(weights @ yes, weights @ no) - weights @ conditional, 0.0)

    gp: Any = fit.gp
    return score_pool(score, gp, X_pool, "bald_probit", "nats")


def expected_entropy(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Mean over f ~ Normal of the entropy of a label with probability Φ(f), nats; within 1e-10.

    Gauss-Legendre quadrature where both density and entropy are large. Gauss-Hermite nodes of a wide Gaussian would
    miss the entropy, which is narrow.
    """
    mean, sd = (np.ravel(values) for values in np.broadcast_arrays(means, np.sqrt(variances)))
    # A narrower Gaussian gives the same entropy, and its distances from the mean would be rounding errors.
    sd = np.maximum(sd, 1e-6 * (1 + np.abs(mean)))
    out = np.empty(mean.shape)
    step = max(1, _BLOCK // len(_NODES))
    for start in range(0, len(mean), step):
        m, s = mean[start : start + step, None], sd[start : start + step, None]
        low, high = np.maximum(m - _REACH * s, -_CERTAIN), np.minimum(m + _REACH * s, _CERTAIN)
        half = np.maximum(high - low, 0.0) / 2
        f = (low + high) / 2 + half * _NODES
        density = np.exp(-0.5 * np.square((f - m) / s)) / (np.sqrt(2 * np.pi) * s)
        log_yes, log_no = log_ndtr(f), log_ndtr(-f)
        entropy = -np.exp(log_yes) * log_yes - np.exp(log_no) * log_no
        out[start : start + step] = (half * _WEIGHTS * density * entropy).sum(1)
    return out.reshape(np.shape(means))


def _entropy(yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    return -sum(p * np.log(np.maximum(p, np.finfo(float).tiny)) for p in (yes, no))
