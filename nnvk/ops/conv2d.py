"""CONV_2D and GROUPED_CONV_2D."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.fused import check_activation
from nnvk.ops.linear import (
    CONVOLUTION,
    EXPLICIT_PADDING,
    FILTERED,
    IMPLICIT_PADDING,
    STRIDES,
    apply_filter,
    check_channels,
    check_filter_quantisation,
    convolve,
    filter_signatures,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import F16, F32, FLOATS, Q8, Q8S, QUANT8, Signature, activation, boolean, i32
from nnvk.ops.traits import Fp16, Traits
from nnvk.ops.window import Axis, axes, layout_shape, nhwc_shape
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def conv_axes(call: Call) -> tuple[Axis, Axis]:
    """The vertical and horizontal axis of the sliding window. The filter is [depth_out, height, width, depth]."""
    _, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    return axes(call, height, width, (call.filter.shape[1], call.filter.shape[2]))


def group_count(call: Call) -> int:
    """``num_groups`` of GROUPED_CONV_2D, 1 for CONV_2D."""
    groups: int = call.num_groups if call.has("num_groups") else 1
    return groups


def _validate(call: Call) -> None:
    check_filter_quantisation(call, 0)


def _infer(call: Call) -> list[Shape]:
    check_activation(call.activation)
    check_channels(call, call.filter.shape[0])
    groups = group_count(call)
    batches, _, _, channels = nhwc_shape(call.input.shape, call.nchw)
    depth_out, _, _, depth = call.filter.shape
    if groups < 1:
        raise bad_data(f"num_groups must be at least 1, got {groups}")
    if depth * groups != channels or not channels:
        raise bad_data(
            f"filter must have depth {channels / groups:g} for the {channels} channels of input in {groups} group(s), "
            f"got shape {list(call.filter.shape)}"
        )
    if depth_out % groups or not depth_out:
        raise bad_data(f"filter must have a multiple of {groups} output channels, got shape {list(call.filter.shape)}")
    vertical, horizontal = conv_axes(call)
    return [layout_shape((batches, vertical.out, horizontal.out, depth_out), call.nchw)]


def _reference(call: Call) -> np.ndarray:
    def multiply(source: np.ndarray, filters: np.ndarray) -> np.ndarray:
        return convolve(source, filters, *conv_axes(call), group_count(call))

    return apply_filter(call, (1, 2, 3), multiply)


_GROUPED = tuple(
    Signature(
        *FILTERED,
        *padding,
        *STRIDES,
        i32("num_groups"),
        activation(),
        boolean("nchw"),
    )
    for padding in (EXPLICIT_PADDING, IMPLICIT_PADDING)
)

define(
    OperationCode.CONV_2D,
    traits=Traits(foldable=False, fp16=Fp16.STARTS, gemm=CONVOLUTION, window=conv_axes),
    types={**FLOATS, **QUANT8},
    signatures=filter_signatures(),
    infer=_infer,
    reference=_reference,
    validate=_validate,
    wide=True,
)
define(
    OperationCode.GROUPED_CONV_2D,
    traits=Traits(foldable=False, fp16=Fp16.STARTS, gemm=CONVOLUTION, window=conv_axes),
    types={F32: 3, F16: 3, Q8: 3, Q8S: 4},
    signatures=_GROUPED,
    infer=_infer,
    reference=_reference,
    validate=_validate,
    wide=True,
)
