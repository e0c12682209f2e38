"""Elementwise operators that NNAPI does not have and a few of its operations express."""

from __future__ import annotations

import numpy as np

from nnvk.api import OperandCode, OperandType, OperationCode
from nnvk.importers.decompositions import arithmetic as decompositions
from nnvk.importers.decompositions.arithmetic import scalar, with_number
from nnvk.importers.emitter import BOOL8, F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.elementwise import pair
from nnvk.importers.tflite.registry import builtin
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode
_SIGNED = frozenset({OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.TENSOR_QUANT16_SYMM})


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


_FLOORED = {"FLOOR_DIV": decompositions.floor_quotient, "FLOOR_MOD": decompositions.floor_remainder}


@builtin(*_FLOORED)
def floored(c: Context) -> Value:
    """Map the quotient that is rounded down, and its remainder. TFLite divides signed levels as they are."""
    (first, second), function, out = pair(c), _FLOORED[c.operator.name], c.out()
    if not (first.code is second.code is out.code and out.code in _SIGNED):
        return function(c, c.real(first), c.real(second))
    whole = function(c, *(tables.as_levels(c, value, zero_point=0) for value in (first, second)))
    return tables.relabelled(c, c.quantized(whole, OperandType(out.code, scale=1.0)), out)


@builtin("ADD_N")
def add_n(c: Context) -> Value:
    """Map ADD_N to a chain of sums."""
    total, *rest = (c.real(value) for value in c.all_inputs())
    for value in rest:
        total = c.emit(Op.ADD, total, value, NONE, out=total.type)
    return total


@builtin("ATAN2")
def arctangent_of_point(c: Context) -> Value:
    """Map ATAN2: the angle of the points whose height is the first input and whose width the second."""
    y, x = c.input(0), c.input(1)
    if y.code is not F32.code or x.code is not F32.code or y.shape != x.shape:
        raise Unmapped(f"its inputs must be FLOAT32 of one shape, got {y.type} and {x.type}")
    return c.emit(ExtendedOperationCode.ATAN2, y, x, out=F32)


_FUNCTIONS = {
    "CEIL": decompositions.ceiling,
    "ROUND": decompositions.round_half_even,
    "SIGN": decompositions.sign,
}


@builtin(*_FUNCTIONS)
def composed(c: Context) -> Value:
    """Map functions of a few operations: NNAPI has no ceiling, no rounding of ties to even and no sign."""
    return _FUNCTIONS[c.operator.name](c, c.real(c.input()))


@builtin("GELU")
def gelu(c: Context) -> Value:
    """Map GELU: the approximation with TANH if the model wants it, otherwise exact.

    Quantised tensors use a table.
    """
    source, approximate = c.input(), bool(c.options("GeluOptions").Approximate())
    if tables.has_table(source.type, c.out()):
        function = tables.gelu_by_tanh if approximate else tables.gelu
        return tables.look_up(c, source, c.out(), tables.real_function(source.type, c.out(), function))
    return decompositions.gelu(c, c.real(source), approximate=approximate)


_BITS_OF_FAKE_QUANT = range(2, 17)


@builtin("FAKE_QUANT")
def fake_quant(c: Context) -> Value:
    """Map FAKE_QUANT: real numbers rounded to the levels of a range that is moved so that 0 is a level."""
    source, options = c.real(c.input()), c.options("FakeQuantOptions")
    low, high, bits = options.Min(), options.Max(), options.NumBits()
    if bits not in _BITS_OF_FAKE_QUANT or not low < high:
        raise Unmapped(f"expected 2 to 16 bits and a minimum below the maximum, got {bits} from {low} to {high}")
    if options.NarrowRange():
        raise Unmapped("a narrow range is for weights, and not for activations, in TFLite too")
    least, scale, most = _levels(low, high, (1 << bits) - 1)
    inside = with_number(c, Op.MINIMUM, with_number(c, Op.MAXIMUM, source, least), most)
    place = with_number(c, Op.MUL, with_number(c, Op.SUB, inside, least, NONE), float(1 / scale), NONE)
    level = decompositions.each(c, Op.FLOOR, place)
    rest = c.emit(Op.SUB, place, level, NONE, out=place.type)
    is_upper = c.emit(Op.GREATER_EQUAL, rest, scalar(c, 0.5, rest), out=BOOL8)
    level = c.emit(Op.ADD, level, c.as_number(is_upper, F32), NONE, out=place.type)
    return with_number(c, Op.ADD, with_number(c, Op.MUL, level, float(scale), NONE), least, NONE)


def _levels(low: float, high: float, last: int) -> tuple[float, np.float32, float]:
    """The smallest number, the distance and the largest number of levels from 0 to ``last``, as TFLite has them."""
    scale = np.float32((np.float32(high) - np.float32(low)) / np.float32(last))
    zero = min(max(-np.float32(low) / scale, np.float32(0)), np.float32(last))
    level = np.floor(zero + np.float32(0.5))
    return float(-level * scale), scale, float((np.float32(last) - level) * scale)
