"""AVERAGE_POOL_2D, L2_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.dtypes import SIZES, dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import clamp, offset, sign_push
from nnvk.driver.vulkan.lowering.reductions.folds import lanes_of, shared_out
from nnvk.driver.vulkan.lowering.strided_view import access_to_pixels
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.ops.internal import POOL_PADDING, PoolPadding, with_padded_input
from nnvk.ops.pool import pool_axes
from nnvk.ops.quant import is_quantised
from nnvk.ops.window import Axis
from nnvk.types.codes import OperandCode, OperationCode

POOL = Shader(
    "pool2d",
    where=lambda choice: choice["KIND"] != "l2" or choice["DTYPE"] not in ("q8", "q16"),
    KIND=("avg", "l2", "max"),
    DTYPE=("f32", "f16", "q8", "q16"),
)
LARGEST = 1 << 13
"""The elements of a window that one invocation folds."""
MOST = 1 << 19
"""The most elements of a window."""
MOST_WIDE = 1 << 15
"""The most elements of a window with 16-bit quantised values, because the sums have 32 bits."""

_KINDS = {
    OperationCode.AVERAGE_POOL_2D: "avg",
    OperationCode.L2_POOL_2D: "l2",
    OperationCode.MAX_POOL_2D: "max",
}


def refuse(call: Call) -> str | None:
    """The reason why a window is too large, or None."""
    vertical, horizontal = pool_axes(with_padded_input(call))
    area = _covered(vertical) * _covered(horizontal)
    most = MOST_WIDE if call.input.code is OperandCode.TENSOR_QUANT16_SYMM else MOST
    if area > most:
        return f"a window covers {area} elements, the shader folds at most {most}"
    return None


def _covered(axis: Axis) -> int:
    return min(axis.window, axis.size)


def accepts_padding(call: Call, device: DeviceProfile) -> bool:
    """Whether a pool with a `PoolPadding` gives the results of a PAD and a pool.

    Sums of floats depend on their order. It would change if numbers other than zero are around an image, and if several
    invocations share a window.
    """
    if is_quantised(call.input.code) or call.code is OperationCode.MAX_POOL_2D:
        return True
    element = np.array(call.pool_padding.value, call.input.dtype)
    folded = math.prod(map(_covered, pool_axes(with_padded_input(call))))
    return not any(element.tobytes()) and lanes_of(device, _vec4s(call), folded, LARGEST) == 1


def _vec4s(call: Call) -> int:
    return -(-call.output.size // 4)


def _around(call: Call) -> dict[str, int | float]:
    """The push constants for the elements around images."""
    if not call.has(POOL_PADDING):
        return dict.fromkeys(("above", "below", "before", "after", "padding_value"), 0)
    around: PoolPadding = call.pool_padding
    element = np.array(around.value, call.input.dtype).item()
    sides = {"above": around.top, "below": around.bottom, "before": around.left, "after": around.right}
    return {**sides, "padding_value": element + offset(call.input)}


@kernel(*_KINDS, shaders=(POOL,), refuse=refuse, channels_last=True)
def lower(call: Call, g: Lowering) -> None:
    """Lower a pool: each invocation computes four elements of the output."""
    kind = dtype(call.input)
    vertical, horizontal = pool_axes(with_padded_input(call))
    _, height, width, channels = call.input.shape
    count = _vec4s(call)
    groups, lanes = shared_out(g, count, _covered(vertical) * _covered(horizontal), LARGEST)
    push = {
        "count": count,
        "elements": call.output.size,
        "height": height,
        "width": width,
        "channels": channels,
        "out_height": vertical.out,
        "out_width": horizontal.out,
        "filter_height": vertical.window,
        "filter_width": horizontal.window,
        "stride_y": vertical.stride,
        "stride_x": horizontal.stride,
        "pad_top": vertical.before,
        "pad_left": horizontal.before,
        **_around(call),
        **divisors(height=vertical.out, width=horizontal.out, channels=channels),
        **clamp(call),
        **sign_push(call.input),
    }
    arguments = Arguments(
        {**lanes, "VECTOR": channels % 4 == 0, "HAS_PADDING": call.has(POOL_PADDING)},
        {"src": g.tensor(call.input), "dst": g.tensor(call.output)},
        push,
        access_to_pixels(channels, SIZES[kind]),
    )
    arguments.dispatch(g, POOL.variant(KIND=_KINDS[call.code], DTYPE=kind), groups)
