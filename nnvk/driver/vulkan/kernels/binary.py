"""ADD, SUB and MUL, with broadcasting and fused activation."""

from __future__ import annotations

import itertools

from nnvk.driver.vulkan.kernel import kernel
from nnvk.driver.vulkan.lowering import Lowering
from nnvk.driver.vulkan.quantised import clamp, dtype, sign_mask, zero_point
from nnvk.driver.vulkan.shader import Shader
from nnvk.ops.binary import product_multiplier, sum_multipliers
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

BINARY = Shader("binary", KIND=("add", "sub", "mul"), DTYPE=("f32", "q8"))
LOCAL = 64

_KINDS = {OperationCode.ADD: "add", OperationCode.SUB: "sub", OperationCode.MUL: "mul"}


@kernel(*_KINDS, shaders=(BINARY,))
def lower(call: Call, g: Lowering) -> None:
    """Four elements an invocation; equal shapes need no addresses."""
    output = call.output
    sizes, lhs, rhs = broadcast_strides(call.input0.shape, call.input1.shape, output.shape)
    count = -(-output.size // 4)
    push: dict[str, int | float] = {f"size_{axis}": sizes[axis] for axis in (1, 2, 3)}
    for axis in range(4):
        push[f"lhs_stride_{axis}"], push[f"rhs_stride_{axis}"] = lhs[axis], rhs[axis]
    if is_quantised(output.code):
        push |= _quantised(call)
    g.dispatch(
        BINARY.variant(KIND=_KINDS[call.code], DTYPE=dtype(output)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "CONTIGUOUS": call.input0.size == call.input1.size == output.size},
        tensors={"lhs": g.tensor(call.input0), "rhs": g.tensor(call.input1), "dst": g.tensor(output)},
        count=count,
        **clamp(call),
        **push,
    )


def _quantised(call: Call) -> dict[str, int | float]:
    if call.code is OperationCode.MUL:
        lhs, rhs, dst = (0, 0), (0, 0), product_multiplier(call)
    else:
        lhs, rhs, dst = sum_multipliers(call)
    return {
        "sign_mask": sign_mask(call.output),
        "lhs_zero": zero_point(call.input0),
        "rhs_zero": zero_point(call.input1),
        "dst_zero": zero_point(call.output),
        "lhs_mantissa": lhs[0],
        "lhs_shift": lhs[1],
        "rhs_mantissa": rhs[0],
        "rhs_shift": rhs[1],
        "dst_mantissa": dst[0],
        "dst_shift": dst[1],
    }


def broadcast_strides(first: Shape, second: Shape, output: Shape) -> tuple[list[int], list[int], list[int]]:
    """The output's sizes and both inputs' strides, in elements, for exactly four dimensions; 0 where broadcast."""
    return (
        [1] * (4 - len(output)) + list(output),
        _strides(first, 4),
        _strides(second, 4),
    )


def _strides(shape: Shape, rank: int) -> list[int]:
    full = [1] * (rank - len(shape)) + list(shape)
    dense = list(itertools.accumulate(reversed(full[1:]), lambda a, b: a * b, initial=1))[::-1]
    return [0 if size == 1 else stride for size, stride in zip(full, dense, strict=True)]
