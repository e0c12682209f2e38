"""Reductions and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.importers.decompositions.arithmetic import each, with_number
from nnvk.importers.decompositions.cumulative import cumulative
from nnvk.importers.decompositions.moving import axis_of
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value, at_least_1d
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode

_REDUCTIONS = {
    "ReduceMax": Op.REDUCE_MAX,
    "ReduceMean": Op.MEAN,
    "ReduceMin": Op.REDUCE_MIN,
    "ReduceProd": Op.REDUCE_PROD,
    "ReduceSum": Op.REDUCE_SUM,
}


def axes_of(c: Context) -> list[int] | None:
    """The axes to reduce, or None if there is nothing to do."""
    rank = c.tensor().rank
    given = c.integers("axes", 1)
    if not given:
        return None if c.node.integer("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({axis_of(axis, rank) for axis in given})


@operator(*_REDUCTIONS)
def reduce(c: Context) -> Tensor:
    """Map reductions. The axes are an input, or an attribute in older versions."""
    axes = axes_of(c)
    source = c.tensor()
    if axes is None:
        return source
    return _given(c, folded(c, _REDUCTIONS[c.node.op_type], c.number(), axes), axes)


def _given(c: Context, value: Value, axes: list[int]) -> Tensor:
    source = c.tensor()
    keep = c.node.integer("keepdims", 1)
    shape = [1 if axis in axes else size for axis, size in enumerate(source.shape) if keep or axis not in axes]
    return c.give(c.reshape(value, at_least_1d(tuple(shape))), shape, source.dtype)


def _norm1(c: Context, x: Value, axes: list[int]) -> Value:
    return folded(c, Op.REDUCE_SUM, each(c, Op.ABS, x), axes)


def _squares(c: Context, x: Value, axes: list[int]) -> Value:
    return folded(c, Op.REDUCE_SUM, c.emit(Op.MUL, x, x, NONE, out=x.type), axes)


def _norm2(c: Context, x: Value, axes: list[int]) -> Value:
    return each(c, Op.SQRT, _squares(c, x, axes))


def _log_sum(c: Context, x: Value, axes: list[int]) -> Value:
    return each(c, Op.LOG, folded(c, Op.REDUCE_SUM, x, axes))


def _log_sum_exp(c: Context, x: Value, axes: list[int]) -> Value:
    """Less the largest, whose exponential could be too large, or less the largest finite number for infinities."""
    most = float(np.finfo(x.type.dtype).max)
    largest = with_number(c, Op.MINIMUM, with_number(c, Op.MAXIMUM, folded(c, Op.REDUCE_MAX, x, axes), -most), most)
    less = c.emit(Op.SUB, x, largest, NONE, out=x.type)
    return c.emit(Op.ADD, _log_sum(c, each(c, Op.EXP, less), axes), largest, NONE, out=x.type)


_COMPOSED: dict[str, Callable[[Context, Value, list[int]], Value]] = {
    "ReduceL1": _norm1,
    "ReduceL2": _norm2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _squares,
}


@operator(*_COMPOSED)
def reduce_composed(c: Context) -> Tensor:
    """Map norms and logarithms of sums. Without axes, each element is reduced by itself."""
    axes = axes_of(c)
    value, dtype = c.number(), c.tensor().dtype
    needs_real = c.node.op_type not in ("ReduceL1", "ReduceSumSquare")
    if needs_real and value.code is I32.code:
        value = c.cast(value, np.dtype(np.float32))
    result = _COMPOSED[c.node.op_type](c, value, axes or [])
    if needs_real and dtype.kind in "iu":
        result = c.cast(result, dtype)
    return _given(c, result, axes or [])


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(c: Context) -> Tensor:
    """Map global pooling: reduce all axes behind the channels."""
    axes = list(range(2, c.tensor().rank))
    value = c.real_number()
    return c.give(folded(c, Op.MEAN if c.node.op_type == "GlobalAveragePool" else Op.REDUCE_MAX, value, axes))


@operator("CumSum")
def cumulative_sum(c: Context) -> Value:
    """Map CumSum, along a constant axis."""
    axis = axis_of(int(c.scalar(1, "the axis")), c.tensor().rank)
    exclusive, reverse = bool(c.node.integer("exclusive", 0)), bool(c.node.integer("reverse", 0))
    return cumulative(c, c.number(), axis, exclusive=exclusive, reverse=reverse)


def _inverse_root(c: Context, x: Value, axes: list[int], epsilon: float) -> Value:
    variance = folded(c, Op.MEAN, c.emit(Op.MUL, x, x, NONE, out=x.type), axes)
    return each(c, Op.RSQRT, with_number(c, Op.ADD, variance, epsilon, NONE))


# --- normalisation -------------------------------------------------------------------------------------------


@operator("LayerNormalization")
def layer_normalization(c: Context) -> list[Tensor | None]:
    """Map LayerNormalization, over the axes from ``axis`` on. It also gives the mean and the inverse deviation."""
    source = c.tensor()
    axis = axis_of(c.node.integer("axis", -1), source.rank)
    axes = list(range(axis, source.rank))
    x = c.real_number()
    y, mean, inverse = layer_normalised(c, x, axes, 1, 2 if c.has(2) else None, c.node.real("epsilon", 1e-5))
    wide = np.dtype(np.float32)
    return [
        c.give(c.cast(y, source.dtype), source.shape, source.dtype),
        c.give(mean, None, wide) if c.wants(1) else None,
        c.give(inverse, None, wide) if c.wants(2) else None,
    ]


def layer_normalised(
    c: Context, x: Value, axes: list[int], scale: int, bias: int | None, epsilon: float
) -> tuple[Value, Value, Value]:
    """Numbers normalised, with the scale and bias at these positions; the mean and the inverse deviation."""
    mean = folded(c, Op.MEAN, x, axes)
    less = c.emit(Op.SUB, x, mean, NONE, out=x.type)
    inverse = _inverse_root(c, less, axes, epsilon)
    y = c.emit(Op.MUL, less, inverse, NONE, out=x.type)
    y = c.emit(Op.MUL, y, c.real_number(scale), NONE, out=x.type)
    if bias is not None:
        y = c.emit(Op.ADD, y, c.real_number(bias), NONE, out=x.type)
    return y, mean, inverse


@operator("RMSNormalization", "com.microsoft.SimplifiedLayerNormalization", "SimplifiedLayerNormalization")
def rms_normalization(c: Context) -> Tensor:
    """Map RMSNormalization: divide by the root of the mean of squares over the axes from ``axis`` on."""
    source = c.tensor()
    axes = list(range(axis_of(c.node.integer("axis", -1), source.rank), source.rank))
    y = rms_normalised(c, c.real_number(), axes, 1, c.node.real("epsilon", 1e-5))
    return c.give(c.cast(y, source.dtype), source.shape, source.dtype)


def rms_normalised(c: Context, x: Value, axes: list[int], scale: int, epsilon: float) -> Value:
    """Numbers divided by the root of the mean of squares, times the scale at a position."""
    y = c.emit(Op.MUL, x, _inverse_root(c, x, axes, epsilon), NONE, out=x.type)
    return c.emit(Op.MUL, y, c.real_number(scale), NONE, out=x.type)


def _by_channel(c: Context, position: int, rank: int) -> Value:
    """A vector of one number for each channel, to broadcast with [N, C, ...]."""
    value = c.real_number(position)
    return c.reshape(value, (1, value.size, *[1] * (rank - 2)))


@operator("BatchNormalization")
def batch_normalization(c: Context) -> Value:
    """Map BatchNormalization: a factor and a term per channel, computed at import if the statistics are constants."""
    x = c.real_number()
    rank = max(2, len(x.shape))
    epsilon = c.node.real("epsilon", 1e-5)
    if c.node.integer("training_mode", 0):
        raise Unmapped("NNAPI trains no models (training_mode is 1)")
    if all(c.tensor(position).is_constant for position in range(1, 5)):
        scale, shift = batch_statistics([c.array(position, "") for position in range(1, 5)], epsilon)
        shape = (1, scale.size, *[1] * (rank - 2))
        factor, term = (c.constant(one.reshape(shape), x.type.with_dimensions(())) for one in (scale, shift))
    else:
        gamma, beta, mean, variance = (_by_channel(c, position, rank) for position in range(1, 5))
        root = each(c, Op.RSQRT, with_number(c, Op.ADD, variance, epsilon, NONE))
        factor = c.emit(Op.MUL, gamma, root, NONE, out=x.type)
        term = c.emit(Op.SUB, beta, c.emit(Op.MUL, mean, factor, NONE, out=x.type), NONE, out=x.type)
    return c.reshape(c.emit(Op.ADD, c.emit(Op.MUL, x, factor, NONE, out=x.type), term, NONE, out=x.type), x.shape)


def batch_statistics(arrays: list[np.ndarray], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Factor and term of each channel, from scale, bias, mean and variance."""
    gamma, beta, mean, variance = (array.astype(np.float64) for array in arrays)
    scale = gamma / np.sqrt(variance + epsilon)
    return scale, beta - mean * scale


@operator("InstanceNormalization")
def instance_normalization(c: Context) -> Value:
    """Map InstanceNormalization. NNAPI's has one scale for all channels, so scales are multiplied afterwards."""
    x = c.real_number()
    image = c.reshape(x, (*x.shape[:2], 1, math.prod(x.shape[2:])))
    even = c.emit(Op.INSTANCE_NORMALIZATION, image, 1.0, 0.0, c.node.real("epsilon", 1e-5), True, out=x.type)
    return _scaled(c, c.reshape(even, x.shape), len(x.shape))


def _scaled(c: Context, x: Value, rank: int) -> Value:
    y = c.emit(Op.MUL, x, _by_channel(c, 1, rank), NONE, out=x.type)
    return c.emit(Op.ADD, y, _by_channel(c, 2, rank), NONE, out=x.type)


@operator("GroupNormalization")
def group_normalization(c: Context) -> Tensor:
    """Map GroupNormalization. Channels of a group are one image. Scales are by channel, or by group in the oldest
    version.
    """
    x, groups = c.real_number(), c.node.integer("num_groups", 0)
    batches, channels = x.shape[:2]
    if groups < 1 or channels % groups:
        raise Unmapped(f"{channels} channels don't divide into {groups} groups")
    rest = math.prod(x.shape[2:])
    image = c.reshape(x, (batches, groups, channels // groups, rest))
    even = c.emit(Op.INSTANCE_NORMALIZATION, image, 1.0, 0.0, c.node.real("epsilon", 1e-5), True, out=F32)
    values = []
    for position in (1, 2):
        value = c.real_number(position)
        if value.size == groups != channels:
            value = c.reshape(c.broadcast(c.reshape(value, (groups, 1)), (groups, channels // groups)), (channels,))
        values.append(c.reshape(value, (1, channels, 1)))
    y = c.reshape(even, (batches, channels, rest))
    y = c.emit(Op.MUL, y, values[0], NONE, out=F32)
    y = c.emit(Op.ADD, y, values[1], NONE, out=F32)
    return c.give(c.cast(c.reshape(y, x.shape), c.tensor().dtype), x.shape, c.tensor().dtype)


@operator("LRN")
def local_response_normalization(c: Context) -> Value:
    """Map LRN over an odd number of channels. ONNX divides alpha by this number."""
    size = c.node.integer("size", 0)
    if size < 1 or size % 2 == 0:
        raise Unmapped(f"NNAPI normalises over an odd number of channels, got size {size}")
    x, alpha = c.real_number(), c.node.real("alpha", 1e-4) / size
    numbers = c.node.real("bias", 1.0), alpha, c.node.real("beta", 0.75)
    shape = x.shape
    image = x if len(shape) == 4 else c.reshape(x, (*shape[:2], 1, math.prod(shape[2:])))
    return c.reshape(c.keep(Op.LOCAL_RESPONSE_NORMALIZATION, image, size // 2, *numbers, 1), shape)
