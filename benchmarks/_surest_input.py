"""Map a point u of the embedded space back to the input that goes there most surely, as the paper does."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog, minimize

import pymc_active as pma

# Local searches for the smallest log determinant.
_STARTS = 8


def surest_input(fit, u: np.ndarray, bounds: list[tuple[float, float]]) -> np.ndarray:
    """The x in a box with E[u | x] = u that is mapped there most surely.

    It minimises the log determinant of Cov[u | x], under the Gaussian around the highest mode of R, which
    :func:`pymc_active.find_modes` finds. The surest x is seldom the most informative one.

    Source: Garnett, Osborne & Hennig (2014), section 4.1. ``u`` (d,) is R x, x scaled by ``x_scale``; the bounds and
    the x (D,) returned are in the user's units. A ValueError says if no x in the box goes to ``u``.
    """
    mode = pma.find_modes(fit)
    rows, (d, D) = fit.gpm.embedding_slice
    low, high = np.transpose(bounds).astype(float)
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
