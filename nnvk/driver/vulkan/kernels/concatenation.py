"""CONCATENATION: every input is moved to its place."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.kernels.unary import LOOKUP, LOOKUP_16, look_up
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import MOVE, dense_strides, move
from nnvk.driver.vulkan.lowering.quantised import lookup_table
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.concat import rescaled
from nnvk.ops.quant import is_quantised
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
                _in_scale(source, call.output, g),
                target,
                source.shape,
                dense_strides(source.shape),
                strides,
                target_first=first,
            )
        first += source.shape[call.axis] * math.prod(call.output.shape[call.axis + 1 :])


def _in_scale(source: Tensor, output: Tensor, g: Lowering) -> TensorRef:
    """The input in the output's quantisation."""
    if not is_quantised(source.code) or (source.scale, source.zero_point) == (output.scale, output.zero_point):
        return g.tensor(source)
    table = lookup_table(source, output, lambda every: rescaled(every, output))
    scaled = g.scratch(table.itemsize * source.size)
    look_up(g, g.tensor(source), table, scaled, source.size)
    return scaled
