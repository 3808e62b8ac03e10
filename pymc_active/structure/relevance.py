"""What an embedding is known to be: which inputs matter and how sure its subspace is, whatever its rotation.

No rotation or reflection Q of the components changes the model, so signs and entries of R mean nothing. Everything
here is the same for R and QR.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.traces import trace_thetas

__all__ = ["relevance", "subspace_angles"]

# Singular values of a reference below this fraction of the largest span nothing.
_RANK_TOLERANCE = 1e-5
# Up to this many entries of R the symmetric root of their covariance is affordable.
_DENSE = 1000


def relevance(
    source: LaplaceFit | xr.DataTree,
    *,
    model: GPModel | None = None,
    draws: int = 1000,
    random_seed: int = 0,
    ci_prob: float = 0.89,
) -> xr.Dataset:
    r"""How much each input matters to a learned embedding, with credible intervals.

    Parameters
    ----------
    source : LaplaceFit or xarray.DataTree
        A fit of a model with an embedding, or a trace of draws from it, all of which are used.
    model : GPModel
        Needed for a trace: the model it came from.
    draws, random_seed : int
        Draws from the Laplace approximation at the highest mode.
    ci_prob : float
        Probability of the equal-tailed interval.

    Returns
    -------
    xarray.Dataset
        Over ``summary`` (mean, median, lower, upper) and ``input``:

        * ``loading``: the norm of the input's column of R, :math:`\|R_{\cdot j}\|`. For :func:`embedding_gp` it is the
          number of lengthscales that the components move when the input moves by one **scaled** unit (``x_scale``), so
          that inputs compare; ``loading / unit`` is the same per unit of the user's.
        * ``leverage``: the input's share in the embedding's subspace, the diagonal of the projector onto the rows of
          R, :math:`P = R^T (RR^T)^{-1} R`. Between 0 and 1; the d components share out a sum of d. It counts weak
          components as much as strong ones, and changes if an input is rescaled.

        And ``unit`` over ``input``: the size of one scaled unit in the user's units.

    Raises
    ------
    TypeError, ValueError
        For another object, a trace without ``model`` or from another model, or a model without an embedding.

    Notes
    -----
    A norm is never negative: an input that does not matter has a small loading, whose interval does not reach zero.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(30, 3))
    >>> y = np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=30)
    >>> gpm = pma.embedding_gp(X, y, n_components=1)
    >>> fit = pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=1, progressbar=False)
    >>> int(pma.relevance(fit).loading.sel(summary="median").idxmax())
    1
    """
    gpm, R = embedding_draws(source, model, draws, random_seed)
    rows = _orthonormal_rows(R)
    return xr.Dataset(
        {
            "loading": (("summary", "input"), _summarize(np.linalg.norm(R, axis=1), ci_prob)),
            "leverage": (("summary", "input"), _summarize(np.square(rows).sum(1), ci_prob)),
            "unit": ("input", np.broadcast_to(gpm.x_map.scale, R.shape[2:])),
        },
        coords={"summary": _SUMMARY, "input": gpm.inputs},
        attrs={"ci_prob": ci_prob, "n_components": R.shape[1]},
    )


def subspace_angles(
    source: LaplaceFit | xr.DataTree,
    reference: Any = None,
    *,
    model: GPModel | None = None,
    draws: int = 1000,
    random_seed: int = 0,
    ci_prob: float = 0.89,
) -> xr.Dataset:
    """Angles between the subspace of each draw of R and a reference, with credible intervals.

    Parameters
    ----------
    source : LaplaceFit or xarray.DataTree
        As in :func:`relevance`.
    reference : array_like, shape (d', D), optional
        Rows that span another subspace, such as a true R, on the **scaled** inputs (``x_scale``) as R itself:
        multiply weights for the user's units by ``relevance(source).unit``. Default: the R of a fit's mode; for a
        trace the draws' mean subspace (the leading d eigenvectors of the average projector).
    model, draws, random_seed, ci_prob
        As in :func:`relevance`.

    Returns
    -------
    xarray.Dataset
        ``angle`` in degrees over ``summary`` (mean, median, lower, upper) and ``principal_angle``, as many as the
        smaller of the two subspaces has dimensions, the largest first as in :func:`scipy.linalg.subspace_angles`.
        The largest tells how far off the worst direction is: 0 is the same subspace, 90 a direction that the other
        lacks. ``random`` holds the medians for subspaces drawn at random, that is of an embedding not known at all.

    Raises
    ------
    TypeError, ValueError
        As :func:`relevance`; for a reference of the wrong width or without a direction.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(30, 3))
    >>> y = np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=30)
    >>> gpm = pma.embedding_gp(X, y, n_components=1)
    >>> fit = pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=1, progressbar=False)
    >>> angle = pma.subspace_angles(fit, [[0, 1, 0]]).angle
    >>> bool(angle.sel(summary="upper") < 10)
    True
    """
    gpm, R = embedding_draws(source, model, draws, random_seed)
    rows = _orthonormal_rows(R)
    D = R.shape[2]
    if reference is not None:
        basis = np.asarray(reference, float)
        if basis.ndim != 2 or basis.shape[1] != D or not np.isfinite(basis).all():
            raise ValueError(
                f"reference must be a finite matrix with a row for each direction and {D} columns, as the model has "
                f"inputs; got shape {basis.shape}"
            )
    elif isinstance(source, LaplaceFit):
        basis = source.point[str(gpm.embedding)]
    else:
        basis = np.linalg.svd(rows.reshape(-1, D), full_matrices=False)[2][: R.shape[1]]
    _, size, basis = np.linalg.svd(basis, full_matrices=False)
    basis = basis[size > _RANK_TOLERANCE * size.max()]
    if not len(basis):
        raise ValueError("reference spans no direction: all its entries are zero")
    angles = _angles(rows, basis)
    random = _orthonormal_rows(np.random.default_rng(random_seed).normal(size=R.shape))
    return xr.Dataset(
        {
            "angle": (("summary", "principal_angle"), _summarize(angles, ci_prob), {"units": "degrees"}),
            "random": ("principal_angle", np.median(_angles(random, basis), axis=0), {"units": "degrees"}),
        },
        coords={"summary": _SUMMARY, "principal_angle": np.arange(1, angles.shape[1] + 1)},
        attrs={"ci_prob": ci_prob},
    )


def embedding_draws(
    source: LaplaceFit | xr.DataTree, model: GPModel | None, draws: int, random_seed: int
) -> tuple[GPModel, np.ndarray]:
    """The model and draws of its R, (draws, d, D), each up to a rotation.

    The draws of a fit that was expanded at QR span the same subspaces as those at R, to rounding, unless R is large.
    """
    if isinstance(source, LaplaceFit):
        gpm = source.gpm
        where, shape = embedding_of(gpm)
        if draws < 1:
            raise ValueError(f"draws must be at least 1; got {draws}")
        if shape[0] * shape[1] > _DENSE:
            return gpm, source.draw(draws, random_seed)[:, where].reshape(draws, *shape)
        # In the principal axes, by the symmetric root of the covariance: unlike eigenvectors, both are unique.
        rotation = np.kron(principal_rotation(source), np.eye(shape[1]))
        values, vectors = np.linalg.eigh(rotation @ source.covariance[where, where] @ rotation.T)
        noise = np.random.default_rng(random_seed).normal(size=(draws, len(values)))
        R = rotation @ source.theta[where] + (noise @ vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        return gpm, R.reshape(draws, *shape)
    if not isinstance(source, xr.DataTree):
        raise TypeError(f"source must be a LaplaceFit or a DataTree of draws; got {type(source).__name__}")
    if model is None:
        raise ValueError("a trace needs the model it came from: pass model=gpm")
    where, shape = embedding_of(model)
    thetas = trace_thetas(model, source)
    return model, thetas[:, where].reshape(len(thetas), *shape)


def embedding_of(gpm: GPModel) -> tuple[slice, tuple[int, int]]:
    """Where R sits in theta, and its shape.

    Raises
    ------
    ValueError
        If the model has no embedding of all its inputs.
    """
    found = gpm.embedding_slice
    if found is None:
        raise ValueError("the model has no embedding to show (see embedding_gp); plot_predictions shows other models")
    n_inputs = gpm.X.shape[1]
    if found[1][1] != n_inputs:
        raise ValueError(f"R acts on {found[1][1]} of the {n_inputs} inputs only; this cannot be shown")
    return found


def principal_rotation(fit: LaplaceFit) -> np.ndarray:
    """The orthogonal (d, d) matrix that takes R to its principal axes, the largest weight of each positive."""
    where, shape = embedding_of(fit.gpm)
    R = fit.theta[where].reshape(shape)
    left = np.linalg.svd(R, full_matrices=False)[0]
    turned = left.T @ R
    largest = turned[np.arange(len(turned)), np.abs(turned).argmax(1)]
    return np.where(largest < 0, -1.0, 1.0)[:, None] * left.T


_SUMMARY = ["mean", "median", "lower", "upper"]


def _summarize(values: np.ndarray, ci_prob: float) -> np.ndarray:
    """Mean, median and equal-tailed interval over the first axis."""
    if not 0 < ci_prob < 1:
        raise ValueError(f"ci_prob must be between 0 and 1; got {ci_prob}")
    tail = (1 - ci_prob) / 2
    return np.stack([values.mean(0), *np.quantile(values, (0.5, tail, 1 - tail), axis=0)])


def _orthonormal_rows(R: np.ndarray) -> np.ndarray:
    return np.linalg.qr(R.swapaxes(-1, -2))[0].swapaxes(-1, -2)


def _angles(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Principal angles in degrees between orthonormal rows (S, d, D) and (d', D), largest first.

    Cosines lose small angles to rounding and sines large ones, so each serves where it is accurate (Knyazev &
    Argentati 2002, as in SciPy).
    """
    overlap = rows @ basis.T
    cosine = np.linalg.svd(overlap, compute_uv=False)[:, ::-1]
    if len(basis) <= rows.shape[1]:
        rest = basis - overlap.swapaxes(-1, -2) @ rows
    else:
        rest = rows - overlap @ basis
    sine = np.linalg.svd(rest, compute_uv=False)
    near = np.square(cosine) >= 0.5
    return np.rad2deg(np.where(near, np.arcsin(np.clip(sine, 0, 1)), np.arccos(np.clip(cosine, 0, 1))))
