"""Comparisons, LOGICAL_AND and LOGICAL_OR, with broadcasting."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.arrange import up_to_rank
from nnvk.driver.vulkan.lowering.broadcast import broadcast_push
from nnvk.driver.vulkan.lowering.kernel import FLOAT_AND_QUANT8, kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import element, sign_mask, zero_point
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperandCode, OperationCode

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
    where=lambda choice: choice["DTYPE"] == "q8" or choice["KIND"] not in _LOGICAL.values(),
    KIND=tuple(_KINDS.values()),
    DTYPE=("f32", "i32", "q8"),
)
LOCAL = 64
_TYPES = (*FLOAT_AND_QUANT8, OperandCode.TENSOR_INT32, OperandCode.TENSOR_BOOL8)


@kernel(*_KINDS, shaders=(COMPARE,), types=_TYPES, refuse=up_to_rank(4, "input0", "input1"))
def lower(call: Call, g: Lowering) -> None:
    """Four truth values an invocation."""
    first, second, output = call.input0, call.input1, call.output
    is_bool = first.code is OperandCode.TENSOR_BOOL8
    kind = "q8" if is_bool else element(first)
    count = -(-output.size // 4)
    push: dict[str, int | float] = {}
    if kind == "q8":
        push = {"sign_mask": sign_mask(first), "lhs_zero": zero_point(first), "rhs_zero": zero_point(second)}
        push |= {"lhs_scale": 1.0 if is_bool else first.scale, "rhs_scale": 1.0 if is_bool else second.scale}
    g.dispatch(
        COMPARE.variant(KIND=_KINDS[call.code], DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, **({"TRUTH": is_bool} if kind == "q8" else {})},
        tensors={"lhs": g.tensor(first), "rhs": g.tensor(second), "dst": g.tensor(output)},
        count=count,
        elements=output.size,
        **broadcast_push(output, first, second),
        **push,
    )
