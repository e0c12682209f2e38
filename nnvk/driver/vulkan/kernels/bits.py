"""BITS and BITCAST: four elements an invocation."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.extension.bits import Kind
from nnvk.types.extension import ExtendedOperationCode

_KINDS = {Kind.AND: "and", Kind.OR: "or", Kind.XOR: "xor", Kind.SHIFT_LEFT: "left", Kind.SHIFT_RIGHT: "right"}
BITS = Shader("bits", KIND=(*_KINDS.values(), "copy"))
LOCAL = 64


@kernel(ExtendedOperationCode.BITS, shaders=(BITS,))
def lower(call: Call, g: Lowering) -> None:
    """Lower BITS to one dispatch."""
    count = -(-call.output.size // 4)
    g.dispatch(
        BITS.variant(KIND=_KINDS[Kind(call.kind)]),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": g.tensor(call.input), "other": g.tensor(call.other), "dst": g.tensor(call.output)},
        count=count,
    )


@kernel(ExtendedOperationCode.BITCAST, shaders=(BITS,))
def lower_bitcast(call: Call, g: Lowering) -> None:
    """Lower BITCAST to a copy."""
    count = -(-call.output.size // 4)
    g.dispatch(
        BITS.variant(KIND="copy"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": g.tensor(call.input), "dst": g.tensor(call.output)},
        count=count,
    )
