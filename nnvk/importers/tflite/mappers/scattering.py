"""Operators that put slices into a tensor, all of them by SCATTER_ND, and one that takes them out by GATHER_ND."""

from __future__ import annotations

import math

import numpy as np

from nnvk.api import ExtendedOperationCode, OperationCode
from nnvk.importers import charged
from nnvk.importers.decompositions.moving import axis_of, sliced, transposed
from nnvk.importers.emitter import BOOL8, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.extension.scatter_nd import Reduction

Op = OperationCode


@builtin("SCATTER_ND")
def scatter_nd(c: Context) -> Value:
    """Map SCATTER_ND. Updates of one place are added up. The shape may be unknown until the model runs."""
    updates = c.input(1)
    return c.emit(ExtendedOperationCode.SCATTER_ND, c.input(0), updates, c.input(2), out=updates.type)


def _scattered(c: Context, base: Value, places: Value, updates: Value, reduction: Reduction) -> Value:
    return c.keep(ExtendedOperationCode.SCATTER_ND, base, places, updates, int(reduction))


# --- segments ------------------------------------------------------------------------------------------------


def _segments(c: Context, count: int, reduction: Reduction, first: float | np.ndarray) -> Value:
    """Rows of input 0 combined by the numbers in input 1; those of negative numbers are left out."""
    data, numbers = c.input(0), c.input(1)
    rank = len(numbers.shape)
    if data.shape[:rank] != numbers.shape:
        raise Unmapped(f"segments of shape {list(numbers.shape)} do not fit data of shape {list(data.shape)}")
    rest = data.shape[rank:]
    inner = math.prod(rest)
    below = c.emit(Op.LESS, numbers, c.constant(0, I32), out=BOOL8)
    spare = c.filled(count, I32, numbers.shape)  # a row behind the others, for what is left out
    places = c.reshape(c.emit(Op.SELECT, below, spare, numbers, out=I32), (numbers.size, 1))
    base = c.filled(first, data.type, (count + 1, inner))
    rows = _scattered(c, base, places, c.reshape(data, (numbers.size, inner)), reduction)
    return c.reshape(sliced(c, rows, [range(count), range(inner)]), (count, *rest))


@builtin("SEGMENT_SUM")
def segment_sum(c: Context) -> Value:
    """Map SEGMENT_SUM. The largest number, or the file, gives the number of segments."""
    numbers, declared = c.input(1), c.declared_shape()
    if numbers.is_constant:
        count = int(numbers.array.max(initial=-1)) + 1
    elif declared is not None:
        count = declared[0]
    else:
        raise c.not_constant(
            "how many segments there are must follow from constants (input 1), or the file must say", 1
        )
    if count < 1:
        raise Unmapped("there must be a segment")
    return _segments(c, count, Reduction.ADD, 0)


_UNSORTED = {
    "UNSORTED_SEGMENT_SUM": Reduction.ADD,
    "UNSORTED_SEGMENT_PROD": Reduction.MUL,
    "UNSORTED_SEGMENT_MAX": Reduction.MAX,
    "UNSORTED_SEGMENT_MIN": Reduction.MIN,
}


@builtin(*_UNSORTED)
def unsorted_segments(c: Context) -> Value:
    """Where nothing goes are 0, 1, and the smallest and the largest number."""
    reduction, count, dtype = _UNSORTED[c.operator.name], c.integer(2, "the number of segments"), c.input(0).type.dtype
    if count < 1:
        raise Unmapped(f"there must be a segment, got {count}")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    firsts = {Reduction.ADD: 0, Reduction.MUL: 1, Reduction.MAX: limits.min, Reduction.MIN: limits.max}
    return _segments(c, count, reduction, np.array(firsts[reduction], dtype))


# --- at places -----------------------------------------------------------------------------------------------


@builtin("SPARSE_TO_DENSE")
def sparse_to_dense(c: Context) -> Value:
    """Map SPARSE_TO_DENSE: write values to places of a constant tensor."""
    indices, values = c.input(0), c.input(2)
    shape = tuple(c.ints(1, "the shape"))
    rank = len(shape)
    if not shape or min(shape) < 1 or indices.size % rank or (rank > 1 and indices.shape[-1] != rank):
        raise Unmapped(f"indices of shape {list(indices.shape)} do not fit an output of shape {list(shape)}")
    count = indices.size // rank
    base, places = c.broadcast(c.reshape(c.input(3), (1,) * rank), shape), c.reshape(indices, (count, rank))
    elements = c.broadcast(c.reshape(values, (values.size,)), (count,))
    return _scattered(c, base, places, elements, Reduction.NONE)


def _on_diagonals(c: Context, base: Value, diagonals: Value) -> Value:
    """The elements of diagonals in matrices [..., rows, columns]."""
    *_, rows, columns = base.shape
    length = min(rows, columns)
    firsts = charged.arange(diagonals.size // length) * (rows * columns)
    places = charged.outer(np.add, firsts, charged.arange(length) * (columns + 1))
    flat, elements = c.reshape(base, (base.size,)), c.reshape(diagonals, (diagonals.size,))
    return c.reshape(_scattered(c, flat, c.constant(places.reshape(-1, 1), I32), elements, Reduction.NONE), base.shape)


@builtin("MATRIX_DIAG")
def matrix_diag(c: Context) -> Value:
    """Map MATRIX_DIAG: diagonals with zeros beside them."""
    diagonals = c.input()
    return _on_diagonals(c, c.filled(0, diagonals.type, (*diagonals.shape, diagonals.shape[-1])), diagonals)


@builtin("MATRIX_SET_DIAG")
def matrix_set_diag(c: Context) -> Value:
    """Map MATRIX_SET_DIAG: replace the diagonals of matrices."""
    base, diagonals = c.input(0), c.input(1)
    if len(base.shape) < 2 or diagonals.shape != (*base.shape[:-2], min(base.shape[-2:])):
        raise Unmapped(f"diagonals of shape {list(diagonals.shape)} do not fit {list(base.shape)}")
    return _on_diagonals(c, base, diagonals)


@builtin("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(c: Context) -> Value:
    """Map DYNAMIC_UPDATE_SLICE: write a box, moved to lie inside."""
    return updated(c, c.input(0), c.input(1), c.input(2))


def updated(c: Context, base: Value, update: Value, start: Value) -> Value:
    """Write a box, moved to lie inside. Axes that it fills belong to slices."""
    rank = len(base.shape)
    if len(update.shape) != rank or start.size != rank or any(np.array(update.shape) > base.shape):
        raise Unmapped(f"an update of shape {list(update.shape)} does not fit {list(base.shape)}")
    room = np.array(base.shape) - update.shape
    depth = max((axis + 1 for axis in range(rank) if room[axis]), default=0)
    if not depth:
        return update
    first = sliced(c, c.reshape(start, (rank,)), [range(depth)])
    first = c.emit(Op.MAXIMUM, first, c.constant(0, I32), out=I32)
    first = c.emit(Op.MINIMUM, first, c.constant(room[:depth], I32), out=I32)
    sizes = update.shape[:depth]
    count = math.prod(sizes)
    grid = c.computed((count, depth), I32, lambda: charged.indices(sizes, np.int32).reshape(depth, -1).T)
    places = c.emit(Op.ADD, grid, c.reshape(first, (1, depth)), NONE, out=I32)
    inner = math.prod(base.shape[depth:])
    slices = c.reshape(base, (*base.shape[:depth], inner))
    result = _scattered(c, slices, places, c.reshape(update, (count, inner)), Reduction.NONE)
    return c.reshape(result, base.shape)


@builtin("REVERSE_SEQUENCE")
def reverse_sequence(c: Context) -> Value:
    """Map REVERSE_SEQUENCE: reverse the first elements of each batch, as many as its length says."""
    options = c.options("ReverseSequenceOptions")
    source, lengths = c.input(0), c.input(1)
    rank = len(source.shape)
    batch, sequence = axis_of(options.BatchDim(), rank), axis_of(options.SeqDim(), rank)
    if batch == sequence or lengths.shape != (source.shape[batch],):
        raise Unmapped(f"lengths of shape {list(lengths.shape)} do not fit axis {batch} of {list(source.shape)}")
    order = [batch, sequence, *(axis for axis in range(rank) if axis not in (batch, sequence))]
    ordered = transposed(c, source, order)
    batches, size, *rest = ordered.shape
    grid = c.constant(charged.broadcast_to(charged.arange(size), (batches, size)), I32)
    column = c.reshape(lengths, (batches, 1))
    is_turned = c.emit(Op.LESS, grid, column, out=BOOL8)
    last = c.emit(Op.SUB, column, c.constant(1, I32), NONE, out=I32)
    turned = c.emit(Op.SUB, last, grid, NONE, out=I32)
    places = c.reshape(c.emit(Op.SELECT, is_turned, turned, grid, out=I32), (batches, size, 1))
    taken = c.keep(ExtendedOperationCode.GATHER_ND, c.reshape(ordered, (batches, size, math.prod(rest))), places, 1)
    return transposed(c, c.reshape(taken, ordered.shape), [order.index(axis) for axis in range(rank)])
