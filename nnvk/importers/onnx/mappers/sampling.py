"""GridSample: elements at places that are data, with those around them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnvk.importers.decompositions.arithmetic import chosen, each, round_half_even, with_number
from nnvk.importers.decompositions.moving import gathered, transposed
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""Names of version 16."""
_MOST_AXES = 3
_A = -0.75
"""The factor of Keys' cubic convolution."""
_NEAR = (1.0, 0.0, -(_A + 3), _A + 2)
_FAR = (-4 * _A, 8 * _A, -5 * _A, _A)
"""Weights as polynomials of the distance, its powers upwards, up to 1 and from there to 2."""
_TAPS = {
    "nearest": ((0, (1.0,)),),
    "linear": ((0, (1.0, -1.0)), (1, (1.0, -1.0))),
    "cubic": ((-1, _FAR), (0, _NEAR), (1, _NEAR), (2, _FAR)),
}
"""The elements that count, by mode: the distance of each from the element below, and the polynomial of its weight."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """A spatial axis, and what is beyond its ends."""

    size: int
    low: float
    high: float
    padding: str


@operator("GridSample")
def grid_sample(c: Context) -> Tensor:
    """Map GridSample: gather rows of channels by index, multiply them by weights and add them up, axis by axis."""
    source, grid = c.tensor(0), c.tensor(1)
    mode = _MODES.get(name := c.node.text("mode", "linear"), name)
    padding = c.node.text("padding_mode", "zeros")
    rank = source.rank - 2
    if mode not in _TAPS or padding not in ("zeros", "border", "reflection"):
        raise Unmapped(f"the modes '{mode}' and '{padding}' are unknown here")
    if (
        not 1 <= rank <= _MOST_AXES
        or grid.rank != rank + 2
        or (grid.shape[0], grid.shape[-1]) != (source.shape[0], rank)
    ):
        raise Unmapped(f"a grid of shape {list(grid.shape)} does not fit an input of shape {list(source.shape)}")
    batches, channels, *spatial = source.shape
    pixels, points = math.prod(spatial), math.prod(grid.shape[1:-1])
    places = c.reshape(c.real_number(1), (batches * points, rank))
    columns = c.emit_many(Op.SPLIT, places, 1, rank, outs=[F32] * rank) if rank > 1 else [places]
    align = bool(c.node.integer("align_corners", 0))
    index: Value = c.constant(np.repeat(np.arange(batches), points) * pixels, I32)
    weights: Value | None = None
    is_there: Value | None = None
    for number, (size, column) in enumerate(zip(spatial, reversed(columns), strict=True)):
        axis = _Axis(size, 0.0, size - 1.0, padding) if align else _Axis(size, -0.5, size - 0.5, padding)
        place = _place(c, c.reshape(column, (*[1] * rank, batches * points)), axis, align, mode)
        at, inside, weight = _taps(c, place, axis, mode, number)
        at = with_number(c, Op.MUL, at, math.prod(spatial[number + 1 :]), NONE)
        index = c.emit(Op.ADD, index, at, NONE, out=I32)
        weights = weight if weights is None else c.emit(Op.MUL, weights, weight, NONE, out=F32)
        is_there = inside if is_there is None else c.emit(Op.LOGICAL_AND, is_there, inside, out=BOOL8)
    assert weights is not None and is_there is not None
    table = transposed(c, c.real_number(0), (0, *range(2, rank + 2), 1))
    table = c.reshape(table, (batches * pixels, channels))
    if padding == "zeros":
        table = c.keep(Op.PAD, table, np.array([[0, 1], [0, 0]]))
        index = chosen(c, is_there, index, c.constant(batches * pixels, I32))
    taken = index.size // (batches * points)
    rows = c.reshape(gathered(c, table, 0, c.reshape(index, (index.size,))), (taken, batches * points, channels))
    if mode != "nearest":
        rows = c.emit(Op.MUL, rows, c.reshape(weights, (taken, batches * points, 1)), NONE, out=F32)
        rows = folded(c, Op.REDUCE_SUM, rows, [0])
    result = c.reshape(rows, (batches, *grid.shape[1:-1], channels))
    return c.give(transposed(c, result, (0, rank + 1, *range(1, rank + 1))), None, source.dtype)


def _place(c: Context, along: Value, axis: _Axis, align: bool, mode: str) -> Value:
    """Coordinates from -1 to 1 in elements, and those beyond the ends where the padding puts them."""
    place = with_number(c, Op.ADD, along, 1.0, NONE)
    if align:
        place = with_number(c, Op.MUL, with_number(c, Op.MUL, place, 0.5, NONE), axis.size - 1.0, NONE)
    else:
        place = with_number(c, Op.ADD, with_number(c, Op.MUL, place, float(axis.size), NONE), -1.0, NONE)
        place = with_number(c, Op.MUL, place, 0.5, NONE)
    if mode == "nearest":
        place = round_half_even(c, place)
    return place if axis.padding == "zeros" else _within(c, place, axis)


def _within(c: Context, place: Value, axis: _Axis) -> Value:
    """Places beyond the ends at the last element, or mirrored as often as it takes."""
    below = _compared(c, Op.LESS, place, axis.low)
    beyond = c.emit(Op.LOGICAL_OR, below, _compared(c, Op.GREATER, place, axis.high), out=BOOL8)
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


def _taps(c: Context, place: Value, axis: _Axis, mode: str, number: int) -> tuple[Value, Value, Value]:
    """The elements that count along the dimension ``number``: their indexes, whether these exist, and their weights."""
    taps = _TAPS[mode]
    shape = [1] * len(place.shape)
    shape[number] = len(taps)
    first = each(c, Op.FLOOR, place)
    offsets = c.constant(np.array([offset for offset, _ in taps]).reshape(shape), F32)
    at = c.emit(Op.ADD, first, offsets, NONE, out=F32)
    if axis.padding != "zeros":
        at = each(c, Op.FLOOR, _within(c, at, axis))
    inside = c.emit(
        Op.LOGICAL_AND, _compared(c, Op.GREATER_EQUAL, at, 0.0), _compared(c, Op.LESS, at, axis.size), out=BOOL8
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


def _compared(c: Context, code: OperationCode, value: Value, number: float) -> Value:
    return c.emit(code, value, c.constant(float(number), F32), out=BOOL8)
