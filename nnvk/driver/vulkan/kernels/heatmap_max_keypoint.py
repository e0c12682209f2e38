"""HEATMAP_MAX_KEYPOINT: the peak of each heatmap, placed between its elements, in its box of the image."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32, finish_float32, float32_result
from nnvk.driver.vulkan.lowering.dtypes import F16, dtype, of
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push, zero_point
from nnvk.driver.vulkan.lowering.selection.boxes import order_flag
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised
from nnvk.ops.window import nhwc_shape
from nnvk.types.codes import OperationCode

HEATMAP = Shader("heatmap_max_keypoint", DTYPE=("f32", "f16", "q8"))
LOCAL = 64
LARGE_FROM = 2048
"""The elements from which a workgroup of a GPU has more invocations."""
EACH = 4
"""The elements that an invocation searches in a round."""


def _together(keypoints: int, most: int) -> int:
    """The keypoints of a workgroup: the largest number that leaves few invocations idle."""
    choices = [n for n in (1, 2, 4, 8) if n <= most and -(-keypoints // n) * n <= 1.25 * keypoints]
    return max(choices, default=1)


def refuse(call: Call) -> str | None:
    """The reason why a heatmap is too large for a workgroup, or None."""
    size = nhwc_shape(call.heatmap.shape, call.nchw)[1]
    most = LOCAL * EACH * MOST_ROUNDS
    return f"heatmap has {size} x {size} elements, the shader searches at most {most}" if size * size > most else None


@kernel(OperationCode.HEATMAP_MAX_KEYPOINT, shaders=(HEATMAP, CONVERT), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower HEATMAP_MAX_KEYPOINT: each workgroup handles several adjacent keypoints of one box."""
    heatmap = call.heatmap
    count, size, _, keypoints = nhwc_shape(heatmap.shape, call.nchw)
    together = 1 if call.nchw else _together(keypoints, LOCAL * EACH * MOST_ROUNDS // (size * size))
    local = LOCAL if g.device.is_cpu or size * size * together < LARGE_FROM else g.device.large_team
    peaks, places = float32_result(g, call.scores), float32_result(g, call.keypoints)
    quantised = {"zero": zero_point(heatmap), "scale": heatmap.scale} if is_quantised(heatmap.code) else {}
    g.dispatch(
        HEATMAP.variant(DTYPE=dtype(heatmap)),
        groups=g.flat(count * -(-keypoints // together), 1),
        spec={"local_x": local, "LOCAL": local, "NCHW": call.nchw, "TOGETHER": together},
        tensors={
            "src": g.tensor(heatmap),
            "boxes": as_float32(g, call.boxes),
            "peaks": peaks,
            "places": places,
            "flag": order_flag(g, call.boxes),
        },
        count=count,
        size=size,
        keypoints=keypoints,
        tolerance=1e-3 if of(heatmap) is F16 else 1e-5,
        **sign_push(heatmap),
        **quantised,
    )
    finish_float32(g, peaks, call.scores)
    finish_float32(g, places, call.keypoints)
