"""QUANTIZE and DEQUANTIZE between floats and bytes."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import sign_mask, zero_point
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

QUANTIZE = Shader("quantize", KIND=("quantize", "dequantize"))
LOCAL = 64


@kernel(OperationCode.QUANTIZE, OperationCode.DEQUANTIZE, shaders=(QUANTIZE,))
def lower(call: Call, g: Lowering) -> None:
    """Four elements an invocation."""
    forward = call.code is OperationCode.QUANTIZE
    quantised = call.output if forward else call.input
    count = -(-call.input.size // 4)
    g.dispatch(
        QUANTIZE.variant(KIND="quantize" if forward else "dequantize"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": g.tensor(call.input), "dst": g.tensor(call.output)},
        count=count,
        scale=quantised.scale,
        zero=zero_point(quantised),
        sign_mask=sign_mask(quantised),
    )
