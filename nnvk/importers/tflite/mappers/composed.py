"""Elementwise operators that NNAPI does not have and a few of its operations express."""

from __future__ import annotations

from nnvk.api import OperandCode, OperationCode
from nnvk.importers.decompositions import arithmetic as decompositions
from nnvk.importers.emitter import NONE
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.elementwise import pair
from nnvk.importers.tflite.registry import builtin

Op = OperationCode


@builtin("SQUARE")
def square(c: Context) -> Value:
    """Map SQUARE to the product of the input with itself."""
    source = c.real(c.input())
    return c.emit(Op.MUL, source, source, NONE, out=source.type)


@builtin("SQUARED_DIFFERENCE")
def squared_difference(c: Context) -> Value:
    """Map SQUARED_DIFFERENCE. INT8 tensors get TFLite's roundings."""
    first, second = pair(c)
    if first.code is second.code is c.out().code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED:
        return tables.squared_difference(c, first, second, c.out())
    first, second = c.real(first), c.real(second)
    difference = c.emit(Op.SUB, first, second, NONE, out=first.type)
    return c.emit(Op.MUL, difference, difference, NONE, out=difference.type)


@builtin("FLOOR_DIV")
def floor_div(c: Context) -> Value:
    """Map FLOOR_DIV: the quotient, rounded down."""
    return decompositions.floor_quotient(c, *(c.real(value) for value in pair(c)))


@builtin("FLOOR_MOD")
def floor_mod(c: Context) -> Value:
    """Map FLOOR_MOD: the remainder of the quotient that is rounded down."""
    return decompositions.floor_remainder(c, *(c.real(value) for value in pair(c)))


@builtin("ADD_N")
def add_n(c: Context) -> Value:
    """Map ADD_N to a chain of sums."""
    total, *rest = (c.real(value) for value in c.all_inputs())
    for value in rest:
        total = c.emit(Op.ADD, total, value, NONE, out=total.type)
    return total


@builtin("COS")
def cosine(c: Context) -> Value:
    """Map COS to the sine of x + pi / 2."""
    return decompositions.cosine(c, c.real(c.input()))


@builtin("CEIL")
def ceil(c: Context) -> Value:
    """Map CEIL to -floor(-x)."""
    return decompositions.ceiling(c, c.real(c.input()))


@builtin("SIGN")
def sign(c: Context) -> Value:
    """Map SIGN: 1, 0 or -1."""
    return decompositions.sign(c, c.real(c.input()))


@builtin("ROUND")
def round_half_even(c: Context) -> Value:
    """Map ROUND: to the nearest integer, ties to even."""
    return decompositions.round_half_even(c, c.real(c.input()))


@builtin("GELU")
def gelu(c: Context) -> Value:
    """Map GELU: the approximation with TANH if the model wants it, otherwise exact within 1e-6.

    Quantised tensors use a table.
    """
    source, approximate = c.input(), bool(c.options("GeluOptions").Approximate())
    if tables.has_table(source.type, c.out()):
        function = tables.gelu_by_tanh if approximate else tables.gelu
        return tables.look_up(c, source, c.out(), tables.real_function(source.type, c.out(), function))
    return decompositions.gelu(c, c.real(source), approximate=approximate)
