"""Operations on boxes, and the rest that pick by score, hash or chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from generators.draw import Arg, Case, Draw, boolean, given, i32, ints, like, omitted, real
from generators.shape import layout
from generators.table import generator
from nnvk.ops.quant import is_quantised
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S, Q16_ASYMM, Q16_SYMM
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.operand import OperandType, Shape

_PIXELS = OperandType(Q16_ASYMM, (), 0.125, 0)


def _box_type(t: OperandCode) -> OperandType:
    return _PIXELS if is_quantised(t) else OperandType(t)


def _pixels(type_: OperandType, real_numbers: np.ndarray) -> Arg:
    """Whole eighths of a pixel, so that every type of box has the same."""
    numbers = np.round(real_numbers * 8) / 8
    return given(type_, numbers / type_.scale if is_quantised(type_.code) else numbers)


def boxes(d: Draw, t: OperandCode, *shape: int, width: float, height: float) -> Arg:
    """Boxes [x1, y1, x2, y2], in eighths of a pixel, on an image of this size; of a type beside ``t``."""
    corners = np.sort(d.rng.random((*shape, 2, 2)), axis=-2) * (width, height)
    return _pixels(_box_type(t), corners.reshape(*shape, 4))


def _split(d: Draw, count: int, batches: int) -> Arg:
    return given(OperandType(I32), np.sort(d.rng.integers(0, max(1, batches), count)))


@generator(Op.ROI_ALIGN, Op.ROI_POOLING)
def _roi(d: Draw, code: Op, t: OperandCode) -> Case:
    nchw = d.chance()
    batches, height, width, channels = (*d.sizes(1, 2), *d.sizes(3, 6))
    source = d.tensor(t, layout((batches, height, width, channels), nchw))
    count, strides = d.integer(1, 4), [d.pick((1.0, 2.0, 0.5)) for _ in range(2)]
    rois = boxes(d, t, count, width=width * strides[1], height=height * strides[0])
    numbers = [i32(d.integer(1, 3)), i32(d.integer(1, 3)), *(real(t, stride) for stride in strides)]
    if code is Op.ROI_ALIGN:
        numbers += [i32(d.integer(0, 2)), i32(d.integer(0, 2))]
    output = like(source) if code is Op.ROI_POOLING else d.quantised(t)
    return Case(code, (source, rois, _split(d, count, batches), *numbers, boolean(nchw)), (output,))


@generator(Op.AXIS_ALIGNED_BBOX_TRANSFORM)
def _bbox_transform(d: Draw, code: Op, t: OperandCode) -> Case:
    count, classes, batches = d.sizes(3, 4)
    type_ = replace(_PIXELS) if t is Q16_ASYMM else OperandType(t)
    corners = np.sort(d.rng.random((count, 2, 2)), axis=-2) * (40, 30)
    rois = _pixels(type_, corners.reshape(count, 4))
    deltas = d.pick((Q8, Q8S)) if t is Q16_ASYMM else t
    sizes = _pixels(type_, np.tile([30.0, 40.0], (batches, 1)))
    inputs = (rois, _small(d, deltas, (count, classes * 4)), _split(d, count, batches), sizes)
    return Case(code, inputs, (type_.with_dimensions(()),))


def _small(d: Draw, t: OperandCode, shape: Shape) -> Arg:
    """Numbers small enough for their exponentials to be boxes."""
    type_ = OperandType(t, shape, 0.02, {Q8: 128, Q8S: 0}.get(t, 0)) if is_quantised(t) else OperandType(t, shape)
    return d.new(type_, -1, 1)


def _scores(d: Draw, t: OperandCode, shape: Shape) -> Arg:
    """Scores from 0 to 1."""
    lowest = {Q8: 0, Q8S: -128}.get(t, 0)
    type_ = OperandType(t, shape, 1 / 256, lowest) if is_quantised(t) else OperandType(t, shape)
    return d.new(type_, 0, 1)


@generator(Op.BOX_WITH_NMS_LIMIT)
def _box_with_nms_limit(d: Draw, code: Op, t: OperandCode) -> Case:
    count, classes, batches = d.integer(1, 6), d.integer(2, 4), d.integer(1, 3)
    scores = _scores(d, t, (count, classes))
    rois = boxes(d, t, count, classes, width=20, height=20)
    rois = Arg(rois.type.with_dimensions((count, classes * 4)), np.reshape(rois.data, (count, -1)))
    options = [
        real(t, 0.25),
        i32(d.pick((-1, 1, 3, 10))),
        i32(d.integer(0, 2)),
        *(real(t, number) for number in (0.5, 0.75, 0.125)),
    ]
    outputs = (like(scores), like(rois), OperandType(I32), OperandType(I32))
    return Case(code, (scores, rois, _split(d, count, batches), *options), outputs)


@generator(Op.GENERATE_PROPOSALS)
def _generate_proposals(d: Draw, code: Op, t: OperandCode) -> Case:
    nchw = d.chance()
    batches, height, width, anchors = d.sizes(4, 3)
    scores = _scores(d, t, layout((batches, height, width, anchors), nchw))
    deltas = _small(d, t, layout((batches, height, width, anchors * 4), nchw))
    anchor_type = OperandType(Q16_SYMM, (), 0.125) if is_quantised(t) else OperandType(t)
    corners = np.sort(d.rng.random((anchors, 2, 2)), axis=-2) * 16 - 4
    inputs = (
        scores,
        deltas,
        _pixels(anchor_type, corners.reshape(anchors, 4)),
        _pixels(_box_type(t), np.tile([30.0, 40.0], (batches, 1))),
        real(t, 4.0),
        real(t, 4.0),
        i32(d.pick((0, 4))),
        i32(d.pick((0, 3))),
        real(t, 0.5),
        real(t, 1.0),
        boolean(nchw),
    )
    return Case(code, inputs, (like(scores), _box_type(t), OperandType(I32)))


@generator(Op.DETECTION_POSTPROCESSING)
def _detection_postprocessing(d: Draw, code: Op, t: OperandCode) -> Case:
    batches, anchors, classes = d.integer(1, 2), d.integer(1, 6), d.integer(2, 4)
    places = given(OperandType(t), d.rng.random((anchors, 4)) * 10 + 1)
    regular = d.chance()
    inputs = (
        _scores(d, t, (batches, anchors, classes)),
        _small(d, t, (batches, anchors, d.pick((4, 7)))),
        places,
        *(real(t, number) for number in (10.0, 10.0, 5.0, 5.0)),
        boolean(regular),
        i32(d.integer(1, 4)),
        i32(d.integer(1, 2)),
        i32(d.integer(1, 4)),
        real(t, 0.25),
        real(t, 0.5),
        boolean(d.chance()),
    )
    return Case(code, inputs, (OperandType(t), OperandType(t), OperandType(I32), OperandType(I32)))


@generator(Op.HEATMAP_MAX_KEYPOINT)
def _heatmap(d: Draw, code: Op, t: OperandCode) -> Case:
    nchw = d.chance()
    count, size, keypoints = d.integer(1, 3), d.integer(2, 6), d.integer(1, 3)
    heatmap = d.tensor(t, layout((count, size, size, keypoints), nchw))
    rois = boxes(d, t, count, width=40, height=30)
    return Case(code, (heatmap, rois, boolean(nchw)), (d.quantised(t), _box_type(t)))


# --- hashes and chance ---------------------------------------------------------------------------------------


@generator(Op.LSH_PROJECTION)
def _lsh_projection(d: Draw, code: Op, t: OperandCode) -> Case:
    functions, bits = d.sizes(2)
    source = d.any(d.pick((F32, F16, I32, Q8)), 1, 3)
    weight = d.weights(t, source.shape[0]) if d.chance() else omitted(t)
    inputs = (d.weights(t, functions, bits), source, weight, i32(d.integer(1, 3)))
    return Case(code, inputs, (OperandType(I32),))


@generator(Op.RANDOM_MULTINOMIAL)
def _random_multinomial(d: Draw, code: Op, t: OperandCode) -> Case:
    seeds = ints(d.integer(1, 99), d.integer(-99, 99), shape=d.loose(2))
    return Case(code, (d.new(OperandType(t, d.sizes(2))), i32(d.integer(1, 9)), seeds), (OperandType(I32),))
