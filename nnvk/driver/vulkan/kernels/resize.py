"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.dtypes import MOVED, SIZES, dtype, moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push
from nnvk.driver.vulkan.lowering.strided_view import access_to_pixels
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.resize import fixed_taps, is_fixed, linear_taps, nearest_indices
from nnvk.ops.window import nhwc_shape
from nnvk.types.codes import OperationCode

RESIZE = Shader(
    "resize",
    where=lambda choice: (choice["KIND"] == "nearest") == (choice["DTYPE"] in MOVED),
    KIND=("bilinear", "nearest"),
    DTYPE=("f32", "f16", "q8", "q16", *MOVED),
)
LOCAL = 64
_VEC4S = (4, 2, 1)
"""The vec4s of channels that an invocation may compute, so that they share the addresses of the pixel."""


def _linear(size: int, out: int, stride: int, fixed: bool, *options: bool) -> np.ndarray:
    """For each output row or column, the two neighbours in the input, in pixels, and the weight of the second one."""
    lower, upper, weight = (fixed_taps if fixed else linear_taps)(size, out, *options)
    bits = weight.astype(np.int32) if fixed else weight
    taps = np.zeros((out, 4), np.uint32)
    taps[:, 0], taps[:, 1], taps[:, 2] = lower * stride, upper * stride, bits.view(np.uint32)
    return taps


def _nearest(size: int, out: int, stride: int, fixed: bool, *options: bool) -> np.ndarray:
    """For each output row or column, the row or column of the input, in pixels."""
    return (nearest_indices(size, out, *options) * stride).astype(np.uint32)


def _taps(linear: bool, height: int, width: int, out_height: int, out_width: int, *options: bool) -> np.ndarray:
    """The table of all output rows and then columns."""
    taps_of = _linear if linear else _nearest
    return np.concatenate([taps_of(height, out_height, width, *options), taps_of(width, out_width, 1, *options)])


@kernel(OperationCode.RESIZE_BILINEAR, OperationCode.RESIZE_NEAREST_NEIGHBOR, shaders=(RESIZE,))
def lower(call: Call, g: Lowering) -> None:
    """Lower a resize: each invocation computes up to four vec4s of a pixel's channels."""
    _, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    _, out_height, out_width, _ = nhwc_shape(call.output.shape, call.nchw)
    if call.nchw:
        channels = 1  # a plane is an image
    linear = call.code is OperationCode.RESIZE_BILINEAR
    sizes, options = (
        (height, width, out_height, out_width),
        (is_fixed(call), call.align_corners, call.half_pixel_centers),
    )
    table = (out_height + out_width, *((4,) if linear else ()))
    vec4s = next((vec4s for vec4s in _VEC4S if channels % (4 * vec4s) == 0), 1)
    count = -(-call.output.size // (4 * vec4s))
    fixed = {"FIXED": is_fixed(call)} if linear else {}
    kind, type_ = ("bilinear", dtype(call.input)) if linear else ("nearest", moved(call.input))
    arguments = Arguments(
        {"local_x": LOCAL, "VECTOR": channels % 4 == 0, "VEC4S": vec4s, **fixed},
        {
            "src": g.tensor(call.input),
            "taps": g.computed_constant(table, np.uint32, _taps, linear, *sizes, *options),
            "dst": g.tensor(call.output),
        },
        {
            "count": count,
            "elements": call.output.size,
            "image": height * width,
            "out_height": out_height,
            "out_width": out_width,
            "channels": channels,
            **divisors(
                height=out_height, width=out_width, columns=channels if channels % 4 else channels // (4 * vec4s)
            ),
            **(sign_push(call.input) if linear else {}),
        },
        access_to_pixels(channels, SIZES[type_]),
    )
    arguments.dispatch(g, RESIZE.variant(KIND=kind, DTYPE=type_), g.flat(count, LOCAL))
