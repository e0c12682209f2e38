"""AXIS_ALIGNED_BBOX_TRANSFORM: boxes refined by deltas, for each class."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32, finish_float32, float32_result
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.selection.boxes import batch_flag, order_flag
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

AXIS_ALIGNED_BBOX_TRANSFORM = Shader("axis_aligned_bbox_transform")
LOCAL = 64


@kernel(OperationCode.AXIS_ALIGNED_BBOX_TRANSFORM, shaders=(AXIS_ALIGNED_BBOX_TRANSFORM, CONVERT))
def lower(call: Call, g: Lowering) -> None:
    """Lower AXIS_ALIGNED_BBOX_TRANSFORM: each invocation transforms one box for one class."""
    count, batches = call.output.size // 4, call.image_info.shape[0]
    result = float32_result(g, call.output)
    g.dispatch(
        AXIS_ALIGNED_BBOX_TRANSFORM.variant(),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "rois": as_float32(g, call.rois),
            "deltas": as_float32(g, call.deltas),
            "split": g.tensor(call.batch_split),
            "images": as_float32(g, call.image_info),
            "dst": result,
            "outside": batch_flag(g, call.batch_split, batches),
            "unordered": order_flag(g, call.rois),
        },
        count=count,
        classes=call.deltas.shape[1] // 4,
        batches=batches,
    )
    finish_float32(g, result, call.output)
