"""BOX_WITH_NMS_LIMIT: the best boxes of each class, after hard or soft suppression of those that overlap."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import (
    BOX_TYPES,
    best_first,
    boxes_of,
    check_box_scale,
    check_ordered,
    exp,
    once_per_call,
    pick,
)
from nnvk.ops.call import Call
from nnvk.ops.quant import dequantize, quantize
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_same_quantisation, check_shape
from nnvk.ops.signature import I32, Signature, i32, one_of, real, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

Decay = Callable[[np.ndarray], np.ndarray]

_DECAYS: dict[int, Callable[[Call], Decay]] = {
    0: lambda call: lambda overlap: (overlap < call.iou_threshold).astype(np.float32),
    1: lambda call: lambda overlap: np.where(overlap < call.iou_threshold, 1, 1 - overlap),
    2: lambda call: lambda overlap: exp(-overlap * overlap / np.float32(call.sigma)),
}
"""The factor of the score of a box that overlaps a picked one, by kernel: hard, linear, Gaussian."""


def _validate(call: Call) -> None:
    check_box_scale(call.rois, call.rois_out)
    check_same_quantisation(call.scores, call.scores_out)


def _infer(call: Call) -> list[Shape]:
    count, classes = call.scores.shape
    if classes < 2:
        raise bad_data(f"scores must have at least 2 columns, background and a class, got {classes}")
    check_shape(call.rois, (count, classes * 4))
    check_shape(call.batch_split, (count,))
    if call.nms_kernel not in _DECAYS:
        raise bad_data(f"nms_kernel must be 0 (hard), 1 (linear) or 2 (Gaussian), got {call.nms_kernel}")
    return _shapes(len(_detect(call)[0]))


def _shapes(rows: int) -> list[Shape]:
    return [(rows,), (rows, 4), (rows,), (rows,)]


def _largest(call: Call) -> list[Shape]:
    """The largest output: all boxes of all classes except the background, within the limit of each image."""
    count, classes = call.scores.shape
    sizes = np.ones(count, np.int64)  # with an image for each box there are most
    if call.batch_split.is_constant:
        sizes = np.diff(_image_starts(call.batch_split.data))
    boxes = sizes * (classes - 1)
    return _shapes(int(boxes.sum() if call.max_detections < 0 else np.minimum(boxes, call.max_detections).sum()))


def _image_starts(images: np.ndarray) -> list[int]:
    """The position of each image's first box, and the end of the last image's."""
    return [0, *(np.flatnonzero(np.diff(images)) + 1).tolist(), len(images)]


def _suppress(call: Call, scores: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pick boxes of one class of one image. Returns their indexes and their scores."""
    candidates = np.flatnonzero(scores > np.float32(call.score_threshold))
    scores = scores[candidates]
    decay, least = _DECAYS[call.nms_kernel](call), np.float32(call.nms_score_threshold)

    def stays(overlap: np.ndarray, remaining: np.ndarray) -> np.ndarray:
        scores[remaining] *= decay(overlap)
        kept: np.ndarray = ~(scores[remaining] < least)
        return kept

    picked = pick(scores, boxes[candidates], stays, call.max_detections)
    return candidates[picked], scores[picked]


@once_per_call
def _detect(call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The row, class and score of each detection, by image, then by class, then by descending score."""
    scores, rois = dequantize(call.scores), dequantize(call.rois).reshape(*call.scores.shape, 4)
    check_ordered("rois", rois)
    parts = []
    for start, stop in itertools.pairwise(_image_starts(call.batch_split.data)):
        found = []
        for class_ in range(1, scores.shape[1]):  # class 0 is the background
            rows, kept = _suppress(call, scores[start:stop, class_], rois[start:stop, class_])
            found.append((rows + start, np.full(len(rows), class_), kept))
        rows, classes, kept = (np.concatenate(column) for column in zip(*found, strict=True))
        best = best_first(kept, call.max_detections)
        order = best[np.argsort(classes[best], kind="stable")]
        parts.append((rows[order], classes[order], kept[order]))
    rows, classes, kept = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, classes, kept


def _reference(call: Call) -> list[np.ndarray]:
    rows, classes, scores = _detect(call)
    boxes = call.rois.data.reshape(*call.scores.shape, 4)[rows, classes]
    batches = call.batch_split.data[rows]
    return [quantize(scores, call.scores_out), boxes, classes.astype(np.int32), batches]


define(
    OperationCode.BOX_WITH_NMS_LIMIT,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=BOX_TYPES,
    signatures=Signature(
        tensor("scores", rank=2),
        tensor("rois", boxes_of, rank=2),
        tensor("batch_split", one_of(I32), rank=1),
        real("score_threshold"),
        i32("max_detections"),
        i32("nms_kernel"),
        real("iou_threshold"),
        real("sigma"),
        real("nms_score_threshold"),
    ),
    outputs=(
        tensor("scores_out"),
        tensor("rois_out", boxes_of),
        tensor("classes_out", one_of(I32)),
        tensor("batch_split_out", one_of(I32)),
    ),
    infer=_infer,
    reference=_reference,
    validate=_validate,
    largest=_largest,
)
