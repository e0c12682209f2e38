"""DEPTHWISE_CONV_2D."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.fused import check_activation
from nnvk.ops.linear import (
    CONVOLUTION,
    apply_filter,
    check_channels,
    check_filter_quantisation,
    filter_signatures,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import FLOATS, QUANT8, i32
from nnvk.ops.traits import Fp16, Traits
from nnvk.ops.window import Axis, axes, layout_shape, nhwc_shape
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def depthwise_axes(call: Call) -> tuple[Axis, Axis]:
    """The vertical and horizontal axis of the sliding window. The filter is [1, height, width, depth_out]."""
    _, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    return axes(call, height, width, (call.filter.shape[1], call.filter.shape[2]))


def _validate(call: Call) -> None:
    check_filter_quantisation(call, 3)


def _infer(call: Call) -> list[Shape]:
    check_activation(call.activation)
    check_channels(call, call.filter.shape[3])
    batches, _, _, channels = nhwc_shape(call.input.shape, call.nchw)
    first, _, _, depth_out = call.filter.shape
    if call.depth_multiplier < 1:
        raise bad_data(f"depth_multiplier must be at least 1, got {call.depth_multiplier}")
    if first != 1 or depth_out != channels * call.depth_multiplier or not channels:
        raise bad_data(
            f"filter must have shape [1, height, width, {channels * call.depth_multiplier}] for the {channels} "
            f"channels of input and depth_multiplier {call.depth_multiplier}, got {list(call.filter.shape)}"
        )
    vertical, horizontal = depthwise_axes(call)
    return [layout_shape((batches, vertical.out, horizontal.out, depth_out), call.nchw)]


def _sum_taps(nhwc: np.ndarray, taps: np.ndarray, vertical: Axis, horizontal: Axis) -> np.ndarray:
    """Add up the input, shifted to each tap of the filter [window_h, window_w, C], times the tap."""
    sums = np.zeros((len(nhwc), vertical.out, horizontal.out, nhwc.shape[3]), nhwc.dtype)
    product = np.empty_like(sums)
    rows = [_meets(vertical, row) for row in range(vertical.window)]
    columns = [_meets(horizontal, column) for column in range(horizontal.window)]
    for row, column in np.ndindex(vertical.window, horizontal.window):
        (from_y, to_y), (from_x, to_x) = rows[row], columns[column]
        part = product[:, to_y, to_x]
        np.multiply(nhwc[:, from_y, from_x], taps[row, column], out=part)
        sums[:, to_y, to_x] += part
    return sums


def _meets(axis: Axis, tap: int) -> tuple[slice, slice]:
    """Slices of the input and of the output along an axis: the elements that one tap of the window combines."""
    offset = tap * axis.dilation - axis.before
    first = max(0, -(offset // axis.stride))
    past = min(axis.out, (axis.size - 1 - offset) // axis.stride + 1)
    if first >= past:
        return slice(0), slice(0)
    start = first * axis.stride + offset
    return slice(start, start + (past - first - 1) * axis.stride + 1, axis.stride), slice(first, past)


def _reference(call: Call) -> np.ndarray:
    def multiply(source: np.ndarray, filters: np.ndarray) -> np.ndarray:
        repeated = np.repeat(source, call.depth_multiplier, axis=3) if call.depth_multiplier > 1 else source
        return _sum_taps(repeated, filters[0], *depthwise_axes(call))

    return apply_filter(call, (0, 1, 2), multiply)


define(
    OperationCode.DEPTHWISE_CONV_2D,
    traits=Traits(
        foldable=False, fp16=Fp16.FOLLOWS, gemm=replace(CONVOLUTION, summed=slice(1, 3)), window=depthwise_axes
    ),
    types={**FLOATS, **QUANT8},
    signatures=filter_signatures(i32("depth_multiplier")),
    infer=_infer,
    reference=_reference,
    validate=_validate,
    wide=True,
)
