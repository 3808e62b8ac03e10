"""The posterior of any PyMC model with a latent GP: its covariance by graphs, its sites by expectation propagation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, override

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_active.likelihoods.base import Likelihood
from pymc_active.posterior.base import State
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.graph import GPGraphs, GraphPosterior, ParameterFunctions
from pymc_active.posterior.latent import LatentPosterior
from pymc_active.support.data import Data


class LatentGraphs(GPGraphs):
    """The symbolic parts of a latent GP without noise, and of an outcome given its function.

    ``of_rows`` holds the trials or exposures of the rows, if there are any. The outcome ``rv`` is one of ``f`` (n,),
    ``size`` (n,) and ``theta``.
    """

    phi: TensorVariable

    def __init__(self, model: pm.Model, gp: Any, name: str, shapes: dict, of_rows: Any):
        super().__init__(model, gp, name, shapes)
        outcome: Any = model[name]
        *inputs, latent = model.replace_rvs_by_values([*outcome.owner.inputs, gp.f])
        rv = outcome.owner.clone_with_new_inputs(inputs).outputs[outcome.owner.outputs.index(outcome)]
        self.f, self.size = pt.vector("f", dtype="float64"), pt.vector("size", dtype="float64")
        given: Any = {latent: self.f} | ({} if of_rows is None else {of_rows: self.size.astype(of_rows.type.dtype)})
        [rv] = clone_replace([rv], given, rebuild_strict=False)
        [rv], theta = join_nonshared_inputs(point=self._point, outputs=[rv], inputs=self._value_vars)
        [rv] = clone_replace([rv], {theta: self.theta})
        self.rv: Any = change_dist_size(rv, (self.f.shape[0],))

    def log_densities(self, parameters: list) -> Callable[..., list[np.ndarray]]:
        """A function of theta (S, P), f, y and sizes (S, n): log p(y | f) (S, n) by PyMC, and phi (S, q).

        The scalars ``parameters`` become ``phi``. A ValueError if they depend on rows.
        """
        if {self.f, self.size} & set(ancestors(parameters)):
            raise ValueError("a parameter of the distribution depends on rows")
        self.phi = pt.stack([one.flatten()[0] for one in parameters]) if parameters else pt.zeros(0)
        value = pt.vector("y", dtype=self.rv.type.dtype)
        inputs: list = [self.theta, self.f, value, self.size]
        how: dict[str, Any] = {"mode": vm_mode(), "on_unused_input": "ignore", "allow_input_downcast": True}
        function = pytensor.function(inputs, [pm.logp(self.rv, value), self.phi], **how)
        return lambda *rows: [np.stack(part) for part in zip(*map(function, *rows), strict=True)]

    @override
    def _at_data(self, likelihood, gp, X):
        return gp.mean_func(X), gp.cov_func(X)

    @override
    def _noise(self, gp):
        return pt.zeros(self.X_new.shape[0])


class LatentGraphPosterior(LatentPosterior, GraphPosterior):
    """Posterior of a ``pm.gp.Latent`` model; the third holder has trials or exposures."""

    def __init__(self, X, y, size, graphs: LatentGraphs, holders, compile_kwargs, likelihood: Likelihood):
        self.likelihood, self._graphs = likelihood, graphs
        super().__init__(X, y, size, graphs, holders, compile_kwargs)

    @override
    def _set_data(self, X, y, y_sd):
        self.size = Data(X, y, y_sd).sizes
        super()._set_data(X, y, self.size)
        self.known_variance = 0.0

    @cached_property
    def prior_sds(self):
        # Those of the prior alone, which other data do not change.
        return self.prior_scale()[1]

    @cached_property
    def _phi(self):
        return ParameterFunctions(self._functions, self._graphs.phi)

    @override
    def phi(self, full):
        return [column[:, None] for column in self._phi.values(full, *self._data).T]

    @override
    def _pull_phi(self, full, in_phi):
        return np.array(self._phi.pullback(full, in_phi, *self._data))

    @override
    def _covariances(self, full):
        G = np.tril(self._functions.states(full, *self._data)[0])

        def slopes(W: np.ndarray, alpha: np.ndarray) -> np.ndarray:
            W = np.tril(W)
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
