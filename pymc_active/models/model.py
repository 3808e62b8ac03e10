"""What every model has: data, and unconstrained parameters with a posterior given these."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Any

import numpy as np
import pymc as pm

from pymc_active.kernels.expressions import Expression
from pymc_active.likelihoods.base import Likelihood
from pymc_active.spaces.space import Space
from pymc_active.support.data import Data, OfData
from pymc_active.support.summaries import Summarized
from pymc_active.support.tables import read_error_bars


class Model(Summarized, OfData, ABC):
    """A PyMC model, its data, and its posterior over unconstrained parameters theta (P,)."""

    # Names of the outcome in ``model``, and of the D inputs.
    name: str
    inputs: list
    expression: Expression | None = None
    likelihood: Likelihood | None = None
    # Names of the Deterministics with a value for each observation.
    of_rows: Set[str] = frozenset()
    box: tuple[np.ndarray, np.ndarray] | None = None
    # That of the user's tables, whose columns are the inputs, if a builder was given one.
    space: Space | None = None
    # What the user calls y, if that is known.
    label: str | None = None
    # How many outputs each column has that is the number of an output.
    levels: Mapping[int, int] = MappingProxyType({})
    # What to do about particles that have not followed the data, and about moves that are not accepted.
    if_behind: str
    if_stuck: str

    @property
    @abstractmethod
    def description(self) -> str:
        """The builder and its options; of a model of your own, its name."""

    @property
    def embedding(self) -> str | None:
        """Name of the embedding matrix R among the value variables, if there is one."""
        return None

    @property
    @abstractmethod
    def model(self) -> pm.Model:
        """The PyMC model."""

    @property
    @abstractmethod
    def data(self) -> Data:  # type: ignore[override]
        """The current X (n, D), y (n,) and y_sd, (n,) or None, in your units; not writeable."""

    @abstractmethod
    def _set_data(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None) -> None:
        """Replace checked data."""

    def read_known(self, n: int, X: Any = None, y_sd: Any = None, **sizes: Any) -> np.ndarray | None:
        """What is known of n measurements at X, known sds or, by name, sizes (n,); a ValueError for one without."""
        names = [name for name, size in sizes.items() if size is not None]
        if names:
            raise ValueError(f"{names[0]} is for a model with a likelihood that has it; this is {self.description}")
        return read_error_bars(y_sd, n, X)

    def check_outcomes(self, y: np.ndarray, y_sd: np.ndarray | None = None) -> None:
        """Raise a ValueError for outcomes (n,) that the model cannot have."""
        if self.likelihood is not None:
            self.likelihood.read(y, y_sd)

    @abstractmethod
    def check_replaceable(self) -> None:
        """Raise the ValueError of :meth:`set_data` if a PyMC model of your own has data that cannot be replaced."""

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the unconstrained value variables by name, in the order of theta."""

    @abstractmethod
    def constrain(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """All free variables and Deterministics in your space, by name, (S, ...) for thetas (S, P)."""

    @abstractmethod
    def posterior(self, compile_kwargs: dict | None = None) -> Any:
        """The log posterior given the current data."""

    @abstractmethod
    def unconstrain(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Theta (S, P) from draws of the free variables in your space, of shape (S, ...) each."""

    @abstractmethod
    def n_particles(self, n: int) -> int:
        """Particles by default for n points."""

    def recipe(self) -> dict[str, Any]:
        """The call of the builder without the data, as JSON values; a file holds it in place of the model.

        A ValueError if no builder made the model, it was extended, or its mean or a prior is not a name with numbers.
        """
        raise ValueError("no builder made it")

    def read_pool(self, pool: Any) -> Any:
        """Candidates as an array (m, D) or a table."""
        return pool

    @property
    def output(self) -> str:
        """What pictures and summaries call y: the name of the Series that a builder was given, else ``name``."""
        return self.label or self.name

    @property
    def labels(self) -> list[str]:
        """Names of the entries of theta, such as ``"R[0,3]"``."""
        return [
            f"{name}[{','.join(map(str, index))}]" if shape else name
            for name, shape in self.shapes.items()
            for index in np.ndindex(*shape)
        ]

    @property
    def free(self) -> list[str]:
        """Names of the free variables that theta consists of."""
        values = self.model.rvs_to_values
        return [variable.name for variable in self.model.free_RVs if values[variable].name in self.shapes]

    @property
    def n_parameters(self) -> int:
        """P, the length of theta."""
        return sum(map(math.prod, self.shapes.values()))

    def flatten(self, point: dict[str, Any]) -> np.ndarray:
        """Theta (P,) from unconstrained values by name, or else from the free variables; ``pm.find_MAP`` has both.

        Other variables of the model are ignored. A ValueError for missing, unknown or misshapen entries.
        """
        shapes = self.shapes
        if set(point) != set(shapes):
            free = self.free
            names, entries = {*shapes, *self.model.named_vars}, set(point)
            if not entries <= names or not (entries >= set(shapes) or entries >= set(free)):
                raise ValueError(f"a point needs the value variables {list(shapes)} or {free}; got {list(point)}")
            if not entries >= set(shapes):
                return self.unconstrain({name: np.asarray(point[name], float)[None] for name in free})[0]
        parts = [np.empty(0)]
        for name, shape in shapes.items():
            value = np.asarray(point[name], float)
            if value.shape != shape or not np.isfinite(value).all():
                raise ValueError(f"point[{name!r}] must be finite with shape {shape}; got {value!r}")
            parts.append(value.ravel())
        return np.concatenate(parts)

    def unflatten(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Unconstrained values by name from theta (..., P); leading axes are kept."""
        theta = np.asarray(theta)
        return {
            name: theta[..., part].reshape((*theta.shape[:-1], *shape))
            for (name, shape), part in zip(self.shapes.items(), self._slices(), strict=True)
        }

    def _slices(self) -> list[slice]:
        """Where each value variable sits in theta."""
        ends = np.cumsum([0, *map(math.prod, self.shapes.values())]).tolist()
        return list(map(slice, ends[:-1], ends[1:]))

    @property
    def embedding_slice(self) -> tuple[slice, tuple[int, int]] | None:
        """Where the embedding matrix sits in theta, and its shape (d, D)."""
        for name, part in zip(self.shapes, self._slices(), strict=True):
            if name == self.embedding:
                d, D = self.shapes[name]
                return part, (d, D)
        return None
