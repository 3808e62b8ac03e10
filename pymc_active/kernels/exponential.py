"""Kernels of the form outputscale² exp(...), by the derivatives of their logarithm."""

from __future__ import annotations

import numpy as np

from pymc_active.kernels.node import Node


class ExponentialAt:
    """outputscale² exp(...) with two more parameters, by the derivatives of its logarithm."""

    node: Node
    theta: np.ndarray
    K: np.ndarray

    def slopes(self) -> list[tuple[int, np.ndarray]]:
        """Derivatives of log K in both parameters."""
        raise NotImplementedError

    def log_gradient(self, WK: np.ndarray) -> tuple[float, float]:
        """<W K, slope> for both."""
        raise NotImplementedError

    def second_derivatives(self, WK: np.ndarray) -> tuple[float, float, float]:
        """Second derivatives of <W, K> in the first, in both, and in the second, from W * K."""
        raise NotImplementedError

    def pullback(self, W):
        WK = W * self.K
        gradient = np.zeros(len(self.theta))
        i, j, o = self.node.roles.values()
        gradient[i], gradient[j] = self.log_gradient(WK)
        gradient[o] = 2 * WK.sum()
        return gradient

    def tangents(self):
        return [*((index, self.K * slope) for index, slope in self.slopes()), (self.node.log_outputscale, 2 * self.K)]

    def curvature(self, W):
        i, j, o = self.node.roles.values()
        H = np.zeros((len(self.theta), len(self.theta)))
        H[o, :] = H[:, o] = 2 * self.pullback(W)
        H[i, i], H[i, j], H[j, j] = self.second_derivatives(W * self.K)
        H[j, i] = H[i, j]
        return H
