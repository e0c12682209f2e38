"""Arithmetic on two tensors that broadcast."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.copies.arrange import up_to_rank
from nnvk.driver.vulkan.lowering.dtypes import Q8, dtype, of
from nnvk.driver.vulkan.lowering.elementwise.broadcast import broadcast_access
from nnvk.driver.vulkan.lowering.elementwise.fused import FUSED_ELEMENTWISE, operations_on, types_of
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import are_small_shifts, clamp, rescaling, rescaling_push, sign_push
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import is_quantised

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
    """Lower a binary operation: each invocation computes four elements. Operands of equal shape need no addresses.

    The pass `quantisation` has brought operands of MAXIMUM and MINIMUM to the scale of the output.
    """
    trait, output = _TRAITS[call.code], call.output
    inputs: list[Tensor] = [getattr(call, name) for name in trait.operands]
    count = -(-output.size // 4)
    push: dict[str, int | float] = {"count": count, "elements": output.size, **sign_push(output)}
    small = {}
    if is_quantised(output.code) and trait.kind not in ("max", "min"):
        sides = rescaling(call)
        push |= rescaling_push(sides)
        if of(output) is Q8:
            small = {"SMALL": are_small_shifts(shift for _, _, shift in sides.values())}
    if trait.is_fused:
        push |= clamp(call)
    tensors = {"lhs": g.tensor(inputs[0]), "rhs": g.tensor(inputs[1]), "dst": g.tensor(output)}
    arguments = Arguments({"local_x": LOCAL, **small}, tensors, push, broadcast_access(output, *inputs))
    arguments.dispatch(g, BINARY.variant(KIND=trait.kind, DTYPE=dtype(output)), g.flat(count, LOCAL))


for _code, _trait in _TRAITS.items():
    kernel(_code, shaders=(BINARY, FUSED_ELEMENTWISE), refuse=up_to_rank(4, *_trait.operands))(lower)
