"""SPACE_TO_BATCH_ND: blocks of padded images become batches."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.copies.arrange import ARRANGE, arrange
from nnvk.driver.vulkan.lowering.copies.move import FILL, MOVE, fill, move
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call
from nnvk.ops.space import space_paddings, space_to_batch_box
from nnvk.ops.strided import dense_strides
from nnvk.ops.window import layout_shape
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


@kernel(OperationCode.SPACE_TO_BATCH_ND, shaders=(ARRANGE, FILL, MOVE))
def lower(call: Call, g: Lowering) -> None:
    """One dispatch, and two before it if the input is to be padded."""
    source, shape = _padded(call, g)
    arrange(g, moved(call.input), source, g.tensor(call.output), space_to_batch_box(call, shape))


def _padded(call: Call, g: Lowering) -> tuple[TensorRef, Shape]:
    """The input with zeros around its images, and its shape then."""
    source, before = g.tensor(call.input), call.input.shape
    (top, bottom), (left, right) = space_paddings(call)
    if not any((top, bottom, left, right)):
        return source, before
    first, second = layout_shape((0, top, left, 0), call.nchw), layout_shape((0, bottom, right, 0), call.nchw)
    shape = tuple(sum(sizes) for sizes in zip(first, before, second, strict=True))
    target = g.scratch(math.prod(shape) * call.input.dtype.itemsize)
    fill(g, target, np.array(call.input.zero_point, call.input.dtype))
    strides = dense_strides(shape)
    start = sum(index * stride for index, stride in zip(first, strides, strict=True))
    move(g, moved(call.input), source, target, before, dense_strides(before), strides, target_first=start)
    return target, shape
