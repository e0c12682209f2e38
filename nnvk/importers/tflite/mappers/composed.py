"""Elementwise operators that NNAPI does not have and a few of its operations express."""

from __future__ import annotations

import math

from nnvk.api import OperandCode, OperandType, OperationCode
from nnvk.importers.tflite.context import BOOL8, NONE, Context
from nnvk.importers.tflite.graph import Value
from nnvk.importers.tflite.mappers.elementwise import joint, pair
from nnvk.importers.tflite.registry import builtin

Op = OperationCode


@builtin("SQUARE")
def square(c: Context) -> Value:
    """The input times itself."""
    source = c.real(c.input())
    return joint(c, Op.MUL, source, source, NONE, out=source.type)


@builtin("SQUARED_DIFFERENCE")
def squared_difference(c: Context) -> Value:
    """The square of the difference."""
    first, second = (c.real(value) for value in pair(c))
    difference = joint(c, Op.SUB, first, second, NONE, out=first.type)
    return joint(c, Op.MUL, difference, difference, NONE, out=difference.type)


def _floor_quotient(c: Context, first: Value, second: Value) -> Value:
    quotient = joint(c, Op.DIV, first, second, NONE, out=first.type)
    if quotient.code is OperandCode.TENSOR_INT32:  # NNAPI rounds these down already
        return quotient
    return c.unshaped(Op.FLOOR, quotient, out=quotient.type)


@builtin("FLOOR_DIV")
def floor_div(c: Context) -> Value:
    """The quotient, rounded down."""
    return _floor_quotient(c, *(c.real(value) for value in pair(c)))


@builtin("FLOOR_MOD")
def floor_mod(c: Context) -> Value:
    """What the quotient, rounded down, leaves over."""
    first, second = (c.real(value) for value in pair(c))
    whole = joint(c, Op.MUL, _floor_quotient(c, first, second), second, NONE, out=first.type)
    return joint(c, Op.SUB, first, whole, NONE, out=first.type)


@builtin("ADD_N")
def add_n(c: Context) -> Value:
    """A chain of sums."""
    total, *rest = (c.real(value) for value in c.all_inputs())
    for value in rest:
        total = joint(c, Op.ADD, total, value, NONE, out=total.type)
    return total


def _with(c: Context, code: OperationCode, value: Value, number: float, *parameters: int) -> Value:
    """An operation on a real tensor and one number."""
    return joint(c, code, value, c.constant(number, OperandType(value.code)), *parameters, out=value.type)


@builtin("COS")
def cosine(c: Context) -> Value:
    """The sine, a quarter of the circle on."""
    source = c.real(c.input())
    return c.unshaped(Op.SIN, _with(c, Op.ADD, source, math.pi / 2, NONE), out=source.type)


@builtin("CEIL")
def ceil(c: Context) -> Value:
    """The floor, upside down."""
    value = c.real(c.input())
    for code in (Op.NEG, Op.FLOOR, Op.NEG):
        value = c.unshaped(code, value, out=value.type)
    return value


@builtin("RELU_0_TO_1")
def relu_0_to_1(c: Context) -> Value:
    """Clipped from both sides."""
    source = c.real(c.input())
    return _with(c, Op.MAXIMUM, _with(c, Op.MINIMUM, source, 1.0), 0.0)


@builtin("SIGN")
def sign(c: Context) -> Value:
    """1, 0 or -1."""
    source = c.real(c.input())
    flat = c.reshape(source, (source.size,))
    zero = c.constant(0, OperandType(source.code))
    ones, zeros, minus = (c.filled(number, flat.type, flat.shape) for number in (1, 0, -1))
    negative = c.emit(Op.SELECT, c.emit(Op.LESS, flat, zero, out=BOOL8), minus, zeros, out=flat.type)
    positive = c.emit(Op.GREATER, flat, zero, out=BOOL8)
    return c.reshape(c.emit(Op.SELECT, positive, ones, negative, out=flat.type), source.shape)


@builtin("ROUND")
def round_half_even(c: Context) -> Value:
    """The floor, one more past the middle, and in the middle where that makes it even."""
    source = c.real(c.input())
    flat = c.reshape(source, (source.size,))
    floor = c.emit(Op.FLOOR, flat, out=flat.type)
    part = c.emit(Op.SUB, flat, floor, NONE, out=flat.type)
    half = c.constant(0.5, OperandType(flat.code))
    halved = _with(c, Op.MUL, floor, 0.5, NONE)
    is_odd = c.emit(Op.NOT_EQUAL, halved, c.emit(Op.FLOOR, halved, out=flat.type), out=BOOL8)
    middle = c.emit(Op.LOGICAL_AND, c.emit(Op.EQUAL, part, half, out=BOOL8), is_odd, out=BOOL8)
    up = c.emit(Op.LOGICAL_OR, c.emit(Op.GREATER, part, half, out=BOOL8), middle, out=BOOL8)
    rounded = c.emit(Op.ADD, floor, c.as_number(up, flat.type), NONE, out=flat.type)
    return c.reshape(rounded, source.shape)


_ERFC = (0.3275911, (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))
"""Abramowitz and Stegun, 7.1.26: erfc(z) is a polynomial of 1 / (1 + p z) times exp(-z^2), within 1.5e-7 from 0 up."""
_FAR = 100.0
"""Where nothing is left of exp(-z^2), and squares are still finite."""


@builtin("GELU")
def gelu(c: Context) -> Value:
    """The approximation with TANH where the model wants it; else by an error function, within 1e-6."""
    x = c.real(c.input())
    if not c.options("GeluOptions").Approximate():
        return _gelu_by_erfc(c, x)
    cube = joint(c, Op.MUL, joint(c, Op.MUL, x, x, NONE, out=x.type), x, NONE, out=x.type)
    inner = joint(c, Op.ADD, x, _with(c, Op.MUL, cube, 0.044715, NONE), NONE, out=x.type)
    bend = c.unshaped(Op.TANH, _with(c, Op.MUL, inner, math.sqrt(2 / math.pi), NONE), out=x.type)
    return joint(c, Op.MUL, _with(c, Op.MUL, x, 0.5, NONE), _with(c, Op.ADD, bend, 1.0, NONE), NONE, out=x.type)


def _gelu_by_erfc(c: Context, x: Value) -> Value:
    """max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, which loses nothing where 1 + erf would be next to 0."""
    p, factors = _ERFC
    far = _with(c, Op.MINIMUM, c.unshaped(Op.ABS, x, out=x.type), _FAR)
    z = _with(c, Op.MUL, far, math.sqrt(0.5), NONE)
    one = c.constant(1.0, OperandType(x.code))
    t = joint(c, Op.DIV, one, _with(c, Op.ADD, _with(c, Op.MUL, z, p, NONE), 1.0, NONE), NONE, out=x.type)
    polynomial = _with(c, Op.MUL, t, factors[-1], NONE)
    for factor in factors[-2::-1]:
        polynomial = joint(c, Op.MUL, _with(c, Op.ADD, polynomial, factor, NONE), t, NONE, out=x.type)
    fall = c.unshaped(Op.EXP, c.unshaped(Op.NEG, joint(c, Op.MUL, z, z, NONE, out=x.type), out=x.type), out=x.type)
    erfc = joint(c, Op.MUL, polynomial, fall, NONE, out=x.type)
    lost = joint(c, Op.MUL, _with(c, Op.MUL, far, 0.5, NONE), erfc, NONE, out=x.type)
    return joint(c, Op.SUB, c.unshaped(Op.RELU, x, out=x.type), lost, NONE, out=x.type)
