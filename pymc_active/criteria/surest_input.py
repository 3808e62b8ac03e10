"""Map a point u of the embedded space back to the input that goes there most surely, as the paper does."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize

from pymc_active.inference.fit import Fit
from pymc_active.particles.find_modes import find_modes
from pymc_active.predictions.model_average import check_one_fit
from pymc_active.support.arguments import checked
from pymc_active.support.tables import read_bounds, read_numbers

# Local searches for the smallest log determinant.
_STARTS = 8


@checked
def surest_input(fit: Fit, u: Any, bounds: Any) -> np.ndarray:
    """The x in a box with E[u | x] = u that is mapped there most surely.

    It minimises the log determinant of Cov[u | x], under the Gaussian around the highest mode of R, which
    :func:`pymc_active.find_modes` finds; u is R x, not divided by the lengthscale. Use it to illustrate a place in the
    embedded space. To choose measurements, maximise a criterion in x (``Learner(bounds=...)``): the surest x is seldom
    the most informative one.

    Source: Garnett, Osborne & Hennig (2014), section 4.1.

    Parameters
    ----------
    fit : Fit
        Of a model with a linear embedding.
    u : array_like, shape (d,)
        In the coordinates of :math:`u = R x`, x scaled by ``x_scale``.
    bounds : list of (low, high)
        In the user's units, as is the x (D,) returned.

    Raises
    ------
    TypeError, ValueError
        For anything but a fit of one model with an embedding, or if no x in the box goes to ``u``.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> X = pma.active.latin_hypercube([(-1, 1)] * 3, 20, random_seed=1)
    >>> gpm = pma.embedding_gp(X, np.sin(X.sum(1)), n_components=1, priors={"log_noise": -2.0})
    >>> fit = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    >>> x = pma.active.surest_input(fit, [0.5], [(-1, 1)] * 3)
    >>> (fit.constrained_point["R"] @ x).round(6)
    array([0.5])
    """
    check_one_fit(fit, "surest_input")
    where = fit.gpm.embedding_slice
    if where is None:
        raise ValueError("surest_input needs a model with a linear embedding, such as embedding_gp")
    mode = find_modes(fit)
    rows, (d, D) = where
    low, high = read_bounds(bounds, D, fit.gpm.inputs)
    u = read_numbers(u, "u")
    if u.shape != (d,) or not np.isfinite(u).all():
        raise ValueError(f"u must be finite with shape ({d},); got {u!r}")
    x_map = fit.gpm.x_map
    low, high = (x_map(end[None])[0] for end in (low, high))
    R = mode.theta[rows].reshape(d, D)
    box = np.column_stack([low, high])
    # Vertices of the set of feasible x; the linear program also tells whether there is one.
    costs = [np.zeros(D)] if d == 1 else np.random.default_rng(0).normal(size=(_STARTS, D))
    vertices = [linprog(cost, A_eq=R, b_eq=u, bounds=box, method="highs") for cost in costs]
    if not vertices[0].success:
        raise ValueError(f"no point of the box goes to u = {u}: the embedded box does not reach there")
    blocks = mode.covariance[rows, rows].reshape(d, D, d, D).transpose(0, 2, 1, 3)

    def spread(x: np.ndarray) -> tuple[float, np.ndarray]:
        """Log determinant of the covariance of u, and the gradient."""
        Sx = blocks @ x
        covariance = Sx @ x
        return float(np.linalg.slogdet(covariance)[1]), 2 * np.einsum("kl,klc->c", np.linalg.inv(covariance), Sx)

    centre = 0.5 * (low + high)
    centre = np.clip(centre + np.linalg.lstsq(R, u - R @ centre, rcond=None)[0], low, high)
    # With one component there is one minimum. Otherwise there is a start between each vertex and the centre.
    results = [
        minimize(
            spread,
            0.5 * (centre + vertex.x),
            jac=True,
            method="SLSQP",
            bounds=box,
            constraints={"type": "eq", "fun": lambda x: R @ x - u, "jac": lambda x: R},
            options={"maxiter": 300, "ftol": 1e-10},
        )
        for vertex in vertices
    ]
    # A search may leave the plane R x = u; the vertices lie in it.
    found = [np.clip(one.x, low, high) for one in (*results, *vertices)]
    inside = [x for x in found if np.abs(R @ x - u).max() < 1e-6 * max(1.0, np.abs(u).max())]
    x = min(inside, key=lambda x: spread(x)[0])
    return x if x_map.is_identity else x_map.shift + x_map.scale * x
