"""Operators that take parts of a tensor: slices, splits, and elements by index."""

from __future__ import annotations

import itertools
import math

import numpy as np

from nnvk.api import ExtendedOperationCode, OperandCode, OperandType, OperationCode
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import chosen
from nnvk.importers.decompositions.block_quantized import block_rows
from nnvk.importers.decompositions.moving import axis_of, gathered, largest, packed, sliced, strided, unpacked
from nnvk.importers.dynamic_extents import DynamicExtent, coordinates, true_first
from nnvk.importers.emitter import BOOL8, I32, NONE, is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.hybrid import four_bit_rows, real_weights
from nnvk.importers.tflite.registry import builtin

Op = OperationCode

# --- slices --------------------------------------------------------------------------------------------------


@builtin("SLICE")
def slice_(c: Context) -> Value:
    """Map SLICE. Begin and size may be known only when the model runs if the file declares the output's shape."""
    source = c.input(0)
    first, count = c.input(1), c.input(2)
    if not first.is_constant and count.is_constant and -1 not in count.array:
        return c.add(Op.SLICE, [source, first, count], [source.type], [tuple(c.ints(2, "the size"))])[0]
    return c.sized(Op.SLICE, source, first, count)


@builtin("STRIDED_SLICE")
def strided_slice(c: Context) -> Value:
    """Map STRIDED_SLICE. The importer resolves masks, because NNAPI has no new axes, ellipses or end offsets."""
    options = c.options("StridedSliceOptions")
    source = c.input(0)
    if not c.input(1).is_constant:
        return _slice_at(c, source, c.input(1), options)
    begins, ends, strides = (
        c.ints(position, what) for position, what in enumerate(("the begin", "the end", "the strides"), 1)
    )
    if not len(begins) == len(ends) == len(strides):
        raise Unmapped(f"begin, end and strides must be of one length, got {begins}, {ends} and {strides}")
    if options.Offset():
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    taken, shape = _resolve(list(source.shape), begins, ends, strides, options)
    return c.reshape(strided(c, source, taken), shape)


def _slice_at(c: Context, source: Value, begin: Value, options: object) -> Value:
    """A slice that begins where data say: a SLICE, whose sizes follow from the masks and from the output's shape."""
    masks = {name: getattr(options, f"{name}Mask")() for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    strides, rank, declared = c.ints(3, "the strides"), len(source.shape), c.declared_shape()
    if masks["Ellipsis"] or masks["NewAxis"] or any(stride != 1 for stride in strides):
        raise c.not_constant(
            "the begin (input 1) must be a constant where there is an ellipsis, a new axis or a stride", 1
        )
    sizes, given = list(source.shape), charged.zeros((rank, 1), np.int32)
    kept: list[int] = []
    for axis in range(begin.size):
        begins, ends, is_gone = (bool(masks[name] >> axis & 1) for name in ("Begin", "End", "ShrinkAxis"))
        given[axis] = is_gone or not begins
        if is_gone:
            sizes[axis] = 1
            continue
        if not (begins and ends):
            if declared is None or len(kept) >= len(declared):
                raise c.not_constant("the begin (input 1) must be a constant, or the output's shape declared", 1)
            sizes[axis] = declared[len(kept)]
        kept.append(axis)
    kept += range(begin.size, rank)
    parts = c.emit_many(Op.SPLIT, begin, 0, begin.size, outs=[I32] * begin.size) if begin.size > 1 else [begin]
    zero = c.constant(0, I32)
    first = packed(c, [*parts, *[zero] * (rank - begin.size)], 0)
    first = c.emit(Op.MUL, first, c.constant(given, I32), NONE, out=I32)
    below = c.as_number(c.emit(Op.LESS, first, zero, out=BOOL8), I32)
    beyond = c.emit(Op.MUL, below, c.constant(np.array(source.shape).reshape(-1, 1), I32), NONE, out=I32)
    first = c.reshape(c.emit(Op.ADD, first, beyond, NONE, out=I32), (rank,))
    taken = c.add(Op.SLICE, [source, first, np.array(sizes)], [source.type], [tuple(sizes)])[0]
    return c.reshape(taken, [sizes[axis] for axis in kept])


def _resolve(
    sizes: list[int], begins: list[int], ends: list[int], strides: list[int], options: object
) -> tuple[list[range], list[int]]:
    """The indices along each axis, and the shape without shrunk and with new axes."""
    masks = {name: getattr(options, f"{name}Mask")() for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    new = sum(1 for position in range(len(begins)) if masks["NewAxis"] >> position & 1)
    covered = len(sizes) - (len(begins) - new - bool(masks["Ellipsis"]))
    taken: list[range] = []
    shape: list[int] = []

    def whole(count: int) -> None:
        for _ in range(min(count, len(sizes) - len(taken))):
            shape.append(sizes[len(taken)])
            taken.append(range(shape[-1]))

    for position, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True)):
        on = {name: bool(mask >> position & 1) for name, mask in masks.items()}
        if on["Ellipsis"]:
            whole(covered)
            continue
        if on["NewAxis"]:
            shape.append(1)
            continue
        if len(taken) == len(sizes):
            raise Unmapped(f"begin, end and strides name more axes than the input of shape {sizes} has")
        size = sizes[len(taken)]
        if on["ShrinkAxis"]:
            begin = axis_of(begin, size, f"the index along axis {len(taken)}")
            taken.append(range(begin, begin + 1))
            continue
        if stride == 0:
            raise Unmapped("strides must not be 0")
        indices = slice(None if on["Begin"] else begin, None if on["End"] else end, stride).indices(size)
        taken.append(range(*indices))
        shape.append(len(taken[-1]))
        if not len(taken[-1]):
            raise Unmapped(
                f"the slice {begin}:{end}:{stride} of axis {len(taken) - 1}, of size {size}, has no elements"
            )
    whole(len(sizes))
    return taken, shape


# --- splits --------------------------------------------------------------------------------------------------


@builtin("SPLIT")
def split(c: Context) -> list[Value]:
    """Map SPLIT, into equal parts."""
    source = c.input(1)
    axis = axis_of(c.integer(0, "the axis"), len(source.shape))
    count = len(c.outputs)
    return c.emit_many(Op.SPLIT, source, axis, count, outs=[source.type] * count)


@builtin("SPLIT_V")
def split_v(c: Context) -> list[Value]:
    """Map SPLIT_V: a slice for each part, and a constant for a part without elements."""
    source, sizes = c.input(0), c.ints(1, "the sizes")
    axis = axis_of(c.integer(2, "the axis"), len(source.shape))
    if len(sizes) != len(c.outputs):
        raise Unmapped(f"{len(sizes)} sizes do not fit {len(c.outputs)} outputs")
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = source.shape[axis] - (sum(sizes) + 1)
    if min(sizes) < 0 or sum(sizes) != source.shape[axis]:
        raise Unmapped(f"the sizes {sizes} do not make up axis {axis}, of size {source.shape[axis]}")
    parts = []
    for begin, size in zip(itertools.accumulate(sizes, initial=0), sizes, strict=False):
        taken = [range(full) for full in source.shape]
        taken[axis] = range(begin, begin + size)
        shape = [len(one) for one in taken]
        parts.append(sliced(c, source, taken) if size else c.filled(0, source.type, shape))
    return parts


@builtin("UNPACK")
def unpack(c: Context) -> list[Value]:
    """Map UNPACK: split into slices of one, without that axis."""
    source = c.input()
    axis = axis_of(c.options("UnpackOptions").Axis(), len(source.shape))
    count = source.shape[axis]
    if count != len(c.outputs):
        raise Unmapped(f"{count} elements along axis {axis} do not fit {len(c.outputs)} outputs")
    return unpacked(c, source, axis)


# --- by index ------------------------------------------------------------------------------------------------


@builtin("GATHER")
def gather(c: Context) -> Value:
    """Map GATHER. NNAPI's indices have rank 1. A single scalar index removes the axis."""
    options = c.options("GatherOptions")
    source, indices = c.input(0), c.input(1)
    axis = axis_of(options.Axis(), len(source.shape))
    if options.BatchDims():
        return _gathered_by_batch(c, source, axis, indices, options.BatchDims())
    picked = gathered(c, source, axis, indices)
    return c.reshape(picked, (*source.shape[:axis], *source.shape[axis + 1 :])) if c.is_scalar(1) else picked


def _gathered_by_batch(c: Context, source: Value, axis: int, indices: Value, batch_dims: int) -> Value:
    """A GATHER of its own for each batch: as NNAPI has none, the batches are one axis with that of the indices."""
    if batch_dims < 0:
        batch_dims += len(indices.shape)
    leading = source.shape[:batch_dims]
    if not 0 < batch_dims <= axis or indices.shape[:batch_dims] != leading:
        raise Unmapped(
            f"an input of shape {list(source.shape)} and indices of shape {list(indices.shape)} have no {batch_dims} "
            f"batch dimensions before axis {axis} in common"
        )
    batches, between = math.prod(leading), math.prod(source.shape[batch_dims:axis])
    size, rest, picks = source.shape[axis], source.shape[axis + 1 :], indices.shape[batch_dims:]
    per_batch = math.prod(picks)
    rows = c.reshape(source, (batches, between, size, math.prod(rest)))
    if between > 1:
        rows = c.keep(Op.TRANSPOSE, rows, np.array([0, 2, 1, 3]))
    rows = c.reshape(rows, (batches * size, between * math.prod(rest)))
    firsts = c.computed((batches, 1), I32, lambda: charged.arange(batches, dtype=np.int32) * size)
    places = c.emit(Op.ADD, c.reshape(indices, (batches, per_batch)), firsts, NONE, out=I32)
    picked = gathered(c, rows, 0, c.reshape(places, (batches * per_batch,)))
    if between > 1:
        picked = c.reshape(picked, (batches, per_batch, between, math.prod(rest)))
        picked = c.keep(Op.TRANSPOSE, picked, np.array([0, 2, 1, 3]))
    return c.reshape(picked, (*source.shape[:axis], *picks, *rest))


@builtin("GATHER_ND")
def gather_nd(c: Context) -> Value:
    """Map GATHER_ND, with the axes of slices merged to one, and the rows of indices, too."""
    source, indices = c.input(0), c.input(1)
    depth = indices.shape[-1]
    if depth > len(source.shape):
        raise Unmapped(f"{depth} indices for an input of rank {len(source.shape)}")
    sizes, rest = source.shape[:depth], source.shape[depth:]
    slices = c.reshape(source, (*sizes, math.prod(rest)) if rest else sizes)
    rows = c.reshape(indices, (indices.size // depth, depth))
    found = c.keep(ExtendedOperationCode.GATHER_ND, slices, rows)
    return c.reshape(found, (*indices.shape[:-1], *rest))


@builtin("ONE_HOT")
def one_hot(c: Context) -> Value:
    """Map ONE_HOT: compare the indices with every possible index."""
    indices, depth = c.input(0), c.integer(1, "the depth")
    shape = [] if c.is_scalar(0) else list(indices.shape)
    axis = axis_of(c.options("OneHotOptions").Axis(), len(shape) + 1)
    if depth < 1:
        raise Unmapped(f"the depth (input 1) must be positive, got {depth}")
    full = [*shape[:axis], depth, *shape[axis:]]
    numbers = c.computed([depth, *[1] * (len(shape) - axis)], I32, lambda: charged.arange(depth, dtype=np.int32))
    hot = c.emit(Op.EQUAL, c.reshape(indices, [*shape[:axis], 1, *shape[axis:]]), numbers, out=BOOL8)
    on, off = (c.broadcast(c.input(position), tuple(full)) for position in (2, 3))
    return c.emit(Op.SELECT, hot, on, off, out=on.type)


@builtin("SELECT", "SELECT_V2")
def select(c: Context) -> Value:
    """Map SELECT. NNAPI's condition and choices have one shape. SELECT's condition may be one for each row."""
    condition, first, second = (c.input(position) for position in range(3))
    if is_quantised(first) != is_quantised(second):
        first, second = c.real(first), c.real(second)
    if c.operator.name == "SELECT" and len(condition.shape) == 1 < len(first.shape):
        condition = c.reshape(condition, (*condition.shape, *[1] * (len(first.shape) - 1)))
    return chosen(c, condition, first, second, c.out() if is_quantised(first) else None)


@builtin("WHERE")
def where(c: Context) -> Value:
    """Map WHERE: a row of indices for every element that is not 0. Data decide the number of rows."""
    source = c.real(c.input())
    if source.is_constant:
        return c.constant(np.argwhere(source.array), I32)
    flat = c.reshape(source, (source.size,))
    places, count = true_first(c, flat if flat.code is OperandCode.TENSOR_BOOL8 else c.as_bool(flat))
    c.gives[0] = DynamicExtent(0, count)
    return packed(c, coordinates(c, places, source.shape), 1)


@builtin("TOPK_V2")
def top_k(c: Context) -> list[Value]:
    """Map TOPK_V2: the largest elements of each row, and their positions."""
    return list(largest(c, c.input(0), c.integer(1, "k")))


# --- by key --------------------------------------------------------------------------------------------------


@builtin("EMBEDDING_LOOKUP")
def embedding_lookup(c: Context) -> Value:
    """Map EMBEDDING_LOOKUP: rows of a table. Real numbers of 4 bits stay such, others are converted at import."""
    table = c.input(1)
    if is_quantised(table) and c.out().code is OperandCode.TENSOR_FLOAT32:
        blocks = four_bit_rows(c, 1)
        if blocks is not None:
            return block_rows(c, c.input(0), blocks, table.shape[1])
        table = real_weights(c, table)
    return c.emit(Op.EMBEDDING_LOOKUP, c.input(0), table, out=table.type)


@builtin("HASHTABLE_LOOKUP")
def hashtable_lookup(c: Context) -> list[Value]:
    """Map HASHTABLE_LOOKUP: rows of a table by ascending keys, and which keys exist."""
    table = c.input(2)
    hits = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, scale=1.0)
    return c.emit_many(Op.HASHTABLE_LOOKUP, c.input(0), c.input(1), table, outs=[table.type, hits])


_PROJECTIONS = {1: 3, 2: 2}
"""TFLite's SPARSE and DENSE in NNAPI's numbers; its 1 is a sparse projection of old, which adds no offsets."""


@builtin("LSH_PROJECTION")
def lsh_projection(c: Context) -> Value:
    """Map LSH_PROJECTION: bits of hashes of the input."""
    kind = c.options("LSHProjectionOptions").Type()
    if kind not in _PROJECTIONS:
        raise Unmapped(f"unknown type of projection {kind}")
    return c.emit(Op.LSH_PROJECTION, c.input(0), c.input(1), c.optional(2), _PROJECTIONS[kind], out=I32)
