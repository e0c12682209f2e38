"""ROI_ALIGN and ROI_POOLING: regions of a feature map, each scaled to one output size."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32
from nnvk.driver.vulkan.lowering.copies.move import FILL, fill
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_mask, sign_push, zero_point
from nnvk.driver.vulkan.lowering.selection.boxes import BOX, batch_flag, order_flag
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised
from nnvk.ops.roi import WEIGHT_SCALE
from nnvk.ops.window import nhwc_shape
from nnvk.types.codes import OperationCode

_VEC4S = ("channels", "any")
_DTYPES = ("f32", "f16", "q8")
ROI_REGIONS = Shader("roi_regions", KIND=("align", "pool"))
ROI_ALIGN = Shader("roi_align", VEC4S=_VEC4S, DTYPE=_DTYPES)
ROI_POOLING = Shader("roi_pooling", VEC4S=_VEC4S, DTYPE=_DTYPES)
LOCAL = 64
MOST_POINTS = MOST_ROUNDS // 2
"""The most sampling points of a bin, so that 32 bits hold the sum."""
_ZERO = np.zeros((), np.uint32)


def refuse_align(call: Call) -> str | None:
    """The reason why a bin has too many sampling points for an invocation, or None."""
    _, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    rows = call.height_sampling_ratio or -(-height // call.output_height) or 1
    columns = call.width_sampling_ratio or -(-width // call.output_width) or 1
    if rows * columns <= MOST_POINTS:
        return None
    return f"bins may have {rows} x {columns} sampling points, the shader takes at most {MOST_POINTS}"


def refuse_pooling(call: Call) -> str | None:
    """The reason why the rows of a bin are too long for an invocation, or None."""
    columns = nhwc_shape(call.input.shape, call.nchw)[2]
    return (
        f"input has rows of {columns} elements, the shader takes at most {4 * MOST_ROUNDS}"
        if columns > 4 * MOST_ROUNDS
        else None
    )


@kernel(OperationCode.ROI_ALIGN, shaders=(ROI_REGIONS, ROI_ALIGN, FILL, CONVERT), refuse=refuse_align)
def lower_align(call: Call, g: Lowering) -> None:
    """Lower ROI_ALIGN: each invocation computes four elements of the output."""
    quantised: dict[str, int] = {}
    factor = np.float32(0)
    if is_quantised(call.input.code):
        factor = np.float32(call.input.scale) * WEIGHT_SCALE / np.float32(call.output.scale)
        quantised = {
            "zero": zero_point(call.input),
            "dst_mask": sign_mask(call.output),
            "dst_zero": zero_point(call.output),
        }
    ratios = {"ratio_x": call.width_sampling_ratio, "ratio_y": call.height_sampling_ratio}
    regions = _regions(call, g, "align", factor=float(factor), **ratios)
    if call.input.size:
        _pool(call, g, ROI_ALIGN, regions, **quantised)
    else:
        fill(g, g.tensor(call.output), _ZERO)  # no region lies on an empty map


@kernel(OperationCode.ROI_POOLING, shaders=(ROI_REGIONS, ROI_POOLING, FILL, CONVERT), refuse=refuse_pooling)
def lower_pooling(call: Call, g: Lowering) -> None:
    """Lower ROI_POOLING: each invocation computes four elements of the output, several rows of a bin at once."""
    regions = _regions(call, g, "pool")
    if not call.input.size:
        fill(g, g.tensor(call.output), _ZERO)
        return
    _, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    quantised = {"zero": zero_point(call.input)} if is_quantised(call.input.code) else {}
    rows = max(1, MOST_ROUNDS // (-(-width // 4) + 1))
    # Regions are rounded to whole elements, and so are their bins.
    most = min(height, -(-(height + 1) // call.output_height) + 1)
    for done in range(0, most, rows):
        _pool(call, g, ROI_POOLING, regions, done=done, rows=rows, **quantised)


def _regions(call: Call, g: Lowering, kind: str, **push: float) -> TensorRef:
    """Check the regions and convert them to elements of the feature map."""
    batches, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    count = call.rois.shape[0]
    regions = g.scratch(48 * count)
    outside = f"{call.rois.name} must lie on the feature map, {width} x {height} elements, "
    one = np.float32(1)
    g.dispatch(
        ROI_REGIONS.variant(KIND=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "rois": as_float32(g, call.rois),
            "split": g.tensor(call.batch_split),
            "regions": regions,
            "missing": batch_flag(g, call.batch_split, batches),
            "unordered": order_flag(g, call.rois),
            "outside": g.flag(f"{outside}got {BOX} (in pixels of the image) in region {{}}"),
        },
        count=count,
        batches=batches,
        right=width or -1,  # nothing lies on an empty map
        bottom=height or -1,
        scale_x=float(one / np.float32(call.width_stride)),
        scale_y=float(one / np.float32(call.height_stride)),
        bins_x=call.output_width,
        bins_y=call.output_height,
        **push,
    )
    return regions


def _pool(call: Call, g: Lowering, shader: Shader, regions: TensorRef, **push: int) -> None:
    _, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    count = -(-call.output.size // 4)
    vec4s = "any" if call.nchw or channels % 4 else "channels"
    g.dispatch(
        shader.variant(VEC4S=vec4s, DTYPE=dtype(call.input)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "NCHW": call.nchw},
        tensors={"src": g.tensor(call.input), "regions": regions, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        channels=channels,
        out_height=call.output_height,
        out_width=call.output_width,
        height=height,
        width=width,
        **sign_push(call.input),
        **push,
    )
