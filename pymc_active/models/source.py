"""Where a model comes from: a builder's blueprint, or a PyMC model that the user wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_active.kernels.expressions import Expression
from pymc_active.posterior.base import Posterior
from pymc_active.support.scaling import Affine

if TYPE_CHECKING:
    from pymc_active.models.pymc_source import PyMCSource


class ModelSource(ABC):
    """What a :class:`GPModel` is made of. Data are checked before they arrive here, and are in the user's units.

    Attributes
    ----------
    name, description, inputs, x_map, y_map, embedding, expression
        See :class:`GPModel`.
    """

    name: str
    inputs: list
    x_map: Affine
    y_map: Affine
    expression: Expression | None = None

    @property
    @abstractmethod
    def description(self) -> str:
        """The builder and its options, or the name of the likelihood."""

    @property
    def embedding(self) -> str | None:
        """Name of the embedding matrix among the value variables, if the kernel has one."""
        return None

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """Whether the PyMC model exists already."""

    @abstractmethod
    def make(self) -> PyMCSource:
        """The PyMC model with its GP and its data, made on the first call."""

    @property
    @abstractmethod
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """X (n, D) and y (n,) as they are now; not writeable."""

    @abstractmethod
    def set_data(self, X: np.ndarray, y: np.ndarray) -> None:
        """Replace the data."""

    @property
    @abstractmethod
    def free(self) -> list[str]:
        """Names of the free parameters."""

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the unconstrained value variables, in the order of theta."""

    @abstractmethod
    def constrain(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """Free variables and Deterministics (S, ...) for each row of thetas (S, P)."""

    @abstractmethod
    def posterior(self, compile_kwargs: dict | None = None) -> Posterior:
        """The log posterior given the current data."""

    def recipe(self) -> dict[str, Any]:
        """See :meth:`GPModel.recipe`."""
        raise ValueError("no builder made it")

    def with_expression(self, expression: Expression) -> ModelSource:
        """See :meth:`GPModel.with_expression`."""
        raise ValueError(f"only models made by composite_gp have a kernel expression; this is {self.description}")
