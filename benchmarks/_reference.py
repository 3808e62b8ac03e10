"""The marginal GP of an embedding model, written once more: plain formulas, complex steps."""

from __future__ import annotations

import numpy as np

STEP = 1e-40


def draw_problem(n: int, D: int, d: int, seed: int, noise: float = 0.1):
    """Inputs (n, D) from the box, outputs (n,) of a random embedded function, and its R (d, D)."""
    rng = np.random.default_rng(seed)
    R = rng.normal(0, 1.25 * np.sqrt(3 / D), size=(d, D))
    X = rng.uniform(-1, 1, size=(n, D))
    U = X @ R.T
    K = np.exp(-0.5 * np.square(U[:, None] - U).sum(-1))
    y = np.linalg.cholesky(K + noise**2 * np.eye(n)) @ rng.normal(size=n)
    return X, y, R


def map_moments(X, y, shape: tuple[int, int], theta, X_new):
    """Latent mean and variance at fixed theta = (R, log_outputscale, log_noise), and the noise."""
    U, U_new = X @ theta[:-2].reshape(shape).T, X_new @ theta[:-2].reshape(shape).T
    prior, noise = np.exp(2 * theta[-2]), np.exp(2 * theta[-1])

    def kernel(A, B):
        return prior * np.exp(-0.5 * sum(np.subtract.outer(A[:, k], B[:, k]) ** 2 for k in range(shape[0])))

    k_new = kernel(U, U_new)
    solved = np.linalg.solve(kernel(U, U) + noise * np.eye(len(y)), np.column_stack([y, k_new]))
    return k_new.T @ solved[:, 0], prior - (k_new * solved[:, 1:]).sum(0), noise


def bald(X, y, shape: tuple[int, int], theta, covariance, X_new, *, target: str = "y") -> np.ndarray:
    """Half the log ratio of the MGP's variance (eq. 19 of Garnett et al. 2014) to the plain one.

    The derivatives in theta are complex steps, exact to rounding.
    """
    dm, dV = np.empty((2, len(theta), len(X_new)))
    for i in range(len(theta)):
        step = theta.astype(complex)
        step[i] += 1j * STEP
        mean, variance, _ = map_moments(X, y, shape, step, X_new)
        dm[i], dV[i] = mean.imag / STEP, variance.imag / STEP
    _, V, noise = map_moments(X, y, shape, theta, X_new)
    marginal = 4 / 3 * V + np.einsum("im,ij,jm->m", dm, covariance, dm)
    marginal += np.einsum("im,ij,jm->m", dV, covariance, dV) / (3 * V)
    added = noise if target == "y" else 0.0
    return 0.5 * np.log((marginal + added) / (V + added))
