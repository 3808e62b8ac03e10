"""A builder's model before it is a PyMC model: its parameters, scales and data, and the array posterior they define."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from pymc_active.kernels.cov import MeasurementNoise, Rescaled
from pymc_active.kernels.node import Node
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.latent import known_by_name, latent_model, latent_scale, read_likelihood
from pymc_active.models.parameters import Parameters
from pymc_active.models.pymc_model import PyMCModel, data_value, wrong_mean
from pymc_active.models.recipe import write_prior, write_scale
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.prior import RenewedPrior, scale_of_few
from pymc_active.spaces.space import Space, read_space
from pymc_active.support.data import Data
from pymc_active.support.labels import write_label
from pymc_active.support.scaling import EQUAL, Scale, fit_scale, renewed_scale
from pymc_active.support.tables import Bounds, input_labels, read_bounds, read_inputs, read_outputs

MEANS = ("constant", "linear", "zero")
# Parameters of the mean.
_OF_MEAN = ("mean_constant", "mean_slope")


class Blueprint(GPModel):
    """Base of the models that builders make; a subclass for each builder says what its kernel is.

    The PyMC model, fifty times slower to make than the array posterior to evaluate, is made on first use; at once only
    inside the user's ``pm.Model``, and for priors and mean functions that only PyMC can evaluate.
    """

    name = "y"
    # Mean and sd of the default prior of log_noise, and the x_scale for which the default priors are stated.
    noise_prior: tuple[float, float] = (np.log(0.1), 1.0)
    scaled_inputs = "box"
    # Whether the kernel knows labels in place of numbers.
    takes_labels = False
    # Sd of the default prior of a slope of the mean.
    slope_sd = 1.0

    def __init__(
        self, X: Any, y: Any, *, mean: Any, priors: Any, x_scale: Scale, y_scale: Scale, bounds: Bounds | None = None,
        y_sd: Any = None, likelihood: str = "normal", y_trials: Any = None, exposure: Any = None, space: Any = None,
    ):  # fmt: skip
        self.space = None if space is None else self._read_space(space, bounds)
        points = read_inputs(X, inputs=None if self.space is None else self.space.inputs)
        sizes = {"y_trials": y_trials, "exposure": exposure}
        self.likelihood, per_row = read_likelihood(likelihood, sizes, y_sd, len(points), X)
        # Copies, because the user's arrays may change before the PyMC model is made.
        self._data = Data(points, read_outputs(y, len(points), X), per_row).copy()
        self.check_outcomes(*self._data[1:])
        self.inputs = input_labels(X, points.shape[1], bounds) if self.space is None else self.space.inputs
        self.label = _label_of(y, self.inputs, *self._data[:2])
        if bounds is not None:
            self.box = read_bounds(bounds, points.shape[1], self.inputs)
            x_scale = self._within(*self.box) if x_scale is None else x_scale
        elif self.space is not None:
            self.box = self.space.limits
            default = self.space.scale if self.space.has_labels else self._within(*self.box)
            x_scale = default if x_scale is None else x_scale
        if self.box is not None and y_scale is None:
            if self.likelihood is None:
                y_scale = renewed_scale(self._data.y)
            else:
                y_scale = latent_scale(self.likelihood, *self._data[1:])
        if mean is None:
            mean = "zero" if self.box is None else "constant"
        self.x_map = fit_scale(x_scale, points, "x_scale")
        self.y_map = fit_scale(y_scale, self._data[1], "y_scale")
        priors = _with_known_noise(priors, float(self.y_map.scale))
        self.mean, self.priors = mean, _copy_arrays(priors)
        self._made: PyMCModel | None = None
        self._posterior: Posterior | None = None

        self.parameters = Parameters({"input": self.inputs}, self._by_parameter(priors))
        self._add_kernel_parameters()
        self._add_mean_parameters()
        of_noise = ("log_noise", *self.noise_prior)
        for own in [of_noise] if self.likelihood is None else self.likelihood.parameters:
            name, center, sd = of_noise if own[0] == "log_noise" else own
            self.parameters.add(name, center, sd)
            unit = self.y_map.scale if name == "log_noise" else 1.0
            self.parameters.add_exponential(name.removeprefix("log_"), name, unit)
        self.parameters.check_names()

        if self.y_map.is_renewed and not all(map(self.parameters.is_normal, self._free(self._on_y))):
            self.y_map = replace(self.y_map, is_renewed=False)
        self._is_plain = isinstance(mean, str) and all(map(self.parameters.is_normal, self.parameters.free))
        context = pm.Model.get_context(error_if_none=False)
        self._latent: tuple[pm.Model, pm.gp.Latent] | None = None
        if self.likelihood is not None:
            self._check_latent(context)
            context = None
        self._has_context = context is not None
        if context is not None or not self._is_plain:
            self._made = self._make(context)
            if not isinstance(mean, str):
                self._made.check_mean()

    def __getstate__(self) -> dict[str, Any]:
        """Without the PyMC model, which cannot be pickled and is made again, unless the user changed it."""
        if self._made is None or not self._is_plain or self._has_more:
            return self.__dict__ | {"_latent": None}
        return self.__dict__ | {"_data": self.data.copy(), "_made": None}

    def _read_space(self, space: Any, bounds: Any) -> Space:
        if bounds is not None:
            raise ValueError("a space has bounds of its own: pass either bounds or space")
        read = read_space(space)
        if read.has_labels and not self.takes_labels:
            raise ValueError(f"{self.builder} takes a space of numbers only: ard_gp has kernels for labels")
        return read

    def _check_latent(self, context: pm.Model | None) -> None:
        """Raise for what only a marginal Gaussian process, with normal outcomes, may have."""
        assert self.likelihood is not None
        of = f"with likelihood={self.likelihood.name!r}"
        if context is not None:
            raise ValueError(f"{of} a builder makes a PyMC model of its own, gpm.model: call it outside of pm.Model")
        if not isinstance(self.mean, str):
            raise ValueError(f"{of} mean must be one of {', '.join(MEANS)}; got {self.mean!r}")
        for name in self.parameters.free:
            if not self.parameters.is_normal(name):
                raise TypeError(f"{of} priors[{name!r}] must be normal, pm.Normal.dist(mean, sd), or a number")

    @property
    def outcomes(self) -> dict[str, Any]:
        """The builder's arguments that say what the outcomes are, with what is known of each row."""
        return {"likelihood": self.likelihood_name, **known_by_name(self.likelihood, self.data)}

    def _described(self, kernel: str) -> str:
        """The builder, what it was told of the kernel, and a likelihood that is not normal."""
        return f"{self.builder}({kernel}{'' if self.likelihood is None else f', {self.likelihood.name}'})"

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Arguments that only this builder has, as JSON values."""

    @property
    @abstractmethod
    def builder(self) -> str:
        """Name of the function that the user called."""

    @abstractmethod
    def _add_kernel_parameters(self) -> None:
        """Add the kernel's parameters; raise for arguments that do not fit the data."""

    @property
    @abstractmethod
    def outputscales(self) -> list[str]:
        """Names of the parameters that scale the covariance with the variance of y, one for each term."""

    @property
    def _on_y(self) -> list[str]:
        """Names of all parameters whose priors depend on the scale or the level of y."""
        return [name for name in (*self.outputscales, "log_noise", *_OF_MEAN) if name in self.parameters]

    def _free(self, names: Iterable[str]) -> list[str]:
        """Those that are not fixed, whose priors move with y."""
        free = set(self.parameters.free)
        return [name for name in names if name in free]

    def _within(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shift and scale that take a box to where the default priors are stated."""
        return (low, high - low) if self.scaled_inputs == "unit" else ((low + high) / 2, (high - low) / 2)

    def _renewed_priors(self, y: Any) -> dict[str, tuple[Any, Any]]:
        """Mean and sd by name of the priors of a PyMC model that are renewed when data are added; y is symbolic."""
        if not self.y_map.is_renewed:
            return {}
        scaled = self.y_map(y)
        larger, variance = scale_of_few(scaled.shape[0])
        varies, level = pt.gt(scaled.max() - scaled.min(), EQUAL), scaled.mean()
        scale = pt.switch(varies, scaled.std(ddof=1) * pt.exp(larger), 1.0)
        renewed = {}
        for name in self._free(self._on_y):
            mean, sd = self.parameters.normal(name)
            if name in _OF_MEAN:
                renewed[name] = scale * mean + (level if name == "mean_constant" else 0.0), scale * sd
            else:
                renewed[name] = mean + pt.log(scale), pt.sqrt(sd**2 + pt.switch(varies, variance, 0.0))
        return renewed

    @abstractmethod
    def covariance(self, variables: dict[str, Any]) -> pm.gp.cov.BaseCovariance:
        """The covariance function in the user's units, from the model's variables by name."""

    @abstractmethod
    def array_posterior(self, data: Data) -> ArrayPosterior:
        """The log posterior by arrays given data, if all priors are normal and the mean is known by name."""

    @property
    def kernel(self) -> Node | None:
        """The tree of kernels, if its terms may be exchangeable: a posterior by graphs needs it to find like terms."""
        return None

    def _by_parameter(self, priors: Any) -> Any:
        """The user's priors by the names of this model's parameters."""
        return priors

    @property
    def n_inputs(self) -> int:
        """D."""
        return len(self.inputs)

    def inputs_of(self, name: str) -> np.ndarray:
        """Positions of the inputs on which a parameter acts."""
        return np.arange(self.n_inputs)

    def on_user_inputs(self, cov: pm.gp.cov.BaseCovariance) -> pm.gp.cov.BaseCovariance:
        """A covariance of the scaled inputs as one of the user's."""
        return cov if self.x_map.is_identity else Rescaled(cov, self.x_map.shift, self.x_map.scale)

    def _array_keywords(self) -> dict[str, Any]:
        """What every array posterior is made of, besides data and kernel."""
        prior, parameters = self.parameters.gaussian_prior(), self.parameters
        of_mean = {name: parameters.positions(name) if name in parameters else np.empty(0, int) for name in _OF_MEAN}
        renewed = None
        if self.y_map.is_renewed:
            logs = np.array([parameters.position(name) for name in self._free((*self.outputscales, "log_noise"))], int)
            moving = [places if name in parameters.free else np.empty(0, int) for name, places in of_mean.items()]
            renewed = RenewedPrior(prior, logs, *moving)
        keywords = {
            "x_map": self.x_map,
            "y_map": self.y_map,
            "n_parameters": len(prior.mean),
            "constants": parameters.constants,
            "prior": prior,
            "mean_indices": np.concatenate(list(of_mean.values())),
            "renewed_prior": renewed,
            "mean_basis": partial(_mean_basis, self.mean),
        }
        if self.likelihood is None:
            return keywords | {"log_noise": parameters.position("log_noise")}
        # The function itself has no noise.
        constants = np.append(parameters.constants, -np.inf)
        return keywords | {
            "constants": constants,
            "log_noise": len(prior.mean) + len(constants) - 1,
            "likelihood": self.likelihood,
            "phi_indices": np.array([parameters.position(name) for name, *_ in self.likelihood.parameters], int),
        }

    @property
    def model(self):
        return super().model if self.likelihood is None else self._latent_model()[0]

    @property
    def gp(self):
        return super().gp if self.likelihood is None else self._latent_model()[1]

    def _latent_model(self) -> tuple[pm.Model, pm.gp.Latent]:
        if self._latent is None:
            self._latent = latent_model(self, self.name)
        return self._latent

    def make(self):
        if self.likelihood is not None:
            raise ValueError(f"graphs are of marginal Gaussian processes; this has likelihood={self.likelihood.name!r}")
        if self._made is None:
            self._made = self._make(None)
        return self._made

    def _make(self, model: pm.Model | None) -> PyMCModel:
        """Make the PyMC model of the current data, or add it to an existing one."""
        X, y, y_sd = self.data
        # A model context that is open when the model is first used is not its parent.
        model = pm.Model(model=None) if model is None else model
        with model:
            model.add_coord("obs", list(range(len(y))))
            for name, labels in self.parameters.coords.items():
                model.add_coord(name, list(labels))
            X_data = pm.Data("X", X, dims=("obs", "input"))
            y_data = pm.Data("y_data", y, dims="obs")
            errors = None if y_sd is None else pm.Data("y_sd", y_sd, dims="obs")
            variables = self.parameters.register(model, self._renewed_priors(y_data))
            mean = self.mean_function(variables)
            if (ndim := pt.as_tensor_variable(mean(X_data)).ndim) > 1:
                raise wrong_mean(f"{ndim} dimensions")
            gp = pm.gp.Marginal(mean_func=mean, cov_func=self.covariance(variables))
            noise = variables["noise"] if errors is None else MeasurementNoise(variables["noise"], X_data, errors)
            gp.marginal_likelihood("y", X_data, y_data, sigma=noise, jitter=0, dims="obs")
        return PyMCModel(model, gp, "y", X_data, y_data, self.inputs, y_sd_data=errors)

    @property
    def data(self):
        if self._made is not None:
            return self._made.data
        return Data(*(None if one is None else data_value(one) for one in self._data))

    def check_replaceable(self):
        if self._made is not None:
            self._made.check_replaceable()

    def _set_data(self, X, y, y_sd):
        self.check_outcomes(y, y_sd)
        made, data, self._latent = self._made, Data(X, y, y_sd), None
        # A PyMC model without error bars is made anew for the first ones, unless the user has a hand in it.
        is_ours = not self._has_context and not self._has_more
        if made is not None and (y_sd is None or made.y_sd_data is not None or not is_ours):
            made._set_data(*data)
            return
        self._data, self._made = data.copy(), None
        if made is not None and not self._is_plain:
            self._made = self._make(None)

    @property
    def _has_more(self) -> bool:
        """Whether the user added to the density of the PyMC model."""
        if self._made is None:
            return False
        model = self._made.model
        return bool(model.potentials) or len(model.observed_RVs) > 1 or self._made.free != self.parameters.free

    @property
    def _variables(self) -> Parameters | PyMCModel:
        """The side that knows all variables: the PyMC model's if the user added a Deterministic, too."""
        if self._made is None:
            return self.parameters
        names = [variable.name for variable in self._made.model.unobserved_RVs]
        return self.parameters if self._is_plain and names == self.parameters.names else self._made

    @property
    def shapes(self):
        return self._variables.shapes

    def constrain(self, thetas):
        return self._variables.constrain(thetas)

    def posterior(self, compile_kwargs=None):
        """By arrays; by PyTensor with ``compile_kwargs``, or if the PyMC model is more than arrays can evaluate."""
        if self._is_plain and not compile_kwargs and not self._has_more:
            if self._posterior is None:
                self._posterior = self.array_posterior(self.data)
                return self._posterior
            return self._posterior.with_data(*self.data)
        graph = self.make().posterior(compile_kwargs)
        if self.kernel is not None and not self._has_more:
            graph.kernel, graph.constants = self.kernel, self.parameters.constants
            graph.prior_kinds = self.parameters.prior_kinds
        return graph

    def unconstrain(self, values):
        if self.likelihood is None:
            return super().unconstrain(values)
        # Their priors are normal, so that they are their own unconstrained values.
        return np.concatenate([np.asarray(values[name]).reshape(len(values[name]), -1) for name in self.shapes], axis=1)

    def recipe(self):
        if self._has_more:
            raise ValueError("its PyMC model has more in it than the builder put there")
        if not isinstance(self.mean, str):
            raise ValueError(f"its mean is a {type(self.mean).__name__} object")
        priors = self.priors
        if isinstance(priors, dict):
            priors = {name: write_prior(name, prior) for name, prior in priors.items()}
        return {
            "builder": self.builder,
            "options": self.options,
            "mean": self.mean,
            "priors": priors,
            "inputs": [write_label(label) for label in self.inputs],
            "label": self.label,
            "x_scale": write_scale(self.x_map),
            "y_scale": write_scale(self.y_map),
            "is_renewed": self.y_map.is_renewed,
            "likelihood": self.likelihood_name,
            "box": None if self.box is None else [end.tolist() for end in self.box],
            "space": None if self.space is None else self.space.to_json(),
        }

    def _add_mean_parameters(self) -> None:
        if isinstance(self.mean, pm.gp.mean.Mean):
            return
        if self.mean not in MEANS:
            raise ValueError(f"mean must be one of {', '.join(MEANS)} or a pm.gp.mean.Mean; got {self.mean!r}")
        if self.mean != "zero":
            self.parameters.add("mean_constant", 0.0, 1.0)
            if not self.y_map.is_identity:
                self.parameters.add_in_original_units("mean_constant", self.y_map.scale, self.y_map.shift)
        if self.mean == "linear":
            self.parameters.add("mean_slope", 0.0, self.slope_sd, "input")
            if not (self.x_map.is_identity and self.y_map.is_identity):
                self.parameters.add_in_original_units("mean_slope", self.y_map.scale / self.x_map.scale)

    def mean_function(self, variables: dict[str, Any]) -> pm.gp.mean.Mean:
        """The mean function in the user's units, from the model's variables by name."""
        shift, scale = self.y_map.shift, self.y_map.scale
        if isinstance(self.mean, pm.gp.mean.Mean):
            return self.mean
        if self.mean == "zero":
            return pm.gp.mean.Zero() if self.y_map.is_identity else pm.gp.mean.Constant(float(shift))
        intercept = shift + scale * variables["mean_constant"]
        if self.mean == "constant":
            return pm.gp.mean.Constant(intercept)
        slope = scale * variables["mean_slope"] / self.x_map.scale
        return pm.gp.mean.Linear(slope, intercept - pt.dot(slope, self.x_map.shift))


def _label_of(y: Any, inputs: list, points: np.ndarray, values: np.ndarray) -> str | None:
    """The name of a Series. The name of an input, as of ``np.sin(table["x"])``, does not tell what y is."""
    name = y.columns[0] if isinstance(y, pd.DataFrame) else getattr(y, "name", None)
    if name in inputs and np.array_equal(points[:, inputs.index(name)], values):
        raise ValueError(f"{name} is y, and it is a column of X as well: leave it out, X.drop(columns={name!r})")
    return name if isinstance(y, pd.Series) and isinstance(name, str) and name not in inputs else None


def _with_known_noise(priors: Any, scale: float) -> Any:
    """Priors with a known ``noise``, in units of y, as a fixed ``log_noise``."""
    if not isinstance(priors, Mapping) or "noise" not in priors:
        return priors
    given = priors["noise"]
    noise = float(given) if isinstance(given, int | float | np.number) else np.nan
    if not 0 < noise < np.inf:
        raise ValueError(f"priors['noise'] is the known noise: an sd in units of y, a positive number; got {given!r}")
    if "log_noise" in priors:
        raise ValueError("priors has both noise and log_noise, which are the same: leave one out")
    rest = {name: prior for name, prior in priors.items() if name != "noise"}
    return rest | {"log_noise": float(np.log(noise / scale))}


def _copy_arrays(priors: Any) -> Any:
    if not isinstance(priors, Mapping):
        return priors
    return {name: prior.copy() if isinstance(prior, np.ndarray) else prior for name, prior in priors.items()}


def _mean_basis(mean: str, X: np.ndarray) -> np.ndarray:
    """Functions (n, 0), (n, 1) or (n, 1 + D) whose combinations are the mean."""
    functions = {"zero": [], "constant": [np.ones(len(X))], "linear": [np.ones(len(X)), X]}
    return np.column_stack([np.empty((len(X), 0)), *functions[mean]])
