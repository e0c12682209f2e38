"""Boxes: non-maximum suppression, and regions of feature maps."""

from __future__ import annotations

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.int64 import bounded
from nnvk.importers.dynamic_extents import DynamicExtent
from nnvk.importers.emitter import F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor, constant
from nnvk.ops.extension.non_max_suppression import Rule
from nnvk.types.extension import ExtendedOperationCode


@operator("NonMaxSuppression")
def non_max_suppression(c: Context) -> Tensor:
    """Map NonMaxSuppression: batch, class and box of each pick. Data decide the number of picks."""
    boxes, scores = c.tensor(0), c.tensor(1)
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape != (scores.shape[0], scores.shape[2], 4):
        shapes = f"boxes of shape {list(boxes.shape)} and scores of shape {list(scores.shape)}"
        raise Unmapped(f"{shapes} do not fit together")
    most = min(int(c.scalar(2, "max_output_boxes_per_class")), boxes.shape[1]) if c.has(2) else 0
    if most <= 0:
        return constant(charged.zeros((0, 3), np.int64))
    rows, _, count = c.emit_many(
        ExtendedOperationCode.NON_MAX_SUPPRESSION,
        c.real_number(0),
        c.real_number(1),
        most,
        c.reshape(c.number(3), (1,)) if c.has(3) else c.constant(0.0, F32),
        c.reshape(c.number(4), (1,)) if c.has(4) else None,
        int(Rule.ABOVE),
        bool(c.node.integer("center_point_box", 0)),
        outs=[I32, F32, I32],
    )
    result = c.give(bounded(rows, (0, max(scores.shape))), None, np.int64)
    result.extent = DynamicExtent(0, bounded(count, (0, rows.shape[0])))
    return result


_MOVED_SINCE = 16
"""The version from which on corners are moved by half a pixel, unless an attribute says otherwise."""


@operator("RoiAlign")
def roi_align(c: Context) -> Tensor:
    """Map RoiAlign: the mean or the largest element of each bin."""
    mode = c.node.text("mode", "avg")
    if mode not in ("avg", "max"):
        raise Unmapped(f"attribute 'mode' must be avg or max, got '{mode}'")
    place = "half_pixel" if c.node.version >= _MOVED_SINCE else "output_half_pixel"
    place = c.node.text("coordinate_transformation_mode", place)
    if place not in ("half_pixel", "output_half_pixel"):
        raise Unmapped(
            f"attribute 'coordinate_transformation_mode' must be half_pixel or output_half_pixel, got '{place}'"
        )
    result = c.emit(
        ExtendedOperationCode.ROI_ALIGN_V2,
        c.real_number(0),
        c.real_number(1),
        c.number(2),
        *(c.node.integer(name, 1) for name in ("output_height", "output_width")),
        c.node.real("spatial_scale", 1.0),
        c.node.integer("sampling_ratio", 0),
        place == "half_pixel",
        mode == "max",
        out=F32,
    )
    return c.give(result)
