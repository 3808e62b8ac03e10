"""The default PyTensor compilation mode."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.vm import VMLinker
from pytensor.scalar import Add, Clip, Mul
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.tensor.elemwise import Elemwise

# Terms of one sum or product in compiled graphs, at most.
_OPERANDS = 20
# What makes graphs smaller, stable and quick. All that "fast_run" does besides takes time and gains none without a
# compiler behind it; a power as nested squares is called from Python for each number; distributing factors takes half
# of the time, and gains nothing; a search for orthogonal matrices fails on batches, loudly.
_REWRITES = RewriteDatabaseQuery(
    include=["merge", "useless", "canonicalize", "stabilize", "specialize", "blockwise"],
    exclude=["local_pow_to_nested_squaring", "local_greedy_distributor", "orthogonal_solve_to_transpose_matmul"],
)
# Operations from which on a graph, as of a loop written out, is not brought into canonical form: that time is quadratic
# (a loop of 50 steps compiled in 26 s, and evaluated in 15 ms; without it in 5 s and 37 ms).
_LARGE = 1000


@node_rewriter([Elemwise])
def _split_long(fgraph, node):
    """Split long sums and products, because NumPy's elementwise functions take at most 32 operands."""
    if len(node.inputs) > _OPERANDS and isinstance(node.op.scalar_op, Add | Mul):
        return [node.op(node.op(*node.inputs[:_OPERANDS]), *node.inputs[_OPERANDS:])]
    return None


@node_rewriter([Elemwise])
def _of_arrays(fgraph, node):
    """Operations that call Python for each number, in terms of NumPy's functions; PyMC clips every distance."""
    x, *limits = node.inputs
    match node.op.scalar_op:
        case Clip() if all(isinstance(limit, Constant) for limit in limits) and np.all(
            limits[0].data <= limits[1].data
        ):
            y = pt.minimum(pt.maximum(x, limits[0]), limits[1])
        case Softplus():
            y = pt.maximum(x, 0) + pt.log1p(pt.exp(-abs(x)))
        case Log1mexp():
            # Neither the logarithm nor the difference cancels on its side of -log 2.
            y = pt.switch(x < -np.log(2), pt.log1p(-pt.exp(x)), pt.log(-pt.expm1(x)))
        case _:
            return None
    return [y.astype(node.outputs[0].type.dtype)]


def may_round() -> bool | None:
    """``allow_input_downcast`` of PyTensor: where the user asked it for single precision, numbers are rounded."""
    return pytensor.config.floatX == "float32" or None


def vm_mode(n_operations: int = 0) -> Mode:
    """A mode without JIT and C compiler: elementwise graphs build in about a second and run at NumPy's speed."""
    rewrites = _REWRITES.excluding("canonicalize") if n_operations > _LARGE else _REWRITES
    mode = Mode(linker=VMLinker(use_cloop=False, c_thunks=False), optimizer=rewrites)
    # Last, so that no rewrite merges the terms again.
    return mode.register((in2out(_split_long), 100), (in2out(_of_arrays), 101))
