"""TRANSPOSE_CONV_2D: the gradient of CONV_2D."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.fused import check_activation
from nnvk.ops.linear import (
    CONVOLUTION,
    EXPLICIT_PADDING,
    FILTERED,
    STRIDES,
    apply_filter,
    check_channels,
    check_filter_quantisation,
)
from nnvk.ops.registry import define
from nnvk.ops.shapes import vector
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S, Signature, activation, boolean, i32, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.ops.window import Axis, layout_shape, nhwc_shape
from nnvk.types.codes import OperationCode, PaddingCode
from nnvk.types.operand import Shape

_REST = (*STRIDES, activation(), boolean("nchw"))
SIGNATURES = (
    Signature(*FILTERED, *EXPLICIT_PADDING, *_REST),
    Signature(*FILTERED, tensor("output_shape", one_of(I32), rank=1), i32("padding"), *_REST),
)


def _explicit(what: str, size: int, window: int, stride: int, before: int, after: int) -> Axis:
    if before < 0 or after < 0:
        raise bad_data(f"padding along {what} must not be negative, got {before} and {after}")
    out = (size - 1) * stride + window - before - after
    if out < 1:
        raise bad_data(f"padding along {what} must leave something of {out + before + after}, got {before} + {after}")
    return Axis(size, window, stride, 1, before, after, out)


def _implicit(what: str, size: int, window: int, stride: int, padding: int, out: int) -> Axis:
    """The padding that a convolution over the output would have, but for its end, which follows from the sizes."""
    if out < 1:
        raise bad_data(f"output_shape must have a {what} of at least 1, got {out}")
    if padding not in (PaddingCode.SAME, PaddingCode.VALID):
        raise bad_data(f"padding scheme must be a PaddingCode (1 or 2), got {padding}")
    before = 0
    if padding == PaddingCode.SAME:
        before = max(0, (-(-out // stride) - 1) * stride + window - out) // 2
    return Axis(size, window, stride, 1, before, (size - 1) * stride + window - before - out, out)


def transpose_conv_axes(call: Call) -> tuple[Axis, Axis]:
    """The vertical and horizontal axis: an input's element ``i`` goes to ``i * stride + tap - before`` of the output.

    ``size`` is the input's, ``out`` the output's; ``after`` is negative where the output ends beyond the last
    window: what no window reaches is zero plus the bias.
    """
    _, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    _, window_h, window_w, _ = call.filter.shape
    sizes = {"height": (height, window_h, call.stride_height), "width": (width, window_w, call.stride_width)}
    for what, (size, window, stride) in sizes.items():
        if stride < 1:
            raise bad_data(f"stride_{what} must be at least 1, got {stride}")
        if size < 1 or window < 1:
            raise bad_data(f"input and filter must have a {what} of at least 1, got {size} and {window}")
    if not call.has("output_shape"):
        return (
            _explicit("height", *sizes["height"], call.padding_top, call.padding_bottom),
            _explicit("width", *sizes["width"], call.padding_left, call.padding_right),
        )
    shape = vector(call.output_shape, 4)
    _, out_h, out_w, _ = nhwc_shape(tuple(shape), call.nchw)
    return (
        _implicit("height", *sizes["height"], call.padding, out_h),
        _implicit("width", *sizes["width"], call.padding, out_w),
    )


def _validate(call: Call) -> None:
    check_filter_quantisation(call, 0)


def _infer(call: Call) -> list[Shape]:
    check_activation(call.activation)
    check_channels(call, call.filter.shape[0])
    batches, _, _, channels = nhwc_shape(call.input.shape, call.nchw)
    depth_out, _, _, depth = call.filter.shape
    if depth != channels or not channels or not depth_out:
        raise bad_data(f"filter must have depth {channels}, the channels of input, got shape {list(call.filter.shape)}")
    vertical, horizontal = transpose_conv_axes(call)
    shape = layout_shape((batches, vertical.out, horizontal.out, depth_out), call.nchw)
    if call.has("output_shape") and tuple(vector(call.output_shape)) != shape:
        raise bad_data(
            f"output_shape must have the {batches} batches of input and the {depth_out} outputs of filter, "
            f"got {vector(call.output_shape)}"
        )
    return [shape]


def _scatter(nhwc: np.ndarray, filters: np.ndarray, vertical: Axis, horizontal: Axis) -> np.ndarray:
    """Each tap's products [N, H, W, O] added up where the tap puts them in the output."""
    batches, height, width, channels = nhwc.shape
    depth_out = filters.shape[0]
    points = nhwc.reshape(-1, channels)
    full = np.zeros((batches, *(_extent(axis) for axis in (vertical, horizontal)), depth_out), nhwc.dtype)
    for row, column in np.ndindex(vertical.window, horizontal.window):
        products = points @ filters[:, row, column].T
        full[:, _reached(vertical, row), _reached(horizontal, column)] += products.reshape(
            batches, height, width, depth_out
        )
    top, left = vertical.before, horizontal.before
    return full[:, top : top + vertical.out, left : left + horizontal.out]


def _extent(axis: Axis) -> int:
    """Elements from the first that a window reaches to the last of the output or of the windows."""
    return max((axis.size - 1) * axis.stride + axis.window, axis.before + axis.out)


def _reached(axis: Axis, tap: int) -> slice:
    return slice(tap, tap + (axis.size - 1) * axis.stride + 1, axis.stride)


def _reference(call: Call) -> np.ndarray:
    def multiply(source: np.ndarray, filters: np.ndarray) -> np.ndarray:
        return _scatter(source, filters, *transpose_conv_axes(call))

    return apply_filter(call, (1, 2, 3), multiply)


define(
    OperationCode.TRANSPOSE_CONV_2D,
    traits=Traits(foldable=False, fp16=Fp16.STARTS, gemm=CONVOLUTION),
    types={F32: 3, F16: 3, Q8: 3, Q8S: 4},
    signatures=SIGNATURES,
    infer=_infer,
    reference=_reference,
    validate=_validate,
    wide=True,
)
