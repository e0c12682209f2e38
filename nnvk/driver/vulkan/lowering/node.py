"""Lowering of one node of a graph, with the calls that it computes besides its own."""

from __future__ import annotations

from dataclasses import replace

from nnvk.driver.vulkan.graph.ir import Node
from nnvk.driver.vulkan.lowering.elementwise.fused import fuse_elementwise
from nnvk.driver.vulkan.lowering.gemm.problem import Epilogue, Fused
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Tensor
from nnvk.types.codes import OperationCode


def lower(node: Node, g: Lowering) -> None:
    """Lower a node: an operation, a GEMM with its prologue and epilogue, or elementwise operations together."""
    call = node.call
    if node.traits.gemm is None and node.program is not None:
        fuse_elementwise(g, node.program, node.outputs)
        return
    fused = Fused()
    for before in node.prologue:
        if before.code is OperationCode.DEPTHWISE_CONV_2D:
            fused = replace(fused, depthwise=before)
        else:
            fused = replace(fused, wide_input=before.input.whole)
    if node.epilogue:
        (output,) = node.outputs
        epilogue = Epilogue(node.epilogue, call.output.index, _shaped_as(call.output, output), node.program)
        fused = replace(fused, epilogue=epilogue)
    kernels()[node.code].lower(call, g, fused)


def _shaped_as(result: Tensor, output: Tensor) -> Tensor:
    """An output in the shape of a result of as many elements, and viewed as that is."""
    shape = result.whole.shape
    target = Tensor(output.name, output.index, output.type.with_dimensions(shape), shape)
    return target.as_viewed(result)
