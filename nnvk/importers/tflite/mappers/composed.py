"""Elementwise operators that NNAPI does not have and a few of its operations express."""

from __future__ import annotations

from nnvk.api import OperationCode
from nnvk.importers.emitter import NONE
from nnvk.importers.graph import Value
from nnvk.importers.idioms import elementwise as idioms
from nnvk.importers.idioms.elementwise import joint, with_number
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.elementwise import pair
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


@builtin("FLOOR_DIV")
def floor_div(c: Context) -> Value:
    """The quotient, rounded down."""
    return idioms.floor_quotient(c, *(c.real(value) for value in pair(c)))


@builtin("FLOOR_MOD")
def floor_mod(c: Context) -> Value:
    """What the quotient, rounded down, leaves over."""
    return idioms.floor_remainder(c, *(c.real(value) for value in pair(c)))


@builtin("ADD_N")
def add_n(c: Context) -> Value:
    """A chain of sums."""
    total, *rest = (c.real(value) for value in c.all_inputs())
    for value in rest:
        total = joint(c, Op.ADD, total, value, NONE, out=total.type)
    return total


@builtin("COS")
def cosine(c: Context) -> Value:
    """The sine, a quarter of the circle on."""
    return idioms.cosine(c, c.real(c.input()))


@builtin("CEIL")
def ceil(c: Context) -> Value:
    """The floor, upside down."""
    return idioms.ceiling(c, c.real(c.input()))


@builtin("RELU_0_TO_1")
def relu_0_to_1(c: Context) -> Value:
    """Clipped from both sides."""
    source = c.real(c.input())
    return with_number(c, Op.MAXIMUM, with_number(c, Op.MINIMUM, source, 1.0), 0.0)


@builtin("SIGN")
def sign(c: Context) -> Value:
    """1, 0 or -1."""
    return idioms.sign(c, c.real(c.input()))


@builtin("ROUND")
def round_half_even(c: Context) -> Value:
    """To the nearest whole number, and from the middle to the even one."""
    return idioms.round_half_even(c, c.real(c.input()))


@builtin("GELU")
def gelu(c: Context) -> Value:
    """The approximation with TANH where the model wants it; else exact, within 1e-6."""
    return idioms.gelu(c, c.real(c.input()), approximate=c.options("GeluOptions").Approximate())
