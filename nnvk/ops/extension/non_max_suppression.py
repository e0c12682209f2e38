"""NON_MAX_SUPPRESSION: pick the best boxes of each class that do not overlap an earlier pick."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import areas, exp
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import (
    EXTENSIONS_SINCE,
    F32,
    I32,
    Signature,
    boolean,
    i32,
    one_of,
    optional_tensor,
    real,
    tensor,
)
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape


class Rule(IntEnum):
    """The rule by which an overlap suppresses a box. The overlap of a box without area is 0."""

    AT_LEAST = 0
    """An overlap of at least the threshold suppresses a box, as in TensorFlow Lite. A box that does not overlap itself
    that much is picked again and again, as often as there are candidates, as it is there.
    """
    ABOVE = 1
    """An overlap above the threshold suppresses a box, as in ONNX."""


def rule_of(call: Call) -> Rule:
    """The rule; BAD_DATA for a number that is none."""
    try:
        return Rule(call.rule)
    except ValueError:
        raise bad_data(f"rule must be 0 to {max(Rule)}, got {call.rule}") from None


def decay_scale(call: Call) -> np.float32:
    """The factor of an overlap's square in the exponent by which a score decays; 0 where scores stay."""
    with np.errstate(over="ignore"):  # of a tiny sigma
        return np.float32(-0.5) / np.float32(call.sigma) if call.sigma else np.float32(0)


def _shapes(call: Call) -> list[Shape]:
    batches, classes, count = call.scores.shape
    check_shape(call.boxes, (batches, count, 4))
    for threshold in (call.iou_threshold, call.score_threshold):
        if threshold is not None:
            check_shape(threshold, (1,))
    if call.max_output_size < 0:
        raise bad_data(f"max_output_size must be 0 or more, got {call.max_output_size}")
    if not call.sigma >= 0:
        raise bad_data(f"sigma must be 0 or more, got {call.sigma}")
    if call.sigma and call.score_threshold is None:
        raise bad_data(f"scores that decay (sigma {call.sigma}) need a score_threshold, which is left out")
    rule_of(call)
    rows = batches * classes * call.max_output_size
    return [(rows, 3), (rows,), (1,)]


def _edges(call: Call) -> np.ndarray:
    """The lower and the higher corner of all boxes [batches, boxes, 4]."""
    first, second = call.boxes.data[..., :2], call.boxes.data[..., 2:]
    if call.center_point_box:
        half = second * np.float32(0.5)
        return np.concatenate([first - half, first + half], axis=-1)
    return np.concatenate([np.where(second < first, second, first), np.where(first < second, second, first)], axis=-1)


def _overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of one box [4] with others [n, 4]; 0 where one has no area."""
    shared, own, others = areas(box, boxes)
    with np.errstate(invalid="ignore", divide="ignore"):
        overlap = shared / (own + others - shared)
    result: np.ndarray = np.where((own <= 0) | (others <= 0), np.float32(0), overlap)
    return result


def _picked(call: Call, boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indexes of the boxes that are picked of one class, and their scores."""
    left: np.ndarray = np.arange(len(scores))
    if call.score_threshold is not None:
        left = left[scores > call.score_threshold.data]
    rule, scale, threshold = rule_of(call), decay_scale(call), call.iou_threshold.data
    if not scale:  # then the order stays: falling scores, of equal ones the first, and last what is no number
        left = left[np.argsort(-scores[left], kind="stable")]
    scores, limit = scores.copy(), min(call.max_output_size, left.size)
    picked: list[int] = []
    kept: list[np.float32] = []
    while left.size and len(picked) < limit:
        best = left[np.argmax(scores[left])] if scale else left[0]
        picked.append(int(best))
        kept.append(scores[best])
        if rule is Rule.ABOVE:
            left = left[left != best]
        overlap = _overlaps(boxes[best], boxes[left])
        stays = ~(overlap >= threshold if rule is Rule.AT_LEAST else overlap > threshold)
        if scale:
            with np.errstate(invalid="ignore"):
                scores[left] *= exp(scale * overlap * overlap)
            stays &= scores[left] > call.score_threshold.data
        left = left[stays]
    return np.array(picked, np.int32), np.array(kept, np.float32)


def _non_max_suppression(call: Call) -> list[np.ndarray]:
    rows, kept, count = (np.zeros(output.shape, output.dtype) for output in call.outputs)
    edges, scores = _edges(call), call.scores.data
    number = 0
    for batch, class_ in np.ndindex(scores.shape[:2]):
        picked, best = _picked(call, edges[batch], scores[batch, class_])
        here = slice(number, number + len(picked))
        rows[here, 0], rows[here, 1], rows[here, 2], kept[here] = batch, class_, picked, best
        number = here.stop
    count[0] = number
    return [rows, kept, count]


define(
    ExtendedOperationCode.NON_MAX_SUPPRESSION,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(
        tensor("boxes", rank=3),
        tensor("scores", rank=3),
        i32("max_output_size"),
        tensor("iou_threshold", rank=1),
        optional_tensor("score_threshold", rank=1),
        i32("rule", int(Rule.AT_LEAST)),
        boolean("center_point_box", False),
        real("sigma", 0.0),
    ),
    outputs=(tensor("selected", one_of(I32)), tensor("scores_out"), tensor("count", one_of(I32))),
    infer=_shapes,
    reference=_non_max_suppression,
)
