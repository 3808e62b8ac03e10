"""What a builder's model will be: parameters, priors and data, from which the PyMC model is made on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold
from pytensor.tensor.random.basic import NormalRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_active.kernels.arrays import Node
from pymc_active.kernels.expressions import Expression
from pymc_active.models.gpmodel import GPModel, Made
from pymc_active.models.marginal import graph_posterior
from pymc_active.models.recipe import Recipe
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.prior import GaussianPrior
from pymc_active.support.scaling import Affine, Scale, fit_scale
from pymc_active.support.tables import input_labels, read_inputs, read_outputs
from pymc_active.support.user_warnings import ScaleWarning, warn_user

MEANS = ("constant", "linear", "zero")

Priors = dict[str, Any] | None


@dataclass(frozen=True)
class Parameter:
    """A parameter with a plain normal prior (mean, sd), a distribution of the user's, or fixed at a value.

    ``folded`` are a distribution's name and parameters where these are constants.
    """

    shape: tuple[int, ...]
    dims: tuple[str, ...]
    folded: tuple = ()
    prior: TensorVariable | None = None
    value: np.ndarray | None = None

    @property
    def normal(self) -> tuple[Any, Any] | None:
        """Mean and sd of a plain normal prior."""
        return self.folded[1:] if self.folded and self.folded[0] == NormalRV.name else None


@dataclass(frozen=True)
class _Derived:
    """A Deterministic: the parameter ``source``, or its exponential, times a factor."""

    source: str
    factor: Any
    is_exponential: bool


class ModelPlan:
    """The parameters of a model in order, where each sits in theta, and how to make the PyMC model.

    Making a PyMC model takes fifty times as long as evaluating the posterior by arrays, which needs only what is
    written down here. So it is made when somebody asks for it, and at once where that could matter: inside the user's
    ``pm.Model``, or with priors or a mean function that are left to PyMC.
    """

    def __init__(self, X: Any, y: Any, priors: Priors, x_scale: Scale, y_scale: Scale):
        # Copies, for the user's arrays may change before the PyMC model is made.
        self.X = read_inputs(X).copy()
        self.y = read_outputs(y, len(self.X), X).copy()
        self.inputs = input_labels(X, self.X.shape[1])
        self.n_inputs = self.X.shape[1]
        self.x_map = fit_scale(x_scale, self.X, "x_scale")
        self.y_map = fit_scale(y_scale, self.y, "y_scale")
        self.coords: dict[str, Sequence] = {"input": self.inputs}
        if not isinstance(priors, Mapping | None):
            raise TypeError(f"priors must be a dict, name -> distribution or number; got {priors!r}")
        self.priors = dict(priors or {})
        self.parameters: dict[str, Parameter] = {}
        self._derived: dict[str, _Derived] = {}

    def parameter(self, name: str, mean: Any, sd: Any, *dims: str) -> None:
        """A parameter with its default Normal(mean, sd) prior, the user's prior, or the user's fixed value."""
        shape = tuple(len(self.coords[dim]) for dim in dims)
        if name not in self.priors:
            self.parameters[name] = Parameter(shape, dims, (NormalRV.name, np.array(mean), np.array(sd)))
            return
        prior = self.priors[name]
        if isinstance(prior, Real | np.ndarray):
            value = np.asarray(prior, float)
            if value.shape not in ((), shape) or not np.isfinite(value).all():
                raise ValueError(f"the fixed value of {name} must be finite with shape {shape}; got {prior!r}")
            self.parameters[name] = Parameter(shape, dims, value=np.broadcast_to(value, shape).copy())
        elif isinstance(prior, TensorVariable) and hasattr(prior.owner, "op"):
            self.parameters[name] = _with_prior(name, prior, shape, dims)
        else:
            raise TypeError(
                f"priors[{name!r}] must be a distribution such as pm.Normal.dist(0, 1), or a number that fixes the "
                f"parameter; got {prior!r}"
            )

    def exponential(self, name: str, source: str, unit: Any) -> None:
        """A Deterministic, exp(source) in the user's unit."""
        self._derived[name] = _Derived(source, unit, is_exponential=True)

    def rescaled(self, name: str, source: str, factor: Any) -> None:
        """A Deterministic, a parameter times a factor."""
        self._derived[name] = _Derived(source, factor, is_exponential=False)

    def is_fixed(self, name: str) -> bool:
        """Whether the user gave a number."""
        return self.parameters[name].value is not None

    @property
    def free(self) -> list[str]:
        """Names of the free parameters, in the order of theta."""
        return [name for name in self.parameters if not self.is_fixed(name)]

    @property
    def names(self) -> list[str]:
        """Names of what :meth:`constrain` gives."""
        return [*self.free, *self._derived]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the free parameters."""
        return {name: self.parameters[name].shape for name in self.free}

    def positions(self, name: str) -> np.ndarray:
        """Where a parameter sits in (theta, fixed values)."""
        start = 0
        for other in [*self.free, *(n for n in self.parameters if self.is_fixed(n))]:
            size = int(np.prod(self.parameters[other].shape, dtype=int))
            if other == name:
                return np.arange(start, start + size)
            start += size
        raise KeyError(name)

    def position(self, name: str) -> int:
        """Where a scalar parameter sits in (theta, fixed values)."""
        return int(self.positions(name)[0])

    @property
    def constants(self) -> np.ndarray:
        """The fixed values, behind theta."""
        values = [p.value.ravel() for p in self.parameters.values() if p.value is not None]
        return np.concatenate(values) if values else np.empty(0)

    def check_priors(self) -> None:
        """Raise a ValueError for priors of parameters that the model does not have."""
        unknown = sorted(set(self.priors) - set(self.parameters))
        if unknown:
            raise ValueError(
                f"priors for unknown parameters: {', '.join(unknown)}; "
                f"this model has {', '.join(sorted(self.parameters))}"
            )

    def gaussian_prior(self) -> GaussianPrior:
        """Of the free parameters, all of which have plain normal priors."""
        free = [(p.shape, p.normal) for p in self.parameters.values() if p.normal is not None]
        mean, sd = (
            np.array([number for shape, normal in free for number in np.broadcast_to(normal[part], shape).flat], float)
            for part in (0, 1)
        )
        return GaussianPrior(mean, sd)

    @property
    def _prior_kinds(self) -> list[tuple]:
        kinds: list[tuple] = []
        for name in self.free:
            p = self.parameters[name]
            values = [np.broadcast_to(value, p.shape).ravel().tolist() for value in p.folded]
            # What could not be folded is like nothing else.
            kinds += zip(*values, strict=True) if values else [(name,)] * int(np.prod(p.shape, dtype=int))
        return kinds

    def constrain(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """Free parameters and Deterministics for each of S thetas, (S, ...) each, as the PyMC model has them."""
        S, constants = len(thetas), self.constants
        full = np.concatenate([thetas, np.broadcast_to(constants, (S, len(constants)))], axis=1)
        values = {name: full[:, self.positions(name)].reshape(S, *p.shape) for name, p in self.parameters.items()}
        derived = {
            name: (np.exp(values[d.source]) if d.is_exponential else values[d.source]) * d.factor
            for name, d in self._derived.items()
        }
        return {name: values[name] for name in self.free} | derived

    def recipe(self, builder: str, mean: str | pm.gp.mean.Mean, priors: Any, **options: Any) -> Recipe:
        """How a builder was called, with priors as the user gave them and options of its own as JSON values."""
        if isinstance(priors, Mapping):
            priors = {name: p.copy() if isinstance(p, np.ndarray) else p for name, p in priors.items()}
        return Recipe(builder, options, mean, priors, self.inputs, self.x_map, self.y_map)

    def finish(
        self,
        covariance: Callable[[dict[str, Any]], pm.gp.cov.BaseCovariance],
        mean: str | pm.gp.mean.Mean,
        kernel_posterior: Callable[..., Posterior],
        description: str,
        recipe: Recipe,
        *,
        noise: tuple[float, float] = (np.log(0.1), 1.0),
        scaled_inputs: str = "box",
        embedding: str | None = None,
        expression: Expression | None = None,
        kernel: Callable[[], Node] | None = None,
        rebuild: Callable[[GPModel, Expression], GPModel] | None = None,
    ) -> GPModel:
        """Add the mean and the noise, and wrap everything up.

        Parameters
        ----------
        covariance : callable
            From the model's variables by name to its covariance function, in the user's units.
        mean : {"zero", "constant", "linear"} or pm.gp.mean.Mean
        kernel_posterior : callable
            Makes the array posterior from the keywords of :class:`ArrayPosterior`.
        description : str
        recipe : Recipe
        noise : tuple
            Mean and sd of the default prior of ``log_noise``.
        scaled_inputs : {"box", "unit", "standardize"}
            The ``x_scale`` for which the default priors are stated.
        embedding : str, optional
            The parameter that is an embedding matrix.
        expression : Expression, optional
        kernel : callable, optional
            Makes the tree of kernels, by which the graph route too knows like terms.
        rebuild : callable, optional
            Makes the same model with another expression.
        """
        self._add_mean(mean)
        self.parameter("log_noise", *noise)
        self.exponential("noise", "log_noise", self.y_map.scale)
        self.check_priors()
        if any(name not in self.priors for name in self.parameters):
            _warn_about_units(self.X, self.y, self.x_map, self.y_map, scaled_inputs)

        self._covariance, self._mean = covariance, mean

        def build_posterior(gpm: GPModel, compile_kwargs: dict | None) -> Posterior:
            has_more = gpm.is_made and self._has_more(gpm.model)
            # Compile arguments ask for PyTensor; anything but plain normal priors needs it.
            if not (compile_kwargs or has_more) and is_plain:
                return self._array_posterior(gpm, kernel_posterior)
            graph = graph_posterior(gpm, compile_kwargs)
            if kernel is not None and not has_more:
                graph.kernel, graph.constants, graph.prior_kinds = kernel(), self.constants, self._prior_kinds
            return graph

        def write_recipe(gpm: GPModel) -> dict[str, Any]:
            if gpm.is_made and self._has_more(gpm.model):
                raise ValueError("its PyMC model has more in it than the builder put there")
            return recipe.to_json()

        is_plain = isinstance(mean, str) and all(self.parameters[name].normal for name in self.free)
        context = pm.Model.get_context(error_if_none=False)
        model = gp = None
        X_data, y_data = self.X, self.y
        if context is not None or not is_plain:
            model, gp, X_data, y_data = self.make(self.X, self.y, context)
        return GPModel(
            model,
            gp,
            "y",
            X_data=X_data,
            y_data=y_data,
            inputs=self.inputs,
            x_map=self.x_map,
            y_map=self.y_map,
            build_posterior=build_posterior,
            embedding=embedding if embedding and self.parameters[embedding].normal else None,
            description=description,
            expression=expression,
            rebuild=rebuild,
            plan=self if is_plain else None,
            write_recipe=write_recipe,
        )

    def make(self, X: np.ndarray, y: np.ndarray, model: pm.Model | None = None) -> Made:
        """Make the PyMC model of these data, or add it to one that is there."""
        # Whoever asks first may stand in another model's context, which is no parent.
        model = pm.Model(model=None) if model is None else model
        with model:
            model.add_coord("obs", list(range(len(y))))
            for name, labels in self.coords.items():
                model.add_coord(name, list(labels))
            X_data = pm.Data("X", X, dims=("obs", "input"))
            y_data = pm.Data("y_data", y, dims="obs")
            variables = self.add_variables(model)
            gp = pm.gp.Marginal(mean_func=self._mean_function(variables), cov_func=self._covariance(variables))
            gp.marginal_likelihood("y", X_data, y_data, sigma=variables["noise"], jitter=0, dims="obs")
        return Made(model, gp, X_data, y_data)

    def add_variables(self, model: pm.Model) -> dict[str, Any]:
        """Add parameters and Deterministics to the model that is the context; all by name, fixed values among them."""
        variables = {name: _register(model, name, p) for name, p in self.parameters.items()}
        for name, d in self._derived.items():
            value = pt.exp(variables[d.source]) if d.is_exponential else variables[d.source]
            dims = self.parameters[d.source].dims
            variables[name] = pm.Deterministic(name, value * d.factor, dims=dims or None)
        return variables

    def _has_more(self, model: pm.Model) -> bool:
        """Whether the user added what counts to the model."""
        names = [variable.name for variable in model.free_RVs]
        return bool(model.potentials) or len(model.observed_RVs) > 1 or names != self.free

    def _add_mean(self, mean: str | pm.gp.mean.Mean) -> None:
        if isinstance(mean, pm.gp.mean.Mean):
            return
        if mean not in MEANS:
            raise ValueError(f"mean must be one of {', '.join(MEANS)} or a pm.gp.mean.Mean; got {mean!r}")
        if mean != "zero":
            self.parameter("mean_constant", 0.0, 1.0)
        if mean == "linear":
            self.parameter("mean_slope", 0.0, 1.0, "input")

    def _mean_function(self, variables: dict[str, Any]) -> pm.gp.mean.Mean:
        shift, scale = self.y_map.shift, self.y_map.scale
        if isinstance(self._mean, pm.gp.mean.Mean):
            return self._mean
        if self._mean == "zero":
            return pm.gp.mean.Zero() if self.y_map.is_identity else pm.gp.mean.Constant(float(shift))
        intercept = shift + scale * variables["mean_constant"]
        if self._mean == "constant":
            return pm.gp.mean.Constant(intercept)
        slope = scale * variables["mean_slope"] / self.x_map.scale
        return pm.gp.mean.Linear(slope, intercept - pt.dot(slope, self.x_map.shift))

    def _array_posterior(self, gpm: GPModel, kernel_posterior: Callable[..., Posterior]) -> Posterior:
        prior = self.gaussian_prior()
        names = [name for name in ("mean_constant", "mean_slope") if name in self.parameters]
        basis = {"zero": _no_basis, "constant": _constant_basis, "linear": _linear_basis}[str(self._mean)]
        return kernel_posterior(
            X=gpm.X,
            y=gpm.y,
            x_map=self.x_map,
            y_map=self.y_map,
            n_parameters=len(prior.mean),
            constants=self.constants,
            prior=prior,
            log_noise=self.position("log_noise"),
            mean_indices=np.concatenate([self.positions(n) for n in names]).astype(int) if names else np.empty(0, int),
            mean_basis=basis,
        )


def _with_prior(name: str, prior: TensorVariable, shape: tuple[int, ...], dims: tuple[str, ...]) -> Parameter:
    if prior.type.ndim == 0 and shape:
        prior = change_dist_size(prior, shape)
    if prior.type.ndim != len(shape) or any(
        static not in (None, size) for static, size in zip(prior.type.shape, shape, strict=False)
    ):
        raise ValueError(f"the prior of {name} must be scalar or of shape {shape}; got {prior.type.shape}")
    if not np.issubdtype(prior.type.dtype, np.floating):
        raise ValueError(f"a Laplace approximation needs continuous parameters; the prior of {name} is discrete")
    folded, op = (), prior.owner.op
    if isinstance(op, RandomVariable) and op.ndim_supp == 0:
        try:
            folded = (op.name, *constant_fold(op.dist_params(prior.owner)))
        except NotConstantValueError:
            pass  # a hierarchical prior: the graph route takes it
    return Parameter(shape, dims, folded, prior)


def _register(model: pm.Model, name: str, parameter: Parameter) -> Any:
    if parameter.value is not None:
        return parameter.value
    if parameter.prior is not None:
        return model.register_rv(parameter.prior, name, dims=parameter.dims or None)
    mean, sd = parameter.normal or (0.0, 1.0)
    return pm.Normal(name, mean, sd, shape=parameter.shape, dims=parameter.dims or None)


def _no_basis(X: np.ndarray) -> np.ndarray:
    return np.empty((len(X), 0))


def _constant_basis(X: np.ndarray) -> np.ndarray:
    return np.ones((len(X), 1))


def _linear_basis(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def _warn_about_units(X: np.ndarray, y: np.ndarray, x_map: Affine, y_map: Affine, scaled_inputs: str) -> None:
    """Warn once where the default priors, stated for scaled data, cannot be meant for these."""
    problems = []
    for what, values, remedy in (
        ("X", x_map(X), f"x_scale={scaled_inputs!r}"),
        ("y", y_map(y)[:, None], "y_scale='standardize'"),
    ):
        if len(values) < 3:
            continue
        size = np.abs(values).max(0)
        # Years, pascals or counts; or values that are all tiny beside the priors' unit.
        strange = (size > 100) | (0 < size.max() < 0.01)
        if strange.any():
            problems.append(f"{remedy} ({what} reaches {size.max():.3g})")
    if problems:
        warn_user(
            "the default priors are meant for data of about unit scale around zero, and these are not: pass "
            + " and ".join(problems)
            + ", or priors of your own",
            ScaleWarning,
        )
