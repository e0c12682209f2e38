"""Lowering of one node of a graph, with the calls that it computes besides its own."""

from __future__ import annotations

from nnvk.driver.vulkan.graph.ir import Node
from nnvk.driver.vulkan.lowering.elementwise.fused import fuse_elementwise
from nnvk.driver.vulkan.lowering.gemm.epilogue import Epilogue
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Tensor
from nnvk.types.codes import OperationCode


def lower(node: Node, g: Lowering) -> None:
    """Lower a node: an operation, a GEMM with its prologue and epilogue, or elementwise operations together.

    The kernel of a GEMM gets the rest as attributes of its call: ``wide_input``, ``depthwise`` and ``epilogue``.
    """
    call = node.call
    if node.traits.gemm is None and node.epilogue:
        fuse_elementwise(g, node.calls, node.outputs)
        return
    for before in node.prologue:
        if before.code is OperationCode.DEPTHWISE_CONV_2D:
            call = call.replaced(depthwise=before)
        else:
            call = call.replaced(wide_input=before.input.whole)
    if node.epilogue:
        (output,) = node.outputs
        following = Epilogue(node.epilogue, call.output.index, _shaped_as(call.output, output))
        call = call.replaced(epilogue=following)
    kernels()[node.code].lower(call, g)


def _shaped_as(result: Tensor, output: Tensor) -> Tensor:
    """An output in the shape of a result of as many elements, and viewed as that is."""
    shape = result.whole.shape
    target = Tensor(output.name, output.index, output.type.with_dimensions(shape), shape)
    return target.as_viewed(result)
