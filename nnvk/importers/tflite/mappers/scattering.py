"""Operators that put slices into a tensor by SCATTER_ND, and one that takes them out by GATHER_ND."""

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


@builtin("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(c: Context) -> Value:
    """Map DYNAMIC_UPDATE_SLICE: write a box, moved to lie inside. Axes that it fills belong to slices."""
    base, update, start = (c.input(position) for position in range(3))
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
    rows = c.reshape(update, (count, inner))
    result = c.keep(ExtendedOperationCode.SCATTER_ND, slices, places, rows, int(Reduction.NONE))
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
