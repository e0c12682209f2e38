"""Elements at places that are data, with those around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import chosen, each, with_number
from nnvk.importers.decompositions.moving import gathered
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, Emitter
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperationCode

Op = OperationCode

_A = -0.75
"""The factor of Keys' cubic convolution."""
_NEAR = (1.0, 0.0, -(_A + 3), _A + 2)
_FAR = (-4 * _A, 8 * _A, -5 * _A, _A)
"""Weights as polynomials of the distance, its powers upwards, up to 1 and from there to 2."""
TAPS = {
    "nearest": ((0, (1.0,)),),
    "linear": ((0, (1.0, -1.0)), (1, (1.0, -1.0))),
    "cubic": ((-1, _FAR), (0, _NEAR), (1, _NEAR), (2, _FAR)),
}
"""The elements that count, by mode: the distance of each from the element below, and the polynomial of its weight."""


@dataclass(frozen=True, slots=True)
class SampledAxis:
    """A spatial axis, and what is beyond its ends: zeros, the last element (border), or the others (reflection)."""

    size: int
    low: float
    high: float
    padding: str


def sampled(c: Emitter, source: Value, axes: Sequence[SampledAxis], places: Sequence[Value], mode: str) -> Value:
    """Channels at places between elements: gather rows by index, multiply them by weights and add them up.

    ``source`` is [batches, *spatial, channels], and ``places`` has for each axis the coordinates in elements of all
    batches * points places. The result is [batches * points, channels].
    """
    batches, *spatial, channels = source.shape
    rank, pixels, count = len(axes), math.prod(spatial), places[0].size
    index: Value = c.constant(charged.repeat(charged.arange(batches), count // batches) * pixels, I32)
    weights: Value | None = None
    is_there: Value | None = None
    for number, (axis, place) in enumerate(zip(axes, places, strict=True)):
        at, inside, weight = _taps(c, c.reshape(place, (*[1] * rank, count)), axis, mode, number)
        at = with_number(c, Op.MUL, at, math.prod(spatial[number + 1 :]), NONE)
        index = c.emit(Op.ADD, index, at, NONE, out=I32)
        weights = weight if weights is None else c.emit(Op.MUL, weights, weight, NONE, out=F32)
        is_there = inside if is_there is None else c.emit(Op.LOGICAL_AND, is_there, inside, out=BOOL8)
    assert weights is not None and is_there is not None
    table = c.reshape(source, (batches * pixels, channels))
    if any(axis.padding == "zeros" for axis in axes):
        table = c.keep(Op.PAD, table, np.array([[0, 1], [0, 0]]))
        index = chosen(c, is_there, index, c.constant(batches * pixels, I32))
    taken = index.size // count
    rows = c.reshape(gathered(c, table, 0, c.reshape(index, (index.size,))), (taken, count, channels))
    if mode != "nearest":
        rows = c.emit(Op.MUL, rows, c.reshape(weights, (taken, count, 1)), NONE, out=F32)
        rows = folded(c, Op.REDUCE_SUM, rows, [0])
    return c.reshape(rows, (count, channels))


def within(c: Emitter, place: Value, axis: SampledAxis) -> Value:
    """Places beyond the ends at the last element, or mirrored as often as it takes."""
    below = compared(c, Op.LESS, place, axis.low)
    beyond = c.emit(Op.LOGICAL_OR, below, compared(c, Op.GREATER, place, axis.high), out=BOOL8)
    if axis.padding == "border" or axis.size == 1:
        nearest = with_number(c, Op.MINIMUM, with_number(c, Op.MAXIMUM, place, 0.0), axis.size - 1.0)
        return chosen(c, beyond, nearest, place)
    width = axis.high - axis.low
    under = c.emit(Op.SUB, c.constant(axis.low, F32), place, NONE, out=F32)
    distance = chosen(c, below, under, with_number(c, Op.ADD, place, -axis.high, NONE))
    turns = each(c, Op.FLOOR, with_number(c, Op.DIV, distance, width, NONE))
    rest = c.emit(Op.SUB, distance, with_number(c, Op.MUL, turns, width, NONE), NONE, out=F32)
    half = with_number(c, Op.MUL, turns, 0.5, NONE)
    is_odd = c.emit(Op.NOT_EQUAL, half, each(c, Op.FLOOR, half), out=BOOL8)
    up = with_number(c, Op.ADD, rest, axis.low, NONE)
    down = c.emit(Op.SUB, c.constant(axis.high, F32), rest, NONE, out=F32)
    from_low = c.emit(Op.NOT_EQUAL, below, is_odd, out=BOOL8)
    return chosen(c, beyond, chosen(c, from_low, up, down), place)


def _taps(c: Emitter, place: Value, axis: SampledAxis, mode: str, number: int) -> tuple[Value, Value, Value]:
    """The elements that count along the dimension ``number``: their indexes, whether these exist, and their weights."""
    taps = TAPS[mode]
    shape = [1] * len(place.shape)
    shape[number] = len(taps)
    first = each(c, Op.FLOOR, place)
    offsets = c.constant(np.array([offset for offset, _ in taps]).reshape(shape), F32)
    at = c.emit(Op.ADD, first, offsets, NONE, out=F32)
    if axis.padding != "zeros":
        at = each(c, Op.FLOOR, within(c, at, axis))
    inside = c.emit(
        Op.LOGICAL_AND, compared(c, Op.GREATER_EQUAL, at, 0.0), compared(c, Op.LESS, at, axis.size), out=BOOL8
    )
    at = c.emit(Op.CAST, chosen(c, inside, at, c.constant(0.0, F32)), out=I32)  # not a number is none either
    apart = c.emit(Op.SUB, place, first, NONE, out=F32)
    distance = each(c, Op.ABS, c.emit(Op.SUB, apart, offsets, NONE, out=F32))
    powers = zip(*(polynomial for _, polynomial in taps), strict=True)
    *lower, weight = (c.constant(np.array(factors).reshape(shape), F32) for factors in powers)
    for factors in reversed(lower):
        weight = c.emit(Op.MUL, weight, distance, NONE, out=F32)
        weight = c.emit(Op.ADD, weight, factors, NONE, out=F32)
    return at, inside, weight


def compared(c: Emitter, code: OperationCode, value: Value, number: float) -> Value:
    """How each element compares with a number."""
    return c.emit(code, value, c.constant(float(number), F32), out=BOOL8)
