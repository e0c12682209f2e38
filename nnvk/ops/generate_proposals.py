"""GENERATE_PROPOSALS: anchors at each position of a feature map, refined, and the best of them by hard suppression."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import (
    BOX_SCALE,
    BOX_TYPES,
    best_first,
    boxes_of,
    check_box_scale,
    check_ordered,
    hard_nms,
    once_per_call,
    refine,
)
from nnvk.ops.call import Call
from nnvk.ops.quant import dequantize, quantize
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_same_quantisation, check_shape
from nnvk.ops.signature import I32, Q8, Q8S, Q16_SYMM, Signature, boolean, by_type, i32, one_of, real, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.ops.window import layout_shape, nhwc_shape, to_nhwc
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _validate(call: Call) -> None:
    if call.anchors.code == Q16_SYMM and call.anchors.scale != BOX_SCALE:
        raise bad_data(f"anchors must have scale {BOX_SCALE}, got {call.anchors.type}")
    check_box_scale(call.image_info, call.rois_out)
    check_same_quantisation(call.scores, call.scores_out)


def _infer(call: Call) -> list[Shape]:
    batches, height, width, anchors = nhwc_shape(call.scores.shape, call.nchw)
    check_shape(call.deltas, layout_shape((batches, height, width, anchors * 4), call.nchw))
    check_shape(call.anchors, (anchors, 4))
    check_shape(call.image_info, (batches, 2))
    for name in ("height_stride", "width_stride"):
        if not getattr(call, name) > 0:
            raise bad_data(f"{name} must be more than 0, got {getattr(call, name):g}")
    return _shapes(len(_propose(call)[0]))


def _shapes(rows: int) -> list[Shape]:
    return [(rows,), (rows, 4), (rows,)]


def _largest(call: Call) -> list[Shape]:
    """The largest output: all anchors at all positions, within the limits."""
    limits = [limit for limit in (call.pre_nms_max, call.post_nms_max) if limit > 0]
    batches = call.scores.shape[0]
    return _shapes(batches * min((math.prod(call.scores.shape[1:]), *limits)))


def _anchors(call: Call) -> np.ndarray:
    """The anchors at each position of the feature map: [height * width * anchors, 4] in pixels of the image."""
    anchors = dequantize(call.anchors)
    check_ordered("anchors", anchors)
    _, height, width, _ = nhwc_shape(call.scores.shape, call.nchw)
    y = np.arange(height, dtype=np.float32) * np.float32(call.height_stride)
    x = np.arange(width, dtype=np.float32) * np.float32(call.width_stride)
    shifts = np.stack(np.broadcast_arrays(x, y[:, np.newaxis]), axis=-1)
    shifted: np.ndarray = anchors + np.tile(shifts, 2)[:, :, np.newaxis]
    return shifted.reshape(-1, 4)


@once_per_call
def _propose(call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The scores, boxes and batches of the proposals, in the order of batches."""
    images, anchors = dequantize(call.image_info), _anchors(call)
    scores = to_nhwc(dequantize(call.scores), call.nchw).reshape(len(images), len(anchors))
    deltas = to_nhwc(dequantize(call.deltas), call.nchw).reshape(*scores.shape, 4)
    rois = refine(anchors, deltas, images[:, np.newaxis])
    sizes = rois[..., 2:] - rois[..., :2]
    centres = rois[..., :2] + sizes / 2
    # A box must be large enough, and its centre inside of the image.
    usable = (sizes > np.float32(call.min_size)).all(axis=2) & (centres < images[:, np.newaxis, ::-1]).all(axis=2)
    before = call.pre_nms_max if call.pre_nms_max > 0 else -1
    after = call.post_nms_max if call.post_nms_max > 0 else -1
    parts = [(np.empty(0, np.float32), np.empty((0, 4), np.float32), np.empty(0, np.int32))]
    for batch in range(len(images)):
        best = best_first(scores[batch], before)
        best = best[usable[batch, best]]
        picked = best[hard_nms(scores[batch, best], rois[batch, best], call.iou_threshold, after)]
        parts.append((scores[batch, picked], rois[batch, picked], np.full(len(picked), batch, np.int32)))
    kept, boxes, split = (np.concatenate(column) for column in zip(*parts, strict=True))
    return kept, boxes, split


def _reference(call: Call) -> list[np.ndarray]:
    scores, rois, batches = _propose(call)
    return [quantize(scores, call.scores_out), quantize(rois, call.rois_out), batches]


define(
    OperationCode.GENERATE_PROPOSALS,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=BOX_TYPES,
    signatures=Signature(
        tensor("scores", rank=4),
        tensor("deltas", rank=4),
        tensor("anchors", by_type({Q8: Q16_SYMM, Q8S: Q16_SYMM}), rank=2),
        tensor("image_info", boxes_of, rank=2),
        real("height_stride"),
        real("width_stride"),
        i32("pre_nms_max"),
        i32("post_nms_max"),
        real("iou_threshold"),
        real("min_size"),
        boolean("nchw"),
    ),
    outputs=(tensor("scores_out"), tensor("rois_out", boxes_of), tensor("batch_split_out", one_of(I32))),
    infer=_infer,
    reference=_reference,
    validate=_validate,
    largest=_largest,
)
