"""Single elements, and pairs of elements that broadcast."""

from __future__ import annotations

import math

import numpy as np

from nnvk.importers.emitter import BOOL8, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph import MAX_RANK, Value
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType, Shape

Op = OperationCode


def joint(c: Emitter, code: OperationCode, first: Value, second: Value, *parameters: int, out: OperandType) -> Value:
    """An operation on two tensors that broadcast; above `MAX_RANK` where neighbouring dimensions can be merged."""
    if max(len(first.shape), len(second.shape)) <= MAX_RANK:
        return c.emit(code, first, second, *parameters, out=out)
    shape = broadcast_shape(first, second)
    first, second = (_merged(c, value, shape, (first.shape, second.shape)) for value in (first, second))
    return c.reshape(c.emit(code, first, second, *parameters, out=out), shape)


def broadcast_shape(*values: Value) -> Shape:
    """The shape that several tensors broadcast to."""
    try:
        return np.broadcast_shapes(*(value.shape for value in values))
    except ValueError:
        shapes = " and ".join(str(list(value.shape)) for value in values)
        raise Unmapped(f"shapes {shapes} don't broadcast") from None


def _merged(c: Emitter, value: Value, shape: Shape, both: tuple[Shape, ...]) -> Value:
    """``value`` with neighbouring dimensions merged where both tensors repeat, or don't, along all of them."""
    padded = [(1,) * (len(shape) - len(one)) + one for one in both]
    own = (1,) * (len(shape) - len(value.shape)) + value.shape
    merged: list[int] = []
    before: tuple[bool, ...] | None = None
    for axis in range(len(shape)):
        repeats = tuple(one[axis] == 1 and shape[axis] != 1 for one in padded)
        if merged and (repeats == before or shape[axis] == 1):
            merged[-1] *= own[axis]
        else:
            merged.append(own[axis])
            before = repeats
    return c.reshape(value, merged)


def scalar(c: Emitter, number: float, like: Value) -> Value:
    """A constant of one number in the type of a tensor that is not quantised."""
    return c.constant(number, OperandType(like.code))


def with_number(c: Emitter, code: OperationCode, value: Value, number: float, *parameters: int) -> Value:
    """An operation on a tensor that is not quantised and one number."""
    return joint(c, code, value, scalar(c, number, value), *parameters, out=value.type)


def each(c: Emitter, code: OperationCode, value: Value, *parameters: float) -> Value:
    """An operation on each element, which keeps the type."""
    return c.unshaped(code, value, *parameters, out=value.type)


def truncated_quotient(c: Emitter, first: Value, second: Value) -> Value:
    """Integer quotients rounded towards zero; NNAPI rounds down, which is the same for the magnitudes."""
    zero = c.constant(0, I32)
    magnitude1, magnitude2 = (c.unshaped(Op.ABS, value, out=I32) for value in (first, second))
    quotient = joint(c, Op.DIV, magnitude1, magnitude2, NONE, out=I32)
    sign1, sign2 = (joint(c, Op.LESS, value, zero, out=BOOL8) for value in (first, second))
    is_negative = c.broadcast(joint(c, Op.NOT_EQUAL, sign1, sign2, out=BOOL8), quotient.shape)
    return c.emit(Op.SELECT, is_negative, c.unshaped(Op.NEG, quotient, out=I32), quotient, out=I32)


def floor_quotient(c: Emitter, first: Value, second: Value) -> Value:
    """The quotient, rounded down, as NNAPI rounds those of integers already."""
    quotient = joint(c, Op.DIV, first, second, NONE, out=first.type)
    if quotient.code is OperandCode.TENSOR_INT32:
        return quotient
    return c.unshaped(Op.FLOOR, quotient, out=quotient.type)


def floor_remainder(c: Emitter, first: Value, second: Value) -> Value:
    """What the quotient, rounded down, leaves over: it has the sign of ``second``."""
    whole = joint(c, Op.MUL, floor_quotient(c, first, second), second, NONE, out=first.type)
    return joint(c, Op.SUB, first, whole, NONE, out=first.type)


def cosine(c: Emitter, source: Value) -> Value:
    """The sine, a quarter of the circle on."""
    return each(c, Op.SIN, with_number(c, Op.ADD, source, math.pi / 2, NONE))


def ceiling(c: Emitter, value: Value) -> Value:
    """The floor, upside down."""
    for code in (Op.NEG, Op.FLOOR, Op.NEG):
        value = each(c, code, value)
    return value


def sign(c: Emitter, source: Value) -> Value:
    """1, 0 or -1."""
    flat = c.reshape(source, (source.size,))
    zero = c.constant(0, OperandType(source.code))
    ones, zeros, minus = (c.filled(number, flat.type, flat.shape) for number in (1, 0, -1))
    negative = c.emit(Op.SELECT, c.emit(Op.LESS, flat, zero, out=BOOL8), minus, zeros, out=flat.type)
    positive = c.emit(Op.GREATER, flat, zero, out=BOOL8)
    return c.reshape(c.emit(Op.SELECT, positive, ones, negative, out=flat.type), source.shape)


def round_half_even(c: Emitter, source: Value) -> Value:
    """The floor, one more past the middle, and in the middle where that makes it even."""
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


_ERFC = (0.3275911, (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))
"""Abramowitz and Stegun, 7.1.26: erfc(z) is a polynomial of 1 / (1 + p z) times exp(-z^2), within 1.5e-7 from 0 up."""
_FAR = 100.0
"""Where nothing is left of exp(-z^2), and squares are still finite."""


def erfc_of_magnitude(c: Emitter, z: Value) -> Value:
    """1 - erf(z) for z from 0 to `_FAR`."""
    p, factors = _ERFC
    one = c.constant(1.0, OperandType(z.code))
    slope = with_number(c, Op.ADD, with_number(c, Op.MUL, z, p, NONE), 1.0, NONE)
    t = joint(c, Op.DIV, one, slope, NONE, out=z.type)
    polynomial = with_number(c, Op.MUL, t, factors[-1], NONE)
    for factor in factors[-2::-1]:
        polynomial = joint(c, Op.MUL, with_number(c, Op.ADD, polynomial, factor, NONE), t, NONE, out=z.type)
    fall = each(c, Op.EXP, each(c, Op.NEG, joint(c, Op.MUL, z, z, NONE, out=z.type)))
    return joint(c, Op.MUL, polynomial, fall, NONE, out=z.type)


def _magnitude(c: Emitter, x: Value) -> Value:
    return with_number(c, Op.MINIMUM, each(c, Op.ABS, x), _FAR)


_NEAR = (1.0, -1 / 3, 1 / 10, -1 / 42, 1 / 216, -1 / 1320)
"""erf(x) sqrt(pi) / 2x in powers of x^2, within 1e-7 of it up to 1/2."""


def erf(c: Emitter, x: Value) -> Value:
    """The error function, within 1e-6, and relative to its size next to 0."""
    far = joint(c, Op.SUB, sign(c, x), _signed(c, x, erfc_of_magnitude(c, _magnitude(c, x))), NONE, out=x.type)
    near = with_number(c, Op.MINIMUM, with_number(c, Op.MAXIMUM, x, -1.0), 1.0)
    square = joint(c, Op.MUL, near, near, NONE, out=x.type)
    series = with_number(c, Op.MUL, square, _NEAR[-1], NONE)
    for factor in _NEAR[-2:0:-1]:
        series = joint(c, Op.MUL, with_number(c, Op.ADD, series, factor, NONE), square, NONE, out=x.type)
    series = with_number(c, Op.ADD, series, _NEAR[0], NONE)
    near = with_number(c, Op.MUL, joint(c, Op.MUL, near, series, NONE, out=x.type), 2 / math.sqrt(math.pi), NONE)
    is_near = joint(c, Op.LESS, each(c, Op.ABS, x), scalar(c, 0.5, x), out=BOOL8)
    return chosen(c, is_near, near, far)


def _signed(c: Emitter, x: Value, magnitude: Value) -> Value:
    return joint(c, Op.MUL, sign(c, x), magnitude, NONE, out=x.type)


def gelu_by_erfc(c: Emitter, x: Value) -> Value:
    """max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, which loses nothing where 1 + erf would be next to 0."""
    far = _magnitude(c, x)
    erfc = erfc_of_magnitude(c, with_number(c, Op.MUL, far, math.sqrt(0.5), NONE))
    lost = joint(c, Op.MUL, with_number(c, Op.MUL, far, 0.5, NONE), erfc, NONE, out=x.type)
    return joint(c, Op.SUB, each(c, Op.RELU, x), lost, NONE, out=x.type)


def gelu_by_tanh(c: Emitter, x: Value) -> Value:
    """The approximation with TANH."""
    cube = joint(c, Op.MUL, joint(c, Op.MUL, x, x, NONE, out=x.type), x, NONE, out=x.type)
    inner = joint(c, Op.ADD, x, with_number(c, Op.MUL, cube, 0.044715, NONE), NONE, out=x.type)
    bend = each(c, Op.TANH, with_number(c, Op.MUL, inner, math.sqrt(2 / math.pi), NONE))
    half = with_number(c, Op.MUL, x, 0.5, NONE)
    return joint(c, Op.MUL, half, with_number(c, Op.ADD, bend, 1.0, NONE), NONE, out=x.type)


def chosen(c: Emitter, condition: Value, first: Value, second: Value, out: OperandType | None = None) -> Value:
    """``first`` where a condition is true, ``second`` elsewhere; all three broadcast."""
    shape = broadcast_shape(condition, first, second)
    condition, first, second = (c.broadcast(value, shape) for value in (condition, first, second))
    if first.code is OperandCode.TENSOR_BOOL8:
        taken = joint(c, Op.LOGICAL_AND, condition, first, out=BOOL8)
        rest = joint(c, Op.LOGICAL_AND, c.unshaped(Op.LOGICAL_NOT, condition, out=BOOL8), second, out=BOOL8)
        return joint(c, Op.LOGICAL_OR, taken, rest, out=BOOL8)
    values = [condition, first, second]
    if len(shape) > MAX_RANK:
        values = [c.reshape(value, (value.size,)) for value in values]
    return c.reshape(c.emit(Op.SELECT, *values, out=out or first.type), shape)
