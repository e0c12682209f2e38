"""SELECT."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.unary import LOOKUP, LOOKUP_16, requantised
from nnvk.driver.vulkan.lowering.dtypes import MOVED, moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

SELECT = Shader("select", DTYPE=MOVED)
LOCAL = 64


@kernel(OperationCode.SELECT, shaders=(SELECT, LOOKUP, LOOKUP_16))
def lower(call: Call, g: Lowering) -> None:
    """Four elements an invocation, in the output's quantisation."""
    output = call.output
    count = -(-output.size // 4)
    g.dispatch(
        SELECT.variant(DTYPE=moved(output)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "condition": g.tensor(call.condition),
            "lhs": requantised(g, call.input1, output),
            "rhs": requantised(g, call.input2, output),
            "dst": g.tensor(output),
        },
        count=count,
    )
