"""The posterior of a user's GP whose covariance arrays know, which are several times as fast as graphs.

PyTensor computes the prior, and the kernel's parameters from the model's. All else is a :class:`KernelPosterior` of the
kernel's parameters, whose derivatives the chain rule takes back to the model's.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any, override

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_active.kernels.combined import Add, Multiply
from pymc_active.kernels.linear import Constant, Linear
from pymc_active.kernels.node import Node
from pymc_active.kernels.periodic import Periodic
from pymc_active.kernels.radial import PROFILES
from pymc_active.kernels.rational_quadratic import RationalQuadratic
from pymc_active.kernels.stationary import Stationary
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.base import Moments, State
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.graph import GraphPosterior, ParameterFunctions
from pymc_active.posterior.latent import LatentKernelPosterior
from pymc_active.posterior.latent_graph import LatentGraphPosterior
from pymc_active.posterior.prior import GaussianPrior
from pymc_active.support.scaling import IDENTITY

cov, means = pm.gp.cov, pm.gp.mean
_PROFILES = {getattr(cov, name): name for name in PROFILES}
# Draws of the hyperparameters at which graph and arrays are compared, and what rounding may leave, as a part of K.
_DRAWS, _SAME = 3, 1e-9


class _UnknownError(Exception):
    """Arrays do not know a covariance, noise or mean."""


class _Reader:
    """Reads covariances; ``found`` are their parameters, as expressions of the model's."""

    def __init__(self):
        self.found: list[Any] = []

    def put(self, *expressions: Any) -> int:
        """Position of the first of these parameters."""
        self.found += expressions
        return len(self.found) - len(expressions)

    def node(self, kernel: Any, log_scale: Any = 0.0) -> Node:
        """The kernel times the square of a scale."""
        kind = type(kernel)
        if kind is cov.Add:
            return Add([self.node(part, log_scale) for part in kernel._factor_list])
        if kind is cov.Prod:
            kernels = [part for part in kernel._factor_list if isinstance(part, cov.BaseCovariance)]
            for factor in kernel._factor_list:
                if not isinstance(factor, cov.BaseCovariance):
                    log_scale = log_scale + 0.5 * pt.log(_number(factor))
            return reduce(Multiply, [self.node(part, 0.0 if k else log_scale) for k, part in enumerate(kernels)])
        if kind is cov.Constant or not isinstance(kernel, cov.BaseCovariance):
            value = kernel.c if kind is cov.Constant else kernel
            return Constant(self.put(log_scale + 0.5 * pt.log(_number(value))))
        if kind not in (*_PROFILES, cov.RatQuad, cov.Periodic, cov.Linear):
            raise _UnknownError
        columns, scale = np.asarray(kernel.active_dims), self.put(log_scale)
        if kind is cov.Linear:
            first = self.put(*_entries(kernel.c, len(columns)))
            return Linear(columns, first + np.arange(len(columns)), scale)
        if kind in _PROFILES:
            first = self.put(*map(pt.log, _entries(kernel.ls, len(columns))))
            groups = [(first + k, columns[k : k + 1]) for k in range(len(columns))]
            return Stationary(_PROFILES[kind], groups, scale)
        log_lengthscale = self.put(pt.log(_number(kernel.ls)))
        if kind is cov.RatQuad:
            return RationalQuadratic(log_lengthscale, columns, self.put(pt.log(_number(kernel.alpha))), scale)
        # PyMC's lengthscale is half of the usual one.
        self.found[log_lengthscale] += np.log(2.0)
        return Periodic(log_lengthscale, self.put(pt.log(_number(kernel.period))), columns, scale)


def _entries(value: Any, n: int) -> list[TensorVariable]:
    """The entries of a vector, or n times a number, also one in an array."""
    # PyTensor makes single precision of a Python number, and so of its logarithm.
    value = pt.as_tensor_variable(value).astype("float64")
    if value.ndim > 1:
        raise _UnknownError
    if not value.ndim:
        return [value] * n
    length = value.type.shape[0]
    # The lengths of dims are data.
    length = int(value.shape[0].eval(mode=vm_mode())) if length is None else length
    if length not in (1, n):
        raise _UnknownError
    return [value[k if length == n else 0] for k in range(n)]


def _number(value: Any) -> TensorVariable:
    return _entries(value, 1)[0]


def _mean(mean: Any, width: int) -> list[TensorVariable]:
    """A constant and slopes, as far as there are."""
    if type(mean) is means.Zero:
        return []
    if type(mean) is means.Constant:
        return [_number(mean.c)]
    if type(mean) is means.Linear:
        return [_number(mean.b), *_entries(mean.A, width)]
    raise _UnknownError


def _mean_basis(n: int, X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])[:, :n]


def by_arrays(graph: GraphPosterior) -> GraphPosterior:
    """The same posterior by arrays, where they know its covariance, noise and mean, and have the same values."""
    kind = RecognisedLatent if isinstance(graph, LatentGraphPosterior) else RecognisedPosterior
    try:
        return kind(graph)
    except _UnknownError:
        return graph


class RecognisedPosterior(GraphPosterior):
    """A posterior with the likelihood and predictions of ``arrays`` at parameters that theta determines."""

    is_array = True

    def __init__(self, graph: GraphPosterior):
        vars(self).update(vars(graph))
        graphs, width, reader = self._functions.graphs, self.X.shape[1], _Reader()
        kernel, mean = reader.node(graphs.gp.cov_func), _mean(graphs.gp.mean_func, width)
        # PyMC adds it to the diagonal, and nothing but the diagonal tells how much.
        self._jitter = pytensor.shared(0.0)
        parameters = [pt.as_tensor_variable(one).astype("float64") for one in (*reader.found, *mean)]
        of_outcome = self._of_outcome()
        n, more = len(parameters), len(of_outcome)
        self._parameters = ParameterFunctions(self._functions, pt.stack([*graphs.join(parameters), *of_outcome]))
        self.arrays = self._arrays(
            n,
            more,
            x_map=IDENTITY,
            y_map=IDENTITY,
            n_parameters=n + more,
            # For the steps of differences; what a theta is worth beforehand the model says.
            prior=GaussianPrior(np.zeros(n + more), np.ones(n + more)),
            mean_indices=np.arange(len(reader.found), n),
            mean_basis=partial(_mean_basis, len(mean)),
            kernel=kernel,
        ).of_each
        self._jitter.set_value(self._compared())

    def _of_outcome(self) -> list[TensorVariable]:
        """Parameters of the outcome, as expressions of theta: the log sd of the noise."""
        graphs = self._functions.graphs
        noise: Any = getattr(graphs.gp, "sigma", None)
        if type(noise) is not cov.WhiteNoise or isinstance(self.known_variance, np.ndarray):
            raise _UnknownError
        log_noise = 0.5 * pt.log(pt.square(_number(noise.sigma)) + self._jitter)
        return graphs.join([log_noise])

    def _arrays(self, first: int, n: int, **common: Any) -> KernelPosterior:
        """With ``n`` parameters of the outcome, from the ``first`` on."""
        return KernelPosterior(self.X, self.y, None, constants=np.empty(0), log_noise=first, **common)

    def _compared(self) -> float:
        """What PyMC adds to the diagonal; raises if graph and arrays differ in anything else."""
        added, graphs = [], self._functions.graphs
        evaluate = self._functions.compile([graphs.theta], [graphs.G, graphs.mean])
        for theta in np.random.default_rng(0).normal(size=(_DRAWS, self.n_parameters)):
            G, mean = evaluate(theta, *self._data)
            parameters, size = self.at(theta), np.abs(G).max()
            full = self.arrays.full(parameters)
            more = G - self.arrays.kernel.at(full, self.X).K
            diagonal = np.diagonal(more) - self.arrays.noise_variances(full)
            added.append(float(np.median(diagonal)))
            away = max(np.abs(more - np.diag(np.diagonal(more))).max(), np.abs(diagonal - added[0]).max())
            known_mean = self.arrays.prior_mean(parameters, self.X)[0]
            # A NaN is no equality either.
            if not (away <= _SAME * size and np.allclose(known_mean, mean, _SAME, _SAME)):
                raise _UnknownError
        # Rounding is not added.
        return 0.0 if abs(added[0]) < 1e-12 else added[0]

    def at(self, theta: np.ndarray) -> np.ndarray:
        """The parameters of ``arrays`` (p,) at theta (P,)."""
        return self._rows(theta[None])[0]

    def _rows(self, thetas: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array(self._parameters.values(thetas, *self._data))

    def _pull(self, thetas: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array(self._parameters.pullback(thetas, slopes, *self._data))

    @override
    def by_arrays(self, theta, state=None):
        if state is None:
            return self.arrays, self.at(theta), None
        return self.arrays, state.extra.theta, state.extra

    @override
    def _set_data(self, X, y, y_sd):
        super()._set_data(X, y, y_sd)
        self.arrays = self.arrays.with_data(self.X, self.y, getattr(self, "size", None)).of_each

    @property
    @override
    def is_fused(self):
        return self.arrays.is_fused

    @override
    def forget(self):
        self.arrays.forget()

    @override
    def check_twice_differentiable(self):
        self.arrays.check_twice_differentiable()

    @override
    def state(self, theta, extra_noise=0.0):
        made = self.arrays.state(self.at(theta), extra_noise)
        return State(theta, made.factor, made)

    @override
    def light_state(self, theta):
        return self.light_states(theta[None])[0]

    @override
    def light_states(self, thetas):
        made = self.arrays.light_states(self._rows(thetas))
        return [State(theta, one.factor, one) for theta, one in zip(thetas, made, strict=True)]

    @override
    def _likelihoods(self, thetas, extra_noise, gradient, start=None):
        likelihoods = self.arrays._likelihoods(self._rows(thetas), extra_noise, gradient, start)
        slopes = self._pull(thetas, likelihoods.gradient) if gradient else np.zeros(thetas.shape)
        return likelihoods._replace(gradient=slopes)

    @override
    def _log_likelihood(self, theta, extra_noise):
        value, slope, in_noise = self.arrays._log_likelihood(self.at(theta), extra_noise)
        return value, self._pull(theta[None], slope[None])[0], in_noise

    @override
    def likelihood_gradient(self, state):
        return self._pull(state.theta[None], self.arrays.likelihood_gradient(state.extra)[None])[0]

    def _jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Derivatives (p, P) of the parameters of arrays."""
        p = self.arrays.n_parameters
        return self._pull(np.tile(theta, (p, 1)), np.eye(p))

    @override
    def likelihood_hessian(self, state):
        J, slope = self._jacobian(state.theta), self.arrays.likelihood_gradient(state.extra)
        bent = self._parameters.curvature(state.theta, slope, np.eye(self.n_parameters), *self._data)
        return J.T @ self.arrays.likelihood_hessian(state.extra) @ J + bent

    @override
    def moments(self, state, X_new, *, gradient=False):
        moments = self._without_jitter(self.arrays.moments(state.extra, X_new, gradient=gradient))
        J = self._jacobian(state.theta) if gradient else None
        return Moments(*moments[:4], *(None if slope is None else slope @ J for slope in moments[4:]))

    @override
    def moments_and_slopes(self, state, X_new):
        moments, slopes = self.arrays.moments_and_slopes(state.extra, X_new)
        return self._without_jitter(moments), slopes

    def _without_jitter(self, moments: Moments) -> Moments:
        return moments._replace(noise_variance=np.maximum(moments.noise_variance - self._jitter.get_value(), 0.0))


class RecognisedLatent(RecognisedPosterior, LatentGraphPosterior):
    """The same for outcomes that are not normal."""

    arrays: LatentKernelPosterior

    @override
    def _of_outcome(self):
        return [self._graphs.phi[k] for k in range(len(self.likelihood.parameters))]

    @override
    def _arrays(self, first, n, **common):
        return LatentKernelPosterior(
            self.X,
            self.y,
            self.size,
            # The function itself has no noise.
            constants=np.array([-np.inf]),
            log_noise=first + n,
            phi_indices=np.arange(first, first + n),
            likelihood=self.likelihood,
            **common,
        )

    @override
    def phi(self, full):
        return self.arrays.phi(self._rows(full))

    @override
    def noise_of(self, theta, mean, variance):
        return self.arrays.noise_of(self.at(theta), mean, variance)

    @override
    def leave_one_out(self, thetas):
        return self.arrays.leave_one_out(self._rows(thetas))
