"""The operators of StableHLO on single elements. Inputs of several elements have one shape."""

from __future__ import annotations

import tflite

from nnvk.api import OperandCode, OperationCode
from nnvk.importers.decompositions.arithmetic import chosen, each, truncated_quotient, truncated_remainder
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.extension.bits import Kind
from nnvk.types.extension import ExtendedOperationCode, KnownCode

Op = OperationCode

# --- one input -----------------------------------------------------------------------------------------------

_REAL: dict[str, KnownCode] = {
    "STABLEHLO_CBRT": ExtendedOperationCode.CBRT,
    "STABLEHLO_COSINE": ExtendedOperationCode.COS,
    "STABLEHLO_EXPONENTIAL": Op.EXP,
    "STABLEHLO_FLOOR": Op.FLOOR,
    "STABLEHLO_LOG": Op.LOG,
    "STABLEHLO_LOGISTIC": Op.LOGISTIC,
    "STABLEHLO_RSQRT": Op.RSQRT,
    "STABLEHLO_TANH": Op.TANH,
}
_SIGNED = {"STABLEHLO_ABS": Op.ABS, "STABLEHLO_NEGATE": Op.NEG}


def _one(c: Context, *codes: OperandCode) -> Value:
    source = c.input()
    if source.code not in codes:
        raise Unmapped(f"its input must be {_names(codes)}, got {source.type}")
    return source


def _names(codes: tuple[OperandCode, ...]) -> str:
    return " or ".join(code.name for code in codes)


@builtin(*_REAL)
def real_function(c: Context) -> Value:
    """Map functions of real numbers."""
    return each(c, _REAL[c.operator.name], _one(c, F32.code))


@builtin(*_SIGNED)
def signed(c: Context) -> Value:
    """Map ABS and NEGATE of real numbers and of INT32."""
    return each(c, _SIGNED[c.operator.name], _one(c, F32.code, I32.code))


# --- two inputs ----------------------------------------------------------------------------------------------

_FUSED = {"STABLEHLO_ADD": Op.ADD, "STABLEHLO_MULTIPLY": Op.MUL, "STABLEHLO_SUBTRACT": Op.SUB}
_PLAIN = {"STABLEHLO_MAXIMUM": Op.MAXIMUM, "STABLEHLO_MINIMUM": Op.MINIMUM}
_BITS = {
    "STABLEHLO_AND": (Kind.AND, Op.LOGICAL_AND),
    "STABLEHLO_OR": (Kind.OR, Op.LOGICAL_OR),
    "STABLEHLO_SHIFT_LEFT": (Kind.SHIFT_LEFT, None),
}


def _both(c: Context, *codes: OperandCode) -> tuple[Value, Value]:
    first, second = c.input(0), c.input(1)
    if first.code is not second.code or first.code not in codes or first.shape != second.shape:
        raise Unmapped(f"its inputs must be {_names(codes)} of one shape, got {first.type} and {second.type}")
    return first, second


@builtin(*_FUSED, *_PLAIN)
def arithmetic(c: Context) -> Value:
    """Map sums, differences, products and extremes of real numbers and of INT32."""
    first, second = _both(c, F32.code, I32.code)
    if c.operator.name in _PLAIN:
        return c.emit(_PLAIN[c.operator.name], first, second, out=first.type)
    return c.emit(_FUSED[c.operator.name], first, second, NONE, out=first.type)


@builtin("STABLEHLO_DIVIDE")
def quotient(c: Context) -> Value:
    """Map STABLEHLO_DIVIDE. Quotients of integers are rounded towards zero."""
    first, second = _both(c, F32.code, I32.code)
    if first.code is I32.code:
        return truncated_quotient(c, first, second)
    return c.emit(Op.DIV, first, second, NONE, out=F32)


@builtin("STABLEHLO_REMAINDER")
def remainder(c: Context) -> Value:
    """Map STABLEHLO_REMAINDER, which has the sign of the dividend."""
    return truncated_remainder(c, *_both(c, F32.code, I32.code))


@builtin("STABLEHLO_POWER")
def power(c: Context) -> Value:
    """Map STABLEHLO_POWER of real numbers."""
    first, second = _both(c, F32.code)
    return c.emit(Op.POW, first, second, out=F32)


@builtin(*_BITS)
def bits(c: Context) -> Value:
    """Map STABLEHLO_AND and STABLEHLO_OR of INT32 and of truth values, and STABLEHLO_SHIFT_LEFT of INT32."""
    kind, logic = _BITS[c.operator.name]
    first, second = _both(c, I32.code, *((BOOL8.code,) if logic else ()))
    if logic and first.code is BOOL8.code:
        return c.emit(logic, first, second, out=BOOL8)
    return c.emit(ExtendedOperationCode.BITS, first, second, int(kind), out=I32)


_Direction = tflite.StablehloComparisonDirection
COMPARISONS = {
    _Direction.STABLEHLO_COMPARISON_DIRECTION_EQ: Op.EQUAL,
    _Direction.STABLEHLO_COMPARISON_DIRECTION_NE: Op.NOT_EQUAL,
    _Direction.STABLEHLO_COMPARISON_DIRECTION_GE: Op.GREATER_EQUAL,
    _Direction.STABLEHLO_COMPARISON_DIRECTION_GT: Op.GREATER,
    _Direction.STABLEHLO_COMPARISON_DIRECTION_LE: Op.LESS_EQUAL,
    _Direction.STABLEHLO_COMPARISON_DIRECTION_LT: Op.LESS,
}
_Comparison = tflite.StablehloComparisonType
UNUSUAL = (
    _Comparison.STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER,
    _Comparison.STABLEHLO_COMPARISON_TYPE_UNSIGNED,
)
"""Orders that NNAPI does not have."""


@builtin("STABLEHLO_COMPARE")
def comparison(c: Context) -> Value:
    """Map STABLEHLO_COMPARE of real numbers, INT32 and truth values."""
    options = c.options("StablehloCompareOptions")
    if options.CompareType() in UNUSUAL:
        raise Unmapped(f"NNAPI compares no numbers in order {options.CompareType()}")
    first, second = _both(c, F32.code, I32.code, BOOL8.code)
    return c.emit(COMPARISONS[options.ComparisonDirection()], first, second, out=BOOL8)


# --- three inputs --------------------------------------------------------------------------------------------


@builtin("STABLEHLO_SELECT")
def select(c: Context) -> Value:
    """Map STABLEHLO_SELECT. The condition may be one for all elements."""
    condition, first, second = (c.input(position) for position in range(3))
    if first.shape != second.shape or first.code is not second.code or condition.shape not in ((1,), first.shape):
        raise Unmapped(f"a condition of {condition.type} does not choose between {first.type} and {second.type}")
    return chosen(c, condition, first, second)


@builtin("STABLEHLO_CLAMP")
def clamp(c: Context) -> Value:
    """Map STABLEHLO_CLAMP. The limits, inputs 0 and 2, may be one for all elements."""
    low, value, high = (c.input(position) for position in range(3))
    for limit in (low, high):
        if limit.code is not value.code or limit.shape not in ((1,), value.shape):
            raise Unmapped(f"a limit of {limit.type} does not fit {value.type}")
    return c.emit(Op.MINIMUM, c.emit(Op.MAXIMUM, value, low, out=value.type), high, out=value.type)
