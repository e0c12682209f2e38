"""Operators that change a shape or the order of elements, and those that compute shapes."""

from __future__ import annotations

import math

import numpy as np

from nnvk.api import ExtendedOperationCode, OperandCode, OperationCode
from nnvk.base.sizes import broadcast_sizes, whole_numbers
from nnvk.importers import charged
from nnvk.importers.decompositions.moving import axis_of, joined_integers, packed, padded_integers, transposed
from nnvk.importers.emitter import I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value, at_least_1d
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.types.extension import KnownCode
from nnvk.types.operand import Shape

Op = OperationCode

# --- shape ---------------------------------------------------------------------------------------------------


@builtin("RESHAPE")
def reshape(c: Context) -> Value:
    """Map RESHAPE. The shape is an input or an option, or the output's declared shape if only the model knows it."""
    source = c.input(0)
    return c.reshape(source, reshaped(c, source.shape))


def reshaped(c: Context, source: Shape) -> Shape:
    """The output's shape of a RESHAPE."""
    given = c.optional(1)
    if given is not None and given.is_constant:
        shape = c.ints(1, "the shape")
    elif given is None and isinstance(numbers := c.options("ReshapeOptions").NewShapeAsNumpy(), np.ndarray):
        shape = numbers.tolist()
    else:
        declared = c.declared_shape()
        if declared is None:
            reason = "the shape (input 1) must be a constant, or the output's shape declared"
            raise Unmapped(reason) if given is None else c.not_constant(reason, 1)
        shape = list(declared)
    rest = math.prod(size for size in shape if size != -1)
    if shape.count(-1) == 1 and rest > 0:
        shape[shape.index(-1)] = math.prod(source) // rest
    return tuple(shape)


@builtin("SQUEEZE")
def squeeze(c: Context) -> Value:
    """Map SQUEEZE: remove the dimensions of size 1 that the options name, or all."""
    source = c.input()
    return c.reshape(source, squeezed(c, source.shape))


def squeezed(c: Context, source: Shape) -> Shape:
    """The output's shape of a SQUEEZE."""
    named = c.options("SqueezeOptions").SqueezeDimsAsNumpy()
    rank = len(source)
    axes = {axis_of(int(axis), rank) for axis in named} if isinstance(named, np.ndarray) and named.size else None
    if axes is None:
        axes = {axis for axis, size in enumerate(source) if size == 1}
    if any(source[axis] != 1 for axis in axes):
        raise Unmapped(f"the dimensions {sorted(axes)} of {list(source)} must be of size 1")
    return tuple(size for axis, size in enumerate(source) if axis not in axes)


@builtin("EXPAND_DIMS")
def expand_dims(c: Context) -> Value:
    """Map EXPAND_DIMS: insert a dimension of size 1."""
    source = c.input(0)
    return c.reshape(source, expanded(c, source.shape))


def expanded(c: Context, source: Shape) -> Shape:
    """The output's shape of an EXPAND_DIMS."""
    shape = () if c.is_scalar(0) else source
    axis = axis_of(c.integer(1, "the axis"), len(shape) + 1)
    return (*shape[:axis], 1, *shape[axis:])


@builtin("SHAPE")
def shape_of(c: Context) -> Value:
    """Map SHAPE to a constant, which is known at import."""
    return c.constant(whole_numbers(() if c.is_scalar(0) else c.input().shape, np.int32), I32)


@builtin("RANK")
def rank_of(c: Context) -> Value:
    """Map RANK to a constant, which is known at import."""
    return c.constant(0 if c.is_scalar(0) else len(c.input().shape), I32)


@builtin("RANGE")
def sequence(c: Context) -> Value:
    """Map RANGE, with constant inputs."""
    bounds = [c.input(position).known_array for position in range(3)]
    if any(bound is None or bound.size != 1 for bound in bounds):
        unknown = [position for position, bound in enumerate(bounds) if bound is None]
        raise c.not_constant("start, limit and delta (inputs 0 to 2) must be constants", *unknown)
    start, limit, delta = (bound.reshape(()).item() for bound in bounds)  # type: ignore[union-attr]
    if not delta or not all(map(math.isfinite, (start, limit, delta))):
        raise Unmapped(f"start, limit and delta must be finite and delta not 0, got {start}, {limit}, {delta}")
    out = c.out()
    count = max(0, math.ceil((limit - start) / delta))
    return c.computed((count,), out, lambda: charged.arange(start, limit, delta))


@builtin("ZEROS_LIKE")
def zeros_like(c: Context) -> Value:
    """Map ZEROS_LIKE to a constant, which is known at import."""
    source = c.input()
    return c.filled(source.type.zero_point, source.type, source.shape)


@builtin("FILL")
def fill(c: Context) -> Value:
    """Map FILL. Where only the model knows the dimensions, they are the output's declared shape."""
    shape = at_least_1d(tuple(c.ints(0, "the dimensions"))) if c.input(0).is_constant else c.declared_shape()
    if shape is None:
        raise c.not_constant("the dimensions (input 0) must be constants, or the output's shape declared", 0)
    return c.broadcast(c.input(1), shape)


# --- repeat --------------------------------------------------------------------------------------------------


@builtin("BROADCAST_TO")
def broadcast_to(c: Context) -> Value:
    """Map BROADCAST_TO, with a constant shape."""
    return c.broadcast(c.input(0), at_least_1d(tuple(c.ints(1, "the shape"))))


@builtin("BROADCAST_ARGS")
def broadcast_args(c: Context) -> Value:
    """Map BROADCAST_ARGS: the shape that constant shapes broadcast to."""
    try:
        shape = broadcast_sizes(tuple(c.ints(0, "a shape")), tuple(c.ints(1, "a shape")))
    except ValueError as error:
        raise Unmapped(str(error)) from None
    return c.constant(np.array(shape, np.int32), I32)


@builtin("TILE")
def tile(c: Context) -> Value:
    """Map TILE. The repetitions may be known only when the model runs."""
    return c.sized(Op.TILE, c.input(0), c.input(1))


# --- order ---------------------------------------------------------------------------------------------------


@builtin("TRANSPOSE")
def transpose(c: Context) -> Value:
    """Map TRANSPOSE. The permutation is an input."""
    source = c.input(0)
    rank = len(source.shape)
    order = [axis_of(axis, rank, "the permutation") for axis in c.ints(1, "the permutation")]
    return transposed(c, source, order)


@builtin("REVERSE_V2")
def reverse(c: Context) -> Value:
    """Map REVERSE_V2, one axis after the other."""
    value = c.input(0)
    for axis in c.ints(1, "the axes"):
        value = c.keep(Op.REVERSE, value, np.array([axis_of(axis, len(value.shape))]))
    return value


_BLOCKS = {
    "DEPTH_TO_SPACE": (Op.DEPTH_TO_SPACE, "DepthToSpaceOptions"),
    "SPACE_TO_DEPTH": (Op.SPACE_TO_DEPTH, "SpaceToDepthOptions"),
}


@builtin(*_BLOCKS)
def depth_and_space(c: Context) -> Value:
    """The size of a block is an option."""
    code, table = _BLOCKS[c.operator.name]
    return c.keep(code, c.input(), c.options(table).BlockSize())


def _as_image(c: Context, source: Value) -> Value:
    """A tensor [batch, size, channels] as [batch, size, 1, channels]."""
    return c.reshape(source, (*source.shape[:2], 1, source.shape[2])) if len(source.shape) == 3 else source


@builtin("SPACE_TO_BATCH_ND")
def space_to_batch(c: Context) -> Value:
    """Map SPACE_TO_BATCH_ND, with one or two spatial dimensions."""
    source, block, paddings = c.input(0), c.ints(1, "the block"), c.ints(2, "the paddings")
    image = _as_image(c, source)
    if image is not source:
        block, paddings = [*block, 1], [*paddings, 0, 0]
    result = c.keep(Op.SPACE_TO_BATCH_ND, image, np.array(block), np.array(paddings).reshape(-1, 2))
    return result if image is source else c.reshape(result, (*result.shape[:2], result.shape[3]))


@builtin("BATCH_TO_SPACE_ND")
def batch_to_space(c: Context) -> Value:
    """Map BATCH_TO_SPACE_ND. A SLICE crops the result, because NNAPI's operation does not."""
    source, block = c.input(0), c.ints(1, "the block")
    crops: np.ndarray = np.array(c.ints(2, "the crops")).reshape(-1, 2)
    image = _as_image(c, source)
    if image is not source:
        block, crops = [*block, 1], np.concatenate([crops, [[0, 0]]])
    result = c.keep(Op.BATCH_TO_SPACE_ND, image, np.array(block))
    if np.any(crops):
        crops = np.concatenate([[[0, 0]], crops, [[0, 0]]])
        result = c.keep(Op.SLICE, result, crops[:, 0], np.array(result.shape) - crops.sum(axis=1))
    return result if image is source else c.reshape(result, (*result.shape[:2], result.shape[3]))


_FIXED_POINT = frozenset({OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.TENSOR_QUANT16_SYMM})
"""The types of levels that TFLite interpolates in fixed point."""
_RESIZES = {
    "RESIZE_BILINEAR": (Op.RESIZE_BILINEAR, "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": (Op.RESIZE_NEAREST_NEIGHBOR, "ResizeNearestNeighborOptions"),
}


@builtin(*_RESIZES)
def resize(c: Context) -> Value:
    """The size is an input, which must be a constant."""
    code: KnownCode
    code, table = _RESIZES[c.operator.name]
    options = c.options(table)
    size = c.ints(1, "the size")
    if len(size) != 2:
        raise Unmapped(f"the size (input 1) must be two numbers, got {size}")
    height, width = size
    if code is Op.RESIZE_BILINEAR and c.input(0).code in _FIXED_POINT:
        code = ExtendedOperationCode.RESIZE_BILINEAR
    flags = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    return c.keep(code, c.input(0), width, height, False, *(flags if any(flags) else ()))


# --- joining and padding -------------------------------------------------------------------------------------


@builtin("CONCATENATION")
def concatenation(c: Context) -> Value:
    """Map CONCATENATION, of any quantisation. NNAPI cannot concatenate integers, so they are packed piece by piece."""
    options = c.options("ConcatenationOptions")
    values = c.all_inputs()
    axis = axis_of(options.Axis(), len(values[0].shape))
    values = [value for value in values if value.size] or values[:1]  # NNAPI joins no tensors without elements
    if all(value.code is OperandCode.TENSOR_INT32 for value in values):
        return joined_integers(c, values, axis)
    out = c.out() if c.out().scale else values[0].type
    return c.activated(c.emit(Op.CONCATENATION, *values, axis, out=out), options)


@builtin("PACK")
def pack(c: Context) -> Value:
    """Map PACK: stack tensors along a new axis.

    Where the file knows no shapes, as of what depends on data, single elements are scalars if the output is a row.
    """
    values = c.all_inputs()
    is_row = len(c.output().shape) == 1 and values[0].shape == (1,)
    if c.is_scalar(0) or is_row:
        return c.reshape(packed(c, values, 0), (len(values),))
    return packed(c, values, axis_of(c.options("PackOptions").Axis(), len(values[0].shape) + 1))


@builtin("PAD", "PADV2", "MIRROR_PAD")
def pad(c: Context) -> Value:
    """Map padding with zeros, with a constant, or with mirrored elements."""
    source, paddings = c.input(0), c.input(1)
    if c.operator.name == "MIRROR_PAD":
        return c.sized(Op.MIRROR_PAD, source, paddings, c.options("MirrorPadOptions").Mode())
    value = c.optional(2) if c.operator.name == "PADV2" else None
    if value is not None and (not value.is_constant or value.array.size != 1):
        raise Unmapped("the value to pad with (input 2) must be one constant")
    number = None if value is None or not value.is_constant else value.array.reshape(()).item()
    if source.code is I32.code:
        pairs = np.array(c.ints(1, "the paddings")).reshape(-1, 2)
        if len(pairs) != len(source.shape) or pairs.min(initial=0) < 0:
            raise Unmapped(f"there must be two paddings from 0 up for each axis, got {pairs.tolist()}")
        return padded_integers(c, source, pairs, number or 0)
    if number is None:
        return c.sized(Op.PAD, source, paddings)
    if source.code is OperandCode.TENSOR_BOOL8:
        number = float(number)
    return c.sized(Op.PAD_V2, source, paddings, number)
