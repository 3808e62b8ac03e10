"""The Cholesky factorisation of the data covariance."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from pymc_active.support.threads import keep_freed_memory, threads_for
from pymc_active.support.user_warnings import ActiveError

LOG_2PI = float(np.log(2 * np.pi))
# Pivots that small beside the entries of a matrix may be rounding errors: squared distances from inner products have
# errors of many units in the last place. Batches are computed in another way: they accept all that single ones accept.
_EPS_OF_BATCHES, _EPS = 0.9e3 * np.finfo(float).eps, 1e3 * np.finfo(float).eps
# Rows of a matrix whose memory the system takes back at every use: 128 kB.
_LARGE = 128
# Smallest pivot, beside an entry, with which variances explained by way of L⁻¹ have errors below 1e-12.
_WELL = 1e-8


class NotPositiveDefiniteError(ActiveError, np.linalg.LinAlgError):
    """The data covariance K + noise has no Cholesky factor at these hyperparameters."""


# Up to so many rows NumPy's batches are faster than LAPACK called for each matrix: for gradients, and without.
_BATCHED = {True: 16, False: 12}
# Rows from which a fit takes longer than to compile its loops, of sums and products of kernels half as many, and those
# from which several threads of BLAS are better.
_COMPILED = 40, 1000


def is_compiled(n: int, is_composite: bool = False) -> bool:
    """Whether compiled loops are used for matrices of n rows of many particles."""
    return _COMPILED[0] / (1 + is_composite) <= n < _COMPILED[1]


def unsound(n: int) -> float:
    """The share of the first entry of a matrix of n rows, in a batch, below which squares of pivots may be rounding."""
    return n * _EPS_OF_BATCHES


def factor_batch(G: np.ndarray, residuals: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray]:
    """:func:`factor_in_place` of each of G (S, n, n) with residuals (S, n): alphas (S, n), halves of log determinants.

    The lower triangles of G become W = G⁻¹ - alpha alphaᵀ if ``gradient``, and are undefined otherwise.
    """
    if G.shape[1] <= _BATCHED[gradient]:
        # If any is not positive definite, the loop finds out which.
        with suppress(np.linalg.LinAlgError):
            L = np.linalg.cholesky(G)
            return _solved(G, L, np.linalg.inv(L), residuals)
    if is_compiled(G.shape[1]) and G.flags.c_contiguous:
        from pymc_active.posterior.compiled import factor_particles

        return factor_particles(G, residuals, unsound(G.shape[1]), gradient)
    alphas, log_roots = np.zeros_like(residuals), np.empty(len(G))
    for s in range(len(G)):
        alphas[s], log_roots[s] = factor_in_place(G[s], residuals[s], gradient)
    return alphas, log_roots


def _solved(G, L, roots, residuals):
    """By products with the inverse ``roots`` of L: more operations than solving, but all matrices in one call."""
    pivots = L.diagonal(axis1=1, axis2=2)
    sound = pivots.min(1) ** 2 > unsound(G.shape[1]) * G[:, 0, 0]
    half = np.einsum("sij,sj->si", roots, residuals)
    alphas = np.where(sound[:, None], np.einsum("sij,si->sj", roots, half), 0.0)
    np.matmul(roots.swapaxes(1, 2), roots, out=G)
    G -= alphas[:, :, None] * alphas[:, None]
    return alphas, np.where(sound, np.log(pivots).sum(1), np.nan)


def factor_in_place(G: np.ndarray, residual: np.ndarray, gradient: bool) -> tuple[np.ndarray, float]:
    """Alpha = G⁻¹ residual and half the log determinant, from the lower triangle of G; it becomes as in a batch.

    For many small matrices: (zeros, nan) if G is not positive definite, or so nearly singular that rounding decides.
    """
    if not G.flags.c_contiguous:
        raise ValueError("G is overwritten, so it must be a matrix in C's order, not a view in another")
    smallest = unsound(len(G)) * G[0, 0]
    if len(G) > _LARGE:
        keep_freed_memory()
    with threads_for(len(G)):
        # The transposed view is in LAPACK's order, and the lower triangle its upper one.
        U, info = lapack.dpotrf(G.T, lower=0, clean=0, overwrite_a=1)
        if info or not U.diagonal().min() ** 2 > smallest:
            return np.zeros_like(residual), np.nan
        log_root = float(np.log(U.diagonal()).sum())
        alpha = lapack.dpotrs(U, residual, lower=0)[0]
        if gradient:
            lapack.dpotri(U, lower=0, overwrite_c=1)
            blas.dsyr(-1.0, alpha, a=U, lower=0, overwrite_a=1)
    return alpha, log_root


class Beside(NamedTuple):
    """The log likelihood of measurements about their means (...), and its derivatives in the noise variance."""

    value: np.ndarray | float = 0.0
    slope: np.ndarray | float = 0.0
    curvature: np.ndarray | float = 0.0


class Factor:
    """G = L Lᵀ, alpha = G⁻¹ residual, and G⁻¹ on demand. Overwrites a C-contiguous G; or NotPositiveDefiniteError."""

    def __init__(self, G: np.ndarray, residual: np.ndarray):
        if len(G) > _LARGE:
            keep_freed_memory()
        # G is symmetric, so its transposed view is G in LAPACK's order.
        self._size, self._smallest = G[0, 0], len(G) * _EPS * G[0, 0]
        with threads_for(len(G)):
            self.L, info = lapack.dpotrf(G.T, lower=1, clean=1, overwrite_a=1)
        if info != 0 or not np.isfinite(self.L[-1, -1]):
            raise NotPositiveDefiniteError(
                f"K + noise of shape {G.shape} is not positive definite (leading minor {info}): rows of X may repeat, "
                "or be so far from zero that rounding hides how they differ (pass bounds to the model), or the noise "
                "be too small: give log_noise a prior that keeps it away from zero."
            )
        self.residual = residual
        self.alpha = lapack.dpotrs(self.L, residual, lower=1)[0]
        # What means of replicates leave out of the likelihood.
        self.beside = Beside()
        # Variances of the sites, and derivatives in the likelihood's parameters, where outcomes are not normal.
        self.sites, self.in_phi = np.zeros(len(residual)), np.empty(0)
        self.nll = 0.5 * (residual @ self.alpha + len(residual) * LOG_2PI) + np.log(np.diagonal(self.L)).sum()

    @property
    def is_sound(self) -> bool:
        """Whether G is so far from singular that rounding does not decide: posterior densities are zero elsewhere."""
        return bool(np.diagonal(self.L).min() ** 2 > self._smallest)

    @cached_property
    def inverse(self) -> np.ndarray:
        """G⁻¹, symmetric."""
        # dpotri fills one triangle and leaves the other, which is zero here.
        with threads_for(len(self.L)):
            lower = lapack.dpotri(self.L, lower=1)[0]
        inverse = lower + lower.T
        inverse.flat[:: len(lower) + 1] *= 0.5
        return inverse

    @cached_property
    def W(self) -> np.ndarray:
        """G⁻¹ - alpha alphaᵀ: twice the derivative of the negative log likelihood in G."""
        return self.inverse - self.alpha[:, None] * self.alpha

    @cached_property
    def _root(self) -> np.ndarray:
        """L⁻¹."""
        with threads_for(len(self.L)):
            return lapack.dtrtri(self.L, lower=1)[0]

    def solve(self, B: np.ndarray) -> np.ndarray:
        """G⁻¹ B."""
        with threads_for(len(self.L)):
            return lapack.dpotrs(self.L, B, lower=1)[0]

    def solve_many(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L⁻¹ B and G⁻¹ B for many columns, by an explicit L⁻¹: twice as fast as triangular solves."""
        # Products with G⁻¹ would lose all digits of a small predictive variance if G is ill-conditioned; these lose
        # some where the noise is below 1e-4 of the signal, unlike half_solve.
        with threads_for(len(self.L)):
            half = _times(self._root, B)
            return half, _times(self._root, half, transpose=True)

    def half_solve(self, B: np.ndarray) -> np.ndarray:
        """L⁻¹ B, whose squared column norms are the explained variances; B of one or two axes."""
        with threads_for(len(self.L)):
            if B.ndim == 1:
                return lapack.dtrtrs(self.L, B, lower=1)[0]
            if B.shape[1] > 2 * len(B) and np.diagonal(self.L).min() ** 2 > _WELL * self._size:
                # As in solve_many: a product is faster than a triangular solve, which has smaller errors.
                return _times(self._root, B)
            # B is in C's order, so that its transpose is in BLAS's.
            return blas.dtrsm(1.0, self.L, B.T, side=1, trans_a=1, lower=1).T

    def condition_number(self) -> float:
        """Estimate of the 1-norm condition number of G (LAPACK ``dpocon``)."""
        norm = np.abs(self.L @ self.L.T).sum(0).max()
        return float(1 / max(lapack.dpocon(self.L, norm, uplo="L")[0], np.finfo(float).tiny))


def _times(root: np.ndarray, B: np.ndarray, transpose: bool = False) -> np.ndarray:
    """A lower triangular matrix, or its transpose, times B: half the operations of a product with all of it."""
    return blas.dtrmm(1.0, root, B.T, side=1, trans_a=not transpose, lower=1).T
