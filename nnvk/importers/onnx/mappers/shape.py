"""Operators that change a shape or the order of elements, that repeat, join and pad."""

from __future__ import annotations

import itertools
import math

import numpy as np

from nnvk.base.sizes import broadcast_sizes, everything, quotient, whole_numbers
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import chosen
from nnvk.importers.decompositions.moving import (
    axis_of,
    elements_at,
    flat_picked,
    joined_integers,
    padded_integers,
    sliced,
    strided,
    transposed,
)
from nnvk.importers.dynamic_extents import sizes_of
from nnvk.importers.emitter import BOOL8, I32, is_quantised, same_quantisation
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value, at_least_1d
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.quantised_operands import requantised
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor, constant
from nnvk.types.codes import OperationCode
from nnvk.types.constant import reshaped as reshaped_constant
from nnvk.types.operand import Shape

Op = OperationCode

# --- what is known at import ---------------------------------------------------------------------------------


@operator("Shape")
def shape_of(c: Context) -> Tensor:
    """Map Shape: all sizes, or those from ``start`` to ``end``. A constant, unless data decide one of them."""
    shape, extent = c.tensor().shape, c.tensor().extent
    start, end = c.node.integer("start", 0), c.node.integer("end", len(shape))
    axes = range(len(shape))[start:end] if start < len(shape) else range(0)
    if extent is None or extent.axis not in axes:
        return sizes_tensor([shape[axis] for axis in axes])
    sizes = sizes_of(c, shape, extent)
    return c.give(sliced(c, sizes, [axes]), (len(axes),), np.int64)


def sizes_tensor(sizes: list[int] | int) -> Tensor:
    """A constant of sizes."""
    array = whole_numbers(sizes, np.int64) if isinstance(sizes, list) else whole_numbers([sizes], np.int64).reshape(())
    return Tensor(np.dtype(np.int64), array.shape, None, array)


@operator("Size")
def size_of(c: Context) -> Tensor:
    """Map Size: the number of elements."""
    if c.tensor().extent is not None:
        raise Unmapped("data decide it")
    return sizes_tensor(c.tensor().size)


@operator("ConstantOfShape")
def constant_of_shape(c: Context) -> Tensor:
    """Map ConstantOfShape if it is too large for a constant, or if its shape is unknown."""
    c.array(0, "the shape")
    raise Unmapped("it gives too many elements")


@operator("Range")
def sequence(c: Context) -> Tensor:
    """Map Range, with constant inputs."""
    for position, what in enumerate(("the start", "the limit", "the delta")):
        c.array(position, what)
    raise Unmapped("it gives too many elements")


# --- shape ---------------------------------------------------------------------------------------------------


def reshaped(c: Context, tensor: Tensor, shape: list[int] | Shape) -> Tensor:
    """The same elements in another shape."""
    if math.prod(shape) != tensor.size:
        raise Unmapped(f"a tensor of shape {list(tensor.shape)} has not as many elements as one of {list(shape)}")
    if tensor.constant is not None:
        return Tensor(tensor.dtype, tuple(shape), None, reshaped_constant(tensor.constant, tuple(shape)))
    value = c.reshape(c.carried(tensor), at_least_1d(tuple(shape)))
    return Tensor(tensor.dtype, tuple(shape), value)


@operator("Reshape")
def reshape(c: Context) -> Tensor:
    """Map Reshape. A 0 keeps a size, and -1 takes the rest."""
    source = c.tensor()
    shape = c.integers("shape", 1)
    if shape is None:
        raise Unmapped("the shape is missing")
    if not c.node.integer("allowzero", 0):
        if any(not size and axis >= source.rank for axis, size in enumerate(shape)):
            raise Unmapped(f"the shape {shape} keeps sizes that {list(source.shape)} has not")
        shape = [size or source.shape[axis] for axis, size in enumerate(shape)]
    if shape.count(-1) == 1:
        rest = [size for size in shape if size != -1]
        shape[shape.index(-1)] = quotient(source.shape, rest) if all(rest) else 0
    return reshaped(c, source, shape)


@operator("Flatten")
def flatten(c: Context) -> Tensor:
    """Map Flatten, to a matrix."""
    source, axis = c.tensor(), c.node.integer("axis", 1)
    if not -source.rank <= axis <= source.rank:
        raise Unmapped(f"the axis must be in [{-source.rank}, {source.rank}], got {axis}")
    axis += source.rank if axis < 0 else 0
    return reshaped(c, source, (math.prod(source.shape[:axis]), math.prod(source.shape[axis:])))


@operator("Squeeze")
def squeeze(c: Context) -> Tensor:
    """Map Squeeze: remove the named dimensions of size 1, or all."""
    source = c.tensor()
    named = c.integers("axes", 1)
    if not named:
        axes = {axis for axis, size in enumerate(source.shape) if size == 1}
    else:
        axes = {axis_of(axis, source.rank) for axis in named}
    if any(source.shape[axis] != 1 for axis in axes):
        raise Unmapped(f"the dimensions {sorted(axes)} of {list(source.shape)} must be of size 1")
    return reshaped(c, source, tuple(size for axis, size in enumerate(source.shape) if axis not in axes))


@operator("Unsqueeze")
def unsqueeze(c: Context) -> Tensor:
    """Map Unsqueeze: insert dimensions of size 1."""
    source = c.tensor()
    named = c.integers("axes", 1)
    if named is None:
        raise Unmapped("the axes are missing")
    axes = {axis_of(axis, source.rank + len(named)) for axis in named}
    if len(axes) < len(named):
        raise Unmapped(f"the axes must be different ones, got {named}")
    sizes = iter(source.shape)
    return reshaped(c, source, tuple(1 if axis in axes else next(sizes) for axis in range(source.rank + len(axes))))


# --- order ---------------------------------------------------------------------------------------------------


@operator("Transpose")
def transpose(c: Context) -> Tensor:
    """Map Transpose. Without a permutation it reverses the axes."""
    source = c.tensor()
    order = c.node.integers("perm")
    if order is None:
        order = list(range(source.rank))[::-1]
    if sorted(order) != list(range(source.rank)):
        raise Unmapped(f"the permutation must name each of {source.rank} axes, got {order}")
    value = c.value() if source.rank == 0 else transposed(c, c.value(), order)
    return c.give(value, [source.shape[axis] for axis in order], source.dtype)


@operator("DepthToSpace", "SpaceToDepth")
def depth_and_space(c: Context) -> Value:
    """Map DepthToSpace and SpaceToDepth. NNAPI's order of channels is DCR. CRD is a transposition of six axes."""
    source, block = c.value(), c.node.integer("blocksize", 0)
    if len(source.shape) != 4:
        raise Unmapped(f"the input must have rank 4, got shape {list(source.shape)}")
    if c.node.op_type == "SpaceToDepth" and c.node.text("mode", "DCR") == "DCR":
        return c.keep(Op.SPACE_TO_DEPTH, source, block, True)
    if c.node.text("mode", "DCR") == "DCR":
        return c.keep(Op.DEPTH_TO_SPACE, source, block, True)
    batches, channels, height, width = source.shape
    if c.node.op_type == "SpaceToDepth":
        apart = c.reshape(source, (batches, channels, height // block, block, width // block, block))
        moved = transposed(c, apart, (0, 1, 3, 5, 2, 4))
        return c.reshape(moved, (batches, channels * block * block, height // block, width // block))
    if block < 1 or channels % (block * block):
        raise Unmapped(f"{channels} channels don't divide into blocks of {block} x {block}")
    apart = c.reshape(source, (batches, channels // (block * block), block, block, height, width))
    moved = transposed(c, apart, (0, 1, 4, 2, 5, 3))
    return c.reshape(moved, (batches, channels // (block * block), height * block, width * block))


@operator("ReverseSequence")
def reverse_sequence(c: Context) -> Value:
    """Map ReverseSequence: gather elements at constant places."""
    source, lengths = c.value(), c.ints(1, "the lengths")
    time, batch = c.node.integer("time_axis", 0), c.node.integer("batch_axis", 1)
    places = charged.arange(source.size).reshape(source.shape)
    for index, length in enumerate(lengths):
        view = np.moveaxis(places, (batch, time), (0, 1))[index]
        view[:length] = view[:length][::-1].copy()
    return flat_picked(c, source, places)


# --- repeat --------------------------------------------------------------------------------------------------


@operator("Expand")
def expand(c: Context) -> Tensor:
    """Map Expand to a constant shape, which broadcasts with the input's."""
    source = c.tensor()
    shape = broadcast_sizes(source.shape, tuple(c.ints(1, "the shape")))
    return c.give(c.broadcast(c.value(), at_least_1d(shape)), shape, source.dtype)


@operator("Tile")
def tile(c: Context) -> Tensor:
    """Map Tile, with constant repetitions."""
    source, repeats = c.tensor(), c.ints(1, "the repetitions")
    if len(repeats) != source.rank or min(repeats, default=0) < 0:
        raise Unmapped(f"there must be a repetition from 0 up for each axis of {list(source.shape)}, got {repeats}")
    if 0 in repeats:
        return constant(
            charged.zeros([size * count for size, count in zip(source.shape, repeats, strict=True)], source.dtype)
        )
    shape = tuple(size * times for size, times in zip(source.shape, repeats, strict=True))
    value = c.value()
    if any(times != 1 for times in repeats):
        value = c.keep(Op.TILE, value, np.array(repeats))
    return c.give(value, shape, source.dtype)


# --- joining and padding -------------------------------------------------------------------------------------


@operator("Concat")
def concatenation(c: Context) -> Tensor:
    """Map Concat, of any type. NNAPI concatenates only floats and quantised tensors."""
    tensors = [tensor for tensor in c.tensors() if tensor.size] or c.tensors()[:1]
    dtype = tensors[0].dtype
    axis = axis_of(c.node.integer("axis", 0), tensors[0].rank)
    if len(tensors) == 1:
        return tensors[0]
    return c.give(joined(c, _alike(c, tensors), axis), None, dtype)


def _alike(c: Context, tensors: list[Tensor]) -> list[Value]:
    """Tensors in one type: levels of one quantisation, that to which the result is converted if all are levels."""
    values = [c.carried(tensor) for tensor in tensors]
    if all(is_quantised(value) for value in values):
        first = values[0]
        if all(value.code is first.code and same_quantisation(value.type, first.type) for value in values):
            return values
        out = requantised(c) if tensors[0].dtype.kind == "f" else None
        if out is not None:
            return [c.quantized(value, out) for value in values]
    return [c.plain(tensor) for tensor in tensors]


def joined(c: Context, values: list[Value], axis: int) -> Value:
    """A concatenation of tensors of one type."""
    if values[0].code is I32.code:
        return joined_integers(c, values, axis)
    return c.emit(Op.CONCATENATION, *values, axis, out=values[0].type)


@operator("Pad")
def pad(c: Context) -> Tensor:
    """Map Pad with a constant, or with elements of the tensor. Negative paddings crop."""
    source = c.tensor()
    mode = c.node.text("mode", "constant")
    given = c.integers("pads", 1) or []
    axes = [axis_of(axis, source.rank) for axis in c.ints(3, "the axes")] if c.has(3) else list(range(source.rank))
    if len(given) != 2 * len(axes):
        raise Unmapped(f"there must be two paddings for each of {len(axes)} axes, got {given}")
    before, after = [0] * source.rank, [0] * source.rank
    for axis, first, second in zip(axes, given[: len(axes)], given[len(axes) :], strict=True):
        before[axis], after[axis] = first, second
    if source.rank == 0:
        return source
    if mode == "constant":
        number = c.node.real("value", 0.0) if c.node.has("value") else c.scalar(2, "the value") if c.has(2) else 0
        return c.give(padded(c, c.number(), before, after, number), None, source.dtype)
    value = c.value()
    for axis, (first, second) in enumerate(zip(before, after, strict=True)):
        if first or second:
            kept = _kept(source.shape[axis], first, second)
            if not kept:
                raise Unmapped(f"paddings {first} and {second} leave nothing of axis {axis} to pad with ('{mode}')")
            places = kept.start + _mirrored(mode, len(kept), max(0, first), max(0, second))
            value = elements_at(c, value, axis, places)
    return c.give(value, None, source.dtype)


def _kept(size: int, before: int, after: int) -> range:
    """The elements of an axis that negative paddings leave."""
    return range(max(0, -before), size + min(0, after))


def _mirrored(mode: str, size: int, before: int, after: int) -> np.ndarray:
    places = charged.arange(-before, size + after)
    if mode == "edge":
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    if mode != "reflect":
        raise Unmapped(f"attribute 'mode' must be constant, edge, reflect or wrap, got '{mode}'")
    if size == 1:
        return np.zeros_like(places)
    turn = places % (2 * size - 2)
    return np.minimum(turn, 2 * size - 2 - turn)


def padded(c: Context, value: Value, before: list[int], after: list[int], number: float) -> Value:
    """``value`` with a number around it, or less of it where a padding is negative."""
    if min((*before, *after), default=0) < 0:
        kept = [_kept(*sizes) for sizes in zip(value.shape, before, after, strict=True)]
        if not all(kept):  # nothing but the number, in as many places as there would be
            shape = [sum(sizes) for sizes in zip(value.shape, before, after, strict=True)]
            if min(shape) < 1:
                raise Unmapped(f"paddings {before} and {after} make shape {shape} of {list(value.shape)}")
            return c.filled(number, value.type, shape)
        value = strided(c, value, kept)
    before, after = [max(0, one) for one in before], [max(0, one) for one in after]
    if not any((*before, *after)):
        return value
    paddings = np.array([before, after]).T
    if value.code is I32.code:
        return padded_integers(c, value, paddings, int(number))
    return c.keep(Op.PAD_V2, value, paddings, float(number))


@operator("Trilu")
def triangle(c: Context) -> Tensor:
    """Map Trilu: zeros below, or above, a diagonal."""
    source = c.tensor()
    if source.rank < 2:
        raise Unmapped(f"the input must have rank 2 at least, got shape {list(source.shape)}")
    k = int(c.scalar(1, "k")) if c.has(1) else 0
    ones = charged.ones(source.shape[-2:], np.bool_)
    mask = np.triu(ones, k) if c.node.integer("upper", 1) else np.tril(ones, k)
    value = c.number()
    kept = c.constant(mask, BOOL8)
    if value.code is BOOL8.code:
        return c.give(c.emit(Op.LOGICAL_AND, value, kept, out=BOOL8), source.shape, source.dtype)
    return c.give(chosen(c, kept, value, c.constant(0, value.type.with_dimensions(()))), source.shape, source.dtype)


@operator("Split")
def split(c: Context) -> list[Tensor]:
    """Map Split into parts of any size. Without sizes the parts are equal, but the last one may be smaller."""
    source = c.tensor()
    axis = axis_of(c.node.integer("axis", 0), source.rank)
    sizes, full = c.integers("split", 1), source.shape[axis]
    if sizes is None:
        count = c.node.integer("num_outputs", len(c.node.outputs))
        size = -(-full // count)
        sizes = [min(size, full - size * part) for part in range(count)]
    if min(sizes) < 0 or sum(sizes) != full or len(sizes) != len(c.node.outputs):
        raise Unmapped(
            f"the sizes {sizes} do not make up axis {axis}, of size {full}, of {len(c.node.outputs)} outputs"
        )
    value = c.value()
    shapes = [(*source.shape[:axis], size, *source.shape[axis + 1 :]) for size in sizes]
    if len(set(sizes)) == 1 and len(sizes) > 1:
        parts = c.emit_many(Op.SPLIT, value, axis, len(sizes), outs=[value.type] * len(sizes))
        return [c.give(part, shape, source.dtype) for part, shape in zip(parts, shapes, strict=True)]
    results = []
    for begin, size, shape in zip(itertools.accumulate(sizes, initial=0), sizes, shapes, strict=False):
        if not size:
            results.append(constant(charged.zeros(shape, source.dtype)))
            continue
        taken = everything(source.shape)
        taken[axis] = range(begin, begin + size)
        results.append(c.give(strided(c, value, taken), shape, source.dtype))
    return results
