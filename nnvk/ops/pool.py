"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.fused import activate, check_activation
from nnvk.ops.quant import is_quantised, round_half_away
from nnvk.ops.registry import define
from nnvk.ops.signature import FLOATS, LAYOUT, QUANT8, Signature, activation, i32, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.ops.window import Axis, axes, from_nhwc, layout_shape, nhwc_shape, to_nhwc, windows
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_WINDOW = (i32("stride_width"), i32("stride_height"), i32("filter_width"), i32("filter_height"), activation(), LAYOUT)
SIGNATURES = (
    Signature(
        tensor("input", rank=4),
        i32("padding_left"),
        i32("padding_right"),
        i32("padding_top"),
        i32("padding_bottom"),
        *_WINDOW,
    ),
    Signature(tensor("input", rank=4), i32("padding"), *_WINDOW),
)


def pool_axes(call: Call) -> tuple[Axis, Axis]:
    """The window's vertical and horizontal way over the input. BAD_DATA where it covers padding alone, somewhere."""
    _, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    both = axes(call, height, width, (call.filter_height, call.filter_width))
    for what, axis in zip(("height", "width"), both, strict=True):
        if not axis.size or max(axis.before, axis.after) >= axis.window:
            raise bad_data(
                f"a window of {what} {axis.window} covers nothing but padding of an input of {axis.size} "
                f"padded by {axis.before} + {axis.after}"
            )
    return both


def _validate(call: Call) -> None:
    source, result = call.input.type, call.output.type
    if is_quantised(source.code) and (source.scale, source.zero_point) != (result.scale, result.zero_point):
        raise bad_data(f"output must have the input's scale and zero point, {source}, got {result}")


def _infer(call: Call) -> list[Shape]:
    check_activation(call.activation)
    vertical, horizontal = pool_axes(call)
    batches, _, _, channels = nhwc_shape(call.input.shape, call.nchw)
    return [layout_shape((batches, vertical.out, horizontal.out, channels), call.nchw)]


def _covered(call: Call) -> np.ndarray:
    """How many elements of the input each window covers: [1, out_h, out_w, 1]; padding does not count."""
    vertical, horizontal = pool_axes(call)
    ones = np.ones((1, vertical.size, horizontal.size, 1))
    return windows(ones, vertical, horizontal, 0, unordered=True).sum(axis=(3, 4))


def _summand(source: np.ndarray) -> np.ndarray:
    """Floats as they are summed: sums of 16-bit ones are exact enough to be rounded but once, to 16 bits."""
    return source.astype(np.float64 if source.dtype == np.float16 else np.float32)


def _average(call: Call) -> np.ndarray:
    source = to_nhwc(call.input.data, call.nchw)
    if not is_quantised(call.input.code):
        mean = windows(_summand(source), *pool_axes(call), 0, unordered=True).sum(axis=(3, 4)) / _covered(call)
    else:
        # Halves go away from level 0, as in TensorFlow Lite and Android: upwards if levels are unsigned.
        sums = windows(source.astype(np.int64), *pool_axes(call), 0, unordered=True).sum(axis=(3, 4))
        mean = round_half_away(sums / _covered(call))
    return from_nhwc(activate(mean, call.activation, call.output), call.nchw)


def _maximum(call: Call) -> np.ndarray:
    source = to_nhwc(call.input.data, call.nchw)
    lowest = np.iinfo(source.dtype).min if is_quantised(call.input.code) else -np.inf
    largest = windows(source, *pool_axes(call), lowest, unordered=True).max(axis=(3, 4))
    return from_nhwc(activate(largest, call.activation, call.output), call.nchw)


def _root_mean_square(call: Call) -> np.ndarray:
    source = _summand(to_nhwc(call.input.data, call.nchw))
    squares = windows(source * source, *pool_axes(call), 0, unordered=True).sum(axis=(3, 4))
    return from_nhwc(activate(np.sqrt(squares / _covered(call)), call.activation, call.output), call.nchw)


for _code, _types, _fp16, _reference in (
    (OperationCode.AVERAGE_POOL_2D, {**FLOATS, **QUANT8}, Fp16.FOLLOWS, _average),
    (OperationCode.MAX_POOL_2D, {**FLOATS, **QUANT8}, Fp16.FOLLOWS, _maximum),
    (OperationCode.L2_POOL_2D, FLOATS, Fp16.NEVER, _root_mean_square),
):
    define(
        _code,
        traits=Traits(foldable=False, fp16=_fp16, window=pool_axes),
        types=_types,
        signatures=SIGNATURES,
        infer=_infer,
        reference=_reference,
        validate=_validate,
        wide=_types is not FLOATS,
    )
