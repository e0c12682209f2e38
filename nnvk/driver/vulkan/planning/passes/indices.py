"""GATHER counts indices below 0 from the end itself (GATHER_WRAPPED). ONNX models get four operations for that."""

from __future__ import annotations

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.patterns import Match, Pattern
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.types.codes import OperationCode


def wrap_indices(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let GATHER count indices below 0 from the end."""
    nodes: list[Node] = []
    fused: set[Node] = set()
    count = 0
    for node in graph.nodes:
        axis = node.call.known("axis") if node.code is OperationCode.GATHER else None
        if axis is not None and not node.call.indices.is_constant:
            match = Match(graph)
            if match.matches(node.call.indices, _wrapped(node.call.input.shape[axis])):
                call = _call(node.call, match.named["index"], axis)
                if call.indices.shape == node.call.indices.shape and not context.refuse(call):
                    node = node.with_call(call, match.nodes)
                    fused.update(match.nodes)
                    count += 1
        nodes.append(node)
    return (graph.with_nodes(nodes).without_unused(fused), count) if count else (graph, 0)


def _wrapped(size: int) -> Pattern:
    """Indices to which the size is added where they are below 0."""
    is_below = OperationCode.LESS, "index", 0
    return OperationCode.ADD, "index", (OperationCode.MUL, (OperationCode.SELECT, is_below, 1, 0), size)


def _call(gather: Call, indices: Tensor, axis: int) -> Call:
    return call_of(InternalCode.GATHER_WRAPPED, gather.output, input=gather.input, axis=axis, indices=indices)
