"""The posterior of builders' models by NumPy: closed-form derivatives, nothing compiled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, override

import numpy as np

from pymc_active.kernels.node import Node, Pairs, squared_distance
from pymc_active.kernels.program import Leaf, Program
from pymc_active.kernels.radial import Profile, number_of
from pymc_active.kernels.stationary import EmbeddedBatch, RadialLines, Stationary, check_profile
from pymc_active.posterior.base import (
    Climbed,
    InputGradients,
    Likelihoods,
    Moments,
    State,
    difference_hessian,
    gram_terms,
)
from pymc_active.posterior.factor import LOG_2PI, Factor, factor_batch, is_compiled, unsound
from pymc_active.posterior.measured import MeasuredPosterior

# Numbers of the derivatives of K in all parameters, a few copies of which the exact Hessian takes, at most; beyond, the
# step of central differences, in prior sds. Truncation and rounding then leave about eight digits.
_DENSE, _DIFFERENCE = 10_000_000, 1e-4
_NOTHING = np.empty((0, 0))


class ArrayPosterior(MeasuredPosterior):
    """Array covariance, mean linear in its parameters, homoscedastic noise."""

    is_array = True

    def _factor(self, theta, K, extra_noise):
        K.flat[:: len(K) + 1] += self.noise_variances(theta, extra_noise)
        factor = Factor(K, self.y - self._basis @ theta[self.mean_indices])
        factor.beside = self.beside(np.exp(2 * theta[self.log_noise]) + extra_noise)
        factor.nll += len(K) * np.log(self.y_map.scale) - factor.beside.value
        return factor

    @cached_property
    def pairs(self) -> Pairs:
        """Of the rows of the data."""
        return Pairs(self.X)

    def log_priors(self, thetas):
        return self.prior.values(thetas), -(thetas - self.prior.mean) * self.prior.precision

    def _likelihoods(self, thetas, extra_noise, gradient, start=None):
        S, n, P = len(thetas), len(self.y), self.n_parameters
        full = self.full(thetas)
        residual = self.y - full[:, self.mean_indices] @ self._basis.T
        noise = np.exp(2 * full[:, self.log_noise])
        diagonal = ((noise + extra_noise)[:, None] + self.known_variance) / self.counts
        beside = self.beside(noise + extra_noise)
        by = self._compiled if self.is_fused else self._in_arrays
        alpha, log_roots, slope, trace = by(full, diagonal, residual, gradient)
        value = -0.5 * np.einsum("sn,sn->s", residual, alpha) - log_roots
        value += beside.value - n * (0.5 * LOG_2PI + np.log(self.y_map.scale))
        if not gradient:
            return Likelihoods(value, np.zeros((S, P)), np.zeros(S))
        slope[:, self.log_noise] -= noise * (trace - 2 * beside.slope)
        slope[:, self.mean_indices] += alpha @ self._basis
        return Likelihoods(value, slope[:, :P], beside.slope - 0.5 * trace)

    @override
    def _log_likelihood(self, theta, extra_noise):
        if not self.is_fused:
            return super()._log_likelihood(theta, extra_noise)
        likelihoods = self._likelihoods(theta[None], extra_noise, gradient=True)
        return likelihoods.value[0], likelihoods.gradient[0], likelihoods.in_noise[0]

    def _in_arrays(self, full, diagonal, residual, gradient):
        """G⁻¹ residual, halves of log determinants, the slope in the kernel (S, P') and twice that in the noise."""
        K, pullback = self._batch(full)
        G, alpha, log_roots = self._factored(K, diagonal, residual, gradient)
        if not gradient:
            return alpha, log_roots, None, None
        # The lower triangle of W = G⁻¹ - alpha alphaᵀ; entries off the diagonal stand for two.
        trace, n = self.trace(G), len(self.y)
        flat = G.reshape(len(G), n * n)
        flat[:, :: n + 1] *= 0.5
        return alpha, log_roots, -pullback(flat[:, self.pairs.places]), trace

    def _factored(self, K, diagonal, residual, gradient):
        """G (S, n, n) as :func:`factor_batch` leaves it, from lower triangles K (S, q), and what that returns."""
        S, n = len(K), len(self.y)
        G = np.empty((S, n, n))
        flat = G.reshape(S, n * n)
        flat[:, self.pairs.places] = K
        flat[:, :: n + 1] += diagonal
        return G, *factor_batch(G, np.broadcast_to(residual, (S, n)), gradient)

    @property
    @override
    def is_fused(self):
        is_composite = self.kernel is not None and bool(self.kernel.parts)
        return self._program is not None and is_compiled(len(self.y), is_composite)

    @property
    @abstractmethod
    def _program(self) -> Program | None:
        """The covariance as a program for the compiled loop; None if that does not know it."""

    def _compiled(self, full, diagonal, residual, gradient):
        """As :meth:`_in_arrays`, by a compiled loop."""
        # Imports a compiler, which small data do without.
        from pymc_active.posterior.compiled import evaluate

        assert self._program is not None
        noise = diagonal + np.zeros_like(residual)
        evaluated = evaluate(self._program, self.X, full, noise, residual, unsound(residual.shape[1]), gradient)
        return evaluated.alphas, evaluated.log_roots, evaluated.gradients, (evaluated.diagonals / self.counts).sum(1)

    @property
    @override
    def climbs_apart(self):
        return self.is_fused and self.replicates is None

    @override
    def climb(self, z, root, limits, extra_noise=0.0):
        if not self.climbs_apart:
            return super().climb(z, root, limits, extra_noise)
        from pymc_active.posterior.compiled import climb

        assert self._program is not None
        n, prior, known_variance = len(self.y), self.prior, np.broadcast_to(self.known_variance, len(self.y))
        data = self.y, self._basis, self.mean_indices, self.log_noise, known_variance, extra_noise
        rest = (prior.mean, prior.precision), unsound(n), root, tuple(limits)
        u, value, *rest = climb(self._program, self.X, self.full(z), data, *rest)
        value += prior.constant - n * (0.5 * LOG_2PI + float(np.log(self.y_map.scale)))
        return Climbed(z + (root * u if root.ndim == 1 else root @ u), value, *rest)

    @abstractmethod
    def _batch(self, full: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Lower triangles of K (S, q) for rows (theta, constants) of ``full``, and their pullback to these rows."""

    def moments(self, state, X_new, *, gradient=False):
        return self._in_units(self._moments(state, self.x_map(X_new), gradient))

    def _in_units(self, moments: Moments) -> Moments:
        """Predictions in the user's units."""
        if self.y_map.is_identity:
            return moments
        s = float(self.y_map.scale)
        return Moments(
            self.y_map.shift + s * moments.mean,
            *(s * s * part for part in moments[1:4]),
            *(None if part is None else unit * part for unit, part in zip((s, s * s), moments[4:], strict=True)),
        )

    @abstractmethod
    def _moments(self, state: State, X_new: np.ndarray, gradient: bool) -> Moments:
        """Predictions in the units of the priors."""

    def moments_and_slopes(self, state, X_new):
        Z, factor, full = self.x_map(X_new), state.factor, self.full(state.theta)
        k_new, prior, pull, in_prior = self._new_covariances(state, full, Z)
        B = factor.solve(k_new)
        plain = self._plain(full, factor, Z, k_new, prior, factor.half_solve(k_new))
        mean = pull(np.broadcast_to(factor.alpha[:, None], B.shape)) + self._mean_slope(full)
        s, pullback = float(self.y_map.scale), self.x_map.pullback
        slopes = InputGradients(s * pullback(X_new, mean), s * s * pullback(X_new, in_prior - 2 * pull(B)))
        return self._in_units(plain), slopes

    @abstractmethod
    def _new_covariances(
        self, state: State, full: np.ndarray, X_new: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray], np.ndarray | float]:
        """Covariances (n, m) of data and new points, prior variances (m,), and derivatives of both in the points.

        Those of the former are a function of weights (n, m); all are in the units of the priors.
        """

    def _plain(
        self, full: np.ndarray, factor: Factor, X_new: np.ndarray, k_new: np.ndarray, prior: np.ndarray,
        half: np.ndarray,
    ) -> Moments:  # fmt: skip
        """Predictions by covariances with new points (n, m), their prior variances (m,) and half a solution (n, m)."""
        mean = factor.alpha @ k_new + self.mean_basis(X_new) @ full[self.mean_indices]
        noise = np.full(len(X_new), np.exp(2 * full[self.log_noise]))
        return Moments(mean, prior - np.square(half).sum(0), prior, noise)

    def _mean_slope(self, theta: np.ndarray) -> np.ndarray | float:
        """Derivative of the mean function in the inputs: its parameters are a constant, then one slope per input."""
        return theta[self.mean_indices[1:]] if len(self.mean_indices) > 1 else 0.0

    def prior_mean(self, theta, X):
        full = self.full(theta)
        return self.mean_basis(X) @ full[self.mean_indices], np.broadcast_to(self._mean_slope(full), X.shape)

    def prior_value_and_gradient(self, theta):
        return self.prior.value_and_gradient(theta)

    def noise_below_prior(self, theta):
        if self.log_noise >= self.n_parameters:
            return 0.0
        return float((self.prior.mean - theta)[self.log_noise] / self.prior.sd[self.log_noise])

    def population_size(self):
        # An evaluation takes about 0.2 ms at n = 100, and grows with the square of n at first. Few data leave the
        # posterior so wide that a large population is wasted.
        n = len(self.y)
        affordable = int(np.clip(64 * min(n / 50, (100 / n) ** 2), 16, 64))
        return min(affordable, 4 * self.n_parameters)

    def prior_scale(self):
        return self.prior.mean, self.prior.sd

    @property
    def prior_kinds(self):
        return list(zip(self.prior.mean.tolist(), self.prior.sd.tolist(), strict=True))

    def prior_hessian(self, theta):
        return np.diag(-self.prior.precision)

    def _add_noise_and_mean_gradient(self, gradient, theta, factor):
        gradient[self.log_noise] += np.exp(2 * theta[self.log_noise]) * (self.trace(factor.W) - 2 * factor.beside.slope)
        gradient[self.mean_indices] -= factor.alpha @ self._basis
        return gradient[: self.n_parameters]


def _squares(B: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
    """Weighted sums of squares of the columns of B (n, m), (m,)."""
    return weights @ np.square(B) if np.ndim(weights) else weights * np.einsum("ij,ij->j", B, B)


@dataclass(eq=False, repr=False)
class KernelPosterior(ArrayPosterior):
    """Posterior with any covariance of few parameters, a :class:`~pymc_active.kernels.node.Node`."""

    kernel: Node

    @property
    def hides_modes(self):
        return not isinstance(self.kernel, Stationary)

    def lines(self, theta, a, b):
        return self.kernel.lines(self.full(theta), a, b)

    def check_twice_differentiable(self):
        self.kernel.check_twice_differentiable()

    def state(self, theta, extra_noise=0.0):
        full = self.full(theta)
        at = self.kernel.at(full, self.X)
        return State(theta, self._factor(full, at.K.copy(), extra_noise), at)

    def light_state(self, theta):
        full = self.full(theta)
        # Given two sets of points, a kernel leaves out its derivatives.
        return State(theta, self._factor(full, self.kernel.at(full, self.X, self.X).K, 0.0), None)

    def _batch(self, full):
        made = self.kernel.batch(full, self.pairs)
        return made.K, made.pullback

    @cached_property
    @override
    def _program(self):
        return Program.of(self.kernel)

    def likelihood_gradient(self, state):
        full = self.full(state.theta)
        return self._add_noise_and_mean_gradient(0.5 * state.extra.pullback(state.factor.W), full, state.factor)

    def _tangents(self, state, full):
        """Derivatives of G (P, n, n) and of the mean (P, n)."""
        n, P = len(self.y), self.n_parameters
        dG, dmu = np.zeros((len(full), n, n)), np.zeros((len(full), n))
        for i, t in state.extra.tangents():
            dG[i] += t
        dG[self.log_noise].flat[:: n + 1] += 2 * np.exp(2 * full[self.log_noise]) / self.counts
        dmu[self.mean_indices] = self._basis.T
        return dG[:P], dmu[:P]

    def likelihood_hessian(self, state):
        if self.n_parameters * len(self.y) ** 2 > _DENSE:
            return difference_hessian(self, state.theta, _DIFFERENCE * self.prior.sd)
        full = self.full(state.theta)
        dG, dmu = self._tangents(state, full)
        H = 0.5 * state.extra.curvature(state.factor.W)
        H[self.log_noise, self.log_noise] += self._noise_curvature(np.exp(2 * full[self.log_noise]), state.factor)
        return H[: self.n_parameters, : self.n_parameters] + gram_terms(state.factor, dG, dmu)

    def _moments(self, state, X_new, gradient):
        full, factor = self.full(state.theta), state.factor
        at = self.kernel.at(full, self.X, X_new)
        prior_variance, diagonal_tangents = self.kernel.diagonal(full, X_new)
        if not gradient:
            return self._plain(full, factor, X_new, at.K, prior_variance, factor.half_solve(at.K))
        half, B = factor.solve_many(at.K)
        plain = self._plain(full, factor, X_new, at.K, prior_variance, half)
        dm, dV = np.zeros((2, len(full), len(X_new)))
        for i, t in at.tangents():
            dm[i] += factor.alpha @ t
            dV[i] -= 2 * np.einsum("ij,ij->j", t, B)
        for i, t in diagonal_tangents:
            dV[i] += t
        for i, dG in state.extra.tangents():
            dm[i] -= (dG @ factor.alpha) @ B
            dV[i] += np.einsum("ij,ij->j", B, dG @ B)
        in_noise = 2 * np.exp(2 * full[self.log_noise])
        dm[self.log_noise] -= in_noise * ((factor.alpha / self.counts) @ B)
        dV[self.log_noise] += in_noise * _squares(B, 1 / self.counts)
        dm[self.mean_indices] += self.mean_basis(X_new).T - self._basis.T @ B
        P = self.n_parameters
        return plain._replace(mean_gradient=dm[:P].T, variance_gradient=dV[:P].T)

    def _new_covariances(self, state, full, X_new):
        at, in_prior = self.kernel.at(full, self.X, X_new), 0.0
        if not isinstance(self.kernel, Stationary):
            # The gradient of k(x, x) is twice that in one argument.
            in_prior = 2 * self.kernel.at(full, X_new).input_pullback(np.eye(len(X_new)))
        return at.K, self.kernel.diagonal(full, X_new)[0], at.input_pullback, in_prior


class _Embedded(NamedTuple):
    """The kernel and its derivative in s, at the embedded inputs U (n, d)."""

    U: np.ndarray
    s: np.ndarray
    variance: float
    K: np.ndarray
    k1: np.ndarray
    diagonal_noise: np.ndarray | float


@dataclass(eq=False, repr=False)
class EmbeddingPosterior(ArrayPosterior):
    """Posterior with the covariance outputscale² g(|R x - R x'|² / lengthscale²), for a full R of shape (d, D).

    Derivatives are taken in U = X Rᵀ / lengthscale (n, d) and multiplied by X at the end: no array of size n x n x dD
    is formed. ``R`` is a slice of (theta, constants), ``log_lengthscale`` and ``log_outputscale`` are positions.
    """

    kernel = None
    profile: Profile
    shape: tuple[int, int]
    R: slice
    log_lengthscale: int
    log_outputscale: int

    def embedding(self, theta: np.ndarray) -> np.ndarray:
        """R / lengthscale, shape (d, D)."""
        return self._divided(self.full(theta))[self.R].reshape(self.shape)

    def _divided(self, full: np.ndarray) -> np.ndarray:
        """A copy (..., P) with R divided by the lengthscale, the coordinates in which derivatives are taken."""
        divided = full.copy()
        divided[..., self.R] *= np.exp(-full[..., self.log_lengthscale, None])
        return divided

    def _pull(self, gradient: np.ndarray, divided: np.ndarray) -> np.ndarray:
        """Gradients (..., P) in (theta, constants), from those in ``divided``; in place."""
        in_R = gradient[..., self.R]
        gradient[..., self.log_lengthscale] = -np.einsum("...i,...i->...", in_R, divided[..., self.R])
        in_R *= np.exp(-divided[..., self.log_lengthscale, None])
        return gradient

    def lines_between(self, theta: np.ndarray, difference: np.ndarray, turn: Callable) -> RadialLines:
        """The kernel at differences (..., d) of embedded inputs; ``turn`` embeds directions."""
        return RadialLines(self.profile, np.exp(2 * self.full(theta)[self.log_outputscale]), difference, turn)

    def lines(self, theta, a, b):
        turn = self.embedding(theta).T
        return self.lines_between(theta, a @ turn - b @ turn, lambda direction: direction @ turn)

    def check_twice_differentiable(self):
        check_profile(self.profile)

    def state(self, theta, extra_noise=0.0):
        full = self._divided(self.full(theta))
        U = self.X @ full[self.R].reshape(self.shape).T
        s = squared_distance(U)
        variance = np.exp(2 * full[self.log_outputscale])
        K, k1 = self.profile(s, 1)
        K *= variance
        k1 *= variance
        diagonal_noise = self.noise_variances(full, extra_noise)
        factor = self._factor(full, K.copy(), extra_noise)
        return State(theta, factor, _Embedded(U, s, variance, K, k1, diagonal_noise))

    def light_state(self, theta):
        U = self.X @ self.embedding(theta).T
        full, [K] = self.full(theta), self.profile(squared_distance(U), 0)
        K *= (variance := np.exp(2 * full[self.log_outputscale]))
        return State(theta, self._factor(full, K, 0.0), _Embedded(U, _NOTHING, variance, _NOTHING, _NOTHING, 0.0))

    @cached_property
    @override
    def _program(self):
        if (number := number_of(self.profile)) is None:
            return None
        columns, places = range(self.shape[1]), range(self.R.start, self.R.stop)
        return Program.of_leaves([Leaf(number, columns, places, self.log_lengthscale, self.log_outputscale)])

    def _batch(self, full):
        divided = self._divided(full)
        made = EmbeddedBatch(
            self.profile, divided[:, self.R].reshape(-1, *self.shape), full[:, self.log_outputscale], self.pairs
        )

        def pullback(W):
            gradient = np.zeros_like(full)
            in_R, gradient[:, self.log_outputscale] = made.pullback(W)
            gradient[:, self.R] = in_R.reshape(len(full), -1)
            return self._pull(gradient, divided)

        return made.K, pullback

    def _slope(self, state: State) -> np.ndarray:
        """Gradient of the negative log likelihood in R / lengthscale, (d D,)."""
        assert isinstance(state.extra, _Embedded)
        U, Z = state.extra.U, state.factor.W * state.extra.k1
        dU = 2 * (Z.sum(0)[:, None] * U - Z @ U)
        return (dU.T @ self.X).ravel()

    def likelihood_gradient(self, state):
        full = self._divided(self.full(state.theta))
        gradient = np.zeros(len(full))
        gradient[self.log_outputscale] = np.vdot(state.factor.W, state.extra.K)
        gradient[self.R] = self._slope(state)
        return self._add_noise_and_mean_gradient(self._pull(gradient, full), full, state.factor)

    def likelihood_hessian(self, state):
        full, factor = self._divided(self.full(state.theta)), state.factor
        U, s, variance, K, k1, _ = state.extra
        (d, D), n, P = self.shape, len(self.y), len(full)
        G_inverse, W, alpha = factor.inverse, factor.W, factor.alpha
        k2 = variance * self.profile(s, 2)[2]
        delta = [np.subtract.outer(U[:, k], U[:, k]) for k in range(d)]
        # S[k][i, j] = dk(u_i, u_j)/du_ik is row and column i of dK/du_ik, which is zero elsewhere.
        S = [2 * k1 * delta[k] for k in range(d)]
        SG = [S_k @ G_inverse for S_k in S]
        # Columns of M[k] are (dK/du_ik) alpha.
        M = [S_k.T * alpha + np.diag(S_k @ alpha) for S_k in S]
        GM = [factor.solve(M_k) for M_k in M]

        H = np.zeros((P, P))
        H_R = np.empty((d, D, d, D))
        Wk1, Wk2 = 2 * W * k1, 4 * W * k2
        for k in range(d):
            for m in range(k + 1):
                T = Wk2 * delta[k] * delta[m]
                if k == m:
                    T += Wk1
                np.fill_diagonal(T, 0.0)
                H_U = M[k].T @ GM[m] - G_inverse * (SG[k] @ S[m].T) - SG[k] * SG[m].T - T
                H_U.flat[:: n + 1] += T.sum(1)
                block = self.X.T @ (H_U @ self.X)
                H_R[k, :, m, :] = block
                if k != m:
                    H_R[m, :, k, :] = block.T
        H[self.R, self.R] = H_R.reshape(d * D, d * D)

        # The few other parameters, against R and against each other.
        o, s2 = self.log_outputscale, self.log_noise
        noise = np.exp(2 * full[s2])
        dG = np.stack([2 * K, 2 * noise * np.eye(n) / self.counts])
        few = np.concatenate([[o, s2], self.mean_indices]).astype(int)
        dmu = np.zeros((len(few), n))
        dmu[2:] = self._basis.T
        v = dmu.copy()
        v[:2] += dG @ alpha
        GdG = G_inverse @ dG
        Gv = factor.solve(v.T)
        Q = GdG @ G_inverse
        small = v @ Gv
        small[:2, :2] -= 0.5 * np.einsum("aij,bji->ab", GdG, GdG)
        small[0, 0] += 2 * np.vdot(W, K)
        small[1, 1] += self._noise_curvature(noise, factor)
        # Only constants may share a position, and these are cut off below.
        H[np.ix_(few, few)] = small
        cross = np.empty((d, n, len(few)))
        for k in range(d):
            cross[k] = M[k].T @ Gv
            for a in range(2):
                cross[k][:, a] -= (S[k] * Q[a]).sum(1)
            cross[k][:, 0] += 2 * (W * S[k]).sum(1)
        H_few = np.concatenate([self.X.T @ cross[k] for k in range(d)])
        H[self.R, few] = H_few
        H[few, self.R] = H_few.T
        # The map from (theta, constants) to the coordinates of H is not linear: the gradient adds a part.
        slope, length = self._slope(state), self.log_lengthscale
        self._pull(self._pull(H, full).T, full)
        H[self.R, length] -= np.exp(-full[length]) * slope
        H[length, self.R] = H[self.R, length]
        H[length, length] += slope @ full[self.R]
        return H[: self.n_parameters, : self.n_parameters]

    def _moments(self, state, X_new, gradient):
        full, factor = self._divided(self.full(state.theta)), state.factor
        U, _, variance, K, k1, diagonal_noise = state.extra
        d, D = self.shape
        U_new = X_new @ full[self.R].reshape(self.shape).T
        k_new, *derivatives = self.profile(squared_distance(U, U_new), int(gradient))
        k_new *= variance
        prior_variance = np.full(len(X_new), variance)
        if not gradient:
            return self._plain(full, factor, X_new, k_new, prior_variance, factor.half_solve(k_new))

        alpha, P = factor.alpha, self.n_parameters
        half, B = factor.solve_many(k_new)
        plain = self._plain(full, factor, X_new, k_new, prior_variance, half)
        dm, dV = np.zeros((2, len(X_new), len(full)))
        [q] = derivatives
        q *= 2 * variance
        for k in range(d):
            S = 2 * k1 * np.subtract.outer(U[:, k], U[:, k])
            E = q * np.subtract.outer(U[:, k], U_new[:, k])  # dk(u_i, u*)/du_ik
            SB = S @ B
            rows = slice(self.R.start + k * D, self.R.start + (k + 1) * D)
            dm[:, rows] = -(alpha @ E)[:, None] * X_new
            dV[:, rows] = 2 * np.einsum("ij,ij->j", B, E)[:, None] * X_new
            # SB becomes dV/2 in u_i, E becomes dm in u_i.
            E -= SB
            dm[:, rows] += E.T @ (alpha[:, None] * self.X) - B.T @ ((S @ alpha)[:, None] * self.X)
            E *= B
            dV[:, rows] -= 2 * E.T @ self.X
        o, s2 = self.log_outputscale, self.log_noise
        noise_variance = np.exp(2 * full[s2])
        dm[:, o] = 2 * (alpha @ k_new - (K @ alpha) @ B)
        # BᵀKB = k_newᵀB - (diagonal of G - K) BᵀB.
        dV[:, o] = 2 * plain.variance - 2 * _squares(B, diagonal_noise)
        dm[:, s2] = -2 * noise_variance * ((alpha / self.counts) @ B)
        dV[:, s2] = 2 * noise_variance * _squares(B, 1 / self.counts)
        dm[:, self.mean_indices] = self.mean_basis(X_new) - B.T @ self._basis
        self._pull(dm, full)
        self._pull(dV, full)
        return plain._replace(mean_gradient=dm[:, :P], variance_gradient=dV[:, :P])

    def _new_covariances(self, state, full, X_new):
        U, variance = state.extra[0], state.extra[2]
        R = self._divided(full)[self.R].reshape(self.shape)
        U_new = X_new @ R.T
        k_new, q = self.profile(squared_distance(U, U_new), 1)
        k_new, q = variance * k_new, 2 * variance * q
        # dk(u_i, u*)/du_ik, and minus the derivative in u*_k.
        E = [q * np.subtract.outer(U[:, k], U_new[:, k]) for k in range(len(R))]

        def pull(W):
            return -np.column_stack([np.einsum("ij,ij->j", W, E_k) for E_k in E]) @ R

        return k_new, np.full(len(X_new), variance), pull, 0.0
