"""Rewrites of vectorized graphs whose operations would be called for one particle at a time."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.rewriting.linalg.solvers import batched_vector_b_solve_to_matrix_b_solve
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_active.posterior.graph import in_rows


def batched(outputs: list) -> list:
    """Vectorized expressions without operations for one particle at a time, as far as they are known."""
    return _rewritten(outputs, _graphs, _joins, _indices, _scans)


def without_checks(log_densities: list) -> list:
    """Log densities that are minus infinity where a check would raise, and solve for all rows of a matrix at once."""
    return _rewritten(log_densities, local_check_parameter_to_ninf_switch, batched_vector_b_solve_to_matrix_b_solve)


def _rewritten(outputs: list, *rewriters: Any) -> list:
    """Copies of expressions, in the same variables, after some rewrites."""
    graph = FunctionGraph(outputs=outputs, clone=True, copy_inputs=False)
    for rewriter in rewriters:
        in2out(rewriter).rewrite(graph)
    return list(graph.outputs)


@node_rewriter([Blockwise])
def _graphs(fgraph, node):
    """An operation that stands for a graph, such as LogSumExp, as this graph of all particles."""
    op = node.op.core_op
    if not isinstance(op, OpFromGraph) or isinstance(op, SymbolicRandomVariable):
        return None
    graph = op.fgraph.unfreeze()
    return vectorize_graph(graph.outputs, dict(zip(graph.inputs, node.inputs, strict=True)))


@node_rewriter([Blockwise])
def _joins(fgraph, node):
    """A join of arrays with different batches as one join."""
    if not isinstance(node.op.core_op, Join):
        return None
    n = node.op.batch_ndim(node)
    return [pt.join(node.op.core_op.axis + n, *_alike(node.inputs, n))]


@node_rewriter([Blockwise])
def _indices(fgraph, node):
    """Elements of each array of a batch, such as probabilities of categories, by indices of all of them."""
    op, n = node.op.core_op, node.op.batch_ndim(node)
    if not isinstance(op, AdvancedSubtensor) or not all(isinstance(one, int) for one in op.idx_list):
        return None
    x, *indices = node.inputs
    wide = max(index.type.ndim for index in indices)
    indices = [pt.expand_dims(index, [*range(n, n + wide - index.type.ndim)]) for index in indices]
    sizes = [1 if x.type.broadcastable[k] else x.shape[k] for k in range(n)]
    before = [pt.shape_padright(pt.arange(size), wide - 1 - k) for k, size in enumerate(sizes)]
    return [node.outputs[0].type.filter_variable(x[(*before, *indices)])]


@node_rewriter([Blockwise])
def _scans(fgraph, node):
    """A loop over time for each particle as one loop whose every step is for all particles."""
    scan, info = node.op.core_op, getattr(node.op.core_op, "info", None)
    if not isinstance(scan, Scan) or node.op.batch_ndim(node) != 1:
        return None
    if info.as_while or info.n_untraced_sit_sot or info.mit_mot_in_slices:
        return None
    traced = [*scan.outer_seqs(node.inputs), *scan.outer_mitsot(node.inputs), *scan.outer_sitsot(node.inputs)]
    arrays = _alike([*traced, *scan.outer_non_seqs(node.inputs)], 1)
    # Time comes first, then particles.
    traced, others = [x.swapaxes(0, 1) for x in arrays[: len(traced)]], arrays[len(traced) :]
    inner = {x: x.type.clone(shape=(None, *x.type.shape))() for x in scan.inner_inputs}
    outputs = in_rows(scan.inner_outputs, inner)
    batched = Scan(list(inner.values()), outputs, info, mode=scan.mode, name=scan.name, strict=scan.strict)
    lengths = [length[0] for length in scan.outer_nitsot(node.inputs)]
    stacked = batched(node.inputs[0][0], *traced, *lengths, *others, return_list=True)
    return [x.swapaxes(0, 1) for x in stacked]


def _alike(arrays: list, n: int) -> list:
    """Arrays, broadcast to the same first n dimensions."""
    batches = []
    for k in range(n):
        sizes = [x.shape[k] for x in arrays if not x.type.broadcastable[k]]
        batches.append(sizes[0] if sizes else 1)
    return [pt.broadcast_to(x, (*batches, *(x.shape[k] for k in range(n, x.type.ndim)))) for x in arrays]
