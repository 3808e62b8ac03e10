"""Sample paths of a posterior Gaussian process: functions that can be evaluated, and differentiated twice, anywhere.

A draw f from the prior becomes one from the posterior by Matheron's rule, f(x) + k(x, X) G⁻¹ (y - f(X) - noise). Only
the prior is approximated, by finitely many features; the data enter exactly, however many they are (Wilson et al. 2020,
Efficiently sampling functions from Gaussian process posteriors).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import eigh

from pymc_active.models.gpmodel import GPModel
from pymc_active.paths.features import draw_prior
from pymc_active.paths.kernel_sums import Derivatives, Functions, KernelSums
from pymc_active.paths.maximizers import maximize_over_pool, maximize_paths
from pymc_active.posterior.array import ArrayPosterior, EmbeddingPosterior
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import Source, conditioned_gps, ensemble_of, model_of
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import Bounds, box_or_pool, point_labels, read_bounds, read_inputs
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import SamplingWarning, warn_user

# How far points may be outside the box of paths that are drawn for one, as a part of its width.
_BESIDE = 0.05


class Paths:
    """S draws of the latent function of one Gaussian process given its data, in the kernel's units.

    The box that matters, from ``low`` to ``high`` (D,), is by default the data's. ``embedding`` is R (d, D), if
    the paths are functions of R x. ``diagnostics`` holds ``n_features``; for a kernel without a known spectral density
    also ``missed_variance``, the mean share of the prior variance in the box that the features miss.
    """

    def __init__(
        self,
        gp: ConditionedGP,
        n_paths: int,
        n_features: int = 1000,
        rng: np.random.Generator | int | None = None,
        low: np.ndarray | None = None,
        high: np.ndarray | None = None,
    ):
        rng = np.random.default_rng(rng)
        self.gp, self.n_paths = gp, n_paths
        posterior = gp.posterior
        self.embedding = posterior.embedding(gp.theta) if isinstance(posterior, EmbeddingPosterior) else None
        self.low = gp.X.min(0) if low is None else np.asarray(low, float)
        self.high = gp.X.max(0) if high is None else np.asarray(high, float)
        with one_blas_thread():
            prior, self.diagnostics = draw_prior(gp, n_paths, n_features, rng, self.low, self.high)
            seen = sum(part.value(gp.X) for part in prior) + _noise(gp, n_paths, rng)
            weights = gp.factor.solve((gp.y - gp.prior_mean(gp.X)[0] - seen).T).T
        self._parts: list[Functions] = [*prior, KernelSums(gp, gp.X, np.ascontiguousarray(weights))]
        if len(prior) == 1 and isinstance(basis := prior[0], KernelSums):
            # One sum instead of two, where each is a call of a compiled function.
            Z, both = np.concatenate([basis.Z, gp.X]), np.hstack([basis.weights, weights])
            self._parts = [KernelSums(gp, Z, both)]

    def value(self, X: np.ndarray) -> np.ndarray:
        """All paths at all points, (S, m)."""
        with one_blas_thread():
            return self.gp.prior_mean(X)[0] + sum(part.value(X) for part in self._parts)

    def derivatives(self, X: np.ndarray, which: np.ndarray) -> Derivatives:
        """Value (m,), gradient (m, D) and Hessian (m, D, D) of path ``which[i]`` at row i."""
        value, gradient = self.gp.prior_mean(X)
        total = [value, gradient, self.gp.prior_mean_hessian(X)]
        with one_blas_thread():
            for part in self._parts:
                total = [a + b for a, b in zip(total, part.derivatives(X, which), strict=True)]
        return total[0], total[1], total[2]


def _noise(gp: ConditionedGP, n_paths: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of the observation noise of all data, (S, n)."""
    standard = rng.normal(size=(n_paths, len(gp.X)))
    if isinstance(gp.posterior, ArrayPosterior):
        return np.sqrt(gp.data_noise) * standard
    # The noise may differ between the data, and be correlated.
    values, vectors = eigh(gp.factor.L @ gp.factor.L.T - gp.covariance(gp.X, gp.X))
    return (standard * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


class PosteriorPaths(Summarized):
    """Sample paths of the latent function of a model, called like functions, in your units; see :func:`draw_paths`.

    ``parts`` are the :class:`Paths` of each draw of the hyperparameters, in the kernel's units; ``diagnostics`` theirs.
    """

    def __init__(self, inputs: list, parts: list[Paths]):
        self.inputs, self.parts = inputs, parts
        self.n_paths = sum(part.n_paths for part in parts)
        self.diagnostics = [part.diagnostics for part in parts]

    def _summary(self) -> Summary:
        facts = {
            "paths": f"{self.n_paths}, from {len(self.parts)} draw(s) of the hyperparameters",
            "inputs": ", ".join(map(str, self.inputs[:8])) + (", …" if len(self.inputs) > 8 else ""),
            "data": f"{len(self.parts[0].gp.X)} points",
        }
        return Summary("PosteriorPaths", facts)

    def __call__(self, X: Any) -> xr.DataArray:
        """All paths at the rows of ``X`` (m, D): dims (path, point), in units of y."""
        return self._labelled("f", X, lambda part, Z: part.gp.to_user_y(part.value(Z)))

    def gradient(self, X: Any) -> xr.DataArray:
        """Derivatives in the inputs: dims (path, point, input), in units of y over units of x."""
        return self._labelled("gradient", X, lambda part, Z: _unit(part, 1) * _of_all(part, Z)[1], "input")

    def hessian(self, X: Any) -> xr.DataArray:
        """Second derivatives: dims (path, point, input, other_input)."""
        dims = "input", "other_input"
        return self._labelled("hessian", X, lambda part, Z: _unit(part, 2) * _of_all(part, Z)[2], *dims)

    def _labelled(self, name: str, X: Any, compute: Callable[[Paths, np.ndarray], np.ndarray], *dims: str):
        values = read_inputs(X, inputs=self.inputs)
        self._warn_outside(values)
        coords = {"point": point_labels(X)} | dict.fromkeys(dims, self.inputs)
        parts = [compute(part, part.gp.posterior.x_map(values)) for part in self.parts]
        return xr.DataArray(np.concatenate(parts), dims=("path", "point", *dims), coords=coords, name=name)

    def maximize(
        self,
        where: Any = None,
        *,
        bounds: Bounds | None = None,
        pool: Any = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> xr.Dataset:
        """Find the maximum of every path, in a box or in a pool.

        ``where`` is a box if it is a list of tuples (low, high), a pool if it is an array or data frame (m, D).
        ``bounds`` or ``pool`` pass them by name.

        Returns
        -------
        xarray.Dataset
            ``x`` (path, input) and ``f`` (path). In a box also ``slope`` (path, input), the gradient there, and
            ``free`` (path, input), False where the maximum lies on a bound across which the path still rises. In a pool
            also ``point`` (path), the label of the row.

        Raises
        ------
        TypeError, ValueError
            Unless exactly one of ``where``, ``bounds`` and ``pool`` is given; for a list of lists, which could be
            either, malformed bounds, and a pool that does not fit the model.
        """
        bounds, pool = box_or_pool(where, bounds, pool)
        rng = np.random.default_rng(random_seed)
        return self._maximize_over(pool) if bounds is None else self._maximize_within(bounds, rng)

    def _warn_outside(self, X: np.ndarray) -> None:
        """Warn of points (m, D) where paths made of functions of a box have too little variance."""
        for part in self.parts:
            Z, width = part.gp.posterior.x_map(X), part.high - part.low
            is_outside = ((Z < part.low - _BESIDE * width) | (Z > part.high + _BESIDE * width)).any()
            if "missed_variance" in part.diagnostics and is_outside:
                warn_user(
                    "the kernel has no known spectral density, so its paths are drawn for a box, by default of "
                    "the data, and far from it they vary too little: pass bounds=[(low, high), ...] of all points that "
                    "matter to draw_paths",
                    SamplingWarning,
                )
                return

    def _maximize_over(self, pool: Any) -> xr.Dataset:
        X = read_inputs(pool, "pool", inputs=self.inputs)
        self._warn_outside(X)
        maxima = [maximize_over_pool(part, part.gp.posterior.x_map(X)) for part in self.parts]
        row = np.concatenate([rows for rows, _ in maxima])
        f = [part.gp.to_user_y(values) for part, (_, values) in zip(self.parts, maxima, strict=True)]
        variables = {
            "x": (("path", "input"), X[row]),
            "f": ("path", np.concatenate(f)),
            "point": ("path", point_labels(pool)[row]),
        }
        return xr.Dataset(variables, coords={"input": self.inputs})

    def _maximize_within(self, bounds: Bounds, rng: np.random.Generator) -> xr.Dataset:
        low, high = read_bounds(bounds, len(self.inputs), self.inputs)
        self._warn_outside(np.stack([low, high]))
        parts = []
        for part in self.parts:
            x_map = part.gp.x_map
            maxima = maximize_paths(part, x_map(low), x_map(high), rng)
            # A maximum on a bound is on it exactly, in the user's units too.
            X = np.clip(part.gp.to_user(maxima.X), low, high)
            X = np.where(maxima.X == x_map(low), low, np.where(maxima.X == x_map(high), high, X))
            parts.append((X, part.gp.to_user_y(maxima.values), maxima.free, maxima.slopes * _unit(part, 1)))
        X, f, free, slopes = (np.concatenate(column) for column in zip(*parts, strict=True))
        by_input = ("path", "input")
        return xr.Dataset(
            {"x": (by_input, X), "f": ("path", f), "free": (by_input, free), "slope": (by_input, slopes)},
            coords={"input": self.inputs},
        )


def _unit(part: Paths, order: int) -> np.ndarray:
    """The factor from derivatives in the kernel's units to those in the user's."""
    x = np.broadcast_to(part.gp.x_map.scale, part.low.shape)
    y = part.gp.posterior.y_map.scale * part.gp.sign
    return y / x if order == 1 else y / np.multiply.outer(x, x)


def _of_all(part: Paths, X: np.ndarray) -> list[np.ndarray]:
    """Derivatives of every path at every point, with (S, m) in front."""
    S, m = part.n_paths, len(X)
    derivatives = part.derivatives(np.tile(X, (S, 1)), np.repeat(np.arange(S), m))
    return [array.reshape(S, m, *array.shape[1:]) for array in derivatives]


def draw_paths(
    fit: Source,
    *,
    model: GPModel | None = None,
    n_paths: int = 50,
    n_features: int = 1000,
    draws: int = 10,
    bounds: Bounds | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> PosteriorPaths:
    """Draw whole functions from the posterior of the latent function of a model.

    With a ``likelihood`` this is on the scale of its link: Φ of it is the probability of success, or its exponential
    the expected count.

    Parameters
    ----------
    fit : Fit, dict or list of fits, Ensemble, DataTree or dict
        Where the hyperparameters come from: a fit, fits of several models, or an ensemble; with ``model`` also a trace
        of it, or a dict of fixed unconstrained values by value-variable name.
    model : GPModel, optional
    n_paths : int
    n_features : int
        Random features of the prior, shared by about 25 paths. The mean of the paths is exact for any number; their
        covariance has an error of about ``1 / sqrt(n_features)`` of the *prior* variance within a group of paths that
        share features, and becomes exact for many paths.
    draws : int
        Draws of the hyperparameters from a fit or a trace, at most; they share the paths evenly.
    bounds : list of (low, high), or dict by input, optional
        The box that matters, for kernels that have no known spectral density, such as your own. Default: the box of the
        data.

    Raises
    ------
    TypeError, ValueError
        If hyperparameters cannot be had from ``fit``; for numbers that are not positive, or malformed bounds.

    Warns
    -----
    SamplingWarning
        If the kernel has no known spectral density and the features miss more than 5 % of the prior variance; the paths
        warn if they are then evaluated outside the box.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> gpm = pma.ard_gp(X, np.sin(6 * X[:, 0]))
    >>> point = {"log_lengthscale": [-1.0], "log_outputscale": 0.0, "log_noise": -9.0}
    >>> paths = draw_paths(point, model=gpm, n_paths=3, random_seed=1)
    >>> bool(np.allclose(paths(X), gpm.y, atol=0.001))
    True
    """
    for name, number in (("n_paths", n_paths), ("n_features", n_features), ("draws", draws)):
        count(name, number)
    if n_features < 2:
        raise ValueError(f"n_features must be at least 2, a cosine and a sine; got {n_features}")
    rng = np.random.default_rng(random_seed)
    n, seed = min(draws, n_paths), int(rng.integers(2**31))
    inputs = model_of(fit, model).inputs
    ensemble = ensemble_of(fit, model, draws=n, random_seed=seed)
    gps = conditioned_gps(ensemble, n, random_seed=seed)
    box = None if bounds is None else read_bounds(bounds, len(inputs), inputs)
    shares = np.diff(np.linspace(0, n_paths, len(gps) + 1).round().astype(int))
    parts = []
    for gp, share in zip(gps, shares.tolist(), strict=True):
        low, high = (None, None) if box is None else (gp.x_map(end) for end in box)
        parts.append(Paths(gp, share, n_features, rng, low, high))
    return PosteriorPaths(inputs, parts)
