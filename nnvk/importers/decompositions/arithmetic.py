"""Elementwise operations on one tensor, or on two that broadcast."""

from __future__ import annotations

from nnvk.base.sizes import broadcast_sizes
from nnvk.importers.emitter import BOOL8, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from nnvk.types.operand import OperandType, Shape

Op = OperationCode


def broadcast_shape(*values: Value) -> Shape:
    """The shape that several tensors broadcast to."""
    try:
        return broadcast_sizes(*(value.shape for value in values))
    except ValueError:
        shapes = " and ".join(str(list(value.shape)) for value in values)
        raise Unmapped(f"shapes {shapes} don't broadcast") from None


def scalar(c: Emitter, number: float, like: Value) -> Value:
    """A constant of one number in the type of a tensor that is not quantised."""
    return c.constant(number, OperandType(like.code))


def with_number(c: Emitter, code: OperationCode, value: Value, number: float, *parameters: int) -> Value:
    """An operation on a tensor that is not quantised and one number."""
    return c.emit(code, value, scalar(c, number, value), *parameters, out=value.type)


def each(c: Emitter, code: KnownCode, value: Value, *parameters: float) -> Value:
    """An operation on each element, which keeps the type."""
    return c.emit(code, value, *parameters, out=value.type)


def gelu(c: Emitter, value: Value, *, approximate: bool) -> Value:
    """GELU, exact or by the approximation with TANH."""
    return each(c, ExtendedOperationCode.GELU, value, approximate)


def truncated_quotient(c: Emitter, first: Value, second: Value) -> Value:
    """Integer quotients rounded towards zero: NNAPI rounds down, which is one too few below 0 where there is a rest."""
    quotient = c.emit(Op.DIV, first, second, NONE, out=I32)
    rest = c.emit(Op.SUB, first, c.emit(Op.MUL, quotient, second, NONE, out=I32), NONE, out=I32)
    zero = c.constant(0, I32)
    is_below, has_rest = (c.emit(Op.LESS, quotient, zero, out=BOOL8), c.emit(Op.NOT_EQUAL, rest, zero, out=BOOL8))
    less = c.as_number(c.emit(Op.LOGICAL_AND, is_below, has_rest, out=BOOL8), I32)
    return c.emit(Op.ADD, quotient, less, NONE, out=I32)


def floor_quotient(c: Emitter, first: Value, second: Value) -> Value:
    """The quotient, rounded down, as NNAPI rounds those of integers already."""
    if first.code is OperandCode.TENSOR_INT32:
        return c.emit(Op.DIV, first, second, NONE, out=I32)
    return c.emit(ExtendedOperationCode.FLOOR_DIV, first, second, out=first.type)


def floor_remainder(c: Emitter, first: Value, second: Value) -> Value:
    """The remainder of the quotient that is rounded down; it has the sign of ``second``."""
    if first.code is not I32.code:
        return c.emit(ExtendedOperationCode.FLOOR_MOD, first, second, out=first.type)
    whole = c.emit(Op.MUL, floor_quotient(c, first, second), second, NONE, out=I32)
    return c.emit(Op.SUB, first, whole, NONE, out=I32)


def truncated_remainder(c: Emitter, first: Value, second: Value) -> Value:
    """The remainder of the quotient that is rounded towards zero; it has the sign of ``first``."""
    if first.code is not I32.code:
        return c.emit(ExtendedOperationCode.FMOD, first, second, out=first.type)
    whole = truncated_quotient(c, first, second)
    return c.emit(Op.SUB, first, c.emit(Op.MUL, whole, second, NONE, out=I32), NONE, out=I32)


def ceiling(c: Emitter, value: Value) -> Value:
    """The ceiling: -floor(-x)."""
    for code in (Op.NEG, Op.FLOOR, Op.NEG):
        value = each(c, code, value)
    return value


def sign(c: Emitter, source: Value, *, keeps_nan: bool = True) -> Value:
    """The sign: 1, 0 or -1. NaN gives NaN or 0."""
    flat = c.reshape(source, (source.size,))
    zero = c.constant(0, OperandType(source.code))
    ones, zeros, minus = (c.filled(number, flat.type, flat.shape) for number in (1, 0, -1))
    neither = flat if keeps_nan else zeros
    negative = c.emit(Op.SELECT, c.emit(Op.LESS, flat, zero, out=BOOL8), minus, neither, out=flat.type)
    positive = c.emit(Op.GREATER, flat, zero, out=BOOL8)
    return c.reshape(c.emit(Op.SELECT, positive, ones, negative, out=flat.type), source.shape)


def round_half_even(c: Emitter, source: Value) -> Value:
    """Round to the nearest integer, ties to even."""
    flat = c.reshape(source, (source.size,))
    floor = c.emit(Op.FLOOR, flat, out=flat.type)
    part = c.emit(Op.SUB, flat, floor, NONE, out=flat.type)
    half = c.constant(0.5, OperandType(flat.code))
    halved = with_number(c, Op.MUL, floor, 0.5, NONE)
    is_odd = c.emit(Op.NOT_EQUAL, halved, c.emit(Op.FLOOR, halved, out=flat.type), out=BOOL8)
    middle = c.emit(Op.LOGICAL_AND, c.emit(Op.EQUAL, part, half, out=BOOL8), is_odd, out=BOOL8)
    up = c.emit(Op.LOGICAL_OR, c.emit(Op.GREATER, part, half, out=BOOL8), middle, out=BOOL8)
    rounded = c.emit(Op.ADD, floor, c.as_number(up, flat.type), NONE, out=flat.type)
    return c.reshape(rounded, source.shape)


def round_half_away(c: Emitter, source: Value) -> Value:
    """Round to the nearest integer, ties away from zero."""
    size = each(c, Op.ABS, source)
    below = each(c, Op.FLOOR, size)
    part = c.emit(Op.SUB, size, below, NONE, out=size.type)  # which is exact, as size + 0.5 is not
    is_up = c.emit(Op.GREATER_EQUAL, part, scalar(c, 0.5, part), out=BOOL8)
    rounded = c.emit(Op.ADD, below, c.as_number(is_up, size.type), NONE, out=size.type)
    return c.emit(Op.MUL, sign(c, source), rounded, NONE, out=size.type)


def chosen(c: Emitter, condition: Value, first: Value, second: Value, out: OperandType | None = None) -> Value:
    """``first`` where a condition is true, ``second`` elsewhere; all three broadcast."""
    shape = broadcast_shape(condition, first, second)
    condition, first, second = (c.broadcast(value, shape) for value in (condition, first, second))
    if first.code is OperandCode.TENSOR_BOOL8:
        taken = c.emit(Op.LOGICAL_AND, condition, first, out=BOOL8)
        rest = c.emit(Op.LOGICAL_AND, c.emit(Op.LOGICAL_NOT, condition, out=BOOL8), second, out=BOOL8)
        return c.emit(Op.LOGICAL_OR, taken, rest, out=BOOL8)
    return c.emit(Op.SELECT, condition, first, second, out=out or first.type)
