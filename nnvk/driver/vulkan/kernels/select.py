"""SELECT."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.unary import LOOKUP, requantised
from nnvk.driver.vulkan.lowering.arrange import MOVED_TYPES
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import dtype
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperandCode, OperationCode

SELECT = Shader("select", DTYPE=("f32", "q8"))
LOCAL = 64


@kernel(OperationCode.SELECT, shaders=(SELECT, LOOKUP), types=(OperandCode.TENSOR_BOOL8, *MOVED_TYPES))
def lower(call: Call, g: Lowering) -> None:
    """Four elements an invocation, in the output's quantisation."""
    output = call.output
    count = -(-output.size // 4)
    g.dispatch(
        SELECT.variant(DTYPE=dtype(output)),
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
