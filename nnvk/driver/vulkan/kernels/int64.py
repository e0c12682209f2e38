"""64-bit integers in two words: arithmetic and comparisons with broadcasting, and conversions."""

from __future__ import annotations

from collections.abc import Mapping

from nnvk.driver.vulkan.lowering.copies.arrange import up_to_rank
from nnvk.driver.vulkan.lowering.elementwise.broadcast import broadcast_push, broadcast_spec
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.extension.int64 import assertion
from nnvk.types.extension import ExtendedOperationCode, KnownCode

Op = ExtendedOperationCode

_KINDS: Mapping[KnownCode, str] = {
    Op.ADD_INT64: "add",
    Op.SUB_INT64: "sub",
    Op.MUL_INT64: "mul",
    Op.DIV_INT64: "div",
    Op.COMPARE_INT64: "compare",
}
_CASTS: Mapping[KnownCode, str] = {
    Op.FLOAT_TO_INT64: "from_float",
    Op.INT64_TO_FLOAT: "to_float",
    Op.INT64_TO_INT32: "to_int",
}
INT64 = Shader("int64", KIND=tuple(_KINDS.values()))
INT64_CAST = Shader("int64_cast", KIND=tuple(_CASTS.values()))
LOCAL = 64


def _words(g: Lowering, low: Tensor, high: Tensor | None) -> tuple[TensorRef, TensorRef]:
    """The tensors of both words of a number. The shader does not read a missing high word."""
    return g.tensor(low), g.tensor(low if high is None else high)


@kernel(*_KINDS, shaders=(INT64,), refuse=up_to_rank(4, "low0", "low1"))
def lower_pair(call: Call, g: Lowering) -> None:
    """Lower the operation: each invocation computes four numbers."""
    first, second, output = call.low0, call.low1, call.outputs[0]
    tensors = {}
    tensors["low0"], tensors["high0"] = _words(g, first, call.high0)
    tensors["low1"], tensors["high1"] = _words(g, second, call.high1)
    names = ("dst",) if len(call.outputs) == 1 else ("low", "high")
    tensors |= {name: g.tensor(one) for name, one in zip(names, call.outputs, strict=True)}
    spec = {"CONTIGUOUS": broadcast_spec(output, first, second)["CONTIGUOUS"]}
    g.dispatch(
        INT64.variant(KIND=_KINDS[call.code]),
        groups=g.flat(-(-output.size // 4), LOCAL),
        spec={"local_x": LOCAL, "LHS_WIDE": call.high0 is not None, "RHS_WIDE": call.high1 is not None, **spec},
        tensors=tensors,
        count=-(-output.size // 4),
        **broadcast_push(output, first, second),
    )


@kernel(*_CASTS, shaders=(INT64_CAST,))
def lower_cast(call: Call, g: Lowering) -> None:
    """Lower the operation: each invocation computes four numbers."""
    kind, size = _CASTS[call.code], call.outputs[0].size
    spec: dict[str, int | bool] = {"local_x": LOCAL}
    if kind == "from_float":
        tensors = {"src": g.tensor(call.input), "low": g.tensor(call.low), "high": g.tensor(call.high)}
    else:
        tensors = {"dst": g.tensor(call.output)}
        tensors["low"], tensors["high"] = _words(g, call.low, call.high)
        if kind == "to_int":
            spec |= {"HAS_HIGH": call.high is not None, "IS_UNSIGNED": bool(call.is_unsigned)}
            tensors["flag"] = g.flag(assertion(call))
    g.dispatch(
        INT64_CAST.variant(KIND=kind),
        groups=g.flat(-(-size // 4), LOCAL),
        spec=spec,
        tensors=tensors,
        count=-(-size // 4),
        elements=size,
    )
