"""RESHAPE, SQUEEZE and EXPAND_DIMS: the same memory under another shape."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode


@kernel(OperationCode.RESHAPE, OperationCode.SQUEEZE, OperationCode.EXPAND_DIMS)
def lower(call: Call, g: Lowering) -> None:
    """Nothing runs."""
    g.alias(call.input, call.output)
