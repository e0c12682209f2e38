"""CONCATENATION and PACK: every input is moved to its place."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.kernels.unary import LOOKUP, LOOKUP_16, requantised
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import MOVE, dense_strides, move
from nnvk.ops.call import Call
from nnvk.ops.concat import rescaled
from nnvk.types.codes import OperationCode


@kernel(OperationCode.CONCATENATION, shaders=(MOVE, LOOKUP, LOOKUP_16))
def lower(call: Call, g: Lowering) -> None:
    """A dispatch an input, and one before it where its scale is another than the output's."""
    target, strides = g.tensor(call.output), dense_strides(call.output.shape)
    first = 0
    for source in call.inputs:
        if source.size:
            move(
                g,
                moved(source),
                requantised(g, source, call.output, rescaled),
                target,
                source.shape,
                dense_strides(source.shape),
                strides,
                target_first=first,
            )
        first += source.shape[call.axis] * math.prod(call.output.shape[call.axis + 1 :])


@kernel(OperationCode.PACK, shaders=(MOVE,))
def lower_pack(call: Call, g: Lowering) -> None:
    """A dispatch an input."""
    target, count = g.tensor(call.output), len(call.inputs)
    inner = math.prod(call.output.shape[call.axis + 1 :])
    for number, source in enumerate(call.inputs):
        sizes = (source.size // inner, inner)
        place = (count * inner, 1)
        move(g, moved(source), g.tensor(source), target, sizes, (inner, 1), place, target_first=number * inner)
