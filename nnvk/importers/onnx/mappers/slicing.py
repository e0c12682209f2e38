"""Operators that take parts of a tensor: slices, elements by index, the best ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.base.sizes import count, everything, part
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import each, with_number
from nnvk.importers.decompositions.moving import (
    axis_of,
    elements_at,
    flat_picked,
    gathered,
    largest,
    strided,
    transposed,
)
from nnvk.importers.dynamic_extents import DynamicExtent, coordinates, true_first
from nnvk.importers.emitter import BOOL8, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value, at_least_1d
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor, constant
from nnvk.types.codes import OperationCode
from nnvk.types.constant import OpenConstant
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

Op = OperationCode


@operator("Slice")
def slice_(c: Context) -> Tensor:
    """Map Slice. Begins, ends, axes and steps are constants, or attributes in older versions."""
    source = c.tensor()
    begins, ends = c.integers("starts", 1), c.integers("ends", 2)
    if begins is None or ends is None or len(begins) != len(ends):
        raise Unmapped(f"starts and ends must be of one length, got {begins} and {ends}")
    axes = c.integers("axes", 3)
    axes = list(range(len(begins))) if axes is None else [axis_of(axis, source.rank) for axis in axes]
    steps = c.ints(4, "the steps") if c.has(4) else [1] * len(begins)
    if not len(begins) == len(axes) == len(steps):
        raise Unmapped(f"axes and steps must be as many as starts, got {axes} and {steps}")
    taken = everything(source.shape)
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        if not step:
            raise Unmapped("steps must not be 0")
        taken[axis] = part(source.shape[axis], begin, end, step)
    shape = [count(one) for one in taken]
    if not all(shape):
        return constant(charged.zeros(shape, source.dtype))
    return c.give(strided(c, c.value(), taken), shape, source.dtype)


# --- by index ------------------------------------------------------------------------------------------------


def _from_zero(c: Context, position: int, size: int) -> Value:
    """Indices of which those below 0 count from the end."""
    tensor = c.tensor(position)
    if isinstance(tensor.constant, OpenConstant) and tensor.constant.bounds is not None:
        low, high = tensor.constant.bounds
        if low >= 0 and high < size:
            return c.number(position)
    if tensor.is_constant:
        indices = tensor.array
        if indices.size and not -size <= int(indices.min()) <= int(indices.max()) < size:
            raise Unmapped(f"indices must be in [{-size}, {size}), got {int(indices.min())} to {int(indices.max())}")
        return c.constant(np.where(indices < 0, indices + size, indices), I32)
    value = c.number(position)
    below = c.emit(Op.LESS, value, c.constant(0, I32), out=BOOL8)
    offset = with_number(c, Op.MUL, c.as_number(below, I32), size, NONE)
    return c.emit(Op.ADD, value, offset, NONE, out=I32)


@operator("Gather")
def gather(c: Context) -> Tensor:
    """Map Gather along one axis. A single index removes the axis."""
    source, places = c.tensor(0), c.tensor(1)
    axis = axis_of(c.node.integer("axis", 0), source.rank)
    shape = (*source.shape[:axis], *places.shape, *source.shape[axis + 1 :])
    if not math.prod(shape):
        return constant(charged.zeros(shape, source.dtype))
    value, indices = c.value(0), _from_zero(c, 1, source.shape[axis])
    return c.give(gathered(c, value, axis, indices), shape, source.dtype)


@operator("GatherElements")
def gather_elements(c: Context) -> Tensor:
    """Map GatherElements: indices along one axis. Along the other axes an index's own place counts."""
    source, places = c.tensor(0), c.tensor(1)
    axis = axis_of(c.node.integer("axis", 0), source.rank)
    value = c.value(0)
    taken = gathered(c, c.reshape(value, (value.size,)), 0, _element_places(c, source, places, axis))
    return c.give(taken, places.shape, source.dtype)


def _element_places(c: Context, source: Tensor, places: Tensor, axis: int) -> Value:
    """Indices (input 1) along one axis, each at its place along the others, as one index in the order of memory."""
    if places.rank != source.rank:
        raise Unmapped(f"indices of shape {list(places.shape)} must have the rank of {list(source.shape)}")
    strides = [math.prod(source.shape[one + 1 :]) for one in range(source.rank)]
    steps = tuple(0 if one == axis else stride for one, stride in enumerate(strides))
    last = sum((size - 1) * step for size, step in zip(places.shape, steps, strict=True))
    firsts = c.whole_numbers(at_least_1d(places.shape), (0, last), _grid, places.shape, steps)
    indices = with_number(c, Op.MUL, _from_zero(c, 1, source.shape[axis]), strides[axis], NONE)
    return c.emit(Op.ADD, indices, firsts, NONE, out=I32)


def _grid(shape: Shape, steps: Sequence[int]) -> np.ndarray:
    """The sum of each element's places along the axes, times the steps."""
    grid = charged.indices(shape)
    return sum((grid[one] * step for one, step in enumerate(steps) if step), charged.zeros(shape, int))


@operator("GatherND")
def gather_nd(c: Context) -> Tensor:
    """Map GatherND, with the axes of slices merged to one, and those of batches, too."""
    source, places = c.tensor(0), c.tensor(1)
    batch = c.node.integer("batch_dims", 0)
    depth = places.shape[-1]
    if batch < 0 or batch + depth > source.rank or places.shape[:batch] != source.shape[:batch]:
        raise Unmapped(f"indices of shape {list(places.shape)} do not fit {list(source.shape)}, batch_dims {batch}")
    batches = (math.prod(source.shape[:batch]),) if batch else ()
    sizes, rest = source.shape[batch : batch + depth], source.shape[batch + depth :]
    slices = c.reshape(c.value(0), (*batches, *sizes, *((math.prod(rest),) if rest else ())))
    rows = c.reshape(c.number(1), (*batches, places.size // depth // math.prod(batches), depth))
    found = c.keep(ExtendedOperationCode.GATHER_ND, slices, rows, len(batches))
    return c.give(found, (*places.shape[:-1], *rest), source.dtype)


_REDUCTIONS = ("none", "add", "mul", "max", "min")
"""In the order of SCATTER_ND's numbers."""


@operator("ScatterElements", "Scatter")
def scatter_elements(c: Context) -> Tensor:
    """Map ScatterElements to SCATTER_ND of single elements, with the places of `gather_elements`."""
    source, places = c.tensor(0), c.tensor(1)
    if not places.size:
        return source
    axis = axis_of(c.node.integer("axis", 0), source.rank)
    indices = c.reshape(_element_places(c, source, places, axis), (places.size, 1))
    return _scattered(c, indices, (source.size,), (places.size,))


@operator("ScatterND")
def scatter_nd(c: Context) -> Tensor:
    """Map ScatterND, with the axes of slices merged to one."""
    source, places = c.tensor(0), c.tensor(1)
    if 0 in places.shape[:-1]:
        return source
    depth = places.shape[-1]
    if depth > source.rank:
        raise Unmapped(f"indices of shape {list(places.shape)} do not fit an input of rank {source.rank}")
    rest = (math.prod(source.shape[depth:]),) if depth < source.rank else ()
    rows = places.size // depth
    indices = c.reshape(c.number(1), (rows, depth))
    return _scattered(c, indices, (*source.shape[:depth], *rest), (rows, *rest))


def _scattered(c: Context, indices: Value, shape: Shape, updates: Shape) -> Tensor:
    """SCATTER_ND of inputs in other shapes."""
    reduction = c.node.text("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise Unmapped(f"attribute 'reduction' must be one of {list(_REDUCTIONS)}, got '{reduction}'")
    source = c.tensor(0)
    scattered = c.keep(
        ExtendedOperationCode.SCATTER_ND,
        c.reshape(c.number(0), shape),
        indices,
        c.reshape(c.number(2), updates),
        _REDUCTIONS.index(reduction),
    )
    return c.give(c.wrapped(scattered, source.dtype), source.shape, source.dtype)


@operator("Compress")
def compress(c: Context) -> Tensor:
    """Map Compress: the elements where a condition is true. Data decide their number unless it is a constant."""
    source, condition = c.tensor(0), c.tensor(1)
    if not condition.is_constant:
        return _compressed(c, source, c.number(1))
    places = np.flatnonzero(condition.array)
    if not places.size:
        raise Unmapped("the condition takes no elements")
    if not c.node.has("axis"):
        return c.give(flat_picked(c, c.value(), places), None, source.dtype)
    picked = elements_at(c, c.value(), axis_of(c.node.integer("axis", 0), source.rank), places)
    return c.give(picked, None, source.dtype)


def _compressed(c: Context, source: Tensor, flags: Value) -> Tensor:
    places, count = true_first(c, flags)
    value, axis = c.value(), 0
    if c.node.has("axis"):
        axis = axis_of(c.node.integer("axis", 0), source.rank)
    else:
        value = c.reshape(value, (source.size,))
    if flags.size > value.shape[axis]:
        raise Unmapped(f"a condition of {flags.size} elements is too long for axis {axis} of {list(value.shape)}")
    picked = gathered(c, value, axis, places)
    result = c.give(picked, picked.shape, source.dtype)
    result.extent = DynamicExtent(axis, count)
    return result


@operator("NonZero")
def non_zero(c: Context) -> Tensor:
    """Map NonZero: one index for each axis of every element that is not 0. Data decide the number of elements."""
    source, value = c.tensor(), c.number()
    if not source.rank:
        raise Unmapped("the input must have rank 1 at least")
    flat = c.reshape(value, (source.size,))
    places, count = true_first(c, flat if flat.code is BOOL8.code else c.as_bool(flat))
    rows = [c.reshape(one, (1, source.size)) for one in coordinates(c, places, source.shape)]
    result = c.give(joined(c, rows, 0) if len(rows) > 1 else rows[0], (source.rank, source.size), np.int64)
    result.extent = DynamicExtent(1, count)
    return result


@operator("OneHot")
def one_hot(c: Context) -> Tensor:
    """Map OneHot: compare the indices with every possible index."""
    places, depth = c.tensor(0), int(c.scalar(1, "the depth"))
    axis = axis_of(c.node.integer("axis", -1), places.rank + 1)
    if depth < 1:
        raise Unmapped(f"the depth (input 1) must be positive, got {depth}")
    indices = c.number(0)
    if indices.code is not I32.code:
        indices = c.cast(indices, np.dtype(np.int64))
    below = c.emit(Op.LESS, indices, c.constant(0, I32), out=BOOL8)
    indices = c.emit(Op.ADD, indices, with_number(c, Op.MUL, c.as_number(below, I32), depth, NONE), NONE, out=I32)
    shape = (*places.shape[:axis], depth, *places.shape[axis:])
    numbers = c.constant(charged.arange(depth).reshape(depth, *[1] * (places.rank - axis)), I32)
    hot = c.emit(Op.EQUAL, c.reshape(indices, (*places.shape[:axis], 1, *places.shape[axis:])), numbers, out=BOOL8)
    values = c.number(2)
    off, on = (
        c.emit_many(Op.SPLIT, values, 0, 2, outs=[values.type] * 2)
        if not values.is_constant
        else (
            c.constant(values.array[:1], values.type),
            c.constant(values.array[1:], values.type),
        )
    )
    result = c.emit(Op.SELECT, hot, c.broadcast(on, shape), c.broadcast(off, shape), out=values.type)
    return c.give(result, shape, c.tensor(2).dtype)


# --- the best ------------------------------------------------------------------------------------------------


@operator("TopK")
def top_k(c: Context) -> list[Tensor]:
    """Map TopK along the last axis. Another axis is moved there. The smallest elements are the largest negated ones."""
    source = c.tensor()
    k = c.node.integer("k", 0) if c.node.has("k") else int(c.scalar(1, "k"))
    axis = axis_of(c.node.integer("axis", -1), source.rank)
    if not 0 <= k <= source.shape[axis]:
        raise Unmapped(f"k must be in [0, {source.shape[axis]}], got {k}")
    if k == 0:
        none = charged.zeros([0 if one == axis else size for one, size in enumerate(source.shape)])
        return [constant(none.astype(dtype)) for dtype in (source.dtype, np.int64)]
    value = c.number()
    order = [one for one in range(source.rank) if one != axis] + [axis]
    last = transposed(c, value, order)
    rows = c.reshape(last, (last.size // last.shape[-1], last.shape[-1]))
    is_smallest = not c.node.integer("largest", 1)
    if is_smallest:
        rows = _upside_down(c, rows)
    best, places = largest(c, rows, k)
    if is_smallest:
        best = _upside_down(c, best)
    back = [order.index(one) for one in range(source.rank)]
    shape = [*(source.shape[one] for one in order[:-1]), k]
    return [
        c.give(transposed(c, c.reshape(found, shape), back), None, dtype)
        for found, dtype in ((best, source.dtype), (places, np.dtype(np.int64)))
    ]


def _upside_down(c: Context, value: Value) -> Value:
    """The numbers in the opposite order. The lowest whole number has no counterpart above 0."""
    if value.code is I32.code:
        return c.emit(Op.SUB, c.constant(-1, I32), value, NONE, out=I32)
    return each(c, Op.NEG, value)


@operator("ArgMax", "ArgMin")
def arg_extreme(c: Context) -> Tensor:
    """Map ArgMax and ArgMin: the first one. The last one is the first of the reversed axis."""
    code = Op.ARGMAX if c.node.op_type == "ArgMax" else Op.ARGMIN
    source, value = c.tensor(), c.number()
    axis = axis_of(c.node.integer("axis", 0), source.rank)
    wants_last = bool(c.node.integer("select_last_index", 0))
    if wants_last:
        value = c.keep(Op.REVERSE, value, np.array([axis]))
    place = c.emit(code, value, axis, out=I32)
    if wants_last:
        place = c.emit(Op.SUB, c.constant(source.shape[axis] - 1, I32), place, NONE, out=I32)
    keep = [1] if c.node.integer("keepdims", 1) else []
    return c.give(place, (*source.shape[:axis], *keep, *source.shape[axis + 1 :]), np.int64)
