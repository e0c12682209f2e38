"""Operations with filters, weights and windows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from generators.draw import Arg, Case, Draw, boolean, given, i32, ints, like, omitted, real
from generators.shape import layout, layout_option
from generators.table import generator
from nnvk.ops.quant import is_quantised
from nnvk.ops.signature import F16, F32, I32, Q8_CHANNEL, Q8S, Q16_SYMM
from nnvk.types.codes import OperandCode, PaddingCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode as Extended
from nnvk.types.extension import KnownCode
from nnvk.types.operand import OperandType, Shape


def bias(d: Draw, source: Arg, weights: Arg, size: int) -> Arg:
    """A bias in the scale that it must have."""
    if not is_quantised(source.type.code):
        return d.new(OperandType(source.type.code, (size,)), is_parameter=True)
    scale = 0.0 if weights.type.code is Q8_CHANNEL else source.type.scale * weights.type.scale
    if source.type.code is Q16_SYMM and d.chance():
        words = d.rng.integers(-(2**40), 2**40, size).view(np.int32)
        return Arg(OperandType(I32, words.shape, scale), words, is_parameter=True)
    return d.new(OperandType(I32, (size,), scale), -100, 100, is_parameter=True)


def filter_of(d: Draw, t: OperandCode, shape: Shape, channel_dim: int) -> Arg:
    """A filter beside data of type ``t``, perhaps with scales per channel."""
    if is_quantised(t) and d.chance(0.4):
        return d.per_channel(shape, channel_dim)
    return weights_of(d, t, *shape)


def weights_of(d: Draw, t: OperandCode, *shape: int) -> Arg:
    """Weights beside data of type ``t``; those beside 16-bit levels have 8 bits, and zero point 0."""
    if t is Q16_SYMM:
        return d.new(OperandType(Q8S, shape, 0.01), is_parameter=True)
    return d.weights(t, *shape)


def window_options(d: Draw, window: tuple[int, int], size: tuple[int, int]) -> list[Arg]:
    """Explicit or implicit padding, with which windows (of this reach) fit into the input; then the strides."""
    strides = [i32(d.integer(1, 3)), i32(d.integer(1, 3))]
    if d.chance():
        fits = all(reach <= length for reach, length in zip(window, size, strict=True))
        return [i32(d.pick(list(PaddingCode)) if fits else PaddingCode.SAME), *strides]
    pairs = []
    for reach, length in reversed(list(zip(window, size, strict=True))):  # left, right, then top, bottom
        before = d.integer(0, reach - 1)
        pairs += [before, max(d.integer(0, reach - 1), reach - length - before)]
    return [*map(i32, pairs), *strides]


def _image(d: Draw) -> tuple[Shape, bool, tuple[Arg, ...]]:
    batches, channels = d.sizes(2, 3)
    nchw, option = layout_option(d)
    return (batches, *d.sizes(2, 7), channels), nchw, option


@generator(Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.GROUPED_CONV_2D)
def _convolution(d: Draw, code: Op, t: OperandCode) -> Case:
    shape, nchw, option = _image(d)
    batches, height, width, channels = shape
    window = (d.integer(1, 3), d.integer(1, 3))
    dilation = (d.integer(1, 3), d.integer(1, 3)) if code is not Op.GROUPED_CONV_2D and d.chance(0.4) else None
    middle, channel_dim = [], 0
    if code is Op.CONV_2D:
        filter_shape: Shape = (d.integer(1, 4), *window, channels)
    elif code is Op.GROUPED_CONV_2D:
        groups = d.integer(1, 3)
        shape = (batches, height, width, channels * groups)
        filter_shape = (groups * d.integer(1, 2), *window, channels)
        middle, option = [i32(groups)], (boolean(nchw),)
    else:
        multiplier = d.integer(1, 3)
        filter_shape, channel_dim = (1, *window, channels * multiplier), 3
        middle = [i32(multiplier)]
    source = d.tensor(t, layout(shape, nchw))
    weights = filter_of(d, t, filter_shape, channel_dim)
    reach = tuple((size - 1) * (dilation or (1, 1))[axis] + 1 for axis, size in enumerate(window))
    options = window_options(d, (reach[0], reach[1]), (height, width))
    tail = (boolean(nchw), i32(dilation[1]), i32(dilation[0])) if dilation else option
    added = bias(d, source, weights, filter_shape[channel_dim])
    inputs = (source, weights, added, *options, *middle, i32(d.integer(0, 3)), *tail)
    return Case(code, inputs, (d.quantised(t),))


@generator(Op.TRANSPOSE_CONV_2D)
def _transpose_convolution(d: Draw, code: Op, t: OperandCode) -> Case:
    shape, nchw, _ = _image(d)
    depth_out, window = d.integer(1, 3), (d.integer(1, 3), d.integer(1, 3))
    source = d.tensor(t, layout(shape, nchw))
    weights = filter_of(d, t, (depth_out, *window, shape[3]), 0)
    strides = (d.integer(1, 3), d.integer(1, 3))
    full = [(size - 1) * stride + reach for size, stride, reach in zip(shape[1:3], strides, window, strict=True)]
    options: list[Arg] = []
    if d.chance():
        for length in reversed(full):
            before = d.integer(0, min(2, length - 1))
            options += [i32(before), i32(d.integer(0, min(2, length - 1 - before)))]
    else:
        out_h, out_w = (d.integer(max(1, length - 2), length + 1) for length in full)
        options = [
            ints(*layout((shape[0], out_h, out_w, depth_out), nchw)),
            i32(d.pick(list(PaddingCode))),
        ]
    options += [i32(strides[1]), i32(strides[0]), i32(d.integer(0, 3)), boolean(nchw)]
    return Case(code, (source, weights, bias(d, source, weights, depth_out), *options), (d.quantised(t),))


@generator(Op.FULLY_CONNECTED, Extended.FULLY_CONNECTED)
def _fully_connected(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    source = d.any(t, 2, 4)
    elements = math.prod(source.shape)
    size = d.pick([source.shape[-1], elements])
    units = d.integer(1, 4)
    may_have_channels = t is Q16_SYMM or (code is Extended.FULLY_CONNECTED and t is Q8S)
    weights = filter_of(d, t, (units, size), 0) if may_have_channels else d.weights(t, units, size)
    inputs = (source, weights, bias(d, source, weights, weights.shape[0]), i32(d.integer(0, 3)))
    return Case(code, inputs, (d.quantised(t),))


def _words_of_levels(d: Draw, rows: int, count: int) -> Arg:
    """Rows of words with room for so many levels of 4 bits."""
    words = d.rng.integers(-(2**31), 2**31, (rows, -(-count // 8)))
    return ints(*words.reshape(-1).tolist(), shape=words.shape)


@generator(Extended.BLOCK_QUANTIZED_FULLY_CONNECTED)
def _block_quantized_fully_connected(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    """All levels, and sums of as many rows as tiles have."""
    rows, size, units = d.integer(1, 19), d.integer(1, 70), d.integer(1, 37)
    block = d.pick((8, 16, 24, 32, 64))
    blocks = -(-size // block)

    inputs = (
        d.tensor(t, (rows, size)),
        _words_of_levels(d, units, blocks * block),
        d.new(OperandType(d.pick((F32, F16)), (units, blocks)), 0.0, 0.05, is_parameter=True),
        i32(block),
        _words_of_levels(d, units, blocks) if d.chance() else omitted(I32),
        d.new(OperandType(t, (units,)), is_parameter=True) if d.chance() else omitted(t),
        *((i32(d.integer(0, 3)),) if d.chance() else ()),
    )
    return Case(code, inputs, (OperandType(t),))


@generator(Extended.BLOCK_QUANTIZED_EMBEDDING_LOOKUP)
def _block_quantized_embedding_lookup(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    rows, columns, block = d.integer(1, 9), d.integer(1, 70), d.pick((8, 16, 24, 32, 64))
    blocks = -(-columns // block)
    inputs = (
        given(OperandType(I32), d.rng.integers(0, rows, d.integer(1, 11))),
        _words_of_levels(d, rows, blocks * block),
        d.new(OperandType(t, (rows, blocks)), is_parameter=True),
        i32(block),
        i32(columns),
        *((_words_of_levels(d, rows, blocks) if d.chance() else omitted(I32),) if d.chance() else ()),
    )
    return Case(code, inputs, (OperandType(t),))


@generator(Op.BATCH_MATMUL)
def _batch_matmul(d: Draw, code: Op, t: OperandCode) -> Case:
    first = d.any(t, 2, 4)
    adjoint = d.chance(), d.chance()
    inner, columns = first.shape[-2 if adjoint[0] else -1], d.integer(1, 4)
    second = d.tensor(t, (*first.shape[:-2], *((columns, inner) if adjoint[1] else (inner, columns))))
    options = () if not any(adjoint) and d.chance() else tuple(map(boolean, adjoint))
    output = replace(d.quantised(t), scale=d.pick((0.5, 2.0))) if is_quantised(t) else d.quantised(t)
    return Case(code, (first, second, *options), (output,))


@generator(Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D, Op.L2_POOL_2D)
def _pool(d: Draw, code: Op, t: OperandCode) -> Case:
    shape, nchw, option = _image(d)
    window = (d.integer(1, 3), d.integer(1, 3))
    source = d.tensor(t, layout(shape, nchw))
    options = window_options(d, window, (shape[1], shape[2]))
    sizes = (i32(window[1]), i32(window[0]))
    return Case(code, (source, *options, *sizes, i32(d.integer(0, 3)), *option), (like(source),))


@generator(Op.RESIZE_BILINEAR, Op.RESIZE_NEAREST_NEIGHBOR, Extended.RESIZE_BILINEAR)
def _resize(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    shape, nchw, option = _image(d)
    source = d.tensor(t, layout(shape, nchw))
    if code is Extended.RESIZE_BILINEAR or d.chance():
        size = [i32(d.integer(1, 9)), i32(d.integer(1, 9))]
    else:
        size = [real(t, d.pick((1.0, 1.5, 2.0, 3.25))) for _ in range(2)]
    if option and d.chance():
        option += tuple(map(boolean, d.pick([(False,), (True,), (True, False), (False, True), (False, False)])))
    return Case(code, (source, *size, *option), (like(source),))
