"""DETECTION_POSTPROCESSING: anchors moved by deltas, and the best detections of each image by hard suppression."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import best_first, exp, hard_nms
from nnvk.ops.call import Call
from nnvk.ops.quant import dequantize
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import F16, F32, I32, Signature, boolean, i32, one_of, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

Detections = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Anchor, class and score of each detection, the best first."""

_MORE_THAN_0 = ("scale_y", "scale_x", "scale_h", "scale_w", "max_detections")
_NOT_NEGATIVE = ("score_threshold", "iou_threshold")


def _infer(call: Call) -> list[Shape]:
    batches, anchors, classes = call.scores.shape
    if classes < 2:
        raise bad_data(f"scores must have at least 2 classes, background and another, got {classes}")
    encoding = call.deltas.shape[2]
    if encoding < 4:
        raise bad_data(f"deltas must have at least 4 numbers for a box, got {encoding}")
    check_shape(call.deltas, (batches, anchors, encoding))
    check_shape(call.anchors, (anchors, 4))
    limit = "max_detections_per_class" if call.regular_nms else "max_classes_per_detection"
    for name in (*_MORE_THAN_0, limit):
        if not getattr(call, name) > 0:
            raise bad_data(f"{name} must be more than 0, got {getattr(call, name):g}")
    for name in _NOT_NEGATIVE:
        if not getattr(call, name) >= 0:
            raise bad_data(f"{name} must not be negative, got {getattr(call, name):g}")
    rows = call.max_detections * (1 if call.regular_nms else call.max_classes_per_detection)
    return [(batches, rows), (batches, rows, 4), (batches, rows), (batches,)]


def _boxes(call: Call) -> np.ndarray:
    """Boxes [batches, anchors, (y1, x1, y2, x2)]."""
    anchors, deltas = dequantize(call.anchors), dequantize(call.deltas)[..., :4]
    scales = np.array([call.scale_y, call.scale_x, call.scale_h, call.scale_w], np.float32)
    centres, sizes = anchors[:, :2], anchors[:, 2:]
    scaled = deltas / scales
    centres = centres + sizes * scaled[..., :2]
    with np.errstate(over="ignore"):
        halves = sizes * exp(scaled[..., 2:]) * np.float32(0.5)
    return np.concatenate((centres - halves, centres + halves), axis=2)


def _by_class(call: Call, scores: np.ndarray, boxes: np.ndarray) -> Detections:
    """Regular suppression: suppress in each class separately, then take the best detections of all classes."""
    anchors, classes = [], []
    for class_ in range(1, scores.shape[1]):
        candidates = np.flatnonzero(scores[:, class_] > call.score_threshold)
        picked = hard_nms(
            scores[candidates, class_], boxes[candidates], call.iou_threshold, call.max_detections_per_class
        )
        anchors.append(candidates[picked])
        classes.append(np.full(len(picked), class_))
    anchor, class_of = np.concatenate(anchors), np.concatenate(classes)
    best = best_first(scores[anchor, class_of], call.max_detections)
    return anchor[best], class_of[best], scores[anchor[best], class_of[best]]


def _by_anchor(call: Call, scores: np.ndarray, boxes: np.ndarray) -> Detections:
    """Fast suppression: suppress once by the anchors' best scores, then take the best classes of each anchor left."""
    highest = scores[:, 1:].max(axis=1)
    candidates = np.flatnonzero(highest > call.score_threshold)
    anchor = candidates[hard_nms(highest[candidates], boxes[candidates], call.iou_threshold, call.max_detections)]
    classes = np.argsort(-scores[anchor, 1:], axis=1, kind="stable")[:, : call.max_classes_per_detection] + 1
    anchor = np.repeat(anchor, classes.shape[1])
    class_of = classes.reshape(-1)
    return anchor, class_of, scores[anchor, class_of]


def _reference(call: Call) -> list[np.ndarray]:
    scores, boxes = dequantize(call.scores), _boxes(call)
    detect = _by_class if call.regular_nms else _by_anchor
    kept, corners, classes, counts = (np.zeros(output.shape, output.dtype) for output in call.outputs)
    for batch in range(len(scores)):
        anchor, class_of, score = detect(call, scores[batch], boxes[batch])
        count = len(anchor)
        kept[batch, :count] = score
        corners[batch, :count] = boxes[batch, anchor]
        classes[batch, :count] = class_of - (0 if call.background_in_labels else 1)
        counts[batch] = count
    return [kept, corners, classes, counts]


define(
    OperationCode.DETECTION_POSTPROCESSING,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={F32: 3, F16: 3},
    signatures=Signature(
        tensor("scores", rank=3),
        tensor("deltas", rank=3),
        tensor("anchors", rank=2),
        real("scale_y"),
        real("scale_x"),
        real("scale_h"),
        real("scale_w"),
        boolean("regular_nms"),
        i32("max_detections"),
        i32("max_classes_per_detection"),
        i32("max_detections_per_class"),
        real("score_threshold"),
        real("iou_threshold"),
        boolean("background_in_labels"),
    ),
    outputs=(
        tensor("scores_out"),
        tensor("rois_out"),
        tensor("classes_out", one_of(I32)),
        tensor("detections_out", one_of(I32)),
    ),
    infer=_infer,
    reference=_reference,
)
