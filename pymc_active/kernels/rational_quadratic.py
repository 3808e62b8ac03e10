"""The rational quadratic kernel."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv

from pymc_active.kernels.exponential import ExponentialAt
from pymc_active.kernels.node import squared_distance, variances
from pymc_active.kernels.program import RATIONAL_QUADRATIC, Leaf
from pymc_active.kernels.spectra import Spectrum, Term
from pymc_active.kernels.stationary import Stationary, StationaryBatch, pull_through_distance


class _RationalQuadraticAt(ExponentialAt):
    def __init__(self, node, theta, X, Z):
        self.node, self.theta, self.X, self.Z = node, theta, X, Z
        [(index, columns)] = node.groups
        w = np.exp(-theta[index])
        self.s = squared_distance(X[:, columns] * w, None if Z is None else Z[:, columns] * w)
        self.alpha = np.exp(theta[node.log_alpha])
        self.t = 1 + self.s / (2 * self.alpha)
        self.log_t = np.log(self.t)
        self.K = np.exp(2 * theta[node.log_outputscale] - self.alpha * self.log_t)

    def input_pullback(self, W):
        return pull_through_distance(self, -0.5 * W * self.K / self.t)

    def slopes(self):
        half = self.s / (2 * self.t)
        return [(self.node.log_lengthscale, 2 * half), (self.node.log_alpha, half - self.alpha * self.log_t)]

    def log_gradient(self, WK):
        half = np.vdot(WK, self.s / (2 * self.t))
        return 2 * half, half - self.alpha * np.vdot(WK, self.log_t)

    def second_derivatives(self, WK):
        (_, lengthscale), (_, alpha) = self.slopes()
        half = lengthscale / 2
        # dlog lengthscale of s/t is -2 (s/t) / t; dlog alpha of it is (s/t)² / (2 alpha).
        return (
            np.vdot(WK, lengthscale * (lengthscale - 2 / self.t)),
            np.vdot(WK, lengthscale * alpha + 2 * half * half / self.alpha),
            np.vdot(WK, alpha * alpha + alpha + half * half / self.alpha),
        )


class _RationalQuadraticBatch(StationaryBatch):
    node: RationalQuadratic

    def _evaluate(self, thetas):
        self.alpha = np.exp(thetas[:, self.node.log_alpha])[:, None]
        self.t = 1 + self.s / (2 * self.alpha)
        self.log_t = np.log(self.t)
        self.K = variances(thetas, self.node.log_outputscale) * np.exp(-self.alpha * self.log_t)

    def pullback(self, W):
        gradient, WK = np.zeros((len(W), self.P)), W * self.K
        gradient[:, self.node.log_outputscale] = 2 * WK.sum(1)
        gradient[:, self.node.log_alpha] = np.einsum("sq,sq->s", WK, self.s / (2 * self.t) - self.alpha * self.log_t)
        self._add_lengthscales(gradient, -0.5 * WK / self.t)
        return gradient


class RationalQuadratic(Stationary):
    """outputscale² (1 + s / (2 alpha))^(-alpha) on one group of inputs."""

    evaluation = _RationalQuadraticAt
    batch_evaluation = _RationalQuadraticBatch

    def __init__(self, log_lengthscale: int, columns: np.ndarray, log_alpha: int, log_outputscale: int):
        super().__init__("ExpQuad", [(log_lengthscale, columns)], log_outputscale)
        self.log_lengthscale, self.log_alpha = log_lengthscale, log_alpha
        self.roles = {"log_lengthscale": log_lengthscale, "log_alpha": log_alpha, "log_outputscale": log_outputscale}
        self.structure = ("RQ", tuple(self.columns.tolist()))

    @property
    def loop(self):
        return Leaf(RATIONAL_QUADRATIC, self.columns, self.column_indices, self.log_alpha, self.log_outputscale)

    def lines(self, theta, a, b):
        alpha = np.exp(theta[self.log_alpha])

        def profile(s, order):
            t = 1 + s / (2 * alpha)
            g = [t**-alpha]
            for k in range(order):
                g.append(-(alpha + k) / (2 * alpha) * g[-1] / t)
            return tuple(g)

        return self.radial_lines(profile, theta, a, b)

    def terms(self, theta, n_inputs):
        alpha = np.exp(theta[self.log_alpha])
        [(variance, _, [normal])] = super().terms(theta, n_inputs)

        def frequencies(U):
            # Precisions of a mixture of squared exponentials: Gamma with mean one.
            return normal.frequencies(U[:, :-1]) * np.sqrt(gammaincinv(alpha, U[:, -1:]) / alpha)

        return [Term(variance, (), (Spectrum(normal.width + 1, frequencies),))]
