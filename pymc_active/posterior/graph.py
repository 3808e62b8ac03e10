"""The posterior of any PyMC model with a marginal GP, by PyTensor graphs.

Elementwise graphs give G, the mean, their directional derivatives and the Hessian of <W, G>; linear algebra stays in
LAPACK. Nothing differentiates a Cholesky, and the graphs build in about a second without a JIT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import pushforward
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.variable import TensorVariable

from pymc_active.posterior.base import Likelihoods, Moments, Posterior, State, gram_terms
from pymc_active.posterior.compile_mode import may_round, vm_mode
from pymc_active.posterior.exact_distances import PLAIN_MEANS, is_smooth, with_exact_distances
from pymc_active.posterior.factor import LOG_2PI, Factor, factor_batch
from pymc_active.support.scaling import IDENTITY

# Numbers in one block of directional derivatives of K, at most.
_BLOCK = 4_000_000
# Pairs of points evaluated at a time: a guess.
_PAIRS = 100_000


def levels_of(*parts: Any) -> dict[int, int]:
    """Of each column of X that a Coregion takes for the number of an output: how many outputs there are."""
    levels = {}
    for part in parts:
        if isinstance(part, pm.gp.cov.Coregion):
            levels[int(part.active_dims[0])] = int(part.B.shape[0].eval(mode=vm_mode()))
        elif isinstance(part, pm.gp.cov.Add | pm.gp.cov.Prod):
            levels |= levels_of(*part._factor_list)
        elif isinstance(part, pm.gp.cov.Exponentiated):
            levels |= levels_of(part.kernel)
    return levels


def check_levels(X: np.ndarray, levels: Mapping[int, int]) -> None:
    """Refuse X (m, D) with numbers of outputs that do not exist, which PyMC would cut off, or count from the end."""
    for column, n in levels.items():
        if (bad := ~np.isin(X[:, column], np.arange(n))).any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"column {column} of X is the number of an output of pm.gp.cov.Coregion, a whole number from 0 to "
                f"{n - 1}; row {row} has {X[row, column]}: where points are chosen, list them in a pool"
            )


class GPGraphs:
    """The symbolic parts of a marginal GP, as functions of the flat ``theta`` and, unless given, of X_new (m, D).

    ``name`` names the likelihood, ``shapes`` the value variables that theta consists of.
    """

    def __init__(self, model: pm.Model, gp: pm.gp.Marginal, name: str, shapes: dict, X_new=None):
        likelihood = model[name]
        self.X_new = pt.matrix("X_new") if X_new is None else pt.as_tensor_variable(X_new)
        self.free = [v for v in model.free_RVs if model.rvs_to_values[v].name in shapes]
        others = [v for v in [*self.free, *model.observed_RVs, *model.potentials] if v is not likelihood]
        X = pt.as_tensor_variable(gp.X)
        mean, G = self._at_data(likelihood, gp, X)
        if mean.owner is not None and mean.owner.op == pt.second:
            # PyMC has filled a column of G with it. The shape of X says as much, and does not carry all of G through
            # every graph with the mean, which PyTensor would take a third of its time to simplify.
            mean = mean.owner.inputs[1]
        outputs = [
            G,
            pt.broadcast_to(mean, (X.shape[0],)),
            gp.cov_func(X, self.X_new),
            gp.cov_func(self.X_new, diag=True),
            pt.broadcast_to(gp.mean_func(self.X_new), (self.X_new.shape[0],)),
            self._noise(gp),
        ]
        outputs = model.replace_rvs_by_values(outputs)
        # As in PyMC's own functions, a parameter that a distribution cannot have, such as an sd that underflows, has
        # density zero. Here already, since one such row of many would count for all.
        log_prior = model.logp(vars=others, jacobian=True)
        outputs.append(rewrite_graph(log_prior, (), in2out(local_check_parameter_to_ninf_switch)))
        point = {key: np.zeros(shape) for key, shape in shapes.items()}
        values = [model.rvs_to_values[v] for v in self.free]
        joined, self.theta = join_nonshared_inputs(point=point, outputs=outputs, inputs=values)
        joined = _elementwise_diagonals(joined)
        self.G, self.mean, self.cross, self.prior_variance, self.mean_new, self.noise_variance, self.log_prior = joined
        self.X, self.y = X, pt.as_tensor_variable(model.rvs_to_values[likelihood])
        self.data = [v for v in graph_inputs([*joined, self.X, self.y]) if isinstance(v, SharedVariable)]
        self.n_parameters = sum(math.prod(shape) for shape in shapes.values())
        self.gp, self.cov_func, self.levels = gp, gp.cov_func, levels_of(gp.cov_func, getattr(gp, "sigma", None))
        self._model, self._point, self._value_vars = model, point, values

    def _at_data(self, likelihood: TensorVariable, gp: Any, X: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """Mean (n,) and covariance (n, n) at the data."""
        mean, G = likelihood.owner.op.dist_params(likelihood.owner)
        return mean, G

    def _noise(self, gp: Any) -> TensorVariable:
        """Noise variances at the rows of ``X_new``."""
        return gp.sigma(self.X_new, diag=True)

    @cached_property
    def covariance(self) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
        """Points A (n, D) and B (m, D), and the covariance (n, m) of their rows; made on demand."""
        A, B = pt.matrix("A"), pt.matrix("B")
        return A, B, self.join([with_exact_distances(self.cov_func)(A, B)])[0]

    @cached_property
    def log_prior_terms(self) -> TensorVariable:
        """Log prior density of each free variable in the user's space, without Jacobian, summed over its entries."""
        terms: Any = self._model.logp(vars=self.free, jacobian=False, sum=False)
        return self.join([pt.stack([term.sum() for term in terms])])[0]

    def join(self, expressions: list) -> list:
        """Expressions of the model's variables as functions of ``theta``."""
        values = self._model.replace_rvs_by_values(expressions)
        joined, theta = join_nonshared_inputs(point=self._point, outputs=values, inputs=self._value_vars)
        return clone_replace(joined, {theta: self.theta})

    def tangents(self, expressions: list, directions: TensorVariable) -> list:
        """Derivatives of the expressions along each row of ``directions`` (p, P), stacked in front."""
        direction = pt.vector("direction", shape=(self.n_parameters,))
        derivatives: list = [
            pushforward(expression, self.theta, direction, disconnected_outputs="ignore") for expression in expressions
        ]
        return in_rows(derivatives, {direction: directions})


def _elementwise_diagonals(expressions: list) -> list:
    """Expressions with diagonal matrices by elementwise functions: of PyTensor's, a batch is made one by one."""
    new: dict = {}
    for variable in ancestors(expressions):
        node = variable.owner
        if node and isinstance(node.op, AllocDiag) and node.op.offset == 0 and node.inputs[0].type.ndim == 1:
            index = pt.arange(node.inputs[0].shape[0])
            new[variable] = pt.switch(pt.eq(index[:, None], index), node.inputs[0], np.zeros((), variable.type.dtype))
    return clone_replace(expressions, new)


def in_rows(expressions: list, rows: dict) -> list:
    """Expressions of some variables with each row of others in their place, stacked in front."""
    vectorized: list = vectorize_graph(expressions, rows)
    count = next(iter(rows.values())).shape[0]
    # An expression that does not depend on the variables is not vectorized.
    return [
        new if new.type.ndim > old.type.ndim else pt.broadcast_to(new, (count, *new.shape))
        for old, new in zip(expressions, vectorized, strict=True)
    ]


class OneAtATime:
    """A compiled function for use by several threads: PyTensor stores arguments and results in the function."""

    def __init__(self, function: Callable):
        self._function, self._lock = function, Lock()

    def __call__(self, *arguments: Any) -> Any:
        with self._lock:
            return self._function(*arguments)

    def __reduce__(self):
        return type(self), (self._function,)


class _Functions:
    """Compiled on first use. The model's data are arguments, so one compilation serves any data."""

    def __init__(self, graphs: GPGraphs, compile_kwargs: dict, real: Sequence):
        self.graphs, self.compile_kwargs = graphs, compile_kwargs
        # Other data may be fractional even where X and y are stored as whole numbers.
        self.inputs = [
            pt.tensor(shared.name, dtype="float64", shape=shared.type.shape)
            if shared in real and shared.type.dtype.startswith(("int", "uint"))
            else shared.type(name=shared.name)
            for shared in graphs.data
        ]
        self.directions = pt.matrix("directions", shape=(None, graphs.n_parameters))
        self.W, self.alpha = pt.matrix("W"), pt.vector("alpha")
        # With W and alpha held constant, its derivatives are the gradient and the curvature of the likelihood.
        self.weighted = 0.5 * (self.W * graphs.G).sum() - (self.alpha * graphs.mean).sum()
        # The same for several theta at once.
        self.thetas, self.Ws = pt.matrix("thetas", shape=(None, graphs.n_parameters)), pt.tensor3("Ws")
        self.alphas = pt.matrix("alphas")

    def compile(self, inputs, outputs):
        function = pytensor.function(
            [*inputs, *self.inputs],
            outputs,
            givens=list(zip(self.graphs.data, self.inputs, strict=True)),
            on_unused_input="ignore",
            # A float input may replace whole numbers.
            rebuild_strict=False,
            allow_input_downcast=may_round(),
            **self.compile_kwargs,
        )
        return OneAtATime(function)

    def grad(self, scalar):
        return pytensor.grad(scalar, self.graphs.theta, disconnected_inputs="ignore")

    @cached_property
    def held(self):
        return self.compile([], [self.graphs.X, self.graphs.y])

    @cached_property
    def states(self):
        g = self.graphs
        return self.compile([self.thetas], in_rows([g.G, g.mean], {g.theta: self.thetas}))

    @cached_property
    def means(self):
        return self.compile([self.thetas], in_rows([self.graphs.mean], {self.graphs.theta: self.thetas})[0])

    @cached_property
    def gradients(self):
        rows = {self.graphs.theta: self.thetas, self.W: self.Ws, self.alpha: self.alphas}
        return self.compile(list(rows.values()), in_rows([self.grad(self.weighted)], rows))

    @cached_property
    def priors(self):
        g = self.graphs
        return self.compile([self.thetas], in_rows([g.log_prior, self.grad(g.log_prior)], {g.theta: self.thetas}))

    @cached_property
    def prior_terms(self):
        return self.compile([self.graphs.theta], self.graphs.log_prior_terms)

    @cached_property
    def tangents(self):
        g = self.graphs
        return self.compile([g.theta, self.directions], g.tangents([g.G, g.mean], self.directions))

    @cached_property
    def curvature(self):
        [H] = self.graphs.tangents([self.grad(self.weighted)], self.directions)
        return self.compile([self.graphs.theta, self.W, self.alpha, self.directions], H)

    @cached_property
    def prior_hessian(self):
        [H] = self.graphs.tangents([self.grad(self.graphs.log_prior)], self.directions)
        return self.compile([self.graphs.theta, self.directions], H)

    @cached_property
    def prior_variance(self):
        return self.compile([self.graphs.theta, self.graphs.X_new], self.graphs.prior_variance)

    @cached_property
    def predictive(self):
        g = self.graphs
        return self.compile([g.theta, g.X_new], [g.cross, g.prior_variance, g.mean_new, g.noise_variance])

    @cached_property
    def predictive_tangents(self):
        g = self.graphs
        outputs = g.tangents([g.cross, g.prior_variance, g.mean_new], self.directions)
        return self.compile([g.theta, g.X_new, self.directions], outputs)

    @cached_property
    def prior_mean(self):
        g = self.graphs
        gradient = pytensor.grad(g.mean_new.sum(), g.X_new, disconnected_inputs="ignore")
        return self.compile([g.theta, g.X_new], [g.mean_new, gradient])

    @cached_property
    def covariance(self):
        A, B, K = self.graphs.covariance
        return self.compile([self.graphs.theta, A, B], K)

    @cached_property
    def sums(self):
        A, B, K = self.graphs.covariance
        W = pt.matrix("W", shape=(None, None))
        values = (W * K).sum(0)
        gradient = pytensor.grad(values.sum(), B, disconnected_inputs="ignore")
        return self.compile([self.graphs.theta, A, B, W], [values, gradient])


class ParameterFunctions:
    """Parameters (p,) that theta (P,) determines, as functions of it, each compiled on first use."""

    def __init__(self, functions: _Functions, parameters: TensorVariable):
        self.graphs, self.functions, self.parameters = functions.graphs, functions, parameters
        self.weight, self.weights = pt.vector("weight"), pt.matrix("weights")

    @cached_property
    def values(self) -> Callable:
        """Rows (S, p) for thetas (S, P)."""
        thetas = self.functions.thetas
        return self.functions.compile([thetas], in_rows([self.parameters], {self.graphs.theta: thetas})[0])

    @cached_property
    def _slope(self) -> Any:
        return self.functions.grad((self.weight * self.parameters).sum())

    @cached_property
    def pullback(self) -> Callable:
        """Slopes in theta (S, P), from thetas (S, P) and slopes in the parameters (S, p)."""
        rows = {self.graphs.theta: self.functions.thetas, self.weight: self.weights}
        return self.functions.compile([self.functions.thetas, self.weights], in_rows([self._slope], rows)[0])

    @cached_property
    def curvature(self) -> Callable:
        """Hessian (P, P) of a weighted sum, from theta, the weights (p,) and the rows of an identity."""
        [H] = self.graphs.tangents([self._slope], self.functions.directions)
        return self.functions.compile([self.graphs.theta, self.weight, self.functions.directions], H)


class GraphPosterior(Posterior):
    """Posterior of any ``pm.gp.Marginal`` model, given X (n, D), y (n,) and its known sds.

    ``holders`` are the variables of these, None for one that cannot change; by default nothing is JIT-compiled.
    """

    kernel = None
    constants = np.empty(0)
    prior_kinds = ()

    def __init__(
        self, X, y, y_sd, graphs: GPGraphs, holders: Sequence[SharedVariable | None], compile_kwargs: dict | None
    ):
        self.x_map = self.y_map = IDENTITY
        self.n_parameters = graphs.n_parameters
        self._holders, self._shared = holders, graphs.data
        self._functions = _Functions(graphs, compile_kwargs or {"mode": vm_mode()}, holders)
        self._set_data(X, y, y_sd)

    def _set_data(self, X, y, y_sd):
        self._y_sd = y_sd = np.zeros(len(y)) if y_sd is None else y_sd
        new = dict(zip(self._holders, (X, y, y_sd), strict=True))
        self.known_variance = 0.0 if self._holders[2] is None else np.square(y_sd)
        self._data = [new[v] if v in new else v.get_value() for v in self._shared]
        self.X, self.y = (np.asarray(values, float) for values in self._functions.held(*self._data))

    def subset(self, rows):
        # Constants stay as long as they are.
        if any(one is None for one in self._holders[:2]):
            return None
        return self.with_data(self.X[rows], self.y[rows], self._y_sd[rows])

    def _blocks(self, size):
        """Rows of the identity, few enough at a time that (rows, size) stays small."""
        step = max(1, _BLOCK // max(size, 1))
        eye = np.eye(self.n_parameters)
        for start in range(0, self.n_parameters, step):
            yield slice(start, start + step), eye[start : start + step]

    def covariance(self, theta: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The kernel between rows of A (n, D) and B (m, D), (n, m)."""
        step = max(1, _PAIRS // max(len(A), 1))
        parts = range(0, max(len(B), 1), step)
        return np.concatenate([self._functions.covariance(theta, A, B[k : k + step], *self._data) for k in parts], 1)

    def prior_variance(self, theta: np.ndarray, X: np.ndarray) -> np.ndarray:
        """k(x, x) at the rows of X, (m,)."""
        return self._functions.prior_variance(theta, X, *self._data)

    def sums(self, theta: np.ndarray, A: np.ndarray, B: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ_i W_ij k(a_i, b_j) (m,), and the gradient in the rows of B, (m, D); W is (n, m) or (n, 1)."""
        step = max(1, _PAIRS // max(len(A), 1))
        W = np.broadcast_to(W, (len(A), len(B)))
        parts = [slice(k, k + step) for k in range(0, max(len(B), 1), step)]
        sums = [self._functions.sums(theta, A, B[part], W[:, part], *self._data) for part in parts]
        values, gradients = map(np.concatenate, zip(*sums, strict=True))
        return values, gradients

    def prior_mean(self, theta, X):
        check_levels(X, self._functions.graphs.levels)
        return tuple(self._functions.prior_mean(theta, X, *self._data))

    @property
    def is_mean_linear(self) -> bool:
        """Whether the mean function is known to have no second derivatives."""
        return type(self._functions.graphs.gp.mean_func) in PLAIN_MEANS

    @property
    def hides_modes(self):
        return not is_smooth(self._functions.graphs.gp)

    def check_twice_differentiable(self):
        raise ValueError(
            "pes looks for maxima in a box by the curvature of the kernel, which a kernel that somebody wrote does not "
            "tell: list candidates in a pool, use a builder's model, or another criterion (max_value_entropy, "
            "expected_improvement)"
        )

    def state(self, theta, extra_noise=0.0):
        [G], [mean] = self._functions.states(theta[None], *self._data)
        if extra_noise:
            G = G + extra_noise * np.eye(len(G))
        if not np.isfinite(G).all():
            G = np.full_like(G, np.nan)
        return State(theta, Factor(G, self.y - mean), None)

    def _likelihoods(self, thetas, extra_noise, gradient, start=None):
        G, mean = self._functions.states(thetas, *self._data)
        # Compiled functions may return views, of the same matrix for every theta.
        G, residual = np.array(G), self.y - mean
        n = len(self.y)
        diagonal = G.reshape(len(G), -1)[:, :: n + 1]
        diagonal += extra_noise
        alpha, log_roots = factor_batch(G, residual, gradient)
        value = -0.5 * np.einsum("sn,sn->s", residual, alpha) - log_roots - 0.5 * n * LOG_2PI
        if not gradient:
            return Likelihoods(value, np.zeros(thetas.shape), np.zeros(len(G)))
        W = np.tril(G) + np.tril(G, -1).swapaxes(1, 2)
        [slope] = self._functions.gradients(thetas, W, alpha, *self._data)
        return Likelihoods(value, -slope, -0.5 * np.einsum("snn->s", W))

    def likelihood_gradient(self, state):
        W, alpha = state.factor.W, state.factor.alpha
        return self._functions.gradients(state.theta[None], W[None], alpha[None], *self._data)[0][0]

    def _all_tangents(self, state):
        n = len(state.factor.alpha)
        dG, dmu = np.empty((self.n_parameters, n, n)), np.empty((self.n_parameters, n))
        for rows, directions in self._blocks(n * n):
            dG[rows], dmu[rows] = self._functions.tangents(state.theta, directions, *self._data)
        return dG, dmu

    def likelihood_hessian(self, state):
        W, alpha = state.factor.W, state.factor.alpha
        H = np.empty((self.n_parameters, self.n_parameters))
        for rows, directions in self._blocks(W.size):
            H[rows] = self._functions.curvature(state.theta, W, alpha, directions, *self._data)
        return H + gram_terms(state.factor, *self._all_tangents(state))

    def prior_value_and_gradient(self, theta):
        [value], [gradient] = self.log_priors(theta[None])
        return float(value), gradient

    def log_priors(self, thetas):
        return tuple(self._functions.priors(thetas, *self._data))

    def log_prior_terms(self, thetas: np.ndarray) -> np.ndarray:
        """Log prior density of each free variable at thetas (S, P), (S, V), in the user's space: without Jacobian."""
        return np.stack([self._functions.prior_terms(theta, *self._data) for theta in thetas])

    def prior_hessian(self, theta):
        return self._functions.prior_hessian(theta, np.eye(self.n_parameters), *self._data)

    def moments(self, state, X_new, *, gradient=False):
        check_levels(X_new, self._functions.graphs.levels)
        factor = state.factor
        cross, prior_variance, mean_new, noise = self._functions.predictive(state.theta, X_new, *self._data)
        mean = mean_new + factor.alpha @ cross
        if not gradient:
            return Moments(mean, prior_variance - np.square(factor.half_solve(cross)).sum(0), prior_variance, noise)
        half, B = factor.solve_many(cross)
        variance = prior_variance - np.einsum("ij,ij->j", half, half)
        dm, dV = np.empty((2, self.n_parameters, len(X_new)))
        dG, dmu = self._all_tangents(state)
        for rows, directions in self._blocks(cross.size):
            d_cross, d_prior, d_mean = self._functions.predictive_tangents(state.theta, X_new, directions, *self._data)
            dm[rows] = d_mean + factor.alpha @ d_cross
            dV[rows] = d_prior - 2 * np.einsum("aij,ij->aj", d_cross, B)
        dm -= (dG @ factor.alpha + dmu) @ B
        for i in range(self.n_parameters):
            dV[i] += np.einsum("ij,ij->j", B, dG[i] @ B)
        return Moments(mean, variance, prior_variance, noise, dm.T, dV.T)
