"""ROI_ALIGN_V2: regions of a feature map, which may lie anywhere, each scaled to one output size."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.selection.boxes import batch_flag
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.extension.roi_align import MOST_POINTS, TOO_MANY
from nnvk.types.extension import ExtendedOperationCode

ROI_ALIGN_V2 = Shader("roi_align_v2", KIND=("mean", "max"))
LOCAL = 64
_LEAST = float(np.finfo(np.float32).min)


@kernel(ExtendedOperationCode.ROI_ALIGN_V2, shaders=(ROI_ALIGN_V2,))
def lower(call: Call, g: Lowering) -> None:
    """Lower ROI_ALIGN_V2: each invocation computes one element of the output."""
    batches, channels, height, width = call.input.shape
    g.dispatch(
        ROI_ALIGN_V2.variant(KIND="max" if call.largest else "mean"),
        groups=g.flat(call.output.size, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "src": g.tensor(call.input),
            "rois": g.tensor(call.rois),
            "split": g.tensor(call.batch_split),
            "dst": g.tensor(call.output),
            "missing": batch_flag(g, call.batch_split, batches),
            "many": g.flag(TOO_MANY),
        },
        count=call.output.size,
        batches=batches,
        channels=channels,
        height=height,
        width=width,
        out_height=call.output_height,
        out_width=call.output_width,
        ratio=call.sampling_ratio,
        most=MOST_POINTS,
        scale=call.spatial_scale,
        offset=0.5 if call.half_pixel else 0.0,
        least=_LEAST if call.half_pixel else 1.0,
    )
