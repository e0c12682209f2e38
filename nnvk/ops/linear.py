"""Sums of products with a filter and a bias: what convolutions, FULLY_CONNECTED and BATCH_MATMUL share.

Everything is multiplied by floating-point BLAS. Integer sums stay exact that way as long as the sum of the
products' magnitudes is at most 2^24 for float32 or 2^53 for float64; the filter at hand decides between them. Sums with
their bias are numbers of 32 bits that wrap round, as TFLite's accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import activate, activation_range
from nnvk.ops.quant import (
    INT32_MAX,
    MOST_WIDE_SHIFT,
    float32,
    is_quantised,
    limits,
    multiply_by_quantized_multiplier,
    multiply_once,
    multiply_once_by_quantized_multiplier,
    multiply_wide,
    once_factors,
    quantize_multipliers,
    short_factors,
)
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import (
    I32,
    LAYOUT,
    Q8,
    Q8_CHANNEL,
    Q8S,
    Q16_SYMM,
    Accepts,
    Param,
    Signature,
    activation,
    boolean,
    by_type,
    i32,
    tensor,
)
from nnvk.ops.traits import Gemm
from nnvk.ops.window import Axis, from_nhwc, to_nhwc, windows
from nnvk.types.codes import FuseCode, OperationCode

FILTER_TYPES: Accepts = by_type(
    {Q8: frozenset({Q8, Q8_CHANNEL}), **dict.fromkeys((Q8S, Q16_SYMM), frozenset({Q8S, Q8_CHANNEL}))}
)
"""A filter's type beside the input's."""
BIAS_TYPES: Accepts = by_type({Q8: I32, Q8S: I32, Q16_SYMM: I32})
"""The type of a bias, by the type of the input.

For 16-bit inputs, a bias with two words for each channel has 64-bit numbers, low word first. The sums that it is added
to then have 64 bits, too.
"""

FILTERED = (
    tensor("input", rank=4),
    tensor("filter", FILTER_TYPES, rank=4),
    tensor("bias", BIAS_TYPES, rank=1),
)
"""The first parameters of every convolution."""
CONVOLUTION = Gemm("input", "filter", "bias", summed=slice(1, 4))
"""The trait of convolutions whose filters are [outputs, height, width, inputs]."""
EXPLICIT_PADDING = tuple(i32(f"padding_{side}") for side in ("left", "right", "top", "bottom"))
IMPLICIT_PADDING = (i32("padding"),)
STRIDES = (i32("stride_width"), i32("stride_height"))
_DILATED = (boolean("nchw", since=3), i32("dilation_width", since=3), i32("dilation_height", since=3))

_BLOCK = 1 << 15
"""The elements that are rescaled at a time, so that the intermediate int64 array stays in the cache."""
_COLUMNS = 1 << 21
"""The elements of the im2col matrix that are computed at a time."""


def filter_signatures(*middle: Param) -> tuple[Signature, ...]:
    """CONV_2D's overloads: explicit or implicit padding, with or without dilation; ``middle`` follows the strides."""
    return tuple(
        Signature(
            *FILTERED,
            *padding,
            *STRIDES,
            *middle,
            activation(),
            *tail,
        )
        for padding in (EXPLICIT_PADDING, IMPLICIT_PADDING)
        for tail in ((LAYOUT,), _DILATED)
    )


# --- rules ---------------------------------------------------------------------------------------------------


def check_bias_scale(source: Tensor, filter_: Tensor, bias: Tensor) -> None:
    """Raise BAD_DATA unless a quantised bias has the scale of the products that it is added to.

    Beside scales per channel its own scale says nothing. NNAPI wants 0 there; Android's CPU takes any.
    """
    if not is_quantised(source.code):
        return
    if bias.zero_point != 0:
        raise bad_data(f"bias must have zero point 0, got {bias.zero_point}")
    if filter_.code == Q8_CHANNEL:
        return
    product = float32(source.scale) * float32(filter_.scale)
    if abs(product - bias.scale) > 1e-6 * min(product, bias.scale):
        raise bad_data(
            f"bias must have scale {product:g}, the product of input's {source.scale:g} and "
            f"{filter_.name}'s {filter_.scale:g}, got {bias.scale:g}"
        )


def check_filter_quantisation(call: Call, channel_dim: int) -> None:
    """Validate a convolution's scales; ``channel_dim`` is the filter's dimension that may have one per index."""
    check_bias_scale(call.input, call.filter, call.bias)
    check_channel_dim(call.filter, channel_dim)


def check_channel_dim(filter_: Tensor, channel_dim: int) -> None:
    """Raise BAD_DATA unless scales per channel, where they are such, are along a dimension."""
    if filter_.code != Q8_CHANNEL:
        return
    channels = filter_.type.channel_quant
    if channels is None:
        raise bad_data(f"{filter_.name} must have scales per channel, got none")
    if channels.channel_dim != channel_dim:
        raise bad_data(f"{filter_.name} must have its scales along dimension {channel_dim}, got {channels.channel_dim}")


def check_bias(source: Tensor, bias: Tensor, channels: int) -> None:
    """Raise BAD_DATA unless a bias has one number per output channel."""
    if source.code is Q16_SYMM and has_wide_bias(bias, channels):
        return
    check_shape(bias, (channels,))


def has_wide_bias(bias: Tensor | None, channels: int) -> bool:
    """Whether a bias has numbers of 64 bits, in two words each."""
    return bias is not None and bias.shape == (2 * channels,)


class Rounding(IntEnum):
    """The way to rescale sums of products with levels, which differs between TFLite's kernels."""

    TWICE = 0
    """32-bit sums that are rounded twice, like those of 8-bit levels."""
    SHORT = 1
    """64-bit sums with 15 bits of the mantissa, for convolutions with a 64-bit bias and for TRANSPOSE_CONV."""
    ONCE = 2
    """48-bit sums that are rounded once, for FULLY_CONNECTED."""
    BYTES_ONCE = 3
    """32-bit sums of 8-bit levels that are rounded once, for FULLY_CONNECTED of the extension."""


def rounding_of(code: OperationCode, bias: Tensor | None, channels: int) -> Rounding:
    """The rounding of an operation on 16-bit levels."""
    if code is OperationCode.FULLY_CONNECTED:
        return Rounding.ONCE
    if code is OperationCode.TRANSPOSE_CONV_2D:
        return Rounding.SHORT
    return Rounding.SHORT if has_wide_bias(bias, channels) else Rounding.TWICE


def rounds_once(call: Call) -> bool:
    """Whether sums of products of 8-bit levels are rounded once."""
    return call.has("rounds_once") and bool(call.rounds_once)


def factors_of(rounding: Rounding, mantissas: np.ndarray, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors of sums and their shifts to the right; mantissas and shifts where sums are rounded twice."""
    if rounding is Rounding.TWICE:
        return mantissas, shifts
    return (short_factors if rounding is Rounding.SHORT else once_factors)(mantissas, shifts)


_MULTIPLY = {
    Rounding.TWICE: multiply_by_quantized_multiplier,
    Rounding.SHORT: multiply_wide,
    Rounding.ONCE: multiply_once,
    Rounding.BYTES_ONCE: multiply_once_by_quantized_multiplier,
}


def check_wide(call: Call, filter_: Tensor, channels: int) -> None:
    """Raise BAD_DATA unless 16-bit levels meet a filter and an output with which TFLite's arithmetic is defined."""
    if call.input.code is not Q16_SYMM:
        return
    if filter_.zero_point != 0:
        raise bad_data(f"{filter_.name} must have zero point 0 beside 16-bit levels, got {filter_.zero_point}")
    if rounding_of(call.code, call.bias, channels) is not Rounding.TWICE:
        _, shifts = output_multipliers(call.code, call.input, filter_, call.output)
        if shifts.max(initial=0) > MOST_WIDE_SHIFT:
            most = 2**MOST_WIDE_SHIFT
            raise bad_data(f"the scales of input and {filter_.name} must be less than {most} times that of output")


def check_channels(call: Call, depth_out: int) -> None:
    """Raise BAD_DATA unless a convolution's bias, and its filter's scales, are one per output channel."""
    check_bias(call.input, call.bias, depth_out)
    check_scales(call.filter, depth_out)
    check_wide(call, call.filter, depth_out)


def check_scales(filter_: Tensor, depth_out: int) -> None:
    """Raise BAD_DATA unless scales per channel, where they are such, are one per output channel."""
    channels = filter_.type.channel_quant
    if channels is not None and len(channels.scales) != depth_out:
        raise bad_data(
            f"{filter_.name} must have {depth_out} scales, one per output channel, got {len(channels.scales)}"
        )


# --- quantisation --------------------------------------------------------------------------------------------


_SCALES_IN_SINGLE = frozenset({OperationCode.FULLY_CONNECTED, OperationCode.BATCH_MATMUL})
"""Operations that multiply the scales of their inputs in single precision, as TFLite.

Convolutions do it in double precision, and so does what has scales per channel.
"""


def output_multipliers(
    code: OperationCode, source: Tensor, filter_: Tensor, output: Tensor, *, once: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Mantissas and shifts that take sums of products to the output's scale: one each, or one per channel.

    ``once``: for sums of 8-bit levels that are rounded once. TensorFlow Lite multiplies them by a number of double
    precision, and rounds halves away from zero; a mantissa that is a little too large does that, too.
    """
    channels = filter_.type.channel_quant
    scales = np.array(channels.scales if channels else [filter_.scale], np.float32)
    precision = np.float32 if code in _SCALES_IN_SINGLE and channels is None and not once else np.float64
    products = scales.astype(precision) * np.array(float32(source.scale), precision)
    return quantize_multipliers(products.astype(np.float64) / float32(output.scale), above=once)


def centred(tensor_: Tensor) -> np.ndarray:
    """The elements as float32, minus the zero point if the tensor is quantised."""
    values = tensor_.data.astype(np.float32)
    if tensor_.zero_point:
        values -= tensor_.zero_point
    return values


@dataclass(frozen=True, slots=True)
class Products:
    """The type in which products of a centred quantised input with factors are added up. Floats are added up as
    float32.
    """

    largest: float
    """A bound on the magnitude of the sums."""

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The narrowest type in which their sums are exact."""
        return np.float32 if self.largest <= 2**24 else np.float64


def products(source: Tensor, factors: np.ndarray, terms: int | tuple[int, ...]) -> Products:
    """Products of a centred input with ``factors``, to be added up along the factors' axes ``terms``."""
    if not is_quantised(source.code):
        return Products(0)
    largest = max(abs(bound - source.zero_point) for bound in limits(source.code))
    return Products(np.max(np.abs(factors).sum(axis=terms, dtype=np.float64), initial=0) * largest)


def finish(call: Call, summed: Products, sums: np.ndarray, source: Tensor, filter_: Tensor) -> np.ndarray:
    """Add the call's bias to sums [..., channels] (which are overwritten), rescale, activate and convert."""
    bias: Tensor | None = call.bias if call.has("bias") else None
    fuse = call.activation if call.has("activation") else FuseCode.NONE
    output = call.output
    if is_quantised(output.code):
        once = source.code is not Q16_SYMM and rounds_once(call)
        multipliers = output_multipliers(call.code, source, filter_, output, once=once)
        if source.code is Q16_SYMM:
            rounding = rounding_of(call.code, bias, sums.shape[-1])
        else:
            rounding = Rounding.BYTES_ONCE if once else Rounding.TWICE
        return _rescale(summed, sums, bias, multipliers, rounding, fuse, output)
    if bias is not None:
        sums += bias.data
    return activate(sums, fuse, output)


def _rescale(
    summed: Products,
    sums: np.ndarray,
    bias: Tensor | None,
    multipliers: tuple[np.ndarray, np.ndarray],
    rounding: Rounding,
    fuse: int,
    output: Tensor,
) -> np.ndarray:
    low, high = activation_range(fuse, output)
    channels = sums.shape[-1]
    addend = None if bias is None else bias.data
    if addend is not None and output.code is Q16_SYMM and has_wide_bias(bias, channels):
        addend = np.ascontiguousarray(addend).view(np.int64)
    largest_bias = 0 if addend is None else np.abs(addend, dtype=np.int64).max(initial=0)
    wraps = rounding in (Rounding.TWICE, Rounding.BYTES_ONCE) and summed.largest + largest_bias > INT32_MAX
    rows = sums.reshape(-1, channels) if sums.size else sums.reshape(0, channels)
    result = np.empty(rows.shape, output.dtype)
    count = max(1, _BLOCK // max(1, channels))
    for start in range(0, len(rows), count):
        block = rows[start : start + count].astype(np.int64)
        if addend is not None:
            block += addend
        if wraps:
            block = block.astype(np.int32)
        block = _MULTIPLY[rounding](block, *multipliers)
        block += output.zero_point
        result[start : start + count] = np.clip(block, low, high, out=block)
    return result.reshape(sums.shape)


# --- convolution ---------------------------------------------------------------------------------------------


def apply_filter(
    call: Call, terms: tuple[int, ...], multiply: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """A convolution's output. ``multiply`` gives the sums of products [N, out_h, out_w, O] of NHWC input and filter.

    ``terms`` are the filter's axes that are summed. Both arrays that ``multiply`` gets are centred.
    """
    with np.errstate(all="ignore"):  # NaN and infinity are results, as on a device
        filters = centred(call.filter)
        summed = products(call.input, filters, terms)
        source = to_nhwc(centred(call.input), call.nchw).astype(summed.dtype, copy=False)
        sums = multiply(source, filters.astype(summed.dtype, copy=False))
        result = finish(call, summed, sums, call.input, call.filter)
    return from_nhwc(result, call.nchw)


_SUMMED_WIDE = 1 << 20
"""Products of floats up to which they are added up in 64 bits: in 32, it depends on the processor in which order BLAS
adds, and so how far sums are off."""


def matrix_product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`numpy.matmul`, but short sums of float32 products are computed in float64."""
    if first.dtype == np.float32 and first.size * second.shape[-1] <= _SUMMED_WIDE:
        return np.matmul(first.astype(np.float64), second.astype(np.float64)).astype(np.float32)
    product: np.ndarray = np.matmul(first, second)
    return product


def convolve(nhwc: np.ndarray, filters: np.ndarray, vertical: Axis, horizontal: Axis, groups: int = 1) -> np.ndarray:
    """Sums of products [N, out_h, out_w, O] of NHWC elements with filters [O, window_h, window_w, C / groups].

    Output channels in ``groups`` equal parts see the input channels in as many parts. Padding counts as zero.
    """
    batches, _, _, channels = nhwc.shape
    outputs, depth = filters.shape[0], filters.shape[3]
    if nhwc.dtype == np.float32 and batches * vertical.out * horizontal.out * filters.size <= _SUMMED_WIDE:
        wide = convolve(nhwc.astype(np.float64), filters.astype(np.float64), vertical, horizontal, groups)
        return wide.astype(np.float32)
    sums: np.ndarray = np.empty((batches, vertical.out, horizontal.out, outputs), nhwc.dtype)
    # [groups, terms, outputs of a group]
    weights = filters.reshape(groups, outputs // groups, -1).transpose(0, 2, 1)
    taps = vertical.window * horizontal.window
    if taps == 1 and groups == 1 and not any((vertical.before, vertical.after, horizontal.before, horizontal.after)):
        points = nhwc[:, :: vertical.stride, :: horizontal.stride]
        np.matmul(points.reshape(-1, channels), weights[0], out=sums.reshape(-1, outputs))
        return sums
    views = windows(nhwc, vertical, horizontal, 0)
    for images, rows in _blocks(batches, vertical.out, horizontal.out * taps * channels):
        columns: np.ndarray = views[images, rows].reshape(-1, taps, groups, depth)
        columns = columns.transpose(2, 0, 1, 3).reshape(groups, -1, taps * depth)
        products = np.matmul(columns, weights).transpose(1, 0, 2)
        block = sums[images, rows]
        block[...] = products.reshape(block.shape)
    return sums


def _blocks(batches: int, rows: int, row_size: int) -> Iterator[tuple[slice, slice]]:
    """Split images into groups of whole images, or of rows of one, with about `_COLUMNS` elements."""
    count = max(1, _COLUMNS // max(1, row_size))
    images = max(1, count // max(1, rows))
    for image in range(0, batches, images):
        for row in range(0, rows, count):
            yield slice(image, image + images), slice(row, row + count)
