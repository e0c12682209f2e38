"""ROUND_FLOAT: four elements an invocation."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.extension.round_float import EXPONENT_BIAS, LEAST_EXPONENT, MANTISSA_BITS, overflow_bits
from nnvk.types.extension import ExtendedOperationCode

ROUND_FLOAT = Shader("round_float")
LOCAL = 64


@kernel(ExtendedOperationCode.ROUND_FLOAT, shaders=(ROUND_FLOAT,))
def lower(call: Call, g: Lowering) -> None:
    """Lower ROUND_FLOAT to one dispatch."""
    count = -(-call.output.size // 4)
    g.dispatch(
        ROUND_FLOAT.variant(),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": g.tensor(call.input), "dst": g.tensor(call.output)},
        count=count,
        shift=MANTISSA_BITS - call.mantissa_bits,
        first=call.least_exponent + EXPONENT_BIAS,
        place=2.0 ** max(call.least_exponent - call.mantissa_bits, LEAST_EXPONENT),
        largest=int(np.float32(call.largest).view(np.uint32)),
        overflow=overflow_bits(call),
    )
