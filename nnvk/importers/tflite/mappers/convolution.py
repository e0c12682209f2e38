"""Operators with a filter or a window: convolutions, FULLY_CONNECTED, BATCH_MATMUL, pooling."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import tflite

from nnvk.api import ExtendedOperationCode, FuseCode, OperandCode, OperandType, OperationCode, PaddingCode
from nnvk.base.sizes import broadcast_sizes
from nnvk.importers.decompositions.block_quantized import block_product
from nnvk.importers.emitter import is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.hybrid import Rounding, four_bit_rows, hybrid, is_hybrid, real_weights
from nnvk.importers.tflite.registry import builtin

_PADDINGS = {tflite.Padding.SAME: PaddingCode.SAME, tflite.Padding.VALID: PaddingCode.VALID}


def padding(options: Any) -> PaddingCode:
    """NNAPI's code of the implicit padding."""
    scheme = options.Padding()
    if scheme not in _PADDINGS:
        raise Unmapped(f"unknown padding {scheme}")
    return _PADDINGS[scheme]


def check_rank(name: str, value: Value, rank: int) -> None:
    """`Unmapped` unless a tensor has this rank."""
    if len(value.shape) != rank:
        raise Unmapped(f"{name} must have rank {rank}, got shape {list(value.shape)}")


_WIDE_WITHOUT_BIAS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
"""Operators whose sums of 16-bit levels have 64 bits where there is no bias, as with one of INT64."""


def bias(c: Context, source: Value, weights: Value, position: int, channels: int) -> Value:
    """The bias, which NNAPI wants always and in the product of the scales; zeros where the operator has none.

    Beside 16-bit levels it may be of INT64, which are two words each.
    """
    if not is_quantised(source):
        type_ = OperandType(source.code)
    elif weights.type.channel_quant is not None:
        type_ = OperandType(OperandCode.TENSOR_INT32)
    else:
        scale = float(np.float32(source.type.scale) * np.float32(weights.type.scale))
        type_ = OperandType(OperandCode.TENSOR_INT32, scale=scale)
    words = c.wide(position)
    if words is not None:
        if source.code is not OperandCode.TENSOR_QUANT16_SYMM:
            raise Unmapped(f"a bias of INT64 belongs to an input of INT16, got {source.type}")
        return c.constant(words, type_)
    value = c.optional(position)
    if value is None:
        is_wide = source.code is OperandCode.TENSOR_QUANT16_SYMM and c.operator.name in _WIDE_WITHOUT_BIAS
        return c.filled(0, type_, (2 * channels if is_wide else channels,))
    value = c.reshape(c.like(value, source), (channels,))
    if not value.is_constant or value.code is not type_.code:
        return value
    # The converter rounds the scale of a bias by itself; the levels are what counts.
    return Value(type_.with_dimensions(value.shape), value.array)


@builtin("CONV_2D")
def conv_2d(c: Context) -> Value:
    """Map CONV_2D. The groups follow from the shapes, as in TFLite."""
    options = c.options("Conv2DOptions")
    check_rank("the input", c.input(0), 4)
    check_rank("the filter", c.input(1), 4)
    per_channel = c.input(1).type.channel_quant is not None
    source, weights = hybrid(c, c.input(0), c.input(1), Rounding((1, 2, 3), asymmetric=per_channel))
    addend = bias(c, source, weights, 2, weights.shape[0])
    tensors = source, weights, addend
    window = padding(options), options.StrideW(), options.StrideH()
    dilation = [options.DilationWFactor(), options.DilationHFactor()]
    groups, rest = divmod(source.shape[3], weights.shape[3])
    if groups > 1 and not rest:
        if dilation != [1, 1]:
            raise Unmapped(f"NNAPI has no grouped convolution with dilation, got {groups} groups, dilation {dilation}")
        return c.emit(OperationCode.GROUPED_CONV_2D, *tensors, *window, groups, c.fuse(options), False)
    dilated = [] if dilation == [1, 1] else [False, *dilation]
    return c.emit(OperationCode.CONV_2D, *tensors, *window, c.fuse(options), *dilated)


@builtin("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(c: Context) -> Value:
    """Map DEPTHWISE_CONV_2D. The multiplier follows from the shapes, because some converters leave the option at 0."""
    options = c.options("DepthwiseConv2DOptions")
    check_rank("the input", c.input(0), 4)
    check_rank("the filter", c.input(1), 4)
    source, weights = hybrid(c, c.input(0), c.input(1), Rounding((1, 2, 3), asymmetric=True))
    channels = weights.shape[3]
    multiplier = channels // source.shape[3]
    dilation = [options.DilationWFactor(), options.DilationHFactor()]
    dilated = [] if dilation == [1, 1] else [False, *dilation]
    return c.emit(
        OperationCode.DEPTHWISE_CONV_2D,
        source,
        weights,
        bias(c, source, weights, 2, channels),
        padding(options),
        options.StrideW(),
        options.StrideH(),
        multiplier,
        c.fuse(options),
        *dilated,
    )


@builtin("TRANSPOSE_CONV")
def transpose_conv(c: Context) -> Value:
    """Map TRANSPOSE_CONV. The inputs are the output's shape, the filter, the input and perhaps a bias."""
    options = c.options("TransposeConvOptions")
    check_rank("the filter", c.input(1), 4)
    check_rank("the input", c.input(2), 4)
    source, weights = hybrid(c, c.input(2), c.input(1), Rounding((1, 2, 3), asymmetric=True))
    return c.emit(
        OperationCode.TRANSPOSE_CONV_2D,
        source,
        weights,
        bias(c, source, weights, 3, weights.shape[0]),
        c.input(0),
        padding(options),
        options.StrideW(),
        options.StrideH(),
        c.fuse(options),
        False,
    )


_TRANSPOSE_CONV_PARAMS = "<iii"
"""MediaPipe's options, TfLiteTransposeConvParams: padding, stride of the width, stride of the height."""
PADDING_PARAMS = {1: PaddingCode.SAME, 2: PaddingCode.VALID}


@builtin("Convolution2DTransposeBias")
def transpose_conv_bias(c: Context) -> Value:
    """Map MediaPipe's TRANSPOSE_CONV. The inputs are the input, the filter and the bias. The padding gives the size."""
    options = c.operator.custom_options()
    if len(options) < struct.calcsize(_TRANSPOSE_CONV_PARAMS):
        raise Unmapped(f"the options must have {struct.calcsize(_TRANSPOSE_CONV_PARAMS)} bytes, got {len(options)}")
    kind, stride_w, stride_h = struct.unpack_from(_TRANSPOSE_CONV_PARAMS, options)
    if kind not in PADDING_PARAMS:
        raise Unmapped(f"unknown padding {kind}")
    source, weights = c.input(0), c.input(1)
    check_rank("the input", source, 4)
    check_rank("the filter", weights, 4)
    if is_hybrid(source, weights):
        weights = real_weights(c, weights)
    spans = ((source.shape[1], weights.shape[1], stride_h), (source.shape[2], weights.shape[2], stride_w))
    is_same = PADDING_PARAMS[kind] is PaddingCode.SAME
    size = [count * stride if is_same else (count - 1) * stride + window for count, window, stride in spans]
    return c.emit(
        OperationCode.TRANSPOSE_CONV_2D,
        source,
        weights,
        bias(c, source, weights, 2, weights.shape[0]),
        np.array([source.shape[0], *size, weights.shape[0]]),
        PADDING_PARAMS[kind],
        stride_w,
        stride_h,
        FuseCode.NONE,
        False,
    )


@builtin("FULLY_CONNECTED")
def fully_connected(c: Context) -> Value:
    """Map FULLY_CONNECTED. The input is flattened to rows of the weights' length."""
    options = c.options("FullyConnectedOptions")
    if options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise Unmapped("NNAPI has no shuffled weights (weights_format SHUFFLED4x16INT8)")
    given, weights = c.input(0), c.input(1)
    check_rank("the weights", weights, 2)
    units, size = weights.shape
    if given.size % size:
        raise Unmapped(
            f"the input of shape {list(given.shape)} does not divide into rows of {size}, as the weights take"
        )
    rows = given.size // size
    rounding = Rounding((1,), asymmetric=bool(options.AsymmetricQuantizeInputs()))
    blocks = four_bit_rows(c, 1) if is_hybrid(given, weights) else None
    source, weights = hybrid(c, c.reshape(given, (rows, size)), weights, rounding)
    addend = bias(c, source, weights, 2, units)
    if blocks is not None:
        result = block_product(c, source, blocks, addend, c.fuse(options))
    else:
        # TFLite rounds sums of levels once, and has scales per channel; NNAPI rounds twice.
        code = ExtendedOperationCode.FULLY_CONNECTED if is_quantised(source) else OperationCode.FULLY_CONNECTED
        result = c.emit(code, source, weights, addend, c.fuse(options), out=c.out())
    keep = options.KeepNumDims() and given.shape[-1] == size
    return c.reshape(result, (*given.shape[:-1], units) if keep else (rows, units))


@builtin("BATCH_MATMUL")
def batch_matmul(c: Context) -> Value:
    """Map BATCH_MATMUL. NNAPI does not broadcast batches, so they are repeated first."""
    options = c.options("BatchMatMulOptions")
    first, second = c.input(0), c.input(1)
    rows = len(first.shape) - (2 if options.AdjX() else 1)
    first, second = hybrid(c, first, second, Rounding((rows,), bool(options.AsymmetricQuantizeInputs())))
    first = c.like(first, second)
    if OperandCode.TENSOR_QUANT8_ASYMM in (first.code, second.code):
        first, second = c.real(first), c.real(second)
    try:
        batches = broadcast_sizes(first.shape[:-2], second.shape[:-2])
    except ValueError:
        raise Unmapped(f"batches of {list(first.shape)} and {list(second.shape)} don't broadcast") from None
    first, second = (c.broadcast(value, (*batches, *value.shape[-2:])) for value in (first, second))
    out = c.out() if is_quantised(first) else first.type
    merged = [c.reshape(value, (int(np.prod(batches)), *value.shape[-2:])) for value in (first, second)]
    result = c.emit(OperationCode.BATCH_MATMUL, *merged, bool(options.AdjX()), bool(options.AdjY()), out=out)
    return c.reshape(result, (*batches, *result.shape[-2:]))


_POOLS = {
    "AVERAGE_POOL_2D": OperationCode.AVERAGE_POOL_2D,
    "MAX_POOL_2D": OperationCode.MAX_POOL_2D,
    "L2_POOL_2D": OperationCode.L2_POOL_2D,
}


@builtin(*_POOLS)
def pool(c: Context) -> Value:
    """Pooling keeps the quantisation."""
    options = c.options("Pool2DOptions")
    strides = options.StrideW(), options.StrideH()
    window = options.FilterWidth(), options.FilterHeight()
    fuse: FuseCode = c.fuse(options)
    return c.keep(_POOLS[c.operator.name], c.input(0), padding(options), *strides, *window, fuse)
