"""Quantisation: QuantizeLinear, DequantizeLinear and operators on levels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.base.sizes import broadcast_sizes
from nnvk.importers import charged
from nnvk.importers.decompositions import arithmetic as decompositions
from nnvk.importers.decompositions.arithmetic import chosen, each, scalar, with_number
from nnvk.importers.decompositions.moving import axis_of, elements_at
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, is_quantised, same_quantisation
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.casts import narrowed
from nnvk.importers.onnx.mappers.convolution import convolved, quantised_convolution
from nnvk.importers.onnx.mappers.matmul import multiplied, product, product_shape, quantised_dense
from nnvk.importers.onnx.mappers.pooling import averaged
from nnvk.importers.onnx.mappers.quantised_operands import as_levels, quantised_operands
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.narrow import Narrow
from nnvk.importers.onnx.quantisation import quantised_type
from nnvk.importers.onnx.reader import types_of
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import BlockLevels, Levels, Tensor, constant
from nnvk.ops.binary import allows_product
from nnvk.ops.extension.block_quantized import BITS, WORD_LEVELS
from nnvk.types.codes import OperationCode
from nnvk.types.constant import Constant, DeferredConstant, QuantisedConstant
from nnvk.types.operand import OperandType

Op = OperationCode


def _laid(array: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """Scales or zero points along an axis, to broadcast."""
    return array.reshape([-1 if one == axis else 1 for one in range(rank)]) if array.size > 1 else array.reshape(())


def _laid_value(c: Context, tensor: Tensor, rank: int, axis: int) -> Value:
    value = c.cast(c.plain(tensor), np.dtype(np.float32))
    if tensor.size == 1:
        return value
    return c.reshape(value, [tensor.size if one == axis else 1 for one in range(rank)])


def _check_axis(scale: Tensor) -> None:
    if scale.rank > 1:
        raise Unmapped(f"scales of shape {list(scale.shape)} are of blocks, whose size attribute 'block_size' must say")


def _blocks(
    c: Context, source: Tensor, scale: Tensor, point: Tensor | None, axis: int, size: int
) -> tuple[Value, Value | None]:
    """The scale and the zero point of each element, where blocks along an axis have their own; FLOAT32."""
    axis = axis_of(axis, source.rank)
    shape = (*source.shape[:axis], -(-source.shape[axis] // size), *source.shape[axis + 1 :])
    for what, tensor in (("scales", scale), ("zero points", point)):
        if tensor is not None and (size < 1 or tensor.shape != shape):
            raise Unmapped(
                f"{what} of blocks of {size} along axis {axis} must have shape {list(shape)}, got {list(tensor.shape)}"
            )
    places = charged.arange(source.shape[axis]) // size

    def spread(tensor: Tensor) -> Value:
        if tensor.is_constant:
            return c.deferred(source.shape, F32, lambda: np.take(tensor.array.astype(np.float32), places, axis))
        return elements_at(c, c.cast(c.plain(tensor), np.dtype(np.float32)), axis, places)

    return spread(scale), None if point is None else spread(point)


def _dequantised_blocks(c: Context, source: Tensor, scales: Value, points: Value | None, dtype: np.dtype) -> Tensor:
    """Constants when they are looked at."""
    if source.is_constant and scales.is_constant and (points is None or points.is_constant):
        zeros = c.constant(0, F32) if points is None else points
        whole = source.array

        def real() -> np.ndarray:
            return (whole.astype(np.float32) - zeros.array) * scales.array

        return constant(DeferredConstant(source.shape, dtype, real))
    value = c.cast(c.plain(source), np.dtype(np.float32))
    if points is not None:
        value = c.emit(Op.SUB, value, points, NONE, out=F32)
    return c.give(c.emit(Op.MUL, value, scales, NONE, out=F32), source.shape, dtype)


def _four_bits(source: Tensor, scale: Tensor, point: Tensor | None, axis: int, size: int) -> BlockLevels | None:
    """Constant levels of 4 bits in blocks of whole words."""
    is_constant = all(one is None or one.is_constant for one in (source, scale, point))
    if not is_constant or source.narrow is None or source.narrow.bits != BITS or size % WORD_LEVELS:
        return None
    points = None if point is None else point.array
    return BlockLevels(source.array, scale.array, points, axis, size) if source.dtype.kind in "iu" else None


def _real_constant(levels: Levels, dtype: np.dtype) -> Constant:
    """The real numbers of levels, of the scales' type, when they are looked at."""
    array, points = levels.array, levels.zero_point
    if array.dtype.itemsize == 1 and dtype == np.float32 and (points == points[0]).all():
        return QuantisedConstant(array, levels.scale, int(points[0]), levels.axis)
    points_laid, scales_laid = (
        _laid(one.astype(np.float32), array.ndim, levels.axis) for one in (points, levels.scale)
    )
    form = points.tobytes(), levels.scale.tobytes(), levels.axis
    return DeferredConstant(
        array.shape, dtype, lambda: (array.astype(np.float32) - points_laid) * scales_laid, array, form
    )


def dequantised(c: Context, source: Tensor, scale: Tensor, point: Tensor | None, axis: int) -> Tensor:
    """Dequantise: constants at import, other tensors on demand if NNAPI has their type."""
    size = c.node.integer("block_size", 0)
    if size:
        result = _dequantised_blocks(c, source, *_blocks(c, source, scale, point, axis, size), scale.dtype)
        result.levels = _four_bits(source, scale, point, axis_of(axis, source.rank), size)
        return result
    _check_axis(scale)
    axis = axis_of(axis, source.rank) if scale.size > 1 else 0
    if scale.size > 1 and scale.size != source.shape[axis]:
        raise Unmapped(f"there must be {source.shape[axis]} scales along axis {axis}, got {scale.size}")
    if point is not None and point.size not in (1, scale.size):
        raise Unmapped(f"there must be as many zero points as scales, which are {scale.size}, got {point.size}")
    scales, points = scale.known_array, None if point is None else point.known_array
    if source.is_constant and scales is not None and (point is None or points is not None):
        zeros = charged.zeros(scales.size, np.int32) if points is None else points
        levels = Levels(source.array, scales.reshape(-1), zeros.reshape(-1).astype(np.int32), axis)
        return constant(_real_constant(levels, scales.dtype), levels if source.dtype.kind in "iu" else None)
    type_ = None
    if scales is not None and (point is None or points is not None):
        type_ = quantised_type(source.dtype, scales, points)
    value = c.carried(source)
    if type_ is not None and is_quantised(value) and same_quantisation(value.type, type_) and value.code is type_.code:
        return Tensor(scale.dtype, source.shape, value)
    real_value = c.cast(c.plain(source), np.dtype(np.float32))
    if point is not None and not (points is not None and not points.any()):
        real_value = c.emit(Op.SUB, real_value, _laid_value(c, point, source.rank, axis), NONE, out=F32)
    real_value = c.emit(Op.MUL, real_value, _laid_value(c, scale, source.rank, axis), NONE, out=F32)
    return c.give(c.cast(real_value, scale.dtype), source.shape, scale.dtype)


@operator("DequantizeLinear")
def dequantize_linear(c: Context) -> Tensor:
    """Map DequantizeLinear, with one scale or one for each index of an axis."""
    return dequantised(c, c.tensor(0), c.tensor(1), c.optional(2), c.node.integer("axis", 1))


def quantised(
    c: Context,
    source: Tensor,
    scale: Tensor,
    point: Tensor | None,
    axis: int,
    dtype: np.dtype,
    narrow: Narrow | None = None,
) -> Tensor:
    """Quantise: by QUANTIZE_TIES_TO_EVEN if one scale is known at import, otherwise to integers in INT32.

    ``narrow`` is the type if ``dtype`` only carries it. Types of real numbers have no zero point but 0.
    """
    if narrow is None and dtype.itemsize > 2:
        raise Unmapped(f"NNAPI quantises to 8 bits, got {dtype}")
    is_known = scale.is_constant and (point is None or point.is_constant)
    if narrow is None and is_known and not c.node.integer("block_size", 0):
        type_ = quantised_type(dtype, scale.array, None if point is None else point.array)
        if type_ is not None:
            value = c.carried(source)
            if not is_quantised(value):
                value = c.cast(value, np.dtype(np.float32))
            return Tensor(dtype, source.shape, c.quantized(value, type_))
    real = c.cast(c.plain(source), np.dtype(np.float32))
    size = c.node.integer("block_size", 0)
    if size:
        laid, shift = _blocks(c, source, scale, point, axis, size)
    else:
        _check_axis(scale)
        axis = axis_of(axis, source.rank) if scale.size > 1 else 0
        laid = _laid_value(c, scale, source.rank, axis)
        shift = None if point is None else _laid_value(c, point, source.rank, axis)
    levels = c.emit(Op.DIV, real, laid, NONE, out=F32)
    if narrow is not None and dtype == np.float32:
        return narrowed(c, levels, source.shape, narrow, saturates=bool(c.node.integer("saturate", 1)))
    levels = decompositions.round_half_even(c, levels)
    if shift is not None:
        levels = c.emit(Op.ADD, levels, shift, NONE, out=F32)
    least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max) if narrow is None else narrow.limits
    lowest = scalar(c, least, levels)  # NaN too
    levels = chosen(c, c.emit(Op.GREATER, levels, lowest, out=BOOL8), levels, lowest)
    levels = with_number(c, Op.MINIMUM, levels, most)
    result = c.give(c.emit(Op.CAST, levels, out=I32), source.shape, dtype)
    result.narrow = narrow
    return result


@operator("QuantizeLinear")
def quantize_linear(c: Context) -> Tensor:
    """Map QuantizeLinear to the type of the zero point, otherwise to an attribute's type or to UINT8."""
    dtype, narrow = np.dtype(np.uint8), None
    if c.has(2):
        dtype, narrow = c.tensor(2).dtype, c.tensor(2).narrow
    elif c.node.integer("output_dtype", 0):
        dtype, narrow = types_of(c.node.integer("output_dtype", 0), "its output")
        dtype = dtype if narrow is None else narrow.carrier
    return quantised(c, c.tensor(0), c.tensor(1), c.optional(2), c.node.integer("axis", 1), dtype, narrow)


# --- operators on levels --------------------------------------------------------------------------------------


def _type(c: Context, position: int, dtype: np.dtype) -> OperandType | None:
    """The quantised type by the scale at a position, and the zero point behind it."""
    scale, point = c.tensor(position), c.optional(position + 1)
    if not scale.is_constant or (point is not None and not point.is_constant):
        return None
    return quantised_type(dtype, scale.array, None if point is None else point.array)


def _result(c: Context, real: Value, position: int, dtype: np.dtype, shape: tuple[int, ...] | None = None) -> Tensor:
    """Quantise real numbers to the type of the node's output."""
    source = Tensor(np.dtype(np.float32), real.shape if shape is None else shape, real)
    return quantised(c, source, c.tensor(position), c.optional(position + 1), 1, dtype)


def _real(c: Context, position: int, axis: int = 1) -> Value:
    """An input with its scale and zero point behind it, as real numbers."""
    tensor = dequantised(c, c.tensor(position), c.tensor(position + 1), c.optional(position + 2), axis)
    return c.plain(tensor)


def _output_dtype(c: Context, point: int) -> np.dtype:
    return c.tensor(point).dtype if c.has(point) else c.tensor(0).dtype


@operator("QLinearConv")
def qlinear_conv(c: Context) -> Tensor:
    """Map QLinearConv: in levels if scales and weights are constants, otherwise in real numbers."""
    weights = dequantised(c, c.tensor(3), c.tensor(4), c.optional(5), 0)
    dtype = _output_dtype(c, 7)
    source, out = _type(c, 1, c.tensor(0).dtype), _type(c, 6, dtype)
    bias = c.optional(8)
    if (
        weights.axis_levels is not None
        and weights.rank < 5  # volumes go by real numbers
        and source is not None
        and out is not None
        and (bias is None or bias.is_constant)
    ):
        scales = weights.axis_levels.scale.astype(np.float64) * source.scale
        real_bias = None if bias is None or not bias.is_constant else bias.array * scales
        value = as_levels(c, c.tensor(0), source)
        operands = quantised_operands(value, weights.axis_levels, 0, weights.shape[0], real_bias, out)
        if operands is not None:
            result = quantised_convolution(c, operands)
            return Tensor(dtype, result.shape, c.quantized(result, out))
    x = _real(c, 0)
    filters: Constant | Value = c.plain(weights) if weights.constant is None else weights.constant
    result = convolved(c, x, filters, None)
    if bias is not None:
        scale = c.emit(
            Op.MUL,
            c.number(1),
            c.reshape(c.number(4), (1, c.tensor(4).size, *[1] * (len(x.shape) - 2))),
            NONE,
            out=F32,
        )
        term = c.reshape(c.cast(c.plain(bias), np.dtype(np.float32)), (1, bias.size, *[1] * (len(x.shape) - 2)))
        result = c.emit(Op.ADD, result, c.emit(Op.MUL, term, scale, NONE, out=F32), NONE, out=F32)
    return _result(c, result, 6, dtype)


@operator("QLinearMatMul")
def qlinear_matmul(c: Context) -> Tensor:
    """Map QLinearMatMul: in levels if the second matrix is a constant, otherwise in real numbers."""
    dtype = _output_dtype(c, 7)
    left, right = c.tensor(0), c.tensor(3)
    weights = dequantised(c, right, c.tensor(4), c.optional(5), right.rank - 1)
    source, out = _type(c, 1, left.dtype), _type(c, 6, dtype)
    if weights.axis_levels is not None and weights.rank == 2 and source is not None and out is not None:
        operands = quantised_operands(as_levels(c, left, source), weights.axis_levels, 1, weights.shape[1], None, out)
        if operands is not None:
            result = quantised_dense(c, operands, 1)
            return Tensor(dtype, result.shape, c.quantized(result, out))
    result, shape = product(c, _real(c, 0, left.rank - 2), c.plain(weights)), product_shape(left, right)
    return _result(c, c.reshape(result, shape or (1,)), 6, dtype, shape)


_PAIRS = {"com.microsoft.QLinearAdd": Op.ADD, "com.microsoft.QLinearMul": Op.MUL}


@operator(*_PAIRS)
def qlinear_pair(c: Context) -> Tensor:
    """Map operators on two tensors: in levels if NNAPI has their type, otherwise in real numbers."""
    code, dtype = _PAIRS[c.node.kind], c.tensor(0).dtype
    types = _type(c, 1, dtype), _type(c, 4, c.tensor(3).dtype), _type(c, 6, dtype)
    first, second, out = types
    if (
        first is not None
        and second is not None
        and out is not None
        and first.code is second.code
        and (code is Op.ADD or allows_product(first, second, out))
    ):
        values = as_levels(c, c.tensor(0), first), as_levels(c, c.tensor(3), second)
        shape = broadcast_sizes(c.tensor(0).shape, c.tensor(3).shape)
        return Tensor(dtype, shape, c.emit(code, *values, NONE, out=out))
    return _result(c, c.emit(code, _real(c, 0), _real(c, 3), NONE, out=F32), 6, dtype)


def _softmax(c: Context, x: Value) -> Value:
    axis = axis_of(c.node.integer("axis", -1), len(x.shape))
    if c.node.integer("opset", 13) < 13:
        rows = c.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return c.reshape(c.emit(Op.SOFTMAX, rows, 1.0, out=F32), x.shape)
    return c.reshape(c.emit(Op.SOFTMAX, c.around(x, axis), 1.0, 1, out=F32), x.shape)


_FUNCTIONS: dict[str, Callable[[Context, Value], Value]] = {
    "com.microsoft.QLinearAveragePool": averaged,
    "com.microsoft.QLinearGlobalAveragePool": lambda c, x: folded(c, Op.MEAN, x, list(range(2, len(x.shape)))),
    "com.microsoft.QLinearLeakyRelu": lambda c, x: c.emit(
        Op.PRELU, x, c.constant(c.node.real("alpha", 0.01), F32), out=F32
    ),
    "com.microsoft.QLinearSigmoid": lambda c, x: each(c, Op.LOGISTIC, x),
    "com.microsoft.QLinearSoftmax": _softmax,
}


@operator(*_FUNCTIONS)
def qlinear_function(c: Context) -> Tensor:
    """Map functions of one tensor: dequantise, compute in real numbers, and quantise."""
    if c.node.integer("channels_last", 0):
        raise Unmapped("NNAPI's layout is NCHW here (channels_last is 1)")
    return _result(c, _FUNCTIONS[c.node.kind](c, _real(c, 0)), 3, c.tensor(0).dtype)


@operator("com.microsoft.QLinearConcat")
def qlinear_concat(c: Context) -> Tensor:
    """Map QLinearConcat: requantise each input to the output's quantisation."""
    dtype = c.tensor(1).dtype
    values = []
    for position in range(2, len(c.inputs), 3):
        real = Tensor(np.dtype(np.float32), c.tensor(position).shape, _real(c, position))
        values.append(c.carried(quantised(c, real, c.tensor(0), c.tensor(1), 1, dtype)))
    whole = joined(c, values, axis_of(c.node.integer("axis", 0), c.tensor(2).rank))
    return c.give(whole, None, dtype)


@operator("com.microsoft.QGemm")
def qgemm(c: Context) -> Tensor:
    """Map QGemm: in levels if the second matrix and all scales are constants. Without an output scale the result is
    real.
    """
    dtype = _output_dtype(c, 8) if c.has(7) else np.dtype(np.float32)
    axis = 0 if c.node.integer("transB", 0) else 1
    weights = dequantised(c, c.tensor(3), c.tensor(4), c.optional(5), axis)
    bias, alpha = c.optional(6), c.node.real("alpha", 1.0)
    source, out = _type(c, 1, c.tensor(0).dtype), _type(c, 7, dtype) if c.has(7) else None
    is_plain = alpha == 1 and not c.node.integer("transA", 0) and (bias is None or bias.is_constant)
    if is_plain and weights.axis_levels is not None and source is not None and out is not None:
        scales = weights.axis_levels.scale.astype(np.float64) * source.scale
        real_bias = None if bias is None or not bias.is_constant else bias.array.reshape(-1) * scales
        value = as_levels(c, c.tensor(0), source)
        operands = quantised_operands(value, weights.axis_levels, axis, weights.shape[axis], real_bias, out)
        if operands is not None:
            result = quantised_dense(c, operands, axis)
            return Tensor(dtype, result.shape, c.quantized(result, out))
    x = _real(c, 0, 0)
    if c.node.integer("transA", 0):
        x = c.keep(Op.TRANSPOSE, x, np.array([1, 0]))
    y = multiplied(c, x, c.plain(weights), adj_y=axis == 0)
    if bias is not None:
        scale = c.emit(Op.MUL, c.number(1), c.reshape(c.number(4), (1, c.tensor(4).size)), NONE, out=F32)
        term = c.cast(c.plain(bias), np.dtype(np.float32))
        y = c.emit(Op.ADD, y, c.emit(Op.MUL, term, scale, NONE, out=F32), NONE, out=F32)
    if alpha != 1:
        y = with_number(c, Op.MUL, y, alpha, NONE)
    return _result(c, y, 7, dtype) if c.has(7) else c.give(y, None, np.float32)
