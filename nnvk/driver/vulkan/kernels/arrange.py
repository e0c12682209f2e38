"""Operations that only move elements: each output is a box of the input (the trait `boxes`)."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.arrange import ARRANGE, RANK, arrange, up_to_rank
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode, traits_of
from nnvk.types.codes import OperationCode


@kernel(OperationCode.RESHAPE, OperationCode.SQUEEZE, OperationCode.EXPAND_DIMS, InternalCode.VIEW)
def lower_view(call: Call, g: Lowering) -> None:
    """Nothing runs: the output is the same memory under another shape."""
    g.alias(call.input, call.output)


@kernel(
    OperationCode.REVERSE,
    OperationCode.SLICE,
    OperationCode.SPLIT,
    OperationCode.STRIDED_SLICE,
    shaders=(ARRANGE,),
    refuse=up_to_rank(RANK),
)
@kernel(
    OperationCode.CHANNEL_SHUFFLE,
    OperationCode.TILE,
    OperationCode.TRANSPOSE,
    shaders=(ARRANGE,),
    refuse=up_to_rank(RANK // 2),
)
@kernel(
    OperationCode.BATCH_TO_SPACE_ND,
    OperationCode.DEPTH_TO_SPACE,
    OperationCode.SPACE_TO_DEPTH,
    InternalCode.ARRANGE,
    shaders=(ARRANGE,),
)
def lower(call: Call, g: Lowering) -> None:
    """A dispatch for each output."""
    boxes = traits_of(call.code).boxes
    assert boxes is not None
    for output, box in zip(call.outputs, boxes(call) or (), strict=True):
        if output.size:
            arrange(g, moved(call.input), g.tensor(call.input), g.tensor(output), box)
