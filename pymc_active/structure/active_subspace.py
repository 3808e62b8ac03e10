"""The active subspace of any model: the few directions in which its function changes, with their uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.fit import Fit
from pymc_active.paths import draw_paths
from pymc_active.structure.relevance import principal_angles, signs, summarize, summary_names
from pymc_active.structure.sobol import box_of
from pymc_active.support.arguments import checked, kind_of
from pymc_active.support.options import count
from pymc_active.support.tables import read_inputs

# Points of a quasi-random design over the box, as a power of two.
_LOG2_POINTS = 8
# Features of a path, and the most that all may take.
_FEATURES, _MOST_GIGABYTES = 500, 4.0
# Share of the squared gradient that d directions must carry to be enough.
_ENOUGH = 0.95


@checked
def active_subspace(
    source: Fit | Ensemble,
    *,
    X_target: Any = None,
    reference: Any = None,
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
    ci_prob: float = 0.89,
) -> xr.Dataset:
    r"""Directions in which the function changes most, from the posterior of its gradients.

    With :math:`C = E_x[\nabla f(x) \nabla f(x)^T]`, the leading eigenvectors of C span the active subspace. Each draw
    is a whole function from the posterior, with hyperparameters of its own, so the result includes both uncertainties.
    It takes any model: a plain :func:`ard_gp` shows a subspace from few points, without a search over embeddings.

    Parameters
    ----------
    source : ParticleFit, Fit or Ensemble
    X_target : array_like, shape (m, D), optional
        Points over which gradients are averaged, in your units; by default 256 points spread evenly over the
        ``bounds`` of the model, or where it has none over the box that the data span.
    reference : array_like, shape (d', D), optional
        Rows that span another subspace, for the **scaled** inputs, to compare with.
    draws : int
        Functions drawn, at least 2.
    random_seed : int or Generator, optional
    ci_prob : float
        Probability of the equal-tailed intervals.

    Returns
    -------
    xarray.Dataset
        For gradients in **scaled** inputs (``x_scale``), with ``summary`` (mean, median, lower, upper):

        * ``direction`` over ``component`` and ``input``: orthonormal eigenvectors of the posterior mean of C, by
          falling eigenvalue, and ``share`` (summary, component): the share of each draw's eigenvalues in its trace.
        * ``angle`` (summary, component), degrees: the largest angle between the span of the first k directions and
          that of a draw, for k = 1, 2, ...: how certain the k-dimensional subspace is.
        * ``is_enough`` (component): posterior probability that the first k directions of the function carry 95 % of C.
        * ``reference_angle`` (summary, principal_angle), degrees, with ``reference``: principal angles between the
          reference and the span of as many directions of each draw, the largest first. ``reference_estimate``
          (principal_angle) are those of the mean's.

    Raises
    ------
    TypeError, ValueError
        For another source, several models, points or a reference of the wrong width, or fewer than two draws.

    References
    ----------
    .. [1] Constantine (2015), Active Subspaces. Wycoff, Binois & Wild (2021), Sequential learning of active subspaces.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(30, 3))
    >>> fit = pma.fit(pma.ard_gp(X, np.sin(X[:, 0] + X[:, 1])), random_seed=1, progressbar=False)
    >>> found = pma.active_subspace(fit, reference=[[1, 1, 0]], random_seed=1)
    >>> bool(found.reference_estimate[0] < 10), bool(found.is_enough[0] > 0.5)
    (True, True)
    """
    if not isinstance(source, Fit | Ensemble):
        raise TypeError(f"active_subspace takes a fit or an Ensemble; got {kind_of(source)}")
    count("draws", draws, least=2)
    gpm, D = source.gpm, len(source.gpm.inputs)
    # What the paths keep for their second derivatives.
    gigabytes = draws * _FEATURES / 2 * D**2 / 2 * 8 / 1e9
    if gigabytes > _MOST_GIGABYTES:
        fewer = int(draws * _MOST_GIGABYTES / gigabytes)
        remedy = f"pass draws={fewer} or less, or for an embedding use" if fewer > 1 else "for an embedding use"
        raise ValueError(
            f"active_subspace would take about {gigabytes:.0f} GB for {D} inputs and {draws} draws: {remedy} "
            "subspace_angles"
        )
    rng = np.random.default_rng(random_seed)
    if X_target is None:
        # scipy.stats takes long to load.
        from scipy.stats import qmc

        low, high = box_of(source)
        X = low + (high - low) * qmc.Sobol(D, rng=rng).random_base2(_LOG2_POINTS)
    else:
        X = read_inputs(X_target, "X_target", inputs=gpm.inputs)
    paths = draw_paths(source, n_paths=draws, draws=draws, n_features=_FEATURES, random_seed=rng)
    gradients = paths.gradient(X).to_numpy() * gpm.x_map.scale
    C = np.einsum("smi,smj->sij", gradients, gradients) / len(X)
    values, vectors = np.linalg.eigh(C)
    values, rows = np.maximum(values[:, ::-1], 0.0), vectors[:, :, ::-1].swapaxes(1, 2)
    directions = np.linalg.eigh(C.mean(0))[1][:, ::-1].T
    # The sign of an eigenvector means nothing.
    directions = signs(directions) * directions
    shares = values / values.sum(1, keepdims=True)
    worst = np.column_stack([principal_angles(rows[:, :k], directions[:k])[:, 0] for k in range(1, D + 1)])
    found = xr.Dataset(
        {
            "direction": (("component", "input"), directions),
            "share": (("summary", "component"), summarize(shares, ci_prob)),
            "angle": (("summary", "component"), summarize(worst, ci_prob), {"units": "degrees"}),
            "is_enough": ("component", (np.cumsum(shares, axis=1) >= _ENOUGH).mean(0)),
        },
        coords={"summary": summary_names, "component": np.arange(1, D + 1), "input": gpm.inputs},
        attrs={"ci_prob": ci_prob},
    )
    if reference is not None:
        basis = np.linalg.qr(_read_reference(reference, D).T)[0].T
        angles = principal_angles(rows[:, : len(basis)], basis)
        estimate = principal_angles(directions[None, : len(basis)], basis)[0]
        found["reference_angle"] = ("summary", "principal_angle"), summarize(angles, ci_prob), {"units": "degrees"}
        found["reference_estimate"] = "principal_angle", estimate, {"units": "degrees"}
    return found


def _read_reference(reference: Any, D: int) -> np.ndarray:
    basis = np.asarray(reference, float)
    if (
        basis.ndim != 2
        or basis.shape[1] != D
        or not np.isfinite(basis).all()
        or np.linalg.matrix_rank(basis) < len(basis)
    ):
        raise ValueError(f"reference must have linearly independent rows of length {D}; got shape {basis.shape}")
    return basis
