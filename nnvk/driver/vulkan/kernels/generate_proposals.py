"""GENERATE_PROPOSALS: anchors at each position of a feature map, refined, and the best of them by hard suppression."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32, finish_float32, float32_result
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.selection.boxes import NMS, Candidates, order_flag, suppress
from nnvk.driver.vulkan.lowering.selection.sort import SORTING, sort_keys
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.window import nhwc_shape
from nnvk.types.codes import OperationCode

GENERATE_PROPOSALS = Shader("generate_proposals", PASS=("keys", "boxes", "write"))
LOCAL = 64


@kernel(OperationCode.GENERATE_PROPOSALS, shaders=(GENERATE_PROPOSALS, *SORTING, NMS, CONVERT), checks_data=True)
def lower(call: Call, g: Lowering) -> None:
    """Lower GENERATE_PROPOSALS: sort by score, compute boxes, suppress, write the output."""
    batches, height, width, anchors = nhwc_shape(call.scores.shape, call.nchw)
    every = height * width * anchors
    keep = min(call.pre_nms_max, every) if call.pre_nms_max > 0 else every
    limit = min(call.post_nms_max, keep) if call.post_nms_max > 0 else keep
    scores, places = as_float32(g, call.scores), as_float32(g, call.anchors)
    keys, boxes = g.scratch(4 * batches * every), g.scratch(16 * batches * every)
    entries = g.scratch(8 * batches * keep)

    def dispatch(which: str, count: int, tensors: dict[str, TensorRef], **push: float) -> None:
        g.dispatch(
            GENERATE_PROPOSALS.variant(PASS=which),
            groups=g.flat(count, LOCAL),
            spec={"local_x": LOCAL, "NCHW": call.nchw},
            tensors=tensors,
            count=count,
            height=height,
            width=width,
            per_position=anchors,
            **push,
        )

    flag = order_flag(g, call.anchors)
    checked = {"scores": scores, "anchors": places, "keys": keys, "flag": flag}
    dispatch("keys", max(batches * every, anchors), checked, every=batches * every)
    if not batches * every:
        return
    placed = {
        "sorted": sort_keys(g, keys, batches, every, keep),
        "deltas": as_float32(g, call.deltas),
        "anchors": places,
        "images": as_float32(g, call.image_info),
        "boxes": boxes,
        "entries": entries,
    }
    strides = {"height_stride": call.height_stride, "width_stride": call.width_stride}
    dispatch("boxes", batches * keep, placed, keep=keep, min_size=call.min_size, **strides)
    sizes = g.constant(np.full(batches, keep, np.uint32))
    candidates = Candidates(entries, sizes, batches, keep, boxes, batches, every)
    picks, counts = suppress(g, candidates, g.constant(np.array([call.iou_threshold], np.float32)), limit)
    kept, rois = float32_result(g, call.scores_out), float32_result(g, call.rois_out)
    written = {
        "scores": scores,
        "boxes": boxes,
        "picks": picks,
        "counts": counts,
        "kept": kept,
        "rois": rois,
        "split": g.tensor(call.batch_split_out),
        "total": g.count(call.outputs),
    }
    dispatch("write", batches * limit, written, limit=limit, batches=batches)
    finish_float32(g, kept, call.scores_out)
    finish_float32(g, rois, call.rois_out)
