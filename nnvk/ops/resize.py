"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, to a size or by a factor."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised, limits, rounding_divide_by_pot, saturate
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED_3, keeps_quantisation
from nnvk.ops.signature import EXTENSIONS_SINCE, F32, LAYOUT, Q8S, Q16_SYMM, Signature, boolean, i32, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.ops.window import from_nhwc, layout_shape, nhwc_shape, to_nhwc
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_OPTIONS = (LAYOUT, boolean("align_corners", False, since=4), boolean("half_pixel_centers", False, since=4))
SIGNATURES = (
    Signature(tensor("input", rank=4), i32("output_width"), i32("output_height"), *_OPTIONS),
    Signature(tensor("input", rank=4), real("width_scale", since=3), real("height_scale", since=3), *_OPTIONS),
)


def _output_size(call: Call, what: str, size: int) -> int:
    if not call.has("width_scale"):
        result: int = getattr(call, f"output_{what}")
        if result < 1:
            raise bad_data(f"output_{what} must be at least 1, got {result}")
        return result
    factor = getattr(call, f"{what}_scale")
    if not math.isfinite(factor) or factor <= 0:
        raise bad_data(f"{what}_scale must be finite and positive, got {factor}")
    with np.errstate(over="ignore"):
        scaled = np.float32(size) * np.float32(factor)
    if scaled < 1:
        raise bad_data(f"{what}_scale must leave at least one element of {size}, got {factor}")
    if scaled >= 2**31:
        raise bad_data(f"{what}_scale must give less than 2^31 elements for {size}, got {factor:g}")
    return math.floor(scaled)


def _infer(call: Call) -> list[Shape]:
    if call.align_corners and call.half_pixel_centers:
        raise bad_data("align_corners must be false where half_pixel_centers is true, got true")
    batches, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    if not height or not width:
        raise bad_data(f"input must have a height and a width, got {list(call.input.shape)}")
    size = (_output_size(call, "height", height), _output_size(call, "width", width))
    return [layout_shape((batches, *size, channels), call.nchw)]


def resize_scale(size: int, out: int, align_corners: bool) -> float:
    """Input elements per output element along an axis, a number of float32."""
    if align_corners and out > 1:
        size, out = size - 1, out - 1
    return float(np.float32(size) / np.float32(out))


def nearest_indices(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> np.ndarray:
    """The input's element for each of ``out`` elements along an axis of ``size``."""
    center = np.float32(0.5 if half_pixel_centers else 0)
    position = (np.arange(out, dtype=np.float32) + center) * resize_scale(size, out, align_corners)
    index: np.ndarray = np.floor(position + np.float32(0.5) if align_corners else position).astype(np.intp)
    return index.clip(0, size - 1)


def linear_taps(
    size: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper neighbour, and the upper one's weight (float32), for each output element along an axis."""
    center = np.float32(0.5 if half_pixel_centers else 0)
    position = (np.arange(out, dtype=np.float32) + center) * resize_scale(size, out, align_corners) - center
    lower = np.clip(np.floor(position), 0, size - 1).astype(np.intp)
    upper = np.clip(np.ceil(position), 0, size - 1).astype(np.intp)
    return lower, upper, position - lower.astype(np.float32)


FIXED_BITS = 10
"""Bits of the fraction of places in fixed point."""


def is_fixed(call: Call) -> bool:
    """Whether levels are interpolated in fixed point."""
    return call.has("fixed_point") and bool(call.fixed_point)


def fixed_taps(
    size: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`linear_taps` in fixed point: weights are 1,024ths, int64."""
    one = 1 << FIXED_BITS
    parts, count = (size - 1, out - 1) if align_corners and out > 1 else (size, out)
    scale = (one * parts + count // 2) // count
    position = np.arange(out, dtype=np.int64) * scale
    if half_pixel_centers:
        position += scale // 2 - one // 2
    lower = np.clip(position >> FIXED_BITS, 0, size - 1)
    upper = np.clip((position + one - 1) >> FIXED_BITS, 0, size - 1)
    return lower, upper, position - (lower << FIXED_BITS)


def _sizes(call: Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """(input, output) along height and along width."""
    source, result = nhwc_shape(call.input.shape, call.nchw), nhwc_shape(call.output.shape, call.nchw)
    return (source[1], result[1]), (source[2], result[2])


def _nearest(call: Call) -> np.ndarray:
    rows, columns = (
        nearest_indices(size, out, call.align_corners, call.half_pixel_centers) for size, out in _sizes(call)
    )
    return from_nhwc(to_nhwc(call.input.data, call.nchw)[:, rows[:, None], columns], call.nchw)


def _bilinear_in_fixed_point(call: Call) -> np.ndarray:
    """The levels that TensorFlow Lite gives: halves are rounded away from 0."""
    vertical, horizontal = (
        fixed_taps(size, out, call.align_corners, call.half_pixel_centers) for size, out in _sizes(call)
    )
    top, bottom, down = vertical[0][:, None], vertical[1][:, None], vertical[2][:, None, None]
    left, right, along = horizontal[0], horizontal[1], horizontal[2][:, None]
    source, one = to_nhwc(call.input.data, call.nchw).astype(np.int64), 1 << FIXED_BITS
    mixed = (
        source[:, top, left] * (one - down) * (one - along)
        + source[:, bottom, left] * down * (one - along)
        + source[:, top, right] * (one - down) * along
        + source[:, bottom, right] * down * along
    )
    return from_nhwc(saturate(rounding_divide_by_pot(mixed, 2 * FIXED_BITS), call.output), call.nchw)


def _bilinear(call: Call) -> np.ndarray:
    if is_fixed(call):
        return _bilinear_in_fixed_point(call)
    vertical, horizontal = (
        linear_taps(size, out, call.align_corners, call.half_pixel_centers) for size, out in _sizes(call)
    )
    top, bottom, down = vertical[0][:, None], vertical[1][:, None], vertical[2][:, None, None]
    left, right, along = horizontal[0], horizontal[1], horizontal[2][:, None]
    # Count levels from the lowest one, so that signed and unsigned tensors are rounded alike.
    lowest = np.float32(limits(call.input.code)[0] if is_quantised(call.input.code) else 0)
    source = to_nhwc(call.input.data, call.nchw).astype(np.float32) - lowest
    mixed = (
        source[:, top, left] * (1 - down) * (1 - along)
        + source[:, bottom, left] * down * (1 - along)
        + source[:, top, right] * (1 - down) * along
        + source[:, bottom, right] * down * along
    )
    if is_quantised(call.output.code):
        return from_nhwc(saturate(np.floor(mixed + np.float32(0.5)) + lowest, call.output), call.nchw)
    return from_nhwc(mixed.astype(call.output.dtype), call.nchw)


_FIXED = (
    dict.fromkeys((Q8S, Q16_SYMM), EXTENSIONS_SINCE),
    Signature(*SIGNATURES[0].params, boolean("fixed_point", True)),
)
"""The extension's RESIZE_BILINEAR is TensorFlow Lite's, of signed levels."""

for _code, _types, _reference, _extended in (
    (OperationCode.RESIZE_BILINEAR, {**MOVED_3, F32: 1}, _bilinear, _FIXED),
    (OperationCode.RESIZE_NEAREST_NEIGHBOR, MOVED_3, _nearest, None),
):
    define(
        _code,
        traits=Traits(foldable=False, fp16=Fp16.FOLLOWS),
        types=_types,
        signatures=SIGNATURES,
        infer=_infer,
        reference=_reference,
        validate=keeps_quantisation(),
        extended=_extended,
    )
