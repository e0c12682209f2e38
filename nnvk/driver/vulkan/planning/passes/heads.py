"""Matrices that lie side by side in larger rows, as the heads of attention do: GEMMs read and write them there.

Models transpose such matrices in front of GEMMs, and back behind them. A GEMM goes from larger row to larger row
instead.
"""

from __future__ import annotations

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.graph.rewriter import Rewriter
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.planning.passes.arrangements import box_of, read_where_they_lie
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.ops.call import Tensor
from nnvk.ops.internal import InternalCode
from nnvk.ops.traits import View
from nnvk.types.codes import OperationCode

_MATRICES = frozenset({OperationCode.BATCH_MATMUL, InternalCode.ATTENTION})
"""Operations on the matrices of heads."""


def write_heads(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let GEMMs write their results where the one arrangement that reads them would put them.

    An arrangement that another one reads stays: the pass `transposes` makes one of both, or none.
    """
    rewriter = Rewriter(graph)
    for node in rewriter.nodes():
        if node.code in _MATRICES:
            _write(rewriter, node)
    return rewriter.graph, rewriter.rewrites


def read_and_write_heads(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let GEMMs read and write matrices where they lie in other tensors, instead of copies."""
    rewriter = Rewriter(graph)
    for node in rewriter.nodes():
        if node.code in _MATRICES:
            _write(rewriter, read_where_they_lie(rewriter, node))
    return rewriter.graph, rewriter.rewrites


def _write(rewriter: Rewriter, gemm: Node) -> None:
    """Let a GEMM write its result where the one arrangement that reads it would put it, if its kernel can."""
    takes_view, result = kernels()[gemm.code].takes_view, gemm.call.output
    reader = rewriter.only_user(result)
    while reader is not None and reader.traits.view is View.RESHAPED:
        reader = rewriter.only_user(reader.call.output)
    if takes_view is None or result.view is not None or reader is None or reader.boxes is None:
        return
    target = reader.call.output
    box = box_of(reader, target)
    if not box.reorders(result.size) or _is_arranged(rewriter, target):
        return
    view = target.viewed(result.shape, box.inverse)
    if takes_view(gemm.call, result, view, True):
        call = gemm.call.with_tensors(lambda tensor: view if tensor is result else tensor)
        rewriter.replace(reader, gemm.with_call(call, [reader]))


def _is_arranged(rewriter: Rewriter, tensor: Tensor) -> bool:
    """Whether another arrangement than a reshape reads a tensor."""
    for reader in rewriter.users(tensor):
        if reader.traits.view is View.RESHAPED and _is_arranged(rewriter, reader.call.output):
            return True
        if reader.traits.view is not View.RESHAPED and reader.boxes is not None:
            return True
    return False
