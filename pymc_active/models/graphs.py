"""Quantities of a model as PyTensor expressions, in closed form.

They depend on ``gpm.model.value_vars``, the unconstrained parameters, and on the model's data: differentiate them,
compile them for any backend. :func:`pymc_active.fit_laplace` and :func:`pymc_active.predict` are faster.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytensor
import pytensor.tensor as pt
from pytensor.gradient import zero_grad
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Clip
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg import cholesky, solve_triangular
from pytensor.tensor.variable import TensorVariable

from pymc_active.models.gpmodel import GPModel, check_model
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.posterior.graph import GPGraphs
from pymc_active.support.tables import read_inputs

__all__ = ["MGPMoments", "PredictiveGraphs", "hessian", "log_posterior", "mgp_moments", "predictive"]


class PredictiveGraphs(NamedTuple):
    """Latent moments (m,) in units of y and their squares, and their gradients in theta (m, P)."""

    mean: TensorVariable
    variance: TensorVariable
    mean_gradient: TensorVariable
    variance_gradient: TensorVariable


class MGPMoments(NamedTuple):
    """Moments (m,) in units of y and their squares; ``y_variance`` adds the noise at the given hyperparameters."""

    f_mean: TensorVariable
    f_variance: TensorVariable
    y_variance: TensorVariable


class _Algebra:
    """Linear algebra with G = L Lᵀ, as expressions in the flat theta."""

    def __init__(self, gpm: GPModel, X_new: Any = None):
        check_model(gpm, "graphs")
        self.gpm = gpm
        made = self.made = gpm.make()
        self.g = GPGraphs(made.model, made.gp, gpm.name, gpm.shapes, X_new)
        self.g.G, self.g.cross = _with_smooth_distances([self.g.G, self.g.cross])
        self.L = cholesky(self.g.G)
        self.residual = self.g.y - self.g.mean
        self.alpha = self.solve(self.residual)
        self.eye = pt.eye(self.g.n_parameters)

    def half_solve(self, B):
        return solve_triangular(self.L, B, lower=True, b_ndim=B.ndim)

    def solve(self, B):
        return solve_triangular(self.L, self.half_solve(B), lower=True, trans=1, b_ndim=B.ndim)

    def log_posterior(self):
        n = self.residual.shape[0]
        fit = -0.5 * (self.residual @ self.alpha + n * LOG_2PI) - pt.log(pt.diagonal(self.L)).sum()
        return fit + self.g.log_prior

    def hessian(self):
        inverse = self.solve(pt.eye(self.residual.shape[0]))
        W, alpha = pt.matrix("W"), pt.vector("alpha")
        weighted = 0.5 * (W * self.g.G).sum() - (alpha * self.g.mean).sum() - self.g.log_prior
        gradient = pytensor.grad(weighted, self.g.theta, disconnected_inputs="ignore")
        [curvature] = self.g.tangents([gradient], self.eye)
        # W and alpha are inserted after differentiation, because the curvature holds them constant.
        constants = {W: inverse - pt.outer(self.alpha, self.alpha), alpha: self.alpha}
        curvature = clone_replace(curvature, constants, rebuild_strict=False)
        dG, dmu = self.g.tangents([self.g.G, self.g.mean], self.eye)
        v = dG @ self.alpha + dmu
        half = self.half_solve(v.T)
        GdG = inverse @ dG
        P = self.g.n_parameters
        gram = half.T @ half - 0.5 * GdG.reshape((P, -1)) @ GdG.transpose(0, 2, 1).reshape((P, -1)).T
        H = curvature + gram
        return 0.5 * (H + H.T)

    def predictive(self) -> PredictiveGraphs:
        g = self.g
        B = self.solve(g.cross)
        mean = g.mean_new + self.alpha @ g.cross
        variance = g.prior_variance - (g.cross * B).sum(0)
        d_cross, d_prior, d_mean, dG, dmu = g.tangents([g.cross, g.prior_variance, g.mean_new, g.G, g.mean], self.eye)
        dm = d_mean + self.alpha @ d_cross - (dG @ self.alpha + dmu) @ B
        dV = d_prior - 2 * (d_cross * B).sum(1) + (B * (dG @ B)).sum(1)
        return PredictiveGraphs(mean, variance, dm.T, dV.T)

    def in_value_variables(self, expressions):
        """Replace the flat theta by the model's value variables."""
        flat = pt.concatenate([pt.as_tensor(v).ravel() for v in self.made.value_variables])
        return clone_replace(list(expressions), {self.g.theta: flat}, rebuild_strict=False)


def _with_smooth_distances(expressions: list) -> list:
    """The same values, with derivatives of squared distances as if PyMC had not cut these off at zero."""
    # The distance of a point from itself is a rounding error, whose sign would decide whether there is a derivative.
    # JAX computes it more than once, with different signs, and the parts of the derivative do not cancel any more.
    cut_off = {
        node.outputs[0]: node.inputs[0] + zero_grad(node.outputs[0] - node.inputs[0])
        for node in {v.owner for v in ancestors(expressions) if v.owner is not None}
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Clip)
    }
    return clone_replace(expressions, cut_off)


def log_posterior(gpm: GPModel) -> TensorVariable:
    """Log posterior of the unconstrained parameters, a scalar in nats: priors normalised, Jacobian included.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_active as pma
    >>> gpm = pma.ard_gp(np.linspace(0, 1, 5)[:, None], np.zeros(5))
    >>> f = pm.compile(gpm.model.value_vars, pma.graphs.log_posterior(gpm), mode="FAST_COMPILE")
    >>> bool(np.isfinite(f(np.zeros(1), 0.0, -1.0)))
    True
    """
    algebra = _Algebra(gpm)
    return algebra.in_value_variables([algebra.log_posterior()])[0]


def hessian(gpm: GPModel) -> TensorVariable:
    """Hessian of the NEGATIVE log posterior, shape (P, P), ordered as ``gpm.labels``."""
    algebra = _Algebra(gpm)
    return algebra.in_value_variables([algebra.hessian()])[0]


def predictive(gpm: GPModel, X_new: Any) -> PredictiveGraphs:
    """Latent predictions given the hyperparameters, at an array or TensorVariable ``X_new`` (m, D) in your units."""
    algebra = _Algebra(gpm, _as_points(gpm, X_new))
    return PredictiveGraphs(*algebra.in_value_variables(algebra.predictive()))


def mgp_moments(gpm: GPModel, X_new: Any, covariance: Any) -> MGPMoments:
    """Moments of the marginal GP (Garnett et al. 2014, eq. 19) at an array or TensorVariable ``X_new`` (m, D).

    ``covariance`` (P, P) belongs to the unconstrained parameters, ordered as ``gpm.labels``. Unlike
    :func:`pymc_active.predict`, this gives NaN where the predictive variance is zero.
    """
    algebra = _Algebra(gpm, _as_points(gpm, X_new))
    p = algebra.predictive()
    Sigma = pt.as_tensor(covariance)
    from_mean = (p.mean_gradient @ Sigma * p.mean_gradient).sum(1)
    from_variance = (p.variance_gradient @ Sigma * p.variance_gradient).sum(1)
    f_variance = 4 / 3 * p.variance + from_mean + from_variance / (3 * p.variance)
    outputs = [p.mean, f_variance, f_variance + algebra.g.noise_variance]
    return MGPMoments(*algebra.in_value_variables(outputs))


def _as_points(gpm: GPModel, X_new: Any) -> TensorVariable:
    check_model(gpm, "graphs")
    is_graph = isinstance(X_new, TensorVariable)
    points = pt.as_tensor(X_new if is_graph else read_inputs(X_new, "X_new", inputs=gpm.inputs))
    width = gpm.X.shape[1]
    if points.ndim != 2 or points.type.shape[1] not in (None, width):
        raise ValueError(f"X_new must have shape (m, {width}); got {points.type.shape}")
    return points
