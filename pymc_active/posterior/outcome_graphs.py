"""The likelihood of a latent function in a PyMC model, as functions of its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.moments.means import mean as mean_of
from pymc.distributions.shape_utils import change_dist_size
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pymc.pytensorf import join_nonshared_inputs, rewrite_pregrad
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from pymc_active.likelihoods.compiled import CompiledLikelihood, Functions
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.graph import OneAtATime


class OutcomeGraphs:
    """The distribution of an outcome given ``f`` (n,), and the value variables in ``used`` that it depends on besides.

    ``of_rows`` holds the trials or exposure of each row, if there are any.
    """

    def __init__(self, model: pm.Model, outcome: TensorVariable, f: TensorVariable, of_rows: Any, shapes: dict):
        node: Any = outcome.owner
        *inputs, latent = model.replace_rvs_by_values([*node.inputs, f])
        rv = node.clone_with_new_inputs(inputs).outputs[node.outputs.index(outcome)]
        self.depends = latent in ancestors([rv])
        self.f, self.size = pt.vector("f", dtype="float64"), pt.vector("size", dtype="float64")
        given: Any = {latent: self.f} | ({} if of_rows is None else {of_rows: self.size.astype(of_rows.type.dtype)})
        [rv] = clone_replace([rv], given, rebuild_strict=False)
        found = set(ancestors([rv]))
        self.roots = found
        self.used = [value for value in model.value_vars if value in found and value.name in shapes]
        self.phi = pt.vector("phi", dtype="float64")
        if self.used:
            point = {value.name: np.zeros(shapes[value.name]) for value in self.used}
            [rv], self.phi = join_nonshared_inputs(point=point, outputs=[rv], inputs=self.used)
        self.q = sum(math.prod(shapes[value.name]) for value in self.used)
        self.rv, self.dtype = change_dist_size(rv, (self.f.shape[0],)), outcome.type.dtype
        op = node.op
        self.name = (
            getattr(op, "_print_name", (type(op).__name__,))[0] if isinstance(op, SymbolicRandomVariable) else op.name
        )

    def likelihood(self, labels: Sequence[str], size_name: str | None) -> CompiledLikelihood:
        """Compiled; ``labels`` are those of phi. A ValueError if the outcome at a row depends on other rows."""
        f, y, size = (pt.scalar(name, dtype="float64") for name in ("f", "y", "size"))
        given: Any = {self.f: f[None], self.size: size[None]}
        [one] = clone_replace([self.rv], given, rebuild_strict=False)
        log = pm.logp(one, y[None].astype(self.dtype))
        if log.type.shape != (1,):
            raise ValueError(f"shape {log.type.shape}")
        [log] = rewrite_pregrad([rewrite_graph(log[0], (), in2out(local_check_parameter_to_ninf_switch))])
        first: Any = pytensor.grad(log, f)
        second: Any = pytensor.grad(-first, f, disconnected_inputs="ignore")
        slopes: Any = pytensor.grad(log, self.phi, disconnected_inputs="ignore")
        F, Y, Z, Phi = (
            pt.tensor(name, dtype="float64", shape=shape)
            for name, shape in (
                ("F", (None, None, None)),
                ("Y", (None, 1, None)),
                ("Z", (None, 1, None)),
                ("Phi", (1, None, 1, self.q)),
            )
        )
        rows = vectorize_graph([log, first, second, slopes], {f: F, y: Y, size: Z, self.phi: Phi})
        expected = mean_of(self.rv)
        functions = Functions(
            _compiled([F, Y, Z, Phi], rows[:3]),
            _compiled([F, Y, Z, Phi], rows[3]),
            _compiled([self.f, self.size, self.phi], expected),
            _Draws([self.f, self.size, self.phi], self.rv),
        )
        self._check_rows(functions)
        is_discrete = self.dtype.startswith(("int", "uint", "bool"))
        return CompiledLikelihood(self.name, labels, functions, is_discrete=is_discrete, size_name=size_name)

    def _check_rows(self, functions: Functions) -> None:
        """Raise a ValueError if outcomes are not what they would be alone."""
        f, size, phi = np.array([-0.4, 0.1, 0.7]), np.ones(3), np.full(self.q, 0.1)
        [y] = functions.draw(np.random.default_rng(0), [(f, size, phi)])
        value = pt.vector("y", dtype=self.dtype)
        log = _compiled([self.f, self.size, self.phi, value], pm.logp(self.rv, value))
        found = functions.terms(f[None, None], np.array(y, float)[None, None], size[None, None], phi[None, None, None])[
            0
        ]
        if not np.allclose(log(f, size, phi, y), found, rtol=1e-8, equal_nan=True):
            raise ValueError("an outcome depends on several rows")


def _compiled(inputs: list, outputs: Any) -> OneAtATime:
    return OneAtATime(pytensor.function(inputs, outputs, mode=vm_mode(), on_unused_input="ignore"))


class _Draws:
    """Draws of an outcome for lists of f and sizes (N,) and parameters (q,)."""

    def __init__(self, inputs: list, rv: TensorVariable):
        shared = [v for v in ancestors([rv]) if isinstance(v.type, RandomType) and v.owner is None]
        generators = [v.type() for v in shared]
        self._n, how = len(generators), dict[str, Any](mode=vm_mode(), on_unused_input="ignore")
        given = dict(zip(shared, generators, strict=True))
        self._function = OneAtATime(pytensor.function([*generators, *inputs], rv, givens=given, **how))

    def __call__(self, rng: np.random.Generator, of_each: list) -> list[np.ndarray]:
        return [_drawn(partial(self._function, *rng.spawn(self._n)), *given) for given in of_each]


def _drawn(function: Any, f: np.ndarray, size: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Outcomes (N,); NaN where NumPy refuses parameters, as of huge counts."""
    try:
        return np.broadcast_to(function(f, size, phi), f.shape)
    except ValueError:
        if len(f) == 1:
            return np.array([np.nan])
    # All that is refused is at the ends of f.
    order = np.argsort(f)
    halves = [_drawn(function, f[half], size[half], phi) for half in np.array_split(order, 2)]
    out = np.empty(len(f))
    out[order] = np.concatenate(halves)
    return out
