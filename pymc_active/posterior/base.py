"""The log posterior of a marginal GP: the part that kernels, embeddings and PyTensor graphs share.

With G = K + noise, alpha = G⁻¹ (y - mu) and W = G⁻¹ - alpha alphaᵀ, the negative log likelihood has the gradient
1/2 <W, dG> - alphaᵀ dmu. Its Hessian splits into *curvature* 1/2 <W, d²G> - alphaᵀ d²mu, with W and alpha held
constant, and *Gram* terms of first derivatives only. No derivative passes through a Cholesky.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from pymc_active.kernels.node import Node
from pymc_active.posterior.factor import Factor, NotPositiveDefiniteError, is_compiled
from pymc_active.support.scaling import spread
from pymc_active.support.threads import in_threads
from pymc_active.support.user_warnings import ActiveError

if TYPE_CHECKING:
    from pymc_active.support.scaling import Affine, InputMap

# With more points than this an evaluation takes milliseconds to seconds and the posterior is narrow: searches start on
# some of the points, and a few draws around the modes represent it.
MANY = 200
# Numbers of one array over several particles, at most: what fits into a cache. With more points than the second number
# one particle at a time is as fast, and no differences of pairs of points are kept.
STACKED, _BATCHED = 60_000, 100
# The height of a place where the log posterior is not finite, with the other sign: a number, for line searches.
FAR_BELOW = 1e25


class NoFiniteStartError(ActiveError, ValueError):
    """The posterior is not finite at any start of a search, or any draw from the prior."""


class Moments(NamedTuple):
    """Latent predictions at fixed hyperparameters, (m,) each, with gradients in theta (m, P) on request."""

    mean: np.ndarray
    variance: np.ndarray
    prior_variance: np.ndarray
    noise_variance: np.ndarray
    mean_gradient: np.ndarray | None = None
    variance_gradient: np.ndarray | None = None


class InputGradients(NamedTuple):
    """Derivatives of latent predictions in the inputs, (m, D), or (S, m, D) of several."""

    mean: np.ndarray
    variance: np.ndarray


class Likelihoods(NamedTuple):
    """Log likelihoods of S particles, their gradients (S, P) and their derivatives in ``extra_noise`` (S,).

    ``sites`` (S, k), if there are any, are from where evaluations nearby need fewer sweeps.
    """

    value: np.ndarray
    gradient: np.ndarray
    in_noise: np.ndarray
    sites: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Likelihoods:
        """Of some of the particles, with repeats."""
        sites = None if self.sites is None else self.sites[rows]
        return Likelihoods(self.value[rows], self.gradient[rows], self.in_noise[rows], sites)


class State(NamedTuple):
    """Everything computed once for one theta."""

    theta: np.ndarray
    factor: Factor
    extra: object


class Limits(NamedTuple):
    """Where a climb ends: after so many iterations, or, converged, where no derivative exceeds ``slope``.

    It has converged as well where an iteration gains at most ``gain``, as a part of the height.
    """

    iterations: int
    slope: float
    gain: float


class Climbed(NamedTuple):
    """Where a climb has ended: theta (P,), the log posterior, and its slope (r,) in the coordinates of the climb."""

    z: np.ndarray
    value: float
    slope: np.ndarray
    is_converged: bool
    n_evaluations: int


class Posterior(ABC):
    """Log posterior over the flat unconstrained vector theta (P,), given the data it holds; new data make a new one.

    Quantities are in nats and the user's units of X and y, except ``X``, ``y`` and :meth:`prior_mean`:
    these are in the kernel's units, to which ``x_map`` and ``y_map`` lead.
    """

    n_parameters: int
    # Whether additional noise stands for a power of the likelihood, 1 / (1 + noise).
    is_tempered = False
    # Of particles, at each level of annealing and at the end, at most.
    most_moves = 1, 2
    # Whether it is evaluated by NumPy, and whether log likelihoods and gradients of particles are one compiled loop.
    is_array, is_fused = False, False
    # Whether threads may climb it side by side: a climb is compiled, and does not hold Python's lock.
    climbs_apart = False

    X: np.ndarray
    y: np.ndarray
    x_map: InputMap
    y_map: Affine
    # Known variances of the measurements y (n,), in its units, which add to the noise; 0 if there are none.
    known_variance: np.ndarray | float = 0.0
    # How many measurements each row of X and y stands for; rows are means where many settings were measured repeatedly.
    counts: np.ndarray | int = 1

    # If known: the covariance as a tree of kernels, the fixed parameters that follow theta, and what distinguishes the
    # prior of each entry of theta from those of the others.
    kernel: Node | None
    constants: np.ndarray
    prior_kinds: Sequence[tuple]

    def full(self, thetas: np.ndarray) -> np.ndarray:
        """(theta, constants) of theta (P,), or of each row of thetas (S, P)."""
        if not len(self.constants):
            return thetas
        constants = np.broadcast_to(self.constants, (*thetas.shape[:-1], len(self.constants)))
        return np.concatenate([thetas, constants], axis=-1)

    @abstractmethod
    def _set_data(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None) -> None:
        """Replace the data, in the user's units."""

    def with_data(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> Self:
        """The same posterior for other data (user's units), sharing everything compiled."""
        other = copy(self)
        other._set_data(X, y, y_sd)
        return other

    @property
    def noise_unit(self) -> float:
        """Sd of y in the units of ``extra_noise``."""
        return float(spread(self.y)) or 1.0

    @abstractmethod
    def state(self, theta: np.ndarray, extra_noise: float = 0.0) -> State:
        """Factorise the data covariance with ``extra_noise``, a variance; may raise NotPositiveDefiniteError."""

    def light_state(self, theta: np.ndarray) -> State:
        """As :meth:`state`, for values, and predictions without gradients in theta: faster, and in less memory."""
        return self.state(theta)

    def light_states(self, thetas: np.ndarray) -> list[State]:
        """:meth:`light_state` at every row of thetas (S, P)."""
        return [self.light_state(theta) for theta in thetas]

    def by_arrays(self, theta: np.ndarray, state: State | None = None) -> tuple[Posterior, np.ndarray, State | None]:
        """What predicts the same by arrays, at which parameters, and its state there: if not this, see a subclass."""
        return self, theta, state

    @property
    def of_each(self) -> Self:
        """The same posterior with a row for each measurement."""
        return self

    def trace(self, W: np.ndarray) -> np.ndarray:
        """Twice the derivative of what has the derivative W / 2 (..., n, n) in G, in the noise variance."""
        return (np.diagonal(W, axis1=-2, axis2=-1) / self.counts).sum(-1)

    def forget(self) -> None:
        """Drop what is kept of the data's pairs, which is made again when needed; by default nothing."""
        return

    def subset(self, rows: np.ndarray) -> Self | None:
        """The posterior of the data in these rows alone, with the same prior; None if it cannot be had."""
        return None

    @abstractmethod
    def likelihood_gradient(self, state: State) -> np.ndarray:
        """Gradient of the NEGATIVE log likelihood, (P,)."""

    @abstractmethod
    def likelihood_hessian(self, state: State) -> np.ndarray:
        """Hessian of the NEGATIVE log likelihood, (P, P)."""

    @abstractmethod
    def prior_value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log prior (Jacobian included) and its gradient."""

    @abstractmethod
    def prior_hessian(self, theta: np.ndarray) -> np.ndarray:
        """Hessian of the log prior, (P, P)."""

    @abstractmethod
    def moments(self, state: State, X_new: np.ndarray, *, gradient: bool = False) -> Moments:
        """Predict at the rows of ``X_new``; gradients are (m, P)."""

    def moments_and_slopes(self, state: State, X_new: np.ndarray) -> tuple[Moments, InputGradients] | None:
        """:meth:`moments` and their derivatives in the rows of ``X_new``; None if these are not known."""
        return None

    @abstractmethod
    def prior_mean(self, theta: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean function (m,) and its gradient (m, D) in the inputs, at points in the kernel's units."""

    def check_twice_differentiable(self) -> None:
        """Raise a ValueError if functions with this kernel are known to have no second derivative."""
        return

    def prior_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mode of the prior of theta (P,), and its sds (P,) from the curvature there: one in flat directions."""

        def objective(theta):
            value, gradient = self.prior_value_and_gradient(theta)
            return -value, -gradient

        from scipy.optimize import minimize  # takes long to load

        # A flat prior has no mode, and must not carry the search away.
        bounds = [(-20.0, 20.0)] * self.n_parameters
        center = minimize(objective, np.zeros(self.n_parameters), jac=True, method="L-BFGS-B", bounds=bounds).x
        precision = -np.diag(self.prior_hessian(center))
        return center, np.where(precision > 1e-4, 1 / np.sqrt(np.maximum(precision, 1e-4)), 1.0)

    @property
    def hides_modes(self) -> bool:
        """Whether the best mode may have a basin so small that several starts miss it, as periods have."""
        return True

    def noise_below_prior(self, theta: np.ndarray) -> float:
        """How many prior sds log_noise lies below its prior mean; 0 without such a parameter."""
        return 0.0

    def population_size(self) -> int:
        """Particles that a population search can afford, at about 800 evaluations each."""
        return 16

    def value(self, theta: np.ndarray) -> float:
        """Log posterior; -inf if K + noise is not positive definite."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                value = self.prior_value_and_gradient(theta)[0] - self._sound(self.light_state(theta)).factor.nll
            except NotPositiveDefiniteError:
                return -np.inf
        return float(value) if np.isfinite(value) else -np.inf

    @staticmethod
    def _sound(state: State) -> State:
        if not state.factor.is_sound:
            raise NotPositiveDefiniteError("K + noise is positive definite by rounding errors alone")
        return state

    def values(self, thetas: np.ndarray, extra_noise: float = 0.0) -> np.ndarray:
        """:meth:`value` at every row of thetas (S, P), shape (S,)."""
        if self.is_batched:
            return self.log_priors(thetas)[0] + self._in_blocks(thetas, extra_noise, gradient=False).value
        if extra_noise:
            return self.log_priors(thetas)[0] + self._one_by_one(thetas, extra_noise).value
        return np.array([self.value(theta) for theta in thetas])

    def likelihood_values(self, thetas: np.ndarray) -> np.ndarray:
        """Log likelihoods (S,) at the rows of thetas (S, P), without gradients; -inf where not finite."""
        values = self.values(thetas)
        return np.where(np.isfinite(values), values - self.log_priors(thetas)[0], -np.inf)

    def log_likelihoods(
        self, thetas: np.ndarray, extra_noise: float = 0.0, start: np.ndarray | None = None
    ) -> Likelihoods:
        """Log likelihoods at the rows of thetas (S, P); (-inf, zeros) where K + noise is not positive definite.

        ``start`` are the ``sites`` of places nearby, if there are any.
        """
        if self.is_batched:
            return self._in_blocks(thetas, extra_noise, True, start)
        return self._one_by_one(thetas, extra_noise)

    @property
    def is_batched(self) -> bool:
        """Whether particles are evaluated together."""
        return len(self.y) <= _BATCHED or self.is_fused

    def _one_by_one(self, thetas: np.ndarray, extra_noise: float) -> Likelihoods:
        S, P = thetas.shape
        out = Likelihoods(np.full(S, -np.inf), np.zeros((S, P)), np.zeros(S))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for s, theta in enumerate(thetas):
                with suppress(NotPositiveDefiniteError):
                    out.value[s], out.gradient[s], out.in_noise[s] = self._log_likelihood(theta, extra_noise)
        return _finite(out)

    def _log_likelihood(self, theta: np.ndarray, extra_noise: float) -> tuple[float, np.ndarray, float]:
        """As :meth:`log_likelihoods`, of one particle; may raise NotPositiveDefiniteError."""
        state = self._sound(self.state(theta, extra_noise))
        in_noise = -0.5 * self.trace(state.factor.W) + state.factor.beside.slope
        return -state.factor.nll, -self.likelihood_gradient(state), float(in_noise)

    def _in_blocks(
        self, thetas: np.ndarray, extra_noise: float, gradient: bool, start: np.ndarray | None = None
    ) -> Likelihoods:
        step = len(thetas) if self.is_fused else max(1, STACKED // len(self.y) ** 2)

        def block(first: int) -> Likelihoods:
            rows = slice(first, first + step)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return self._likelihoods(thetas[rows], extra_noise, gradient, None if start is None else start[rows])

        # Small matrices are made by many short calls, between which threads would wait for each other.
        run = in_threads if is_compiled(len(self.y)) else map
        blocks = list(run(block, range(0, len(thetas), step)))
        sites = [block.sites for block in blocks if block.sites is not None]
        joined = Likelihoods(
            np.concatenate([block.value for block in blocks]),
            np.concatenate([block.gradient for block in blocks]),
            np.concatenate([block.in_noise for block in blocks]),
            np.concatenate(sites) if sites else None,
        )
        return _finite(joined)

    @abstractmethod
    def _likelihoods(
        self, thetas: np.ndarray, extra_noise: float, gradient: bool, start: np.ndarray | None = None
    ) -> Likelihoods:
        """Log likelihoods of a few particles at once, which may not be finite; zeros for gradients not asked for."""

    @abstractmethod
    def log_priors(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log prior densities (S,) at the rows of thetas (S, P), and their gradients (S, P)."""

    def value_and_gradient(self, theta: np.ndarray, extra_noise: float = 0.0) -> tuple[float, np.ndarray]:
        """Log posterior and gradient; (-inf, zeros) if K + noise is not positive definite."""
        # Line searches try extreme points, where overflow is expected.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                value, gradient, _ = self._log_likelihood(theta, extra_noise)
            except NotPositiveDefiniteError:
                return -np.inf, np.zeros_like(theta)
            prior, slope = self.prior_value_and_gradient(theta)
            value, gradient = prior + value, slope + gradient
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return -np.inf, np.zeros_like(theta)
        return value, gradient

    def climb(self, z: np.ndarray, root: np.ndarray, limits: Limits, extra_noise: float = 0.0) -> Climbed:
        """Climb by L-BFGS from z (P,) in coordinates u: theta is z + root @ u, or z + root * u if root is (P,)."""

        def theta(u: np.ndarray) -> np.ndarray:
            return z + (root * u if root.ndim == 1 else root @ u)

        def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value_and_gradient(theta(u), extra_noise)
            if not np.isfinite(value):
                return FAR_BELOW, np.zeros_like(u)
            return -value, -gradient * root if root.ndim == 1 else -gradient @ root

        from scipy.optimize import minimize  # takes long to load

        options = {"maxiter": limits.iterations, "gtol": limits.slope, "ftol": limits.gain, "maxcor": 20}
        result = minimize(objective, np.zeros(root.shape[-1]), jac=True, method="L-BFGS-B", options=options)
        value = -float(result.fun) if result.fun < FAR_BELOW else -np.inf
        return Climbed(theta(result.x), value, -result.jac, bool(result.success), int(result.nfev))

    def hessian(self, state: State) -> np.ndarray:
        """Hessian of the NEGATIVE log posterior, exact and symmetric."""
        H = self.likelihood_hessian(state) - self.prior_hessian(state.theta)
        return 0.5 * (H + H.T)


def _finite(likelihoods: Likelihoods) -> Likelihoods:
    """The same, with (-inf, zeros) where anything is not finite."""
    value, gradient, in_noise, _ = likelihoods
    good = np.isfinite(value) & np.isfinite(gradient).all(1) & np.isfinite(in_noise)
    value[~good], gradient[~good], in_noise[~good] = -np.inf, 0.0, 0.0
    return likelihoods


def difference_hessian(posterior: Posterior, theta: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The likelihood Hessian (P, P) by central differences of its gradient, in the memory of one gradient."""
    rows = []
    for h in np.diag(steps):
        up, down = theta + h, theta - h
        slopes = [posterior.likelihood_gradient(posterior.state(place)) for place in (up, down)]
        rows.append((slopes[0] - slopes[1]) / (up - down).sum())
    return np.array(rows).reshape(len(steps), len(steps))


def gram_terms(factor: Factor, dG: np.ndarray, dmu: np.ndarray) -> np.ndarray:
    """First-derivative terms of the likelihood Hessian, with v = dG alpha + dmu: vᵀG⁻¹v' - ½ tr(G⁻¹dG G⁻¹dG')."""
    v = dG @ factor.alpha + dmu
    half = factor.half_solve(v.T)
    GdG, (P, n) = factor.inverse @ dG, dmu.shape
    return half.T @ half - 0.5 * GdG.reshape(P, n * n) @ GdG.transpose(0, 2, 1).reshape(P, n * n).T
