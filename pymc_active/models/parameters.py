"""The parameters of a builder's model: their priors, their places in theta, and the variables they become in PyMC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from scipy.special import ndtri

from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.prior import GaussianPrior

Priors = dict[str, Any] | None
# Draws that show the quantiles of a prior.
_DRAWS = 200


@dataclass(frozen=True)
class _Parameter:
    """A parameter: normal (mean, sd), the user's distribution (its constants ``folded``), or fixed at a value."""

    shape: tuple[int, ...]
    dims: tuple[str, ...]
    folded: tuple = ()
    prior: TensorVariable | None = None
    value: np.ndarray | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def normal(self) -> tuple[Any, Any] | None:
        """Mean and sd of a plain normal prior."""
        return self.folded[1:] if self.folded and self.folded[0] == NormalRV.name else None


class Parameters:
    """Parameters in order. The vector (theta, constants) holds the free ones, then those that the user fixed.

    ``coords`` has labels by dimension; ``priors`` a distribution, or a number that fixes the parameter, by name.
    """

    def __init__(self, coords: dict[str, Sequence], priors: Priors):
        if not isinstance(priors, Mapping | None):
            raise TypeError(f"priors must be a dict, name -> distribution or number; got {priors!r}")
        self.coords, self.priors = coords, dict(priors or {})
        self._parameters: dict[str, _Parameter] = {}
        # Deterministics: name -> parameter, factor, shift, and whether the parameter is exponentiated.
        self._derived: dict[str, tuple[str, Any, Any, bool]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def add(self, name: str, mean: Any, sd: Any, *dims: str) -> None:
        """A parameter with the user's prior or fixed value; by default its prior is Normal(mean, sd)."""
        shape = tuple(len(self.coords[dim]) for dim in dims)
        if name not in self.priors:
            self._parameters[name] = _Parameter(shape, dims, (NormalRV.name, np.array(mean), np.array(sd)))
            return
        prior = self.priors[name]
        if isinstance(prior, Real | np.ndarray):
            value = np.asarray(prior, float)
            if value.shape not in ((), shape) or not np.isfinite(value).all():
                raise ValueError(f"the fixed value of {name} must be finite with shape {shape}; got {prior!r}")
            self._parameters[name] = _Parameter(shape, dims, value=np.broadcast_to(value, shape).copy())
        elif isinstance(prior, TensorVariable) and hasattr(prior.owner, "op"):
            self._parameters[name] = _with_prior(name, prior, shape, dims)
        else:
            raise TypeError(f"priors[{name!r}] must be a distribution (pm.Normal.dist) or a number; got {prior!r}")

    def add_exponential(self, name: str, source: str, unit: Any) -> None:
        """A Deterministic: exp(source) in the user's unit."""
        self._derived[name] = source, unit, 0.0, True

    def add_in_original_units(self, source: str, factor: Any, shift: Any = 0.0) -> None:
        """A Deterministic: shift + factor * parameter, the parameter in the user's units."""
        self._derived[f"{source}_original_units"] = source, factor, shift, False

    def check_names(self) -> None:
        """Raise a ValueError for priors of parameters that the model does not have."""
        unknown = sorted(set(self.priors) - set(self._parameters))
        if unknown:
            expected = ", ".join(sorted(self._parameters))
            raise ValueError(f"priors for unknown parameters: {', '.join(unknown)}; this model has {expected}")

    def is_normal(self, name: str) -> bool:
        """Whether the parameter is free, with a plain normal prior."""
        return self._parameters[name].normal is not None

    def normal(self, name: str) -> tuple[Any, Any]:
        """Mean and sd of a parameter whose prior is plainly normal."""
        prior = self._parameters[name].normal
        assert prior is not None
        return prior

    def quantile(self, name: str, probability: float) -> np.ndarray | None:
        """The user's fixed value of a parameter, or a quantile of the user's prior; None where none can be drawn."""
        parameter = self._parameters[name]
        if parameter.value is not None:
            return parameter.value
        if parameter.normal is not None:
            return np.asarray(parameter.normal[0] + parameter.normal[1] * ndtri(probability))
        try:
            return np.quantile(pm.draw(parameter.prior, _DRAWS, random_seed=0, mode=vm_mode()), probability, axis=0)
        except NotImplementedError:  # of pm.Flat, say
            return None

    @property
    def has_defaults(self) -> bool:
        """Whether any parameter has its default prior."""
        return any(name not in self.priors for name in self._parameters)

    @property
    def free(self) -> list[str]:
        """Names of the free parameters, in the order of theta."""
        return [name for name, p in self._parameters.items() if p.value is None]

    @property
    def names(self) -> list[str]:
        """Names of everything that :meth:`constrain` returns."""
        return [*self.free, *self._derived]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the free parameters."""
        return {name: self._parameters[name].shape for name in self.free}

    def positions(self, name: str) -> np.ndarray:
        """Where a parameter sits in (theta, constants)."""
        start = 0
        for other, p in sorted(self._parameters.items(), key=lambda item: item[1].value is not None):
            if other == name:
                return np.arange(start, start + p.size)
            start += p.size
        raise KeyError(name)

    def position(self, name: str) -> int:
        """Where a scalar parameter sits in (theta, constants)."""
        return int(self.positions(name)[0])

    @property
    def constants(self) -> np.ndarray:
        """The fixed values."""
        fixed = [p.value.ravel() for p in self._parameters.values() if p.value is not None]
        return np.concatenate([np.empty(0), *fixed])

    def gaussian_prior(self) -> GaussianPrior:
        """The prior of theta, if every free parameter has a plain normal prior."""
        free = [(p.shape, p.normal) for p in self._parameters.values() if p.normal is not None]
        mean, sd = (
            np.concatenate([np.empty(0), *(np.broadcast_to(normal[part], shape).ravel() for shape, normal in free)])
            for part in (0, 1)
        )
        return GaussianPrior(mean, sd)

    @property
    def prior_kinds(self) -> list[tuple]:
        """What distinguishes the prior of each entry of theta from all others."""
        kinds: list[tuple] = []
        for name in self.free:
            p = self._parameters[name]
            values = [np.broadcast_to(value, p.shape).ravel().tolist() for value in p.folded]
            # A prior whose parameters are not constants equals no other.
            kinds += zip(*values, strict=True) if values else [(name,)] * p.size
        return kinds

    def constrain(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """Free parameters and Deterministics (S, ...) for each row of thetas (S, P), as the PyMC model has them."""
        thetas = np.asarray(thetas)
        S, constants = len(thetas), self.constants
        full = np.concatenate([thetas, np.broadcast_to(constants, (S, len(constants)))], axis=1)
        values = {name: full[:, self.positions(name)].reshape(S, *p.shape) for name, p in self._parameters.items()}
        derived = {
            name: (np.exp(values[source]) if is_exponential else values[source]) * factor + shift
            for name, (source, factor, shift, is_exponential) in self._derived.items()
        }
        return {name: values[name] for name in self.free} | derived

    def register(self, model: pm.Model, renewed: Mapping[str, tuple[Any, Any]] | None = None) -> dict[str, Any]:
        """Add parameters and Deterministics to the model that is the context; everything by name, constants too.

        ``renewed`` has normal priors, (mean, sd), in place of those stated.
        """
        renewed = renewed or {}
        variables = {name: _register(model, name, p, renewed.get(name)) for name, p in self._parameters.items()}
        for name, (source, factor, shift, is_exponential) in self._derived.items():
            value = pt.exp(variables[source]) if is_exponential else variables[source]
            value = pt.as_tensor_variable(value * factor + shift)
            variables[name] = pm.Deterministic(name, value, dims=self._parameters[source].dims or None)
        return variables


def _with_prior(name: str, prior: TensorVariable, shape: tuple[int, ...], dims: tuple[str, ...]) -> _Parameter:
    if prior.type.ndim == 0 and shape:
        prior = change_dist_size(prior, shape)
    own_shape = prior.type.shape
    if len(own_shape) != len(shape) or any(known not in (None, n) for known, n in zip(own_shape, shape, strict=True)):
        raise ValueError(f"the prior of {name} must be scalar or of shape {shape}; got {own_shape}")
    if not np.issubdtype(prior.type.dtype, np.floating):
        raise ValueError(f"a Laplace approximation needs continuous parameters; the prior of {name} is discrete")
    folded, op = (), prior.owner.op
    if isinstance(op, RandomVariable) and op.ndim_supp == 0:
        try:
            folded = (op.name, *constant_fold(op.dist_params(prior.owner)))
        except NotConstantValueError:
            pass  # a hierarchical prior, which PyTensor evaluates
    return _Parameter(shape, dims, folded, prior)


def _register(model: pm.Model, name: str, parameter: _Parameter, renewed: tuple[Any, Any] | None) -> Any:
    if parameter.value is not None:
        return parameter.value
    if parameter.prior is not None and renewed is None:
        return model.register_rv(parameter.prior, name, dims=parameter.dims or None)
    mean, sd = renewed or parameter.normal or (0.0, 1.0)
    return pm.Normal(name, mean, sd, shape=parameter.shape, dims=parameter.dims or None)
