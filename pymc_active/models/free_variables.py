"""The free variables of a model: shapes, the way to the unconstrained space, draws from the prior and its densities."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.pytensorf import collect_default_updates, reseed_rngs
from pytensor.graph.replace import clone_replace

from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.compile_mode import may_round, vm_mode
from pymc_active.posterior.prior import GaussianPrior


def function(inputs: list, outputs: list) -> Callable:
    """Compile without JIT."""
    rounds = may_round()
    return pytensor.function(inputs, outputs, mode=vm_mode(), on_unused_input="ignore", allow_input_downcast=rounds)


def is_drawn(rv: Any) -> bool:
    """Whether a variable can be drawn from its prior, unlike pm.Flat and a pm.CustomDist with nothing but logp."""
    made = getattr(getattr(rv.owner.op, "_random_fn", None), "__qualname__", "")
    return rv.owner.op.name not in ("flat", "half_flat") and not made.startswith("default_not_implemented")


class FreeVariables:
    """What a model with a ``pm.Model`` inherits."""

    model: pm.Model
    # Names of free variables that are no parameters: the values of a latent function.
    integrated: Set[str] = frozenset()

    @cached_property
    def free_variables(self) -> list[Any]:
        """The free variables that are parameters; what is added to the model later is none."""
        return [variable for variable in self.model.free_RVs if variable.name not in self.integrated]

    @property
    def value_variables(self) -> list[Any]:
        """Their unconstrained values."""
        return [self.model.rvs_to_values[variable] for variable in self.free_variables]

    @cached_property
    def shapes(self):
        shapes = {variable.name: variable.type.shape for variable in self.value_variables}
        if any(None in shape for shape in shapes.values()):
            # Dims that come from coordinates leave no static shapes; PyMC compiles to find them.
            shapes = {name: np.shape(self.model.initial_point()[name]) for name in shapes}
        return shapes

    def unconstrain(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Theta (S, P) from draws of the free variables in the user's space, of shape (S, ...) each."""
        rvs, transforms = self.free_variables, self.model.rvs_to_transforms
        if not any(transforms[rv] is not None for rv in rvs):
            return np.concatenate([values[rv.name].reshape(len(values[rv.name]), -1) for rv in rvs], axis=1)
        rows = [self._unconstrain(*row) for row in zip(*(values[rv.name] for rv in rvs), strict=True)]
        return np.stack([np.concatenate([np.ravel(part) for part in row]) for row in rows])

    @cached_property
    def _unconstrain(self) -> Callable:
        transforms = self.model.rvs_to_transforms
        inputs = {rv: rv.type(name=rv.name) for rv in self.free_variables}
        outputs = [
            value if transforms[rv] is None else transforms[rv].forward(value, *rv.owner.inputs)
            for rv, value in inputs.items()
        ]
        unconstrained = clone_replace(outputs, inputs)
        return function(list(inputs.values()), unconstrained)

    def draw_prior(self, draws: int, random_seed: int) -> dict[str, np.ndarray]:
        """Draws (draws, ...) of the free variables by name, as ``pm.draw`` makes them, which compiles at each call."""
        function, generators = self._prior
        reseed_rngs(generators, random_seed)
        drawn = zip(*(function() for _ in range(draws)), strict=True)
        return dict(zip([variable.name for variable in self.free_variables], map(np.stack, drawn), strict=True))

    @cached_property
    def _prior(self) -> tuple[Callable, list]:
        """A function that draws the free variables once, and its random generators."""
        variables = self.free_variables
        updates = collect_default_updates(inputs=[], outputs=variables)
        # Copies of the generators would take most of the time.
        mode = vm_mode().including("random_make_inplace")
        return pytensor.function([], variables, updates=updates, mode=mode), list(updates)


def draw_prior(gpm: GPModel, posterior: Posterior, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Unconstrained draws (draws, P') for a posterior of this model; a ValueError for a prior that has none."""
    prior: Any = getattr(posterior, "prior", None)
    if isinstance(prior, GaussianPrior):
        return prior.mean + prior.sd * rng.normal(size=(draws, len(prior.mean)))
    check_prior(gpm)
    return gpm.unconstrain(gpm.draw_prior(draws, int(rng.integers(2**31))))


def log_prior_by_variable(gpm: GPModel, posterior: Any, thetas: np.ndarray) -> dict[str, np.ndarray]:
    """Log prior density (S,) of each free variable at thetas (S, P), in the user's space, summed over its entries."""
    if isinstance(getattr(posterior, "prior", None), GaussianPrior):
        entries = gpm.unflatten(posterior.prior.entries(thetas))
        return {name: values.reshape(len(thetas), -1).sum(1) for name, values in entries.items()}
    terms = posterior.log_prior_terms(thetas)
    return {name: terms[:, i] for i, name in enumerate(gpm.free)}


def obstacles(gpm: GPModel) -> list[str]:
    """Names of what keeps the prior of a model from being drawn from."""
    if isinstance(getattr(gpm.posterior(), "prior", None), GaussianPrior):
        return []
    model = gpm.model
    flat = [rv for rv in model.free_RVs if not is_drawn(rv)]
    others = [*flat, *model.potentials, *(rv for rv in model.observed_RVs if rv.name != gpm.name)]
    return [str(variable.name) for variable in others]


def check_prior(gpm: GPModel) -> None:
    """Raise a ValueError if the prior of a model cannot be drawn from."""
    if others := obstacles(gpm):
        raise ValueError(f"the prior cannot be drawn from, because of {', '.join(others)}: use method='laplace'")
