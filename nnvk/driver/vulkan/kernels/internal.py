"""The operations that only passes make (`nnvk.ops.internal`)."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.arrange import ARRANGE, arrange
from nnvk.driver.vulkan.lowering.convert import CONVERT, convert
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import dense_strides
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode


@kernel(InternalCode.CONVERT_FLOAT, shaders=(CONVERT,))
def lower_conversion(call: Call, g: Lowering) -> None:
    """Lower CONVERT_FLOAT."""
    convert(g, call.input, call.output, saturate=call.saturate)


@kernel(InternalCode.TAKE_COLUMNS, shaders=(ARRANGE,))
def lower_columns(call: Call, g: Lowering) -> None:
    """Lower TAKE_COLUMNS."""
    rows, width = call.output.shape
    box = [(rows, call.input.shape[1]), (width, 1)]
    arrange(g, moved(call.input), g.tensor(call.input), g.tensor(call.output), box, call.first)


@kernel(InternalCode.PERMUTE, shaders=(ARRANGE,))
def lower_permutation(call: Call, g: Lowering) -> None:
    """Lower PERMUTE."""
    shape = call.input.shape
    box = list(zip(shape, dense_strides(shape), strict=True))
    permuted = [box[axis] for axis in call.permutation]
    arrange(g, moved(call.input), g.tensor(call.input), g.tensor(call.output), permuted)


@kernel(InternalCode.VIEW)
def lower_view(call: Call, g: Lowering) -> None:
    """Nothing runs."""
    g.alias(call.input, call.output)
