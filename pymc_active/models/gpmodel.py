"""The model that everything else takes: a PyMC model, its GP, and its log posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

from pymc_active.models.data import Affine, read_inputs, read_outputs
from pymc_active.posterior.base import Posterior


class GPModel:
    """A PyMC model with a marginal Gaussian process that knows how to fit and predict fast.

    Made by :func:`ard_gp`, :func:`embedding_gp`, :func:`composite_gp` or :func:`from_marginal`.

    Attributes
    ----------
    model : pm.Model
        An ordinary PyMC model in the user's units: sample it, plot it, extend it.
    gp : pm.gp.Marginal
    name : str
        The likelihood's name in ``model``.
    X, y : ndarray, shapes (n, D) and (n,)
        The data it holds now, in the user's units.
    inputs : list
        Names of the D inputs.
    x_map, y_map : Affine
        ``x_scale`` and ``y_scale``, frozen at construction.
    embedding : str or None
        Name of the embedding matrix R among the value variables, where the kernel has one.
    """

    def __init__(
        self,
        model: pm.Model,
        gp: pm.gp.Marginal,
        name: str,
        *,
        X: np.ndarray,
        y: np.ndarray,
        inputs: list,
        x_map: Affine,
        y_map: Affine,
        build_posterior: Callable[[GPModel, dict | None], Posterior],
        store: Callable[[np.ndarray, np.ndarray], None],
        embedding: str | None = None,
        description: str = "",
    ):
        self.model, self.gp, self.name = model, gp, name
        self.X, self.y, self.inputs = X, y, inputs
        self.x_map, self.y_map = x_map, y_map
        self.embedding = embedding
        self.description = description
        self._build_posterior, self._store = build_posterior, store
        self._shapes: dict[str, tuple[int, ...]] | None = None
        self._posteriors: dict[Any, Posterior] = {}

    def __repr__(self) -> str:
        names = ", ".join(variable.name for variable in self.model.free_RVs)
        return f"<GPModel {self.description}: {len(self.y)} points, {self.X.shape[1]} inputs; parameters {names}>"

    def posterior(self, compile_kwargs: dict | None = None) -> Posterior:
        """The log posterior as arrays (built once, reused for any data)."""
        key = None if not compile_kwargs else tuple(sorted((k, str(v)) for k, v in compile_kwargs.items()))
        if key not in self._posteriors:
            self._posteriors[key] = self._build_posterior(self, compile_kwargs)
        return self._posteriors[key]

    def set_data(self, X: Any, y: Any) -> None:
        """Replace the data, in the user's units; any number of rows, nothing is recompiled.

        Parameters
        ----------
        X : array_like, shape (n, D)
        y : array_like, shape (n,)

        Raises
        ------
        ValueError
            For NaN, wrong shapes, or a model whose X is a constant. The data held before are kept.
        """
        X = read_inputs(X, width=self.X.shape[1])
        y = read_outputs(y, len(X))
        self._store(X, y)
        self.X, self.y = X, y
        for posterior in self._posteriors.values():
            posterior.set_data(X, y)

    @property
    def value_names(self) -> list[str]:
        """Names of the unconstrained value variables, in the order of theta."""
        return [variable.name for variable in self.model.value_vars]

    @property
    def labels(self) -> list[str]:
        """Flat names of the entries of theta, such as ``"R[0,3]"``."""
        labels = []
        for name, shape in self.shapes.items():
            if shape == ():
                labels.append(name)
            else:
                labels += [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]
        return labels

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the value variables."""
        if self._shapes is None:
            shapes = {variable.name: variable.type.shape for variable in self.model.value_vars}
            if any(None in shape for shape in shapes.values()):
                # Static shapes are missing where dims come from coordinates; PyMC compiles to find them.
                shapes = {name: np.shape(self.model.initial_point()[name]) for name in shapes}
            self._shapes = shapes
        return self._shapes

    @property
    def n_parameters(self) -> int:
        """P, the length of theta."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def flatten(self, point: dict[str, Any]) -> np.ndarray:
        """Theta (P,) from a dict of unconstrained values.

        Raises
        ------
        ValueError
            For missing, unknown or wrongly shaped entries.
        """
        shapes = self.shapes
        if set(point) != set(shapes):
            raise ValueError(
                f"a point needs exactly the unconstrained value variables {sorted(shapes)}; got {sorted(point)}"
            )
        parts = []
        for name, shape in shapes.items():
            value = np.asarray(point[name], float)
            if value.shape != shape or not np.isfinite(value).all():
                raise ValueError(f"point[{name!r}] must be finite with shape {shape}; got {value!r}")
            parts.append(value.ravel())
        return np.concatenate(parts)

    def unflatten(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Dict of unconstrained values from theta (..., P); leading axes are kept."""
        point, start = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            point[name] = np.asarray(theta)[..., start : start + size].reshape(*np.shape(theta)[:-1], *shape)
            start += size
        return point
