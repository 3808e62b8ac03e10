"""Log densities, draws and means of a ``pm.Model`` as compiled functions of parameters, inputs and outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.custom import CustomSymbolicDistRV
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.moments.means import mean as mean_of
from pymc.distributions.shape_utils import change_dist_size
from pymc.exceptions import UndefinedMomentException
from pymc.pytensorf import collect_default_updates, reseed_rngs, rewrite_pregrad
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.graph import OneAtATime, in_rows
from pymc_active.process.batches import batched, without_checks
from pymc_active.process.noise import GONE, noisier

_DRAWN = RandomVariable | SymbolicRandomVariable


class ModelGraphs:
    """Functions of flat parameters Z (S, P) for a model with one outcome, compiled on first use without JIT.

    ``shared`` are the ``pm.Data`` that hold a row for each outcome. Functions that depend on them take their values,
    ``tables``, as the last arguments. Functions of outcomes take the values of the outcome before them.
    """

    def __init__(
        self, model: pm.Model, outcome: TensorVariable, shared: Sequence[SharedVariable],
        shapes: dict[str, tuple[int, ...]],
    ):  # fmt: skip
        self.model, self.outcome, self.shared = model, outcome, list(shared)
        self._constrain: dict[tuple[str, ...], Callable] = {}
        self.value = model.rvs_to_values[outcome]
        self.z, self.parts, k = pt.vector("z", dtype="float64"), {}, 0
        for v in model.value_vars:
            size = math.prod(shapes[v.name])
            self.parts[v] = self.z[k : k + size].reshape(shapes[v.name]).astype(v.type.dtype)
            k += size
        self.Z = pt.matrix("Z", dtype="float64", shape=(None, k))
        self.y = self._y()
        # Additional noise while annealing, in variances, and the temperature less one that lasts until it is gone.
        self.noise, self.unit, self.heat = (pt.scalar(name, dtype="float64") for name in ("noise", "unit", "heat"))
        self._each: Callable | None = None
        self.tables = [pt.tensor(s.name, dtype=s.type.dtype, shape=(None,) * s.type.ndim) for s in self.shared]
        # An outcome that depends on no input has as many rows as this one.
        self.tables += [] if self.shared else [pt.vector("rows", dtype="float64")]

    def _of_z(self, outputs: list, *, with_tables: bool = True) -> list:
        """Expressions of value variables as expressions of z, by default with the tables in place of the data."""
        tables = dict(zip(self.shared, self.tables, strict=False)) if with_tables else {}
        return clone_replace(outputs, {**self.parts, **tables}, rebuild_strict=False)

    def _rows(self, outputs: list) -> list:
        return batched(in_rows(outputs, {self.z: self.Z}))

    def _y(self, *more: int | None) -> TensorVariable:
        """A symbol for outcomes (*more, n, ...)."""
        shape = (*more, *(None,) * self.value.type.ndim)
        return pt.tensor("y", dtype=self.value.type.dtype, shape=shape)

    def _compile(self, inputs: list, outputs: Any, **keywords: Any) -> Callable:
        variables = ancestors(outputs if isinstance(outputs, list) else [outputs])
        mode = vm_mode(sum(v.owner is not None for v in variables))
        return OneAtATime(pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore", **keywords))

    def log_densities(self, y: Any, noise: Any = None) -> list[TensorVariable]:
        """Log prior and log likelihood as expressions of z, an outcome, and the tables, by default without ``noise``.

        Potentials and other observed variables count as likelihood, with the data that they have. Noise is added to an
        outcome that has a scale, in variances ``unit``; all other likelihoods are divided by one more, a temperature.
        """
        model = self.model
        others = [rv for rv in model.observed_RVs if rv is not self.outcome]
        prior = model.logp(vars=model.free_RVs, jacobian=True, sum=True)
        rest = [term.sum() for term in model.logp(vars=others, sum=False)] if others else []
        rest += [potential.sum() for potential in model.replace_rvs_by_values(model.potentials)]
        prior, *rest = self._of_z([prior, *rest], with_tables=False)
        cold, noisy = 1.0, None
        if noise is not None:
            cold, noisy = 1 / (1 + noise), noisier(self._drawn, noise * self.unit)
            warm = 1 / (1 + self.heat * noise / (noise + GONE))
        own = pm.logp(self._drawn, y).sum() * cold if noisy is None else pm.logp(noisy, y).sum() * warm
        likelihood = own + cold * sum(rest)
        return rewrite_pregrad(without_checks([prior, likelihood]))

    @cached_property
    def is_tempered(self) -> bool:
        """Whether the outcome has no scale to which noise could be added."""
        return noisier(self._drawn, self.unit) is None

    def densities(self, Z: np.ndarray, noise: float, *data: Any) -> list[np.ndarray]:
        """Log prior (S,), its gradient (S, P), and log likelihood with its gradient and derivative in the noise (S,).

        At Z, and ``unit``, ``heat``, y and the tables, with additional noise.
        """
        noises = np.full(len(Z), noise)
        if self._each is None:
            try:
                return self._densities(Z, noises, *data)
            except (NotImplementedError, TypeError, ValueError):
                # An operation that cannot be vectorized takes one particle at a time.
                self._each = self._of_one()
        each = self._each
        return [np.stack(values) for values in zip(*(each(z, noise, *data) for z in Z), strict=True)]

    def _of_one(self) -> Callable:
        try:
            return self._with_slopes(self.z, self.noise, self.log_densities(self.y, self.noise))
        except NotImplementedError as error:
            raise ValueError(
                f"the model has no gradient ({error}), which fits need: write it with PyTensor, give the operation a "
                "gradient, or sample it by pm.sample with another step and use pma.active.bald_from_trace"
            ) from error

    @cached_property
    def _densities(self) -> Callable:
        noises = pt.vector("noises", dtype="float64")
        rows = in_rows(self.log_densities(self.y, self.noise), {self.z: self.Z, self.noise: noises})
        return self._with_slopes(self.Z, noises, batched(rows))

    def _with_slopes(self, z: TensorVariable, noise: TensorVariable, log: list[TensorVariable]) -> Callable:
        how: dict[str, Any] = {"disconnected_inputs": "ignore", "return_disconnected": "zero"}
        prior, likelihood = log
        outputs = [prior, pt.grad(prior.sum(), z, **how), likelihood]
        outputs += [pt.grad(likelihood.sum(), one, **how) for one in (z, noise)]
        return self._compile([z, noise, self.unit, self.heat, self.y, *self.tables], outputs)

    def as_outcome(self, y: np.ndarray) -> np.ndarray:
        """Outcomes (..., n) in the type of the model; a single number has no rows."""
        return (y if self.value.type.ndim else y[..., 0]).astype(self.value.type.dtype)

    @cached_property
    def prior_terms(self) -> Callable:
        """(Z) -> log prior density (S,) of each free variable, in the user's space."""
        terms = self.model.logp(vars=self.model.free_RVs, jacobian=False, sum=False)
        return self._compile([self.Z], self._rows(self._of_z([term.sum() for term in terms], with_tables=False)))

    @cached_property
    def rows(self) -> Callable:
        """(Z, Y, *tables) -> log densities (K, S, m) of outcomes Y (K, 1, m, ...) at m rows."""
        y, Y = self._y(), self._y(None, 1)
        [log] = batched(in_rows(without_checks([pm.logp(self._drawn, y)]), {self.z: self.Z, y: Y}))
        return self._compile([self.Z, Y, *self.tables], log)

    @cached_property
    def _drawn(self) -> TensorVariable:
        """The outcome at the rows of the tables, given z."""
        node = self.outcome.owner
        inputs = self.model.replace_rvs_by_values(list(node.inputs))
        [rv] = self._of_z([node.clone_with_new_inputs(inputs).outputs[node.outputs.index(self.outcome)]])
        n_batch = rv.type.ndim - rv.owner.op.ndim_supp
        if not self.tables or not n_batch:
            return rv
        rows = change_dist_size(rv, (self.tables[0].shape[0], *(rv.shape[k] for k in range(1, n_batch))))
        return _with_parameters(rows, rv) if any(_is_of(v, CustomSymbolicDistRV) for v in ancestors([rv])) else rows

    def draws(self, Z: np.ndarray, *tables: np.ndarray, is_common: bool = True) -> np.ndarray:
        """One outcome (S, m, ...) of each particle at each row, with common random numbers at all rows, or not.

        Equal calls draw equal numbers.
        """
        if (compiled := self._draw) is None:
            one, generators = self._draw_one
            reseed_rngs(generators, 0)
            return np.stack([one(z, *tables) for z in Z])
        parameters, draw = compiled
        leaves = [np.asarray(leaf) for leaf in parameters(Z, *tables)]
        m = max((leaf.shape[1] for leaf in leaves if leaf.ndim > 1), default=1)
        # Nothing broadcasts within a random variable at run time, and some write into their parameters.
        shapes = [(len(Z), *([m] if leaf.ndim > 1 else []), *leaf.shape[2:]) for leaf in leaves]
        leaves = [np.broadcast_to(leaf, shape).copy() for leaf, shape in zip(leaves, shapes, strict=True)]
        if not is_common or m == 1:
            return _drawn(draw, leaves)
        return np.concatenate([_drawn(draw, [leaf[:, [j]] for leaf in leaves]) for j in range(m)], axis=1)

    @cached_property
    def _draw(self) -> tuple[Callable, Callable] | None:
        """The parameters of the outcome for all particles and rows, and an outcome given these; None if impossible."""
        leaves: list[tuple[TensorVariable, TensorVariable]] = []
        try:
            drawn = self._vectorized(self._drawn, leaves)
            generators = [v for v in ancestors([drawn]) if isinstance(v.type, RandomType) and v.owner is None]
            # Never updated, and the same in every process.
            reseed_rngs(generators, 0)
            inputs, symbols = [self.Z, *self.tables], [symbol for symbol, _ in leaves]
            return self._compile(inputs, [leaf for _, leaf in leaves]), self._compile(symbols, drawn)
        except (NotImplementedError, TypeError, ValueError):
            return None

    @cached_property
    def _draw_one(self) -> tuple[Callable, list]:
        """The outcome at one particle, of a distribution that cannot be made anew, and its generators."""
        updates = collect_default_updates(outputs=[self._drawn], inputs=[self.z, *self.tables])
        return self._compile([self.z, *self.tables], self._drawn, updates=updates), list(updates)

    def _vectorized(self, rv: TensorVariable, leaves: list) -> TensorVariable:
        """A random variable of symbols for its parameters, (S, m, ...) each, and these in terms of Z in ``leaves``."""
        op = rv.owner.op
        n_batch, parameters = rv.type.ndim - op.ndim_supp, []
        for one, n_core in zip(op.dist_params(rv.owner), op.ndims_params, strict=True):
            if _is_of(one, _DRAWN):
                parameters.append(self._vectorized(one, leaves))
                continue
            wide = pt.shape_padleft(one, n_batch - (one.type.ndim - n_core))
            if self.tables and n_batch:
                # At each row of the tables, also where no parameter depends on them.
                wide = wide + pt.zeros((self.tables[0].shape[0], *(1,) * (wide.type.ndim - 1)), wide.type.dtype)
            leaf = self._rows([wide])[0]
            symbol = pt.tensor(dtype=leaf.type.dtype, shape=(None,) * leaf.type.ndim)
            leaves.append((symbol, leaf))
            parameters.append(symbol)
        if isinstance(op, SymbolicRandomVariable):
            return op.rebuild_rv(*parameters)
        return op.make_node(pytensor.shared(np.random.default_rng(0)), None, *parameters).outputs[1]

    @cached_property
    def has_mean(self) -> bool:
        """Whether the outcome has an expected value."""
        try:
            mean_of(self._drawn)
        except UndefinedMomentException:
            return False
        except NotImplementedError:
            pass
        return True

    @cached_property
    def means(self) -> Callable | None:
        """(Z, *tables) -> expected outcomes (S, m, ...); None where PyMC has no formula."""
        try:
            mean = mean_of(self._drawn)
        except NotImplementedError:
            return None
        return self._compile([self.Z, *self.tables], self._rows([mean])[0])

    def constrain(self, names: tuple[str, ...]) -> Callable:
        """(Z, *tables) -> free variables and Deterministics in the user's space, (S, ...) each."""
        if names not in self._constrain:
            values = self.model.replace_rvs_by_values([self.model[name] for name in names])
            self._constrain[names] = self._compile([self.Z, *self.tables], self._rows(self._of_z(values)))
        return self._constrain[names]


def _is_of(variable: Any, kind: Any) -> bool:
    return isinstance(getattr(variable.owner, "op", None), kind)


def _with_parameters(new: TensorVariable, old: TensorVariable) -> TensorVariable:
    """A random variable of another size, for which PyMC gives a CustomDist the parameters that it was first made of."""
    node, first = new.owner, old.owner.inputs
    n = len(old.owner.op.dist_params(old.owner)) + 1 if _is_of(old, CustomSymbolicDistRV) else 0
    inputs = [
        b if 0 < k < n else _with_parameters(a, b) if not n and _is_of(b, _DRAWN) else a
        for k, (a, b) in enumerate(zip(node.inputs, first, strict=True))
    ]
    return node.clone_with_new_inputs(inputs).outputs[node.outputs.index(new)]


def _drawn(draw: Callable, leaves: list[np.ndarray]) -> np.ndarray:
    """Outcomes given parameters (S, ...) each; NaN of particles whose parameters NumPy refuses, as of huge counts."""
    with suppress(ValueError):
        return draw(*leaves)
    impossible = np.zeros(len(leaves[0]), bool)
    for s in range(len(impossible)):
        try:
            draw(*(leaf[[s]] for leaf in leaves))
        except ValueError:
            if impossible[:s].all() and s == len(impossible) - 1:
                raise
            impossible[s] = True
    kept = [np.where(impossible.reshape(-1, *[1] * (leaf.ndim - 1)), leaf[~impossible][:1], leaf) for leaf in leaves]
    drawn = np.asarray(draw(*kept), float)
    drawn[impossible] = np.nan
    return drawn
