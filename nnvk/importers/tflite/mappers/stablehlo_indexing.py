"""STABLEHLO_GATHER and STABLEHLO_SCATTER: boxes of a tensor at indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.api import ExtendedOperationCode, OperationCode
from nnvk.importers import charged
from nnvk.importers.decompositions.moving import sliced, transposed
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.stablehlo_moving import numbers, surrounded
from nnvk.importers.tflite.mappers.stablehlo_reducing import Function, function_of
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.extension.scatter_nd import Reduction
from nnvk.types.operand import Shape

Op = OperationCode


@dataclass(frozen=True)
class _Boxes:
    """Boxes of one size in a tensor. Along the moved axes, indices say where a box begins."""

    shape: Shape
    sizes: list[int]
    axes: list[int]
    """The axis of each index of a row."""
    are_clamped: bool
    """Whether a box is moved to lie inside, and so begins at 0 along an axis of which it has all elements."""

    @property
    def moved(self) -> list[int]:
        """The axes along which boxes may differ in their place, or do not have all elements."""
        return [
            axis
            for axis, size in enumerate(self.shape)
            if self.sizes[axis] < size or (axis in self.axes and not self.are_clamped)
        ]

    @property
    def whole(self) -> list[int]:
        """The other axes, along which boxes have all elements."""
        return [axis for axis in range(len(self.shape)) if axis not in self.moved]

    @property
    def order(self) -> list[int]:
        """The moved axes first."""
        return [*self.moved, *self.whole]

    def check(self) -> None:
        """`Unmapped` where boxes do not fit."""
        fits = len(self.sizes) == len(self.shape) and all(
            1 <= size <= full for size, full in zip(self.sizes, self.shape, strict=True)
        )
        if not fits or len(set(self.axes)) < len(self.axes) or not set(self.axes) <= set(range(len(self.shape))):
            raise Unmapped(f"boxes of {self.sizes} along axes {self.axes} do not fit {list(self.shape)}")

    @property
    def count(self) -> int:
        """The elements of a box along the moved axes."""
        return math.prod(self.sizes[axis] for axis in self.moved)

    def grid(self) -> np.ndarray:
        """The places of a box's elements along the moved axes, from its first one on."""
        sizes = [self.sizes[axis] for axis in self.moved]
        return charged.indices(sizes, np.int32).reshape(len(sizes), -1).T

    def firsts(self, c: Context, rows: Value) -> Value:
        """The first places [rows, moved axes] of boxes; 0 along axes without an index."""
        columns = [
            sliced(c, rows, [range(rows.shape[0]), range(at := self.axes.index(axis), at + 1)])
            if axis in self.axes
            else c.filled(0, I32, (rows.shape[0], 1))
            for axis in self.moved
        ]
        flat = [c.reshape(column, (rows.shape[0],)) for column in columns]
        return c.emit(Op.PACK, 1, *flat, out=I32)


def _rows(c: Context, position: int, axis: int, count: int) -> tuple[Value, Shape]:
    """Indices as rows of ``count`` each, and the shape of the boxes' numbers."""
    indices = c.input(position)
    rank = 0 if c.is_scalar(position) else len(indices.shape)
    if indices.code is not I32.code or not 0 <= axis <= rank or (indices.shape[axis] if axis < rank else 1) != count:
        raise Unmapped(f"indices of {indices.type} do not have {count} numbers along axis {axis}")
    batch = tuple(size for other, size in enumerate(indices.shape[:rank]) if other != axis)
    order = [*(other for other in range(rank) if other != axis), *([axis] if axis < rank else [])]
    ordered = transposed(c, indices, order) if rank else indices
    return c.reshape(ordered, (indices.size // count, count)), batch


def _positions(rank: int, offsets: Sequence[int]) -> tuple[list[int], list[int]]:
    """The axes of a result for the boxes' numbers, and those for the elements of a box."""
    if sorted(set(offsets)) != list(offsets) or not set(offsets) <= set(range(rank)):
        raise Unmapped(f"the axes of boxes must be ascending and of {rank}, got {list(offsets)}")
    return [axis for axis in range(rank) if axis not in offsets], list(offsets)


@builtin("STABLEHLO_GATHER")
def gather(c: Context) -> Value:
    """Map STABLEHLO_GATHER to GATHER_ND. Boxes are moved to lie inside."""
    options, source = c.options("StablehloGatherOptions"), c.input(0)
    axes = numbers(options, "StartIndexMap")
    rows, batch = _rows(c, 1, options.IndexVectorDim(), len(axes))
    boxes = _Boxes(source.shape, numbers(options, "SliceSizes", len(source.shape)), axes, are_clamped=True)
    boxes.check()
    collapsed = numbers(options, "CollapsedSliceDims")
    if any(boxes.sizes[axis] != 1 for axis in collapsed):
        raise Unmapped(f"axes {collapsed} of boxes of {boxes.sizes} can't be left out")
    kept = [axis for axis in range(len(source.shape)) if axis not in collapsed]
    batches, offsets = _positions(len(batch) + len(kept), numbers(options, "OffsetDims"))
    ordered = transposed(c, source, boxes.order)
    rest = [source.shape[axis] for axis in boxes.whole]
    if not boxes.moved:
        picked = c.broadcast(c.reshape(ordered, (1, *rest)), (rows.shape[0], *rest))
    else:
        room = np.array([source.shape[axis] - boxes.sizes[axis] for axis in boxes.moved])
        firsts = c.emit(Op.MAXIMUM, boxes.firsts(c, rows), c.constant(0, I32), out=I32)
        firsts = c.emit(Op.MINIMUM, firsts, c.constant(room, I32), out=I32)
        places = _at(c, firsts, boxes)
        slices = c.reshape(ordered, (*ordered.shape[: len(boxes.moved)], math.prod(rest)))
        picked = c.keep(ExtendedOperationCode.GATHER_ND, slices, places)
    # In the order of the boxes' numbers, the moved axes and the whole ones.
    picked = c.reshape(picked, (*batch, *(boxes.sizes[axis] for axis in boxes.order)))
    own = [len(batch) + boxes.order.index(axis) for axis in kept]
    left_out = [len(batch) + boxes.order.index(axis) for axis in collapsed]
    places_of = dict(zip((*batches, *offsets), (*range(len(batch)), *own), strict=True))
    order = [places_of[axis] for axis in range(len(places_of))]
    shape = [picked.shape[axis] for axis in order]
    return c.reshape(transposed(c, picked, [*order, *left_out]), shape)


def _at(c: Context, firsts: Value, boxes: _Boxes) -> Value:
    """The places of all elements of boxes that begin at ``firsts``."""
    count, depth = firsts.shape
    each = c.reshape(firsts, (count, 1, depth))
    grid = c.computed((1, boxes.count, depth), I32, boxes.grid)
    return c.reshape(c.emit(Op.ADD, each, grid, NONE, out=I32), (count * boxes.count, depth))


_REDUCTIONS = {
    Function.SECOND: Reduction.NONE,
    Function.SUM: Reduction.ADD,
    Function.PRODUCT: Reduction.MUL,
    Function.LEAST: Reduction.MIN,
    Function.MOST: Reduction.MAX,
}


@builtin("STABLEHLO_SCATTER")
def scatter(c: Context) -> Value:
    """Map STABLEHLO_SCATTER to SCATTER_ND. Boxes that do not lie inside are left out."""
    options, base, updates = c.options("StablehloScatterOptions"), c.input(0), c.input(2)
    if len(c.inputs) != 3 or updates.code is not base.code or base.code not in (F32.code, I32.code):
        raise Unmapped(f"one tensor of FLOAT32 or INT32 is updated, got {base.type} and {updates.type}")
    reduction = _REDUCTIONS.get(function_of(c, options.UpdateComputationSubgraphIndex()))
    if reduction is None:
        raise Unmapped("NNAPI scatters no truth values")
    axes = numbers(options, "ScatterDimsToOperandDims")
    rows, batch = _rows(c, 1, options.IndexVectorDim(), len(axes))
    inserted = numbers(options, "InsertedWindowDims")
    kept = [axis for axis in range(len(base.shape)) if axis not in inserted]
    rank = len(batch) + len(kept)
    batches, windows = _positions(rank, numbers(options, "UpdateWindowDims"))
    if len(windows) != len(kept) or [updates.shape[axis] for axis in batches] != list(batch):
        raise Unmapped(f"updates of {list(updates.shape)} do not fit indices for {list(batch)} boxes")
    sizes = [1] * len(base.shape)
    for axis, window in zip(kept, windows, strict=True):
        sizes[axis] = updates.shape[window]
    boxes = _Boxes(base.shape, sizes, axes, are_clamped=False)
    boxes.check()
    own = [windows[kept.index(axis)] for axis in boxes.order if axis in kept]
    ordered = transposed(c, c.reshape(updates, updates.shape[:rank]), [*batches, *own])
    rest = math.prod(base.shape[axis] for axis in boxes.whole)
    count = math.prod(base.shape[axis] for axis in boxes.moved)
    places = _flat_places(c, boxes, rows, count)
    slices = c.reshape(transposed(c, base, boxes.order), (count, rest))
    slices = surrounded(c, slices, [(0, 1), (0, 0)])  # a row behind the others, for what is left out
    elements = c.reshape(ordered, (rows.shape[0] * boxes.count, rest))
    result = c.keep(ExtendedOperationCode.SCATTER_ND, slices, places, elements, int(reduction))
    result = sliced(c, result, [range(count), range(rest)])
    result = c.reshape(result, [base.shape[axis] for axis in boxes.order])
    return transposed(c, result, [boxes.order.index(axis) for axis in range(len(base.shape))])


def _flat_places(c: Context, boxes: _Boxes, rows: Value, count: int) -> Value:
    """The row of each element of boxes [rows * elements, 1]; ``count`` for boxes that do not lie inside."""
    total = rows.shape[0] * boxes.count
    if not boxes.moved:
        return c.filled(0, I32, (total, 1))
    sizes = [boxes.shape[axis] for axis in boxes.moved]
    room = np.array([boxes.shape[axis] - boxes.sizes[axis] for axis in boxes.moved])
    firsts = boxes.firsts(c, rows)
    inside = c.emit(Op.MINIMUM, c.emit(Op.MAXIMUM, firsts, c.constant(0, I32), out=I32), c.constant(room, I32), out=I32)
    strides = np.array([math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))])

    def combined(values: Value, code: Op) -> Value:
        """One number of each row, for all elements of a box."""
        columns = [
            c.reshape(sliced(c, values, [range(rows.shape[0]), range(at, at + 1)]), (rows.shape[0], 1))
            for at in range(len(sizes))
        ]
        found = columns[0]
        for column in columns[1:]:
            found = c.emit(code, found, column, *((NONE,) if code is Op.ADD else ()), out=found.type)
        return found

    flat = combined(c.emit(Op.MUL, inside, c.constant(strides, I32), NONE, out=I32), Op.ADD)
    flat = c.emit(Op.ADD, flat, c.computed((1, boxes.count), I32, lambda: boxes.grid() @ strides), NONE, out=I32)
    differs = c.as_number(c.emit(Op.NOT_EQUAL, inside, firsts, out=BOOL8), I32)
    is_outside = c.emit(Op.GREATER, combined(differs, Op.ADD), c.constant(0, I32), out=BOOL8)
    spare = c.filled(count, I32, (rows.shape[0], boxes.count))
    chosen = c.emit(Op.SELECT, c.broadcast(is_outside, spare.shape), spare, flat, out=I32)
    return c.reshape(chosen, (total, 1))
