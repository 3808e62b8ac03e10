"""A Gaussian process behind a probit, with the priors, kernels and scales of :func:`pymc_active.ard_gp`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from pymc_active.classification.latent import APPROXIMATIONS, ProbitPosterior
from pymc_active.kernels.cov import STATIONARY, Rescaled, check_kernel
from pymc_active.kernels.stationary import Stationary
from pymc_active.models.advice import decades, far_outside
from pymc_active.models.parameters import Parameters, Priors
from pymc_active.support.scaling import Affine, Scale, fit_scale
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import (
    Bounds,
    check_rows,
    input_labels,
    read_bounds,
    read_inputs,
)
from pymc_active.support.user_warnings import warn_if


def probit_gp(
    X: Any,
    labels: Any,
    *,
    kernel: str = "ExpQuad",
    mean: str = "zero",
    priors: Priors = None,
    x_scale: Scale = None,
    bounds: Bounds | None = None,
) -> ProbitGP:
    r"""A GP classifier, :math:`p(\text{yes} \mid x) = \Phi(f(x))`, with one lengthscale for each input.

    Parameters
    ----------
    X, kernel, x_scale, bounds
        As in :func:`pymc_active.ard_gp`: ``bounds`` of where labels will be asked for take the box to [-1, 1].
    labels : array_like, shape (n,)
        True and False, or 1 and 0. All may be the same.
    mean : {"zero", "constant"}
        Of the latent function: even odds far from the data, or odds that are learned.
    priors : dict, optional
        As in :func:`pymc_active.ard_gp`, but normal distributions or numbers only, for ``log_lengthscale`` (D,):
        Normal(log √D, 1), ``log_outputscale``: Normal(0, 1), and ``mean_constant``: Normal(0, 1).

    Raises
    ------
    TypeError, ValueError
        For labels that are not yes or no, data that do not match, or an unknown kernel, mean or prior.

    Warns
    -----
    DataWarning
        If points lie far outside the ``bounds``, or these span decades. Without bounds nothing is said of the scale of
        X, which the default priors expect to be about one.

    Examples
    --------
    Ask for the label that says most about the function, add it, and fit again:

    >>> import numpy as np
    >>> import pymc_active as pma
    >>> gp = pma.probit_gp([[-2.0], [2.0]], [False, True])
    >>> pool = np.linspace(-2, 2, 81)[:, None]
    >>> for _ in range(3):
    ...     fit = pma.fit_probit(gp, random_seed=1, progressbar=False)
    ...     x = pool[[int(pma.active.bald_probit(fit, pool).argmax("point"))]]
    ...     gp.set_data(np.vstack([gp.X, x]), np.append(gp.labels, x[:, 0] > 0.3))
    >>> gp
    <ProbitGP probit_gp(ExpQuad): data 5 points (2 yes); inputs 0; free parameters log_lengthscale, log_outputscale>
    """
    check_kernel(kernel)
    if mean not in ("constant", "zero"):
        raise ValueError(f"mean must be one of constant, zero; got {mean!r}")
    points, values = _read_data(X, labels)
    inputs = input_labels(X, points.shape[1], bounds)
    if bounds is not None:
        low, high = read_bounds(bounds, len(inputs), inputs)
        warn_if(far_outside(points, low, high, inputs) or decades(low, high, inputs, points))
        x_scale = ((low + high) / 2, (high - low) / 2) if x_scale is None else x_scale
    x_map = fit_scale(x_scale, points, "x_scale")
    parameters = Parameters({"input": inputs}, priors)
    parameters.add("log_lengthscale", 0.5 * np.log(len(inputs)), 1.0, "input")
    parameters.add_exponential("lengthscale", "log_lengthscale", x_map.scale)
    parameters.add("log_outputscale", 0.0, 1.0)
    parameters.add_exponential("outputscale", "log_outputscale", 1.0)
    if mean == "constant":
        parameters.add("mean_constant", 0.0, 1.0)
    return ProbitGP(points, values, kernel, inputs, x_map, parameters)


class ProbitGP(Summarized):
    """A GP classifier and its data, which :func:`pymc_active.fit_probit` fits. Made by :func:`pymc_active.probit_gp`.

    ``X`` (n, D) holds the inputs in the user's units, ``inputs`` the names of its columns, and ``labels`` (n,)
    booleans.
    """

    def __init__(
        self, X: np.ndarray, labels: np.ndarray, kernel: str, inputs: list, x_map: Affine, parameters: Parameters
    ):
        self.X, self.labels, self._kernel = X, labels, kernel
        self.inputs, self._x_map, self._parameters = inputs, x_map, parameters
        parameters.check_names()
        if not parameters.free:
            raise ValueError("every parameter is fixed, so there is nothing to fit: give at least one a prior")
        for name in parameters.free:
            if not parameters.is_normal(name):
                raise TypeError(f"priors[{name!r}] must be normal, pm.Normal.dist(mean, sd), or a number")

    def _summary(self) -> Summary:
        facts = {
            "data": f"{len(self.X)} points ({self.labels.sum()} yes)",
            "inputs": ", ".join(map(str, self.inputs[:8])) + (", …" if len(self.inputs) > 8 else ""),
            "free parameters": ", ".join(self._parameters.free),
        }
        return Summary(f"ProbitGP probit_gp({self._kernel})", facts)

    def set_data(self, X: Any, labels: Any) -> None:
        """Replace the data by any number of points; scales stay as they are. Refused data leave the old ones."""
        self.X, self.labels = _read_data(X, labels, self.inputs)
        self.__dict__.pop("model", None)

    @property
    def parameter_names(self) -> list[str]:
        """Flat names such as ``"log_lengthscale[0]"``, in the order of theta."""
        shapes = self._parameters.shapes.items()
        return [label for n, shape in shapes for label in ([f"{n}[{i}]" for i in range(shape[0])] if shape else [n])]

    def constrain(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters, and lengthscales in the user's units, for each of S thetas; (S, ...) each."""
        return self._parameters.constrain(thetas)

    def flatten(self, point: dict[str, Any]) -> np.ndarray:
        """Theta (P,) from values by parameter name."""
        shapes = self._parameters.shapes
        if set(point) != set(shapes):
            raise ValueError(f"a point needs exactly {', '.join(shapes)}; got {', '.join(sorted(point)) or 'nothing'}")
        return np.concatenate([np.broadcast_to(np.asarray(point[n], float), s).ravel() for n, s in shapes.items()])

    def scale(self, X: np.ndarray) -> np.ndarray:
        """Inputs in the kernel's units."""
        return self._x_map(X)

    def posterior(self, approximation: str = "laplace") -> ProbitPosterior:
        """Log posterior of the hyperparameters given the current data."""
        parameters = self._parameters
        groups = [(int(i), np.array([d])) for d, i in enumerate(parameters.positions("log_lengthscale"))]
        node = Stationary(self._kernel, groups, parameters.position("log_outputscale"))
        mean_index = parameters.position("mean_constant") if "mean_constant" in parameters else None
        sign, prior = np.where(self.labels, 1.0, -1.0), parameters.gaussian_prior()
        return ProbitPosterior(
            self.scale(self.X), sign, node, parameters.constants, prior, mean_index, APPROXIMATIONS[approximation]
        )

    @cached_property
    def model(self) -> pm.Model:
        """The same model in PyMC, with the latent function ``f`` at the data, for ``pm.sample``."""
        with pm.Model(model=None, coords={"obs": range(len(self.labels)), "input": self.inputs}) as model:
            X = pm.Data("X", self.X, dims=("obs", "input"))
            variables = self._parameters.register(model)
            cov = STATIONARY[self._kernel](len(self.inputs), ls=pt.exp(variables["log_lengthscale"]))
            if not self._x_map.is_identity:
                cov = Rescaled(cov, self._x_map.shift, self._x_map.scale)
            gp = pm.gp.Latent(
                mean_func=pm.gp.mean.Constant(variables.get("mean_constant", 0.0)),
                cov_func=pt.exp(2 * variables["log_outputscale"]) * cov,
            )
            f = gp.prior("f", X=X, dims="obs")
            # 1/2 erfc(-f / √2) does not overflow, and does not round to zero early.
            probability = 0.5 * pt.erfc(-f / np.sqrt(2))
            pm.Bernoulli("y", p=probability, observed=self.labels.astype(int), dims="obs")
        return model


def _read_data(X: Any, labels: Any, inputs: list | None = None) -> tuple[np.ndarray, np.ndarray]:
    points = read_inputs(X, inputs=inputs).copy()
    values = read_labels(labels, len(points))
    check_rows(X, labels, "labels")
    return points, values


def read_labels(labels: Any, n: int) -> np.ndarray:
    """Booleans (n,), from True and False or from 1 and 0."""
    values = np.asarray(labels.to_numpy() if isinstance(labels, pd.Series | xr.DataArray) else labels)
    if values.dtype.kind == "O" and values.ndim == 1:
        values = np.array(list(values), dtype=None)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"labels must be True and False, or 1 and 0; got {values.dtype}. Compare text: labels == 'yes'")
    if values.shape != (n,):
        raise ValueError(f"labels must be a vector with one label for each of the {n} rows; got shape {values.shape}")
    strange = np.unique(values[~np.isin(values, [0, 1])])
    if strange.size:
        raise ValueError(f"labels must be True and False, or 1 and 0; got also {', '.join(map(str, strange[:5]))}")
    return values.astype(bool)
