"""What the data say about an embedding: which inputs matter, and how certain its subspace is.

A rotation or reflection Q of the components does not change the model, so single entries of R and their signs mean
nothing. Everything here is the same for R and QR.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import subspace_angles as angles_between

from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.fit import Fit
from pymc_active.models.advice import confounded
from pymc_active.models.gpmodel import GPModel, check_is_gp
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.support.arguments import kind_of
from pymc_active.support.options import count
from pymc_active.support.tables import in_order_of, read_numbers
from pymc_active.support.user_warnings import warn_if

# Singular values of a reference below this fraction of the largest span nothing.
_RANK_TOLERANCE = 1e-5


def relevance(
    source: Fit | Ensemble | xr.DataTree,
    *,
    model: GPModel | None = None,
    draws: int = 1000,
    random_seed: int | np.random.Generator | None = None,
    ci_prob: float = 0.89,
    var_name: str = "lengthscale",
) -> xr.Dataset:
    r"""Importance of each input, with credible intervals.

    Parameters
    ----------
    source : ParticleFit, Fit, Ensemble or xarray.DataTree
        A fit of a model with an embedding or with a lengthscale for each input, or a trace of draws from it (all are
        used), which needs its ``model``.
    draws, random_seed : int, and int or Generator
        Draws from the particles, with repeats, or from the Laplace approximation at the highest mode.
    ci_prob : float
        Probability of the equal-tailed interval.
    var_name : str
        Without an embedding, the variable with one lengthscale for each input, in the user's units.

    Returns
    -------
    xarray.Dataset
        Over ``summary`` (mean, median, lower, upper) and ``input``:

        * ``loading``: the norm of the input's column of R / lengthscale; without an embedding, 1 / lengthscale. For
          :func:`embedding_gp`, the components move by this many lengthscales when the input moves by one **scaled**
          unit (``x_scale``), so inputs can be compared; ``loading / unit`` is the same per unit of the user's. With a
          linear mean, its slope over the output scale is one more entry of the column. A norm is never negative, so the
          interval of an input that does not matter is small but does not reach zero.
        * ``leverage``, of an embedding: the input's share in the subspace, the diagonal of the projector onto the rows
          of R, :math:`P = R^T (RR^T)^{-1} R`. Each is between 0 and 1, and they add up to d. Weak components count as
          much as strong ones, a linear mean does not count, and rescaling an input changes its leverage.

        And over ``input``, ``unit``: the size of one scaled unit in the user's units.

    Raises
    ------
    TypeError, ValueError
        For another object, a trace without ``model`` or from another model, or a model without an embedding
        and without such a variable.

    Warns
    -----
    DataWarning
        Without an embedding, as :func:`sobol_indices`.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(30, 3))
    >>> y = np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=30)
    >>> gpm = pma.embedding_gp(X, y, n_components=1)
    >>> fit = pma.fit(gpm, random_seed=1, progressbar=False)
    >>> int(pma.relevance(fit).loading.sel(summary="median").idxmax())
    1
    >>> bool(pma.subspace_angles(fit, [[0, 1, 0]]).angle.sel(summary="upper") < 10)
    True
    """
    gpm = _model_of(source, model)
    if gpm.embedding is not None:
        embedding_of(gpm)
    thetas, summary, attrs = _thetas(gpm, source, draws, random_seed), ("summary", "input"), {"ci_prob": ci_prob}
    rows: dict[str, Any] = {}
    if gpm.space is not None and gpm.space.has_labels:
        unit = np.array([group.unit for group in gpm.space.groups])
        rows = {
            "loading": (summary, summarize(unit / gpm.constrain(thetas)["lengthscale"], ci_prob)),
            "unit": ("input", unit),
        }
        names = [group.name for group in gpm.space.groups]
        return xr.Dataset(rows, {"summary": summary_names, "input": names}, attrs)
    if gpm.embedding is None:
        warn_if(confounded(getattr(source, "X", gpm.X), gpm.inputs))
        loading = gpm.x_map.scale / _lengthscales(gpm, thetas, var_name)
    else:
        R = gpm.embeddings(thetas)
        loading, attrs["n_components"] = np.linalg.norm(R, axis=1), R.shape[1]
        rows["leverage"] = summary, summarize(np.square(_orthonormal_rows(R)).sum(1), ci_prob)
    rows["unit"] = "input", np.broadcast_to(gpm.x_map.scale, len(gpm.inputs))
    rows = {"loading": (summary, summarize(with_slope(gpm, thetas, loading), ci_prob)), **rows}
    return xr.Dataset(rows, {"summary": summary_names, "input": gpm.inputs}, attrs)


def _lengthscales(gpm: GPModel, thetas: np.ndarray, var_name: str) -> np.ndarray:
    """One for each input, (S, D), in the user's units."""
    drawn, D = gpm.constrain(thetas), len(gpm.inputs)
    if var_name not in drawn or drawn[var_name].shape[1:] != (D,):
        raise ValueError(
            f"relevance needs an embedding or a variable {var_name!r} with one entry for each of the {D} inputs; the "
            f"model has {', '.join(sorted(drawn))}. Pass var_name=..., or use sobol_indices"
        )
    if not (drawn[var_name] > 0).all():
        raise ValueError(f"var_name must name lengthscales, which are positive; {var_name!r} is not: name theirs")
    return drawn[var_name]


def subspace_angles(
    source: Fit | Ensemble | xr.DataTree,
    reference: Any = None,
    *,
    model: GPModel | None = None,
    draws: int = 1000,
    random_seed: int | np.random.Generator | None = None,
    ci_prob: float = 0.89,
) -> xr.Dataset:
    """Angles between the subspace of an embedding and a reference, with credible intervals.

    Parameters
    ----------
    source, model, draws, random_seed, ci_prob
        As in :func:`relevance`, which has an example.
    reference : array_like, shape (d', D), optional
        Rows that span another subspace, such as a true R, for the **scaled** inputs (``x_scale``), as R itself is.
        Multiply weights for the user's units by ``relevance(source).unit``. Default: the mean
        subspace of the draws (the leading d eigenvectors of the average projector).

    Returns
    -------
    xarray.Dataset
        ``angle`` in degrees over ``summary`` (mean, median, lower, upper) and ``principal_angle``, one for each
        dimension of the smaller subspace, the largest first as in :func:`scipy.linalg.subspace_angles`. The largest
        is the error of the worst direction: 0 for equal subspaces, 90 if one has a direction that the other lacks.
        ``random`` holds the medians for random subspaces, which is what an unknown embedding would give.
        ``attrs["reference"]`` says in words what the angles are to.

    Raises
    ------
    TypeError, ValueError
        As :func:`relevance`; for a reference of the wrong width or without a direction.
    """
    R = embedding_draws(source, model, draws, random_seed)
    rows = _orthonormal_rows(R)
    D = R.shape[2]
    what = "the reference"
    if reference is not None:
        basis = read_numbers(in_order_of(_model_of(source, model).inputs, reference, "reference"), "reference")
        if basis.ndim != 2 or basis.shape[1] != D or not len(basis) or not np.isfinite(basis).all():
            expected = f"a finite matrix with one row per direction and {D} columns, one per input"
            raise ValueError(f"reference must be {expected}; got shape {basis.shape}")
    else:
        what = "the mean subspace"
        basis = np.linalg.svd(rows.reshape(-1, D), full_matrices=False)[2][: R.shape[1]]
    _, size, basis = np.linalg.svd(basis, full_matrices=False)
    basis = basis[size > _RANK_TOLERANCE * size.max()]
    if not len(basis):
        raise ValueError("reference spans no direction: all its entries are zero")
    angles = principal_angles(rows, basis)
    random = _orthonormal_rows(np.random.default_rng(random_seed).normal(size=R.shape))
    return xr.Dataset(
        {
            "angle": (("summary", "principal_angle"), summarize(angles, ci_prob), {"units": "degrees"}),
            "random": ("principal_angle", np.median(principal_angles(random, basis), axis=0), {"units": "degrees"}),
        },
        coords={"summary": summary_names, "principal_angle": np.arange(1, angles.shape[1] + 1)},
        attrs={"ci_prob": ci_prob, "reference": what},
    )


def with_slope(gpm: GPModel, thetas: np.ndarray, loading: np.ndarray) -> np.ndarray:
    r"""How quickly f changes along each input, (S, D), from 1 / lengthscale or the norm of R's column, ``loading``.

    With a mean of slope b and a kernel of variance s², :math:`\sqrt{1 / \ell^2 + b^2 / s^2}`, in scaled units: for the
    squared exponential, s times this is the root mean square of f's derivative.
    """
    posterior = gpm.posterior().of_each
    signed = loading.copy()
    for entry, theta in zip(signed, thetas, strict=True):
        slope = np.sqrt(np.square(posterior.prior_mean(theta, posterior.X)[1]).mean(0))
        if slope.any():
            variance = ConditionedGP(posterior, theta).prior_variance(posterior.X).mean()
            np.hypot(entry, slope / np.sqrt(variance), out=entry)
    return signed


def embedding_draws(
    source: Fit | Ensemble | xr.DataTree,
    model: GPModel | None,
    draws: int,
    random_seed: int | np.random.Generator | None,
) -> np.ndarray:
    """Draws of R / lengthscale, (draws, d, D), each up to a rotation."""
    # Unless R is large, a fit expanded at QR gives the same subspaces as a fit expanded at R.
    gpm = _model_of(source, model)
    embedding_of(gpm)
    return gpm.embeddings(_thetas(gpm, source, draws, random_seed))


def _model_of(source: Any, model: GPModel | None) -> GPModel:
    if isinstance(source, Fit | Ensemble):
        check_is_gp(source.gpm, "relevance is")
        return source.gpm
    if not isinstance(source, xr.DataTree):
        raise TypeError(f"source must be a fit (of several models learner.fit.best) or a trace; got {kind_of(source)}")
    if model is None:
        raise ValueError("a trace needs the model it came from: pass model=gpm")
    return model


def _thetas(gpm: GPModel, source: Any, draws: int, random_seed: Any) -> np.ndarray:
    """Draws (draws, P) of a fit or a weighted ensemble; all of a trace."""
    draws = count("draws", draws)
    if isinstance(source, Fit):
        return source.draw(draws, random_seed)
    ensemble = as_ensemble(source, model=gpm)
    thetas = ensemble.thetas
    if np.ptp(ensemble.weights) > 0:
        thetas = thetas[np.random.default_rng(random_seed).choice(len(thetas), draws, p=ensemble.weights)]
    return thetas


def embedding_of(gpm: GPModel) -> tuple[slice, tuple[int, int]]:
    """Position of R in theta, and its shape; a ValueError if the model has no embedding of all its inputs."""
    embedding = gpm.embedding_slice
    if embedding is None:
        raise ValueError(
            "the model has no embedding (see embedding_gp): relevance, sobol_indices and plot_predictions take any "
            "model"
        )
    n_inputs = gpm.X.shape[1]
    if embedding[1][1] != n_inputs:
        raise ValueError(f"R must act on all {n_inputs} inputs to be shown; it acts on {embedding[1][1]}")
    return embedding


def principal_axes(fit: Fit) -> np.ndarray:
    """R / lengthscale (d, D) at the fit's centre, turned to the principal axes of R."""
    where, shape = embedding_of(fit.gpm)
    R = fit.center[where].reshape(shape)
    left = np.linalg.svd(R, full_matrices=False)[0]
    return (signs(left.T @ R) * left.T) @ fit.gpm.embeddings(fit.center[None])[0]


def signs(rows: np.ndarray) -> np.ndarray:
    """Signs (k, 1) that make the largest entry of each row (k, D) positive."""
    return np.where(rows[np.arange(len(rows)), np.abs(rows).argmax(1)] < 0, -1.0, 1.0)[:, None]


summary_names = ["mean", "median", "lower", "upper"]


def check_probability(ci_prob: float) -> None:
    """Refuse what is not the probability of an interval."""
    if not 0 < ci_prob < 1:
        raise ValueError(f"ci_prob must be between 0 and 1; got {ci_prob}")


def summarize(values: np.ndarray, ci_prob: float) -> np.ndarray:
    """Mean, median and equal-tailed interval over the first axis."""
    check_probability(ci_prob)
    tail = (1 - ci_prob) / 2
    return np.stack([values.mean(0), *np.quantile(values, (0.5, tail, 1 - tail), axis=0)])


def _orthonormal_rows(R: np.ndarray) -> np.ndarray:
    return np.linalg.qr(R.swapaxes(-1, -2))[0].swapaxes(-1, -2)


def principal_angles(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Principal angles in degrees between the spans of rows (S, d, D) and of (d', D), largest first."""
    return np.rad2deg([angles_between(one.T, basis.T) for one in rows])
