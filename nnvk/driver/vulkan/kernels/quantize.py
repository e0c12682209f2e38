"""QUANTIZE, also with ties to even, DEQUANTIZE and CAST."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, convert
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode


@kernel(OperationCode.QUANTIZE, ExtendedOperationCode.QUANTIZE, OperationCode.DEQUANTIZE, shaders=(CONVERT,))
def lower(call: Call, g: Lowering) -> None:
    """Lower QUANTIZE or DEQUANTIZE: convert without changing the real numbers."""
    convert(g, call.input, call.output)


@kernel(ExtendedOperationCode.QUANTIZE_TIES_TO_EVEN, shaders=(CONVERT,))
def lower_to_even(call: Call, g: Lowering) -> None:
    """Lower QUANTIZE_TIES_TO_EVEN: round to the nearest quantised value, ties to even."""
    convert(g, call.input, call.output, to_even=True)


@kernel(OperationCode.CAST, shaders=(CONVERT,))
def lower_cast(call: Call, g: Lowering) -> None:
    """Lower CAST: convert the numbers without regard to scales."""
    if call.input.dtype == call.output.dtype:
        source = g.tensor(call.input)
        g.copy(source, g.tensor(call.output), source.nbytes)
    else:
        convert(g, call.input, call.output, as_numbers=True)
