"""Unrolled layers: FULLY_CONNECTED operations on different rows of one tensor, with the same weights, become one.

Some converters unroll a recurrent layer into one cell for each time step, which reads its inputs from the sequence. One
GEMM multiplies the inputs of all time steps, because a GEMM of many rows is hardly slower than one of one row. Kernels
of whole cells do the same (`nnvk.driver.vulkan.lowering.recurrent.time_steps`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.graph.rewriter import Rewriter
from nnvk.driver.vulkan.lowering.recurrent.time_steps import layer_of
from nnvk.driver.vulkan.planning.passes.arrangements import box_of
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.strided import Box
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

_PRODUCTS = frozenset({OperationCode.FULLY_CONNECTED, ExtendedOperationCode.FULLY_CONNECTED})


def fuse_time_steps(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Multiply the inputs of all time steps of a layer by one GEMM."""
    users = Counter(tensor.index for node in graph.nodes for tensor in node.inputs)
    together: dict[Hashable, Tensor] = {}
    rewriter = Rewriter(graph)
    for node in rewriter.nodes():
        found = _layer(rewriter, node, users) if node.code in _PRODUCTS else None
        if found is None:
            continue
        whole, rows, row = found
        call, (own, columns) = node.call, node.call.output.shape
        type_, new = call.output.type, list[Node]()
        key = node.code, whole.index, call.weights.index, call.bias.index, call.activation, type_.with_dimensions(())
        if key not in together:
            shape = rows, call.weights.shape[1]
            inputs = context.tensor("time steps", call.input.type.with_dimensions(shape))
            output = context.tensor("together", type_.with_dimensions((rows, columns)))
            together[key] = output
            new.append(node.with_call(call_of(InternalCode.VIEW, inputs, input=whole)))
            new.append(node.with_call(_on(call, inputs, output)))
        box = Box(((own * columns, 1),), row * columns)
        arranged = node.with_call(call_of(InternalCode.ARRANGE, call.output, input=together[key], box=box))
        rewriter.replace(node, *new, arranged)
    return rewriter.graph, len(together)


def _on(call: Call, inputs: Tensor, output: Tensor) -> Call:
    """The same call on other inputs, with another output."""
    instead = {call.input.index: inputs, call.output.index: output}
    return call.with_tensors(lambda tensor: instead.get(tensor.index, tensor))


def _layer(rewriter: Rewriter, node: Node, users: Counter[int]) -> tuple[Tensor, int, int] | None:
    """The tensor with the inputs of all time steps, its rows, and the first row of this one; None without a layer."""
    call = node.call
    taken = _taken_from(rewriter, call.input) if call.weights.view is None and call.input.view is None else None
    if taken is None or call.known("activation") is None:
        return None
    whole, first = taken
    multiplied = min(users[call.weights.index], users[call.bias.index])
    layer = layer_of(call.input, call.weights, whole.size, first, multiplied)
    return None if layer is None else (whole, *layer)


def _taken_from(rewriter: Rewriter, tensor: Tensor) -> tuple[Tensor, int] | None:
    """The tensor that has the elements of another one, one after the other, and the first of them there."""
    whole, first = tensor, 0
    while (node := rewriter.producer(whole)) is not None and node.boxes is not None:
        box = box_of(node, whole)
        if not box.is_run:
            break
        whole, first = node.call.input, first + box.first
    return None if whole.is_constant else (whole, first)
