"""Comparisons, LOGICAL_AND and LOGICAL_OR, with broadcasting, and SELECT by their results."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.arrange import up_to_rank
from nnvk.driver.vulkan.lowering.dtypes import MOVED, dtype, moved
from nnvk.driver.vulkan.lowering.elementwise.broadcast import broadcast_push, broadcast_spec
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push, zero_point
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.compare import comparable_scales
from nnvk.ops.quant import is_quantised
from nnvk.types.codes import OperationCode

_COMPARISONS = {
    OperationCode.EQUAL: "equal",
    OperationCode.GREATER: "greater",
    OperationCode.GREATER_EQUAL: "greater_equal",
    OperationCode.LESS: "less",
    OperationCode.LESS_EQUAL: "less_equal",
    OperationCode.NOT_EQUAL: "not_equal",
}
_LOGICAL = {OperationCode.LOGICAL_AND: "and", OperationCode.LOGICAL_OR: "or"}
_KINDS = {**_COMPARISONS, **_LOGICAL}

COMPARE = Shader(
    "compare",
    where=lambda choice: choice["DTYPE"] == "bool" or choice["KIND"] not in _LOGICAL.values(),
    KIND=tuple(_KINDS.values()),
    DTYPE=("f32", "f16", "i32", "bool", "q8"),
)
SELECT = Shader("select", DTYPE=MOVED)
LOCAL = 64


@kernel(*_KINDS, shaders=(COMPARE,), refuse=up_to_rank(4, "input0", "input1"))
def lower(call: Call, g: Lowering) -> None:
    """Lower a comparison or logical operation: each invocation computes four results."""
    first, second, output = call.input0, call.input1, call.output
    count = -(-output.size // 4)
    push: dict[str, int | float] = {**sign_push(first)}
    if is_quantised(first.code):
        push |= {"lhs_zero": zero_point(first), "rhs_zero": zero_point(second)}
        push["lhs_scale"], push["rhs_scale"] = comparable_scales(first, second)
    g.dispatch(
        COMPARE.variant(KIND=_KINDS[call.code], DTYPE=dtype(first)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, **broadcast_spec(output, first, second)},
        tensors={"lhs": g.tensor(first), "rhs": g.tensor(second), "dst": g.tensor(output)},
        count=count,
        **broadcast_push(output, first, second),
        **push,
    )


@kernel(OperationCode.SELECT, shaders=(SELECT,))
def lower_select(call: Call, g: Lowering) -> None:
    """Lower SELECT: each invocation takes four elements, which have the output's quantisation (`quantisation`)."""
    output = call.output
    count = -(-output.size // 4)
    g.dispatch(
        SELECT.variant(DTYPE=moved(output)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "condition": g.tensor(call.condition),
            "lhs": g.tensor(call.input1),
            "rhs": g.tensor(call.input2),
            "dst": g.tensor(output),
        },
        count=count,
    )
