"""``fit_probit``: find the hyperparameters of a GP classifier with their uncertainty, and predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import minimize
from scipy.special import ndtr

from pymc_active.classification.latent import APPROXIMATIONS, LatentGaussian, ProbitPosterior
from pymc_active.classification.model import ProbitGP
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.information.mixture_quantiles import mixture_quantiles
from pymc_active.laplace.curvature import invert
from pymc_active.support.arguments import checked
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


# Hyperparameters (P,), each with the latent function at the data.
type Members = list[tuple[np.ndarray, LatentGaussian]]


class ProbitFit(Summarized):
    """A GP classifier fitted to its data. Returned by :func:`fit_probit`.

    Given hyperparameters, the latent function is Gaussian (Laplace's method or expectation propagation). The
    hyperparameters are Gaussian on the log scale, at the highest mode. Source: Rasmussen & Williams (2006), chapter 3
    and section 5.5.

    Attributes
    ----------
    X, labels : ndarray
        The data of the fit; the model ``gp`` may hold others by now.
    theta, covariance : ndarray, shapes (P,) and (P, P)
        Mode and covariance of the hyperparameters.
    log_likelihood, log_posterior, log_evidence : float
        log p(labels | hyperparameters) at the mode, the same with the log prior density, and Laplace's log p(labels)
        around this mode; nats.
    diagnostics : dict
        ``converged``, ``latent_converged``, ``gradient_norm`` (nats per prior sd), ``n_starts``, ``n_best`` (starts
        that reached the mode), ``n_floored`` (directions without positive curvature, given an sd of 1.8 prior sds),
        ``warnings``.
    """

    def __init__(self, gp: ProbitGP, posterior: ProbitPosterior, theta: np.ndarray, diagnostics: dict[str, Any]):
        self.gp, self.X, self.labels = gp, gp.X, gp.labels
        self.theta, self.diagnostics, self._posterior = theta, diagnostics, posterior
        value, gradient = posterior.value_and_gradient(theta)
        self.log_posterior = value
        self.log_likelihood = value - posterior.prior.value_and_gradient(theta)[0]
        no_directions, precision = np.empty((0, len(theta))), np.diag(posterior.prior.precision)
        self._curvature = invert(_hessian(posterior, theta), no_directions, precision)
        self.log_evidence = value + 0.5 * (len(theta) * np.log(2 * np.pi) - self._curvature.log_determinant)
        scaled = np.abs(gradient) * posterior.prior.sd
        diagnostics |= {
            "latent_converged": posterior.latent(theta).converged,
            "gradient_norm": float(scaled.max()),
            "n_floored": self._curvature.n_floored,
        }

    def _summary(self) -> Summary:
        d = self.diagnostics
        facts = {
            "data": f"{len(self.labels)} points ({self.labels.sum()} yes), {len(self.gp.inputs)} input(s)",
            "log evidence": f"{self.log_evidence:.2f} nats",
            "log posterior": f"{self.log_posterior:.2f} nats",
            "starts that reached the mode": f"{d['n_best']} of {d['n_starts']}",
        }
        sd = np.sqrt(np.diagonal(self.covariance))
        table = pd.DataFrame({"mode": self.theta, "sd": sd}, index=self.gp.parameter_names).map("{:.3g}".format)
        return Summary("ProbitFit", facts, [table], d["warnings"])

    @cached_property
    def constrained_point(self) -> dict[str, np.ndarray]:
        """The mode by name, with lengthscales in the user's units."""
        return {name: values[0] for name, values in self.gp.constrain(self.theta[None]).items()}

    @property
    def covariance(self) -> np.ndarray:
        """Of the hyperparameters on the log scale, (P, P)."""
        return self._curvature.root @ self._curvature.root.T

    @property
    def thetas(self) -> np.ndarray:
        """Equally weighted hyperparameters (2P, P): sqrt(P) sds from the mode along each principal axis."""
        axes = np.sqrt(len(self.theta)) * self._curvature.root.T
        return np.concatenate([self.theta + axes, self.theta - axes])

    @property
    def members(self) -> Members:
        """Each of :attr:`thetas` with the latent function at the data."""
        with one_blas_thread():
            return [(theta, self._posterior.latent(theta)) for theta in self.thetas]

    def latent(self, X_new: np.ndarray, members: Members | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances at m points for each of the :attr:`members`, (2P, m) each."""
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

        The hyperparameters are averaged over: 2P of them, sqrt(P) sds from the mode along each principal axis of their
        Gaussian.

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
        weights = np.full(len(means), 1 / len(means))
        mean, variance = mixture_moments(means, variances, weights)
        found = {"probability": weights @ ndtr(means / np.sqrt(1 + variances)), "f_mean": mean, "f_variance": variance}
        coords = {"point": point_labels(X_new)}
        predicted = xr.Dataset({name: ("point", values) for name, values in found.items()}, coords=coords)
        if levels is not None:
            between = ndtr(mixture_quantiles(levels, means, variances, weights))
            predicted["probability_quantile"] = ("quantile", "point"), between
            predicted["quantile"] = levels
        return predicted


@checked
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
        Starts drawn from the prior, besides its mean.

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
    starts = [prior.mean]
    if start is not None:
        starts.append(start.theta if isinstance(start, ProbitFit) else gp.flatten(start))
        if starts[-1].shape != prior.mean.shape:
            raise ValueError(f"start has {len(starts[-1])} parameters, but this model has {len(prior.mean)}")
    rng = np.random.default_rng(random_seed)
    starts += [prior.mean + prior.sd * rng.normal(size=len(prior.mean)) for _ in range(n_restarts)]

    with one_blas_thread(), progress("Searching for the mode", len(starts), progressbar) as advance:
        found = _search(gp.posterior(), starts, advance)
        best = min(found, key=lambda result: result.fun)
        n_best = sum(bool(result.fun < best.fun + _SAME_MODE) for result in found)
        diagnostics: dict[str, Any] = {"n_starts": len(found), "n_best": n_best}
        if approximation != "laplace":
            # The mode of the cheaper approximation is near.
            [best] = _search(posterior, [prior.mean + prior.sd * best.x], lambda: None)
        # A search may also end because the values no longer change in their last digits.
        diagnostics["converged"] = bool(np.abs(best.jac).max() < _FLAT)
        fit = ProbitFit(gp, posterior, prior.mean + prior.sd * best.x, diagnostics)
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


def _hessian(posterior: ProbitPosterior, theta: np.ndarray) -> np.ndarray:
    """Of the NEGATIVE log posterior, (P, P)."""
    columns = []
    for e in np.diag(_STEP * posterior.prior.sd):
        higher, lower = (posterior.value_and_gradient(theta + sign * e)[1] for sign in (1, -1))
        columns.append((lower - higher) / (2 * e.max()))
    H = np.stack(columns)
    return 0.5 * (H + H.T)
