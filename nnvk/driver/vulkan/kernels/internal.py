"""The operations that only passes make (`nnvk.ops.internal`)."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, convert
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode


@kernel(InternalCode.CONVERT_FLOAT, shaders=(CONVERT,))
def lower_conversion(call: Call, g: Lowering) -> None:
    """Lower CONVERT_FLOAT."""
    convert(g, call.input, call.output, saturate=call.saturate)
