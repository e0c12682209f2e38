"""The operators of StableHLO on single elements that LiteRT has kernels for. Their inputs have one shape."""

from __future__ import annotations

from nnvk.api import OperandCode, OperationCode
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.extension.bits import Kind
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode
_FUSED = {"STABLEHLO_ADD": Op.ADD, "STABLEHLO_MULTIPLY": Op.MUL}
_PLAIN = {"STABLEHLO_MAXIMUM": Op.MAXIMUM, "STABLEHLO_MINIMUM": Op.MINIMUM}
_BITS = {"STABLEHLO_AND": Kind.AND, "STABLEHLO_SHIFT_LEFT": Kind.SHIFT_LEFT}


def _both(c: Context, *codes: OperandCode) -> tuple[Value, Value]:
    first, second = c.input(0), c.input(1)
    if first.code is not second.code or first.code not in codes or first.shape != second.shape:
        names = " or ".join(code.name for code in codes)
        raise Unmapped(f"its inputs must be {names} of one shape, got {first.type} and {second.type}")
    return first, second


@builtin(*_FUSED, *_PLAIN)
def arithmetic(c: Context) -> Value:
    """Map sums, products and extremes of real numbers and of INT32."""
    first, second = _both(c, F32.code, I32.code)
    if c.operator.name in _PLAIN:
        return c.emit(_PLAIN[c.operator.name], first, second, out=first.type)
    return c.emit(_FUSED[c.operator.name], first, second, NONE, out=first.type)


@builtin(*_BITS)
def bits(c: Context) -> Value:
    """Map STABLEHLO_AND of INT32 and of truth values, and STABLEHLO_SHIFT_LEFT of INT32."""
    is_logic = c.operator.name == "STABLEHLO_AND"
    first, second = _both(c, I32.code, *((BOOL8.code,) if is_logic else ()))
    if first.code is BOOL8.code:
        return c.emit(Op.LOGICAL_AND, first, second, out=BOOL8)
    return c.emit(ExtendedOperationCode.BITS, first, second, int(_BITS[c.operator.name]), out=I32)
