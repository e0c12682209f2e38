"""Axis-aligned boxes: rules on operands, refinement by deltas, overlap, and non-maximum suppression.

A box is [x1, y1, x2, y2] in pixels of the image. Quantised boxes have 16 bits and a scale of 1/8 pixel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import is_quantised
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import F16, F32, Q8, Q8S, Q16_ASYMM, Accepts, by_type

BOX_TYPES = {F32: 3, F16: 3, Q8: 3, Q8S: 4}
"""The leading types of the operations that take boxes with scores or features."""
BOX_SCALE = 0.125

boxes_of: Accepts = by_type({Q8: Q16_ASYMM, Q8S: Q16_ASYMM})
"""The type of boxes, by the type of scores or features: 16 bits for quantised ones, otherwise the same."""

T = TypeVar("T")


# --- rules ---------------------------------------------------------------------------------------------------


def check_box_scale(*operands: Tensor) -> None:
    """Raise BAD_DATA unless quantised boxes or image sizes have scale 1/8 and zero point 0."""
    for operand in operands:
        if is_quantised(operand.code) and (operand.scale, operand.zero_point) != (BOX_SCALE, 0):
            raise bad_data(f"{operand.name} must have scale {BOX_SCALE} and zero point 0, got {operand.type}")


def check_rois(rois: Tensor, batch_split: Tensor) -> int:
    """The number of regions in [regions, 4] and [regions]; BAD_DATA for other shapes."""
    count = rois.shape[0]
    check_shape(rois, (count, 4))
    check_shape(batch_split, (count,))
    return count


def check_batch_indexes(batch_split: Tensor, batches: int) -> np.ndarray:
    """The batch of each box; BAD_DATA where there is no such batch."""
    indexes = batch_split.data
    outside = np.flatnonzero((indexes < 0) | (indexes >= batches))
    if outside.size:
        first = int(outside[0])
        raise bad_data(f"{batch_split.name}[{first}] must be in [0, {batches}), got {indexes[first]}")
    return indexes


def check_ordered(name: str, boxes: np.ndarray) -> None:
    """Raise BAD_DATA unless x1 <= x2 and y1 <= y2 in all boxes [..., 4]."""
    flat = boxes.reshape(-1, 4)
    wrong = np.flatnonzero(~((flat[:, 0] <= flat[:, 2]) & (flat[:, 1] <= flat[:, 3])))
    if wrong.size:
        first = int(wrong[0])
        raise bad_data(f"{name} must have x1 <= x2 and y1 <= y2 in each box, got {flat[first].tolist()} in box {first}")


# --- geometry ------------------------------------------------------------------------------------------------


def exp(x: np.ndarray) -> np.ndarray:
    """e^x of float32 numbers, to the nearest float32.

    The last bits of NumPy's own result depend on the machine. They can change overlaps, the order of scores, and
    levels.
    """
    with np.errstate(over="ignore"):
        rounded: np.ndarray = np.exp(x.astype(np.float64)).astype(np.float32)
    return rounded


def refine(boxes: np.ndarray, deltas: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Boxes [..., 4] moved and stretched by deltas [dx, dy, log dw, log dh], within images [..., (height, width)]."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2 + deltas[..., :2] * size
    with np.errstate(over="ignore"):  # infinite sizes are clipped
        half = exp(deltas[..., 2:]) * size / 2
    limit = image[..., ::-1]
    corners = [np.minimum(np.maximum(corner, 0), limit) for corner in (centre - half, centre + half)]
    return np.concatenate(corners, axis=-1)


def areas(box: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The intersections of one box [4] with others [n, 4], its area, and their areas. The axes may have any order."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    return np.maximum(sides, 0).prod(axis=1), (box[2:] - box[:2]).prod(), (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)


def overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of one box [4] with others [n, 4]; NaN where both are empty. Any order of axes."""
    intersection, own, others = areas(box, boxes)
    with np.errstate(invalid="ignore", divide="ignore"):
        overlap: np.ndarray = intersection / (own + others - intersection)
    return overlap


# --- suppression ---------------------------------------------------------------------------------------------

Suppress = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function that says which of the remaining boxes stay. Its arguments are their overlaps with the last picked box,
and their indexes.
"""


def pick(scores: np.ndarray, boxes: np.ndarray, stays: Suppress, limit: int) -> np.ndarray:
    """Indexes of boxes picked by greedy suppression, the best score first, at most ``limit`` (negative: all).

    The loop is sequential, because each pick depends on the earlier ones. ``stays`` may lower scores in place.
    """
    remaining = np.arange(len(scores))
    picked: list[int] = []
    while remaining.size and len(picked) != limit:
        place = int(np.argmax(scores[remaining]))
        best = int(remaining[place])
        picked.append(best)
        remaining = np.delete(remaining, place)
        remaining = remaining[stays(overlaps(boxes[best], boxes[remaining]), remaining)]
    return np.array(picked, np.int64)


def hard_nms(scores: np.ndarray, boxes: np.ndarray, iou_threshold: float, limit: int = -1) -> np.ndarray:
    """The result of `pick` if an overlap of at least ``iou_threshold`` suppresses a box."""
    return pick(scores, boxes, lambda overlap, _: ~(overlap >= iou_threshold), limit)


def best_first(scores: np.ndarray, limit: int = -1) -> np.ndarray:
    """Indexes of the ``limit`` (negative: all) highest scores in descending order, equal ones in their order."""
    order = np.argsort(-scores, kind="stable")
    return order[:limit] if limit >= 0 else order


# --- outputs whose size depends on the data ------------------------------------------------------------------


def once_per_call(compute: Callable[[Call], T]) -> Callable[[Call], T]:
    """Let inference, which needs the result for its size, and the reference after it share one computation.

    The result is kept for the next look at the same call by the same thread.
    """
    kept = threading.local()

    def run(call: Call) -> T:
        if getattr(kept, "call", None) is call:
            result: T = kept.result
            del kept.call, kept.result
            return result
        result = compute(call)
        kept.call, kept.result = call, result
        return result

    return run
