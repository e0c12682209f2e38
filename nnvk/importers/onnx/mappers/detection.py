"""Boxes: non-maximum suppression."""

from __future__ import annotations

import numpy as np

from nnvk.importers.emitter import BOOL8, F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph import Value
from nnvk.importers.idioms.boxes import Boxes, from_centres, from_corners, picked
from nnvk.importers.idioms.counted import Counted, true_first
from nnvk.importers.idioms.elementwise import joint, with_number
from nnvk.importers.idioms.moving import gathered, packed
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor, constant
from nnvk.types.codes import OperationCode

Op = OperationCode


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
    overlap = c.reshape(c.number(3), (1,)) if c.has(3) else c.constant(0.0, F32)
    least = c.reshape(c.number(4), (1,)) if c.has(4) else None
    picks = picked(c, _edges(c), c.number(1), most, overlap, least, suppresses=Op.GREATER)
    places, total = true_first(
        c,
        c.reshape(joint(c, Op.GREATER_EQUAL, picks, c.constant(0, I32), out=BOOL8), (picks.size,)),
    )
    numbers = np.indices(picks.shape).reshape(3, -1)
    flat = with_number(c, Op.MAXIMUM, c.reshape(picks, (picks.size,)), 0)
    columns = [c.constant(numbers[0], I32), c.constant(numbers[1], I32), flat]
    rows = packed(c, [gathered(c, column, 0, places) for column in columns], 1)
    result = c.give(rows, None, np.int64)
    result.counted = Counted(0, total)
    return result


def _edges(c: Context) -> Boxes:
    """The boxes, by two corners [y, x, y, x], or by centre and size [x, y, width, height]."""
    boxes = c.real_number(0)
    batches, count, _ = boxes.shape
    parts = c.emit_many(Op.SPLIT, boxes, 2, 4, outs=[boxes.type] * 4)
    sides: list[Value] = [c.reshape(part, (batches, 1, count)) for part in parts]
    if c.node.integer("center_point_box", 0):
        return from_centres(c, (sides[1], sides[0]), (sides[3], sides[2]))
    return from_corners(c, (sides[0], sides[1]), (sides[2], sides[3]))
