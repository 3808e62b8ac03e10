"""The input in [-1, 1]^D that goes most surely to a place u of an embedding (Garnett et al. 2014, section 4.1)."""

import numpy as np
from scipy.optimize import linprog, minimize

# Local searches for the smallest log determinant of Cov[u | x].
STARTS = 8


def surest_input(fit, u):
    """Of a LaplaceFit: the x with R x = u, R at the mode, that minimises log det Cov[R x]."""
    rows, (d, D) = fit.gpm.embedding_slice
    R, box = fit.theta[rows].reshape(d, D), [(-1.0, 1.0)] * D
    blocks = fit.covariance[rows, rows].reshape(d, D, d, D).transpose(0, 2, 1, 3)
    costs = [np.zeros(D)] if d == 1 else np.random.default_rng(0).normal(size=(STARTS, D))
    vertices = [linprog(cost, A_eq=R, b_eq=u, bounds=box, method="highs").x for cost in costs]

    def spread(x):
        Sx = blocks @ x
        covariance = Sx @ x
        return float(np.linalg.slogdet(covariance)[1]), 2 * np.einsum("kl,klc->c", np.linalg.inv(covariance), Sx)

    center = np.clip(np.linalg.lstsq(R, u, rcond=None)[0], -1, 1)
    plane = {"type": "eq", "fun": lambda x: R @ x - u, "jac": lambda x: R}
    options = {"maxiter": 300, "ftol": 1e-10}
    found = [
        minimize(spread, 0.5 * (center + x), jac=True, method="SLSQP", bounds=box, constraints=plane, options=options).x
        for x in vertices
    ]
    # A search may leave the plane R x = u; the vertices lie in it.
    inside = [x for x in np.clip([*found, *vertices], -1, 1) if np.abs(R @ x - u).max() < 1e-6]
    return min(inside, key=lambda x: spread(x)[0])
