"""``fit_probit``: find the hyperparameters of a GP classifier with their uncertainty, and predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr, softmax

from pymc_active.classification.latent import APPROXIMATIONS, LatentGaussian, ProbitPosterior
from pymc_active.classification.model import ProbitGP
from pymc_active.inference.parameter_table import table_of_draws
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.information.mixture_quantiles import mixture_quantiles
from pymc_active.laplace.curvature import invert
from pymc_active.support.progress import progress
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import blocks, point_labels, read_inputs, read_probabilities
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulFitWarning, warn_user

# Steps of central differences of the exact gradient, in prior sds.
_STEP = 1e-4
# Modes are sought within this many prior sds of the prior mean: beyond, numbers overflow.
_FARTHEST = 12.0
# Differences of a mode's value in nats, and slopes in nats per prior sd, that count as none.
_SAME_MODE, _FLAT = 1e-3, 1e-3
# How many prior sds below the mean the lengthscales of one start are: where labels alternate, draws from the prior
# seldom lead to their mode.
_SHORT = 1.5
# Prior sds between distinct modes, how many nats below the best they matter, and how many may; draws of a summary.
_APART, _DEPTH, _MOST_MODES, _SHOWN = 0.1, 6.0, 4, 500


# Hyperparameters (P,), each with the latent function at the data.
type Members = list[tuple[np.ndarray, LatentGaussian]]


class ProbitFit(Summarized):
    """A GP classifier fitted to its data. Returned by :func:`fit_probit`.

    Given hyperparameters, the latent function is Gaussian (Laplace's method or expectation propagation). The
    hyperparameters are a mixture of Gaussians on the log scale, at the modes found, weighted by their evidences.
    Source: Rasmussen & Williams (2006), chapter 3 and section 5.5.

    Attributes
    ----------
    X, labels : ndarray
        The data of the fit; the model ``gp`` may hold others by now.
    theta, covariance : ndarray, shapes (P,) and (P, P)
        The highest mode, and the covariance of the hyperparameters there.
    log_likelihood, log_posterior, log_evidence : float
        log p(labels | hyperparameters) at this mode, the same with the log prior density, and Laplace's log p(labels),
        summed over the modes; nats.
    diagnostics : dict
        ``converged``, ``latent_converged``, ``gradient_norm`` (nats per prior sd), ``n_starts``, ``n_best`` (starts
        that reached the highest mode), ``n_modes``, ``n_floored`` (directions there without positive curvature, given
        an sd of 1.8 prior sds), ``warnings``.
    """

    def __init__(self, gp: ProbitGP, posterior: ProbitPosterior, modes: list[np.ndarray], diagnostics: dict[str, Any]):
        self.gp, self.X, self.labels = gp, gp.X, gp.labels
        self.theta, self.diagnostics, self._posterior, self._modes = modes[0], diagnostics, posterior, modes
        values, gradients = zip(*map(posterior.value_and_gradient, modes), strict=True)
        self.log_posterior = values[0]
        self.log_likelihood = values[0] - posterior.prior.value_and_gradient(self.theta)[0]
        no_directions, precision = np.empty((0, len(self.theta))), np.diag(posterior.prior.precision)
        self._curvatures = [invert(_hessian(posterior, theta), no_directions, precision) for theta in modes]
        log_volumes = -0.5 * np.array([one.log_determinant for one in self._curvatures])
        evidences = np.array(values) + log_volumes + 0.5 * len(self.theta) * np.log(2 * np.pi)
        self.log_evidence = float(logsumexp(evidences))
        self._shares = softmax(evidences)
        diagnostics |= {
            "latent_converged": posterior.latent(self.theta).converged,
            "gradient_norm": float((np.abs(gradients[0]) * posterior.prior.sd).max()),
            "n_modes": len(modes),
            "n_floored": self._curvatures[0].n_floored,
        }

    def _summary(self) -> Summary:
        d = self.diagnostics
        facts = {
            "data": f"{len(self.labels)} points ({self.labels.sum()} yes), {len(self.gp.inputs)} input(s)",
            "log evidence": f"{self.log_evidence:.2f} nats",
            "log posterior": f"{self.log_posterior:.2f} nats",
            "modes": f"{d['n_modes']}, {d['n_best']} of {d['n_starts']} starts reached the best",
        }
        rng = np.random.default_rng(0)
        modes = rng.choice(len(self._modes), _SHOWN, p=self._shares)
        draws = [self._modes[k] + self._curvatures[k].root @ rng.normal(size=len(self.theta)) for k in modes]
        table = table_of_draws(self.gp, np.stack(draws))
        return Summary("ProbitFit", facts, [table], d["warnings"])

    @cached_property
    def constrained_point(self) -> dict[str, Any]:
        """The highest mode by name, with lengthscales in the user's units."""
        return {name: v[0] if v.ndim > 1 else float(v[0]) for name, v in self.gp.constrain(self.theta[None]).items()}

    @property
    def covariance(self) -> np.ndarray:
        """Of the hyperparameters on the log scale at the highest mode, (P, P)."""
        return self._curvatures[0].root @ self._curvatures[0].root.T

    @property
    def thetas(self) -> np.ndarray:
        """Hyperparameters (S, P): for each mode 2P of them, sqrt(P) sds away along each principal axis."""
        scale, parts = np.sqrt(len(self.theta)), []
        for theta, curvature in zip(self._modes, self._curvatures, strict=True):
            parts += [theta + scale * curvature.root.T, theta - scale * curvature.root.T]
        return np.concatenate(parts)

    @property
    def weights(self) -> np.ndarray:
        """Of :attr:`thetas`, (S,)."""
        each = 2 * len(self.theta)
        return np.repeat(self._shares / each, each)

    @property
    def members(self) -> Members:
        """Each of :attr:`thetas` with the latent function at the data."""
        with one_blas_thread():
            return [(theta, self._posterior.latent(theta)) for theta in self.thetas]

    def latent(self, X_new: np.ndarray, members: Members | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances at m points for each of the :attr:`members`, (S, m) each."""
        scaled, members = self.gp.scale(X_new), members or self.members
        means, variances = np.empty((2, len(members), len(X_new)))
        with one_blas_thread():
            for s, member in enumerate(members):
                for rows in blocks(len(scaled), len(self.X)):
                    means[s, rows], variances[s, rows] = self._posterior.moments(*member, scaled[rows])
        return means, variances

    def latent_gradients(self, X_new: np.ndarray, members: Members) -> list[tuple[np.ndarray, np.ndarray]]:
        """Derivatives of :meth:`latent` in the inputs, as the kernel sees them: pairs (m, D) for each member."""
        scaled = self.gp.scale(X_new)
        with one_blas_thread():
            return [self._posterior.moment_gradients(*member, scaled) for member in members]

    def predict(self, X_new: Any, *, quantiles: Sequence[float] | None = None) -> xr.Dataset:
        """Probability of yes, and ``f_mean`` and ``f_variance`` of the latent function, over ``point``.

        The hyperparameters are averaged over: 2P of them for each mode, sqrt(P) sds away along each principal axis of
        its Gaussian.

        Parameters
        ----------
        X_new : array_like, DataFrame or DataArray, shape (m, D)
            In the user's units. Row labels are kept.
        quantiles : sequence of float, optional
            Probabilities between 0 and 1, such as ``(0.05, 0.95)``, for an interval of Φ(f):
            ``probability_quantile`` over ``quantile`` and ``point``. That of f is far from Gaussian, so ``f_mean`` and
            ``f_variance`` give none.
        """
        levels = read_probabilities(quantiles)
        means, variances = self.latent(read_inputs(X_new, "X_new", inputs=self.gp.inputs))
        weights = self.weights
        mean, variance = mixture_moments(means, variances, weights)
        found = {"probability": weights @ ndtr(means / np.sqrt(1 + variances)), "f_mean": mean, "f_variance": variance}
        coords = {"point": point_labels(X_new)}
        predicted = xr.Dataset({name: ("point", values) for name, values in found.items()}, coords=coords)
        if levels is not None:
            between = ndtr(mixture_quantiles(levels, means, variances, weights))
            predicted["probability_quantile"] = ("quantile", "point"), between
            predicted["quantile"] = levels
        return predicted


def fit_probit(
    gp: ProbitGP,
    *,
    approximation: Literal["ep", "laplace"] = "ep",
    start: dict[str, Any] | ProbitFit | None = None,
    n_restarts: int = 4,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> ProbitFit:
    """Find the hyperparameters of a GP classifier and their uncertainty.

    Parameters
    ----------
    approximation : {"ep", "laplace"}
        Of the latent function. Expectation propagation is close to the exact posterior (Kuss & Rasmussen 2005): 300
        points take 3 seconds, 1,000 a minute and a half. Laplace's method takes a third of that. Where yes turns into
        no within a small part of the range its probabilities are too close to one half, its intervals miss too often,
        and what is asked next tells less.
    start : dict or ProbitFit, optional
        One more start: values by name, or an earlier fit.
    n_restarts : int
        Starts drawn from the prior, besides its mean and short lengthscales.

    Raises
    ------
    TypeError, ValueError
        For anything but a ProbitGP, or a start of another model.

    Warns
    -----
    DoubtfulFitWarning
        If the search, or the approximation of the latent function, did not converge.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-3, 3, 12)[:, None]
    >>> fit = pma.fit_probit(pma.probit_gp(x, x[:, 0] > 0.5), random_seed=1, progressbar=False)
    >>> fit.predict([[-2.0], [0.5], [2.0]]).probability.to_numpy().round(1)
    array([0.1, 0.5, 0.9])
    """
    if not isinstance(gp, ProbitGP):
        raise TypeError(f"fit_probit takes a ProbitGP, made by probit_gp; got {type(gp).__name__}")
    if n_restarts < 0:
        raise ValueError(f"n_restarts must not be negative; got {n_restarts}")
    if approximation not in APPROXIMATIONS:
        raise ValueError(f"approximation must be one of {', '.join(APPROXIMATIONS)}; got {approximation!r}")
    posterior = gp.posterior(approximation)
    prior = posterior.prior
    is_lengthscale = np.array([name.startswith("log_lengthscale") for name in gp.parameter_names])
    starts = [prior.mean, prior.mean - _SHORT * prior.sd * is_lengthscale]
    if start is not None:
        starts.append(start.theta if isinstance(start, ProbitFit) else gp.flatten(start))
        if starts[-1].shape != prior.mean.shape:
            raise ValueError(f"start has {len(starts[-1])} parameters, but this model has {len(prior.mean)}")
    rng = np.random.default_rng(random_seed)
    starts += [prior.mean + prior.sd * rng.normal(size=len(prior.mean)) for _ in range(n_restarts)]

    with one_blas_thread(), progress("Searching for the mode", len(starts), progressbar) as advance:
        found = _search(gp.posterior(), starts, advance)
        modes = _distinct(found)
        n_best = sum(bool(result.fun < modes[0].fun + _SAME_MODE) for result in found)
        diagnostics: dict[str, Any] = {"n_starts": len(found), "n_best": n_best}
        if approximation != "laplace":
            # The modes of the cheaper approximation are near.
            near = [prior.mean + prior.sd * mode.x for mode in modes]
            modes = _distinct(_search(posterior, near, lambda: None))
        best = modes[0]
        # A search may also end because the values no longer change in their last digits.
        diagnostics["converged"] = bool(np.abs(best.jac).max() < _FLAT)
        fit = ProbitFit(gp, posterior, [prior.mean + prior.sd * mode.x for mode in modes], diagnostics)
    doubts = []
    if not diagnostics["converged"]:
        slope = np.abs(best.jac).max()
        doubts.append(f"the search for the hyperparameters stopped at a slope of {slope:.1e} nats per prior sd")
    if not diagnostics["latent_converged"]:
        doubts.append("the approximation of the latent function did not converge")
    message = f"the fit is doubtful: {'; '.join(doubts)}. Raise n_restarts, or use narrower priors."
    diagnostics["warnings"] = [message] if doubts else []
    if doubts:
        warn_user(message, DoubtfulFitWarning)
    return fit


def _search(posterior: ProbitPosterior, starts: list[np.ndarray], advance: Callable[[], None]) -> list[Any]:
    """SciPy's results, in prior sds from the prior mean."""
    prior = posterior.prior

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = posterior.value_and_gradient(prior.mean + prior.sd * z)
        return -value, -gradient * prior.sd

    bounds = [(-_FARTHEST, _FARTHEST)] * len(prior.mean)
    settings: dict[str, Any] = {"method": "L-BFGS-B", "jac": True, "options": {"gtol": 1e-6, "ftol": 1e-13}}
    found = []
    for theta in starts:
        found.append(minimize(objective, (theta - prior.mean) / prior.sd, bounds=bounds, **settings))
        advance()
    return found


def _distinct(found: list[Any]) -> list[Any]:
    """The best end of a search, and others that are modes and may matter, the best first."""
    best, *others = sorted(found, key=lambda result: result.fun)
    modes = [best]
    for one in others:
        is_mode = np.abs(one.jac).max() < _FLAT and one.fun < best.fun + _DEPTH
        if is_mode and all(np.abs(one.x - mode.x).max() > _APART for mode in modes):
            modes.append(one)
    return modes[:_MOST_MODES]


def _hessian(posterior: ProbitPosterior, theta: np.ndarray) -> np.ndarray:
    """Of the NEGATIVE log posterior, (P, P)."""
    columns = []
    for e in np.diag(_STEP * posterior.prior.sd):
        higher, lower = (posterior.value_and_gradient(theta + sign * e)[1] for sign in (1, -1))
        columns.append((lower - higher) / (2 * e.max()))
    H = np.stack(columns)
    return 0.5 * (H + H.T)
