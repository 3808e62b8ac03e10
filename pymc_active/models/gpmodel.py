"""The model that everything else takes: a PyMC model, its GP, and its log posterior."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors

from pymc_active.kernels.expressions import Expression, parse
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.support.scaling import Affine
from pymc_active.support.summaries import html_summary
from pymc_active.support.tables import read_inputs, read_outputs

if TYPE_CHECKING:
    from pymc_active.models.blueprint import ModelPlan


class Made(NamedTuple):
    """A PyMC model with its GP and its data."""

    model: pm.Model
    gp: pm.gp.Marginal
    X_data: Any
    y_data: Any


def data_value(variable: Any) -> np.ndarray:
    """Value of a model's data: an array, shared, constant, or an expression of these."""
    if isinstance(variable, SharedVariable | np.ndarray):
        values = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable
        # Not a copy, since X may be large, and not writeable, since it is the model's own.
        view = np.asarray(values).view()
        view.flags.writeable = False
        return view
    if isinstance(variable, Constant):
        return variable.data
    return variable.eval(mode=vm_mode()) if hasattr(variable, "eval") else np.asarray(variable)


def _is_constant(variable: Any) -> bool:
    return not any(isinstance(root, SharedVariable) for root in ancestors([pt.as_tensor(variable)]))


def _hashable(value: Any) -> Any:
    # Not the text of everything: that of a Mode changes with its use.
    return value if isinstance(value, Hashable) else repr(value)


class GPModel:
    """A PyMC model with a marginal Gaussian process that knows how to fit and predict fast.

    Made by :func:`ard_gp`, :func:`embedding_gp`, :func:`composite_gp` or :func:`from_marginal`.

    Attributes
    ----------
    model : pm.Model
        An ordinary PyMC model in the user's units: sample it, plot it, extend it. Those of builders are made on first
        use, since fits and predictions seldom need them.
    gp : pm.gp.Marginal
    name : str
        The likelihood's name in ``model``.
    inputs : list
        Names of the D inputs.
    x_map, y_map : Affine
        ``x_scale`` and ``y_scale``, frozen at construction.
    embedding : str or None
        Name of the embedding matrix R among the value variables, where the kernel has one.
    expression : Expression or None
        The kernel expression of a :func:`composite_gp`.
    """

    def __init__(
        self,
        model: pm.Model | None,
        gp: pm.gp.Marginal | None,
        name: str,
        *,
        X_data: Any,
        y_data: Any,
        inputs: list,
        x_map: Affine,
        y_map: Affine,
        build_posterior: Callable[[GPModel, dict | None], Posterior],
        embedding: str | None = None,
        description: str = "",
        expression: Expression | None = None,
        rebuild: Callable[[GPModel, Expression], GPModel] | None = None,
        plan: ModelPlan | None = None,
        write_recipe: Callable[[GPModel], dict[str, Any]] | None = None,
    ):
        self._model, self._gp, self.name = model, gp, name
        self._held, self.inputs = (X_data, y_data), inputs
        self.x_map, self.y_map = x_map, y_map
        self.embedding = embedding
        self.description = description
        self.expression = expression
        self._rebuild = rebuild
        self._plan = plan
        self._write_recipe = write_recipe
        self._build_posterior = build_posterior
        self._shapes: dict[str, tuple[int, ...]] | None = None
        self._constrain: Callable | None = None
        self._posteriors: dict[Any, Posterior] = {}

    def __repr__(self) -> str:
        names = self._plan.free if self._plan and self._is_as_planned else [v.name for v in self.model.free_RVs]
        return (
            f"<GPModel {self.description}: {len(self.y)} points, {self.X.shape[1]} inputs; "
            f"parameters {', '.join(names)}>"
        )

    def _repr_html_(self) -> str:
        shapes = {name: " × ".join(map(str, shape)) for name, shape in self.shapes.items()}
        inputs = ", ".join(map(str, self.inputs[:8])) + (", …" if len(self.inputs) > 8 else "")
        facts = {
            "data": f"{len(self.y)} points, {self.X.shape[1]} input(s): {inputs}",
            "output": f"{self.name}, {self.y.min():.4g} to {self.y.max():.4g}",
            "kernel": self.expression,
            "free parameters": ", ".join(f"{name} ({shape})" if shape else name for name, shape in shapes.items()),
        }
        return html_summary(f"GPModel {self.description}", facts)

    @property
    def model(self) -> pm.Model:
        """The PyMC model."""
        return self._made.model

    @property
    def gp(self) -> pm.gp.Marginal:
        """Its Gaussian process."""
        return self._made.gp

    @property
    def is_made(self) -> bool:
        """Whether the PyMC model is there already."""
        return self._model is not None

    @property
    def _made(self) -> Made:
        if self._model is None:
            assert self._plan is not None, "there is a model or a plan of it"
            made = self._plan.make(self.X, self.y)
            self._model, self._gp, self._held = made.model, made.gp, (made.X_data, made.y_data)
        assert self._gp is not None
        return Made(self._model, self._gp, *self._held)

    @property
    def _X_data(self) -> Any:
        return self._made.X_data

    @property
    def _y_data(self) -> Any:
        return self._made.y_data

    @property
    def _is_as_planned(self) -> bool:
        """Whether there is a plan, and the user added no variable to the model made after it."""
        if self._plan is None or self._model is None:
            return self._plan is not None
        return [variable.name for variable in self._model.unobserved_RVs] == self._plan.names

    @property
    def X(self) -> np.ndarray:
        """Inputs it holds now, (n, D), in the user's units."""
        return np.asarray(data_value(self._held[0]), float)

    @property
    def y(self) -> np.ndarray:
        """Outputs it holds now, (n,), in the user's units."""
        return np.asarray(data_value(self._held[1]), float)

    def with_expression(self, expression: str | Expression) -> GPModel:
        """The same model with another kernel: the data held now, scales, mean and priors of a :func:`composite_gp`.

        Raises
        ------
        ValueError
            If no kernel expression made this model.
        """
        if self._rebuild is None:
            raise ValueError(f"only models made by composite_gp have a kernel expression; this is {self.description}")
        return self._rebuild(self, parse(expression))

    def recipe(self) -> dict[str, Any]:
        """What a builder made it of, but for the data, as JSON values; files hold it in the place of the model.

        Raises
        ------
        ValueError
            If no builder made it, if it was changed since, or for a mean function or priors that are more than a name
            with numbers.
        """
        if self._write_recipe is None:
            raise ValueError("no builder made it")
        return self._write_recipe(self)

    def posterior(self, compile_kwargs: dict | None = None) -> Posterior:
        """The log posterior given the data held now; what was compiled is kept for other data."""
        key = frozenset((k, _hashable(v)) for k, v in (compile_kwargs or {}).items())
        if key not in self._posteriors:
            self._posteriors[key] = self._build_posterior(self, compile_kwargs)
        return self._posteriors[key].with_data(self.X, self.y)

    def set_data(self, X: Any, y: Any) -> None:
        """Replace the data, in the user's units; any number of rows, nothing is recompiled.

        Fits made before keep the data they were made with.

        Parameters
        ----------
        X : array_like, shape (n, D)
        y : array_like, shape (n,)

        Raises
        ------
        ValueError
            For NaN, wrong shapes, or a model whose X or y is no ``pm.Data`` itself. The data held before are kept.
        """
        points = read_inputs(X, inputs=self.inputs)
        X, y = points, read_outputs(y, len(points), X)
        if not self.is_made:
            self._held = X.copy(), y.copy()
            return
        for what, data in (("X", self._X_data), ("y", self._y_data)):
            if not isinstance(data, SharedVariable):
                raise ValueError(
                    f"set_data needs X and y as pm.Data inside the model, e.g. X = pm.Data('X', X) with a column for "
                    f"each input; {what} is {'a constant' if _is_constant(data) else 'computed from other data'} here, "
                    "so it cannot be replaced. Everything else works."
                )
        stored = {data.name: values.astype(data.type.dtype) for data, values in ((self._X_data, X), (self._y_data, y))}
        for name, values in ((self._X_data.name, X), (self._y_data.name, y)):
            if stored[name].dtype.kind in "iu" and not np.array_equal(stored[name], values):
                raise ValueError(
                    f"{name} is stored as whole numbers ({stored[name].dtype}), and the new values are not: write "
                    f"pm.Data({name!r}, values.astype(float)) in the model."
                )
        coords = {}
        for data in (self._X_data, self._y_data):
            dim = (self.model.named_vars_to_dims.get(data.name) or (None,))[0]
            if dim is not None and self.model.coords.get(dim) is not None:
                coords[dim] = np.arange(len(y))
        pm.set_data(stored, model=self.model, coords=coords or None)

    @property
    def value_names(self) -> list[str]:
        """Names of the unconstrained value variables, in the order of theta."""
        return list(self.shapes)

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
        if self._shapes is None and self._plan and self._is_as_planned:
            self._shapes = self._plan.shapes
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
        parts = [np.empty(0)]
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
            point[name] = np.asarray(theta)[..., start : start + size].reshape((*np.shape(theta)[:-1], *shape))
            start += size
        return point

    @property
    def embedding_slice(self) -> tuple[slice, tuple[int, int]] | None:
        """Where in theta the embedding matrix sits, and its shape (d, D)."""
        if self.embedding is None:
            return None
        start = 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            if name == self.embedding:
                return slice(start, start + size), (shape[0], shape[1])
            start += size
        return None

    def constrain(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """Values of all free variables and Deterministics, in the user's space, for each theta.

        Parameters
        ----------
        thetas : ndarray, shape (S, P)

        Returns
        -------
        dict
            Variable name -> array of shape (S, ...).
        """
        if self._plan and self._is_as_planned:
            return self._plan.constrain(np.asarray(thetas))
        if self._constrain is None:
            values = self.model.replace_rvs_by_values(self.model.unobserved_RVs)
            point = {name: np.zeros(shape) for name, shape in self.shapes.items()}
            outputs, theta = join_nonshared_inputs(point=point, outputs=values, inputs=self.model.value_vars)
            batch = pt.matrix("thetas", shape=(None, self.n_parameters))
            # What depends on no parameter, as a Deterministic of fixed ones, is not vectorized.
            vectorized = [
                new if new.type.ndim > old.type.ndim else pt.broadcast_to(new, (batch.shape[0], *new.shape))
                for old, new in zip(outputs, vectorize_graph(outputs, {theta: batch}), strict=True)
            ]
            self._constrain = pytensor.function([batch], vectorized, mode=vm_mode(), on_unused_input="ignore")
        names = [variable.name for variable in self.model.unobserved_RVs]
        return dict(zip(names, (np.asarray(v) for v in self._constrain(thetas)), strict=True))

    def unconstrain(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Theta (S, P) from draws of the free variables in the user's space, (S, ...) each."""
        rvs = self.model.free_RVs
        transforms = self.model.rvs_to_transforms
        if any(transforms[rv] is not None for rv in rvs):
            inputs = {rv: rv.type(name=rv.name) for rv in rvs}
            outputs = [
                inputs[rv] if transforms[rv] is None else transforms[rv].forward(inputs[rv], *rv.owner.inputs)
                for rv in rvs
            ]
            function = pytensor.function(
                list(inputs.values()), clone_replace(outputs, inputs), mode=vm_mode(), on_unused_input="ignore"
            )
            names = [rv.name for rv in rvs]
            rows = [function(*(values[name][s] for name in names)) for s in range(len(values[names[0]]))]
            return np.stack([np.concatenate([np.ravel(part) for part in row]) for row in rows])
        return np.concatenate([values[rv.name].reshape(len(values[rv.name]), -1) for rv in rvs], axis=1)
