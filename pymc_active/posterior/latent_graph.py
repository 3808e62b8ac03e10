"""The posterior of any PyMC model with a latent GP: its covariance by graphs, its sites by expectation propagation."""

from __future__ import annotations

from functools import cached_property
from typing import override

import numpy as np
import pytensor.tensor as pt

from pymc_active.likelihoods.base import Likelihood
from pymc_active.posterior.base import State
from pymc_active.posterior.graph import GPGraphs, GraphPosterior
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.support.data import Data


class LatentGraphs(GPGraphs):
    """The symbolic parts of a latent GP: no noise."""

    @override
    def _at_data(self, likelihood, gp, X):
        return gp.mean_func(X), gp.cov_func(X)

    @override
    def _noise(self, gp):
        return pt.zeros(self.X_new.shape[0])


class LatentGraphPosterior(LatentPosterior, GraphPosterior):
    """Posterior of a ``pm.gp.Latent`` model; the third holder is that of trials or exposures."""

    def __init__(self, X, y, size, graphs: GPGraphs, holders, compile_kwargs, likelihood: Likelihood, phi_indices):
        self.likelihood, self.phi_indices = likelihood, np.asarray(phi_indices, int)
        super().__init__(X, y, size, graphs, holders, compile_kwargs)

    @override
    def _set_data(self, X, y, y_sd):
        self.size = Data(X, y, y_sd).sizes
        super()._set_data(X, y, self.size)
        self.known_variance = 0.0

    @override
    def subset(self, rows):
        if any(one is None for one in self._holders[:2]):
            return None
        return self.with_data(self.X[rows], self.y[rows], self.size[rows])

    @cached_property
    def prior_sds(self):
        # Those of the prior alone, which other data do not change.
        return self.prior_scale()[1]

    def function_moments(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prior mean and variance of the function at the data, (S, n) each."""
        return self._means(thetas), np.diagonal(self._covariances(thetas)[0], axis1=1, axis2=2)

    @override
    def _covariances(self, full):
        G = np.tril(self._functions.states(full, *self._data)[0])

        def slopes(W: np.ndarray, alpha: np.ndarray) -> np.ndarray:
            return -self._functions.gradients(full, W + W.swapaxes(1, 2), alpha, *self._data)[0]

        return G, slopes

    @override
    def _means(self, full):
        return np.asarray(self._functions.means(full, *self._data))

    @override
    def state(self, theta, extra_noise=0.0):
        K = np.array(self._functions.states(theta[None], *self._data)[0][0])
        return State(
            theta, self._factor(theta, K if np.isfinite(K).all() else np.full_like(K, np.nan), extra_noise), None
        )
