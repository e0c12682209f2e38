"""TRANSPOSE, CHANNEL_SHUFFLE and TILE: boxes of the input with its dimensions split, in another order, or repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.driver.vulkan.lowering.arrange import ARRANGE, Dimension, arrange, up_to_rank
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import dense_strides
from nnvk.ops.call import Call
from nnvk.ops.rearrange import permutation
from nnvk.ops.shapes import vector
from nnvk.types.codes import OperationCode


def _transposed(call: Call, box: Sequence[Dimension]) -> list[Dimension]:
    return [box[axis] for axis in permutation(call)]


def _shuffled(call: Call, box: Sequence[Dimension]) -> list[Dimension]:
    axis = call.axis % len(box)
    channels, stride = box[axis]
    in_group = channels // call.num_groups
    return [*box[:axis], (in_group, stride), (call.num_groups, in_group * stride), *box[axis + 1 :]]


def _tiled(call: Call, box: Sequence[Dimension]) -> list[Dimension]:
    repeated = zip(vector(call.multiples, any_rank=True), box, strict=True)
    return [dimension for multiple, of_input in repeated for dimension in ((multiple, 0), of_input)]


_BOXES: dict[OperationCode, Callable[[Call, Sequence[Dimension]], list[Dimension]]] = {
    OperationCode.TRANSPOSE: _transposed,
    OperationCode.CHANNEL_SHUFFLE: _shuffled,
    OperationCode.TILE: _tiled,
}


@kernel(*_BOXES, shaders=(ARRANGE,), refuse=up_to_rank(4))
def lower(call: Call, g: Lowering) -> None:
    """One dispatch."""
    shape = call.input.shape
    box = _BOXES[call.code](call, list(zip(shape, dense_strides(shape), strict=True)))
    arrange(g, moved(call.input), g.tensor(call.input), g.tensor(call.output), box)
