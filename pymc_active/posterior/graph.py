"""The graph route: any marginal GP that PyMC can write down.

Elementwise PyTensor graphs give G, the mean, their directional derivatives and the Hessian of <W, G>; all linear
algebra stays in LAPACK. Nothing differentiates a Cholesky, and the graphs build in about a second without a JIT.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.gradient import pushforward
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_active.posterior.base import Moments, Posterior, State, gram_terms
from pymc_active.posterior.factor import Factor
from pymc_active.posterior.prior import vm_mode

# Directional derivatives of K are computed in blocks of at most this many numbers.
_BLOCK = 4_000_000


class GPGraphs:
    """The symbolic parts of a marginal GP, as functions of the flat vector ``theta``.

    Parameters
    ----------
    model, gp, name
        A PyMC model, its ``pm.gp.Marginal`` and the name of the likelihood.
    shapes : dict
        Shapes of the value variables.
    X_new : TensorVariable, optional
        Points to predict at, shape (m, D); made if not given.
    """

    def __init__(self, model: pm.Model, gp: pm.gp.Marginal, name: str, shapes: dict, X_new=None):
        likelihood = model[name]
        mean, G = likelihood.owner.op.dist_params(likelihood.owner)
        self.X_new = pt.matrix("X_new") if X_new is None else pt.as_tensor_variable(X_new)
        others = [v for v in [*model.free_RVs, *model.observed_RVs, *model.potentials] if v is not likelihood]
        X = pt.as_tensor_variable(gp.X)
        outputs = [
            G,
            pt.alloc(mean, G.shape[0]) if mean.type.ndim == 0 else pt.broadcast_to(mean, (G.shape[0],)),
            gp.cov_func(X, self.X_new),
            gp.cov_func(self.X_new, diag=True),
            pt.broadcast_to(gp.mean_func(self.X_new), (self.X_new.shape[0],)),
            gp.sigma(self.X_new, diag=True),
        ]
        outputs = model.replace_rvs_by_values(outputs)
        outputs.append(model.logp(vars=others, jacobian=True))
        point = {key: np.zeros(shape) for key, shape in shapes.items()}
        joined, self.theta = join_nonshared_inputs(point=point, outputs=outputs, inputs=model.value_vars)
        (
            self.G,
            self.mean,
            self.cross,
            self.prior_variance,
            self.mean_new,
            self.noise_variance,
            self.log_prior,
        ) = joined
        self.y = pt.as_tensor_variable(model.rvs_to_values[likelihood])
        self.n_parameters = sum(math.prod(shape) for shape in shapes.values())

    def tangents(self, expressions: list[TensorVariable], directions: TensorVariable) -> list[TensorVariable]:
        """Derivatives of the expressions along each row of ``directions`` (p, P), stacked in front."""
        direction = pt.vector("direction", shape=(self.n_parameters,))
        derivatives = [
            pushforward(expression, self.theta, direction, disconnected_outputs="ignore")
            for expression in expressions
        ]
        return vectorize_graph(derivatives, {direction: directions})


class GraphPosterior(Posterior):
    """Posterior of an arbitrary ``pm.gp.Marginal`` model.

    Parameters
    ----------
    graphs : GPGraphs
    compile_kwargs : dict, optional
        For ``pytensor.function``; the default is the VM linker without a JIT.
    """

    def __init__(self, graphs: GPGraphs, compile_kwargs: dict | None = None):
        self.graphs = graphs
        self.n_parameters = graphs.n_parameters
        self._compile_kwargs = compile_kwargs or {"mode": vm_mode()}

    def _function(self, inputs, outputs):
        return pytensor.function(inputs, outputs, on_unused_input="ignore", **self._compile_kwargs)

    def set_data(self, X, y):
        """Nothing to do: the graphs read the model's shared data."""

    @cached_property
    def _y(self):
        return self._function([], self.graphs.y)

    @cached_property
    def _state(self):
        g = self.graphs
        return self._function([g.theta], [g.G, g.mean])

    @cached_property
    def _weighted(self):
        """1/2 <W, G> - alphaᵀ mean with W and alpha held constant, whose derivatives are the likelihood's."""
        W, alpha = pt.matrix("W"), pt.vector("alpha")
        return W, alpha, 0.5 * (W * self.graphs.G).sum() - (alpha * self.graphs.mean).sum()

    @cached_property
    def _gradient(self):
        W, alpha, weighted = self._weighted
        return self._function([self.graphs.theta, W, alpha], self._grad(weighted))

    @cached_property
    def _prior(self):
        g = self.graphs
        return self._function([g.theta], [g.log_prior, self._grad(g.log_prior)])

    def _grad(self, scalar):
        return pytensor.grad(scalar, self.graphs.theta, disconnected_inputs="ignore")

    @cached_property
    def _tangents(self):
        directions = pt.matrix("directions", shape=(None, self.n_parameters))
        g = self.graphs
        return self._function([g.theta, directions], g.tangents([g.G, g.mean], directions))

    @cached_property
    def _curvature(self):
        W, alpha, weighted = self._weighted
        directions = pt.matrix("directions", shape=(None, self.n_parameters))
        [H] = self.graphs.tangents([self._grad(weighted)], directions)
        return self._function([self.graphs.theta, W, alpha, directions], H)

    @cached_property
    def _prior_hessian(self):
        directions = pt.matrix("directions", shape=(None, self.n_parameters))
        [H] = self.graphs.tangents([self._grad(self.graphs.log_prior)], directions)
        return self._function([self.graphs.theta, directions], H)

    @cached_property
    def _predictive(self):
        g = self.graphs
        return self._function([g.theta, g.X_new], [g.cross, g.prior_variance, g.mean_new, g.noise_variance])

    @cached_property
    def _predictive_tangents(self):
        g = self.graphs
        directions = pt.matrix("directions", shape=(None, self.n_parameters))
        outputs = g.tangents([g.cross, g.prior_variance, g.mean_new], directions)
        return self._function([g.theta, g.X_new, directions], outputs)

    def _blocks(self, size):
        """Rows of the identity, few enough at a time that (rows, size) stays small."""
        step = max(1, _BLOCK // max(size, 1))
        eye = np.eye(self.n_parameters)
        for start in range(0, self.n_parameters, step):
            yield slice(start, start + step), eye[start : start + step]

    def state(self, theta, extra_noise=0.0):
        G, mean = self._state(theta)
        if extra_noise:
            G = G + extra_noise * np.eye(len(G))
        if not np.isfinite(G).all():
            G = np.full_like(G, np.nan)
        return State(theta, Factor(G, np.asarray(self._y(), float) - mean), None)

    def likelihood_gradient(self, state):
        return self._gradient(state.theta, state.factor.W, state.factor.alpha)

    def _all_tangents(self, state):
        n = len(state.factor.alpha)
        dG, dmu = np.empty((self.n_parameters, n, n)), np.empty((self.n_parameters, n))
        for rows, directions in self._blocks(n * n):
            dG[rows], dmu[rows] = self._tangents(state.theta, directions)
        return dG, dmu

    def likelihood_hessian(self, state):
        W, alpha = state.factor.W, state.factor.alpha
        H = np.empty((self.n_parameters, self.n_parameters))
        for rows, directions in self._blocks(W.size):
            H[rows] = self._curvature(state.theta, W, alpha, directions)
        return H + gram_terms(state.factor, *self._all_tangents(state))

    def prior_value_and_gradient(self, theta):
        value, gradient = self._prior(theta)
        return float(value), gradient

    def prior_hessian(self, theta):
        return self._prior_hessian(theta, np.eye(self.n_parameters))

    def moments(self, state, X_new, *, gradient=False):
        factor = state.factor
        cross, prior_variance, mean_new, noise = self._predictive(state.theta, X_new)
        mean = mean_new + factor.alpha @ cross
        if not gradient:
            return Moments(mean, prior_variance - np.square(factor.half_solve(cross)).sum(0), prior_variance, noise)
        B = factor.solve(cross)
        variance = prior_variance - np.einsum("ij,ij->j", cross, B)
        dm, dV = (np.empty((self.n_parameters, len(X_new))) for _ in range(2))
        dG, dmu = self._all_tangents(state)
        for rows, directions in self._blocks(cross.size):
            d_cross, d_prior, d_mean = self._predictive_tangents(state.theta, X_new, directions)
            dm[rows] = d_mean + factor.alpha @ d_cross
            dV[rows] = d_prior - 2 * np.einsum("aij,ij->aj", d_cross, B)
        dm -= (dG @ factor.alpha + dmu) @ B
        for i in range(self.n_parameters):
            dV[i] += np.einsum("ij,ij->j", B, dG[i] @ B)
        return Moments(mean, variance, prior_variance, noise, dm.T, dV.T)
