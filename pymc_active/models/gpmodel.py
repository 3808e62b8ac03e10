"""The model that everything else takes: a Gaussian process, its data, and its log posterior."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pymc as pm

from pymc_active.kernels.expressions import Expression, parse
from pymc_active.posterior.base import Posterior
from pymc_active.support.arguments import kind_of
from pymc_active.support.data import Data
from pymc_active.support.scaling import Affine
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_error_bars, read_inputs, read_outputs


class GPModel(Summarized, ABC):
    """A PyMC model with a marginal Gaussian process that fits and predicts fast.

    Made by :func:`ard_gp`, :func:`embedding_gp`, :func:`composite_gp` or :func:`from_marginal`.

    Attributes
    ----------
    name, description : str
        Name of the likelihood in ``model``; the builder and its options.
    inputs, x_map, y_map : list, Affine, Affine
        Names of the D inputs; ``x_scale`` and ``y_scale``, frozen at construction.
    embedding, expression : str or None, Expression or None
        Name of the embedding matrix R among the value variables; the kernel expression of a :func:`composite_gp`.
    box : (ndarray, ndarray) or None
        Lower and upper ends (D,) of where you will measure, the ``bounds`` of a builder, in your units, if known.
    """

    name: str
    inputs: list
    x_map: Affine
    y_map: Affine
    expression: Expression | None = None
    box: tuple[np.ndarray, np.ndarray] | None = None
    # What the user calls y, if that is known.
    label: str | None = None
    # How many outputs each column has that is the number of an output.
    levels: Mapping[int, int] = MappingProxyType({})

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
    def is_made(self) -> bool:
        """Whether the PyMC model exists already."""

    @abstractmethod
    def make(self) -> GPModel:
        """The same as a model whose PyMC model exists; a builder's is made on the first call."""

    @property
    @abstractmethod
    def data(self) -> Data:
        """The current X (n, D), y (n,) and y_sd, (n,) or None, in your units; not writeable."""

    @abstractmethod
    def _set_data(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None) -> None:
        """Replace checked data."""

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
    def posterior(self, compile_kwargs: dict | None = None) -> Posterior:
        """The log posterior given the current data: by arrays, or with ``compile_kwargs`` or if it must, by graphs."""

    def recipe(self) -> dict[str, Any]:
        """The call of the builder without the data, as JSON values; a file holds it in place of the model.

        A ValueError if no builder made the model, it was extended, or its mean or a prior is not a name with numbers.
        """
        raise ValueError("no builder made it")

    def with_expression(self, expression: str | Expression) -> GPModel:
        """The same :func:`composite_gp` with another kernel: its current data, scales, mean and priors."""
        return self._with_expression(parse(expression))

    def _with_expression(self, expression: Expression) -> GPModel:
        raise ValueError(f"only models made by composite_gp have a kernel expression; this is {self.description}")

    def _embedding_lengthscale(self, thetas: np.ndarray) -> np.ndarray:
        """Of the components, for each row of thetas (S, P)."""
        return np.ones(len(thetas))

    def _summary(self) -> Summary:
        X, y, y_sd = self.data
        named = ", ".join(map(str, self.inputs[:8])) + (", …" if len(self.inputs) > 8 else "")
        sizes = {name: " × ".join(map(str, self.shapes[name])) for name in self.shapes}
        facts = {
            "data": f"{len(y)} points, {X.shape[1]} input(s): {named}",
            "output": f"{self.output}, {y.min():.4g} to {y.max():.4g}",
            "error bars": None if y_sd is None else f"{y_sd.min():.4g} to {y_sd.max():.4g}",
            "kernel": self.expression,
            "free parameters": ", ".join(f"{name} ({size})" if size else name for name, size in sizes.items()),
        }
        return Summary(f"GPModel {self.description}", facts)

    @property
    def output(self) -> str:
        """What pictures and summaries call y: the name of the Series that a builder was given, else ``name``."""
        return self.label or self.name

    @property
    def model(self) -> pm.Model:
        """An ordinary PyMC model in your units: sample it, plot it, extend it. A builder's is made on first use."""
        return self.make().model

    @property
    def gp(self) -> pm.gp.Marginal:
        """The Gaussian process of :attr:`model`."""
        return self.make().gp

    @property
    def X(self) -> np.ndarray:
        """The current inputs (n, D), in your units."""
        return self.data[0]

    @property
    def y(self) -> np.ndarray:
        """The current outputs (n,), in your units."""
        return self.data[1]

    @property
    def y_sd(self) -> np.ndarray | None:
        """The known standard deviations of the current outputs (n,), in your units; None without."""
        return self.data.y_sd

    def set_data(self, X: Any, y: Any, y_sd: Any = None) -> None:
        """Replace the data by X (n, D) and y (n,), in your units. Any number of rows; nothing is recompiled.

        ``y_sd``, (n,) or a number, are known standard deviations of y, as in :func:`ard_gp`; None if there are none. A
        builder's model without them makes its PyMC model anew for the first ones.

        Earlier fits keep their data. A ValueError, for missing values, wrong shapes, or a PyMC model of your own in
        which X or y is not ``pm.Data``, leaves the data as they were.
        """
        points = read_inputs(X, inputs=self.inputs)
        values = read_outputs(y, len(points), X)
        self._set_data(points, values, read_error_bars(y_sd, len(points), X))

    @property
    def value_names(self) -> list[str]:
        """Names of the unconstrained value variables, in the order of theta."""
        return list(self.shapes)

    @property
    def labels(self) -> list[str]:
        """Names of the entries of theta, such as ``"R[0,3]"``."""
        return [
            f"{name}[{','.join(map(str, index))}]" if shape else name
            for name, shape in self.shapes.items()
            for index in np.ndindex(*shape)
        ]

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
            free = [variable.name for variable in self.model.free_RVs]
            known, given = {*shapes, *self.model.named_vars}, set(point)
            if not given <= known or not (given >= set(shapes) or given >= set(free)):
                raise ValueError(
                    f"a point needs the value variables {sorted(shapes)}, or the free variables {sorted(free)}; got "
                    f"{sorted(point)}"
                )
            if not given >= set(shapes):
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

    def embeddings(self, thetas: np.ndarray) -> np.ndarray:
        """R / lengthscale (S, d, D) for each row of thetas (S, P), for a model with an embedding."""
        found = self.embedding_slice
        assert found is not None
        R = thetas[:, found[0]].reshape(-1, *found[1])
        return R / self._embedding_lengthscale(thetas)[:, None, None]

    def unconstrain(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Theta (S, P) from draws of the free variables in your space, of shape (S, ...) each."""
        return self.make().unconstrain(values)

    def draw_prior(self, draws: int, random_seed: int) -> dict[str, np.ndarray]:
        """Draws (draws, ...) of the free variables in your space, by name."""
        return self.make().draw_prior(draws, random_seed)


def check_model(gpm: Any, function: str) -> None:
    """Raise a TypeError for what is no model, with what to do about it."""
    if not isinstance(gpm, GPModel):
        raise TypeError(f"{function} takes a GPModel (see ard_gp and from_marginal); got {kind_of(gpm)}")
