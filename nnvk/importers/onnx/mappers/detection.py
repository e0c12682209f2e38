"""Boxes: non-maximum suppression."""

from __future__ import annotations

import numpy as np

from nnvk.importers.emitter import F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.idioms.counted import Counted
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor, constant
from nnvk.ops.extension.non_max_suppression import Rule
from nnvk.types.extension import ExtendedOperationCode


@operator("NonMaxSuppression")
def non_max_suppression(c: Context) -> Tensor:
    """Batch, class and box of each that was picked: data decide how many there are."""
    boxes, scores = c.tensor(0), c.tensor(1)
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape != (scores.shape[0], scores.shape[2], 4):
        raise Unmapped(
            f"boxes of shape {list(boxes.shape)} and scores of shape {list(scores.shape)} do not fit together"
        )
    most = min(int(c.scalar(2, "max_output_boxes_per_class")), boxes.shape[1]) if c.has(2) else 0
    if most <= 0:
        return constant(np.zeros((0, 3), np.int64))
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
    result = c.give(rows, None, np.int64)
    result.counted = Counted(0, count)
    return result
