"""Arithmetic on two tensors that broadcast."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.unary import LOOKUP, LOOKUP_16, requantised
from nnvk.driver.vulkan.lowering.arrange import up_to_rank
from nnvk.driver.vulkan.lowering.broadcast import broadcast_push, broadcast_spec
from nnvk.driver.vulkan.lowering.dtypes import Q8, dtype, of
from nnvk.driver.vulkan.lowering.fused_elementwise import FUSED_ELEMENTWISE, operations_on, types_of
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import are_small_shifts, clamp, sign_push, zero_point
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.binary import prelu_multipliers, product_multiplier, sum_multipliers
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import is_quantised
from nnvk.types.codes import OperationCode

_TRAITS = operations_on(2)
_DTYPES = {trait.kind: types_of(code) for code, trait in _TRAITS.items()}

BINARY = Shader(
    "binary",
    where=lambda choice: choice["DTYPE"] in _DTYPES[choice["KIND"]],
    KIND=tuple(_DTYPES),
    DTYPE=("f32", "f16", "i32", "q8", "q16"),
)
LOCAL = 64


def lower(call: Call, g: Lowering) -> None:
    """Lower a binary operation: each invocation computes four elements. Operands of equal shape need no addresses."""
    trait, output = _TRAITS[call.code], call.output
    inputs: list[Tensor] = [getattr(call, name) for name in trait.operands]
    rescaled = trait.kind not in ("max", "min")
    lhs, rhs = (g.tensor(tensor) if rescaled else requantised(g, tensor, output) for tensor in inputs)
    count = -(-output.size // 4)
    push: dict[str, int | float] = {**sign_push(output)}
    small = {}
    if is_quantised(output.code) and rescaled:
        push |= _rescaling(call, *inputs)
        if of(output) is Q8:
            small = {"SMALL": are_small_shifts(int(push[f"{side}_shift"]) for side in ("lhs", "rhs", "dst"))}
    if trait.is_fused:
        push |= clamp(call)
    g.dispatch(
        BINARY.variant(KIND=trait.kind, DTYPE=dtype(output)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, **broadcast_spec(output, *inputs), **small},
        tensors={"lhs": lhs, "rhs": rhs, "dst": g.tensor(output)},
        count=count,
        dst_pitch=0,
        **broadcast_push(output, *inputs),
        **push,
    )


for _code, _trait in _TRAITS.items():
    _shaders = BINARY, LOOKUP, LOOKUP_16, FUSED_ELEMENTWISE
    kernel(_code, shaders=_shaders, refuse=up_to_rank(4, *_trait.operands))(lower)


def _rescaling(call: Call, first: Tensor, second: Tensor) -> dict[str, int | float]:
    lhs, rhs = (0, 0), (0, 0)
    if call.code is OperationCode.MUL:
        dst = product_multiplier(call)
    elif call.code is OperationCode.PRELU:
        lhs, dst = prelu_multipliers(call)
    else:
        lhs, rhs, dst = sum_multipliers(call)
    return {
        "lhs_zero": zero_point(first),
        "rhs_zero": zero_point(second),
        "dst_zero": zero_point(call.output),
        "lhs_mantissa": lhs[0],
        "lhs_shift": lhs[1],
        "rhs_mantissa": rhs[0],
        "rhs_shift": rhs[1],
        "dst_mantissa": dst[0],
        "dst_shift": dst[1],
    }
