"""Suppression of boxes, and the operations that refine and pick boxes."""

import math

import numpy as np
import pytest
import regions
from hypothesis import given, settings
from hypothesis import strategies as st
from regions import GAUSSIAN, HARD, LINEAR

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops import registry
from nnvk.ops.boxes import best_first, hard_nms, overlaps
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Operand
from nnvk.types.operand import OperandType

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
I32 = OperandType(OperandCode.TENSOR_INT32)
ROIS = OperandType(OperandCode.TENSOR_QUANT16_ASYMM, (), 0.125, 0)


def f32(*numbers):
    return np.array(numbers, np.float32)


def i32(*numbers):
    return np.array(numbers, np.int32)


def operand(code, data, scale=0.0, zero_point=0):
    data = np.asarray(data, OperandType(code).dtype)
    return Operand(OperandType(code, data.shape, scale, zero_point), Lifetime.CONSTANT, data)


def rois16(boxes):
    return operand(OperandCode.TENSOR_QUANT16_ASYMM, np.round(np.asarray(boxes) * 8), 0.125)


def random_boxes(rng, *shape, size=100):
    """Boxes on a grid of 1/8 with corners in order."""
    corners = np.sort(rng.integers(0, size * 8, (*shape, 2, 2)), axis=-2) / 8
    return corners.reshape(*shape, 4).astype(np.float32)


# --- suppression ---------------------------------------------------------------------------------------------


def test_overlaps_are_intersection_over_union():
    boxes = random_boxes(np.random.default_rng(1), 50)
    boxes[3] = boxes[0]
    expected = [regions.iou(boxes[0].astype(float), box.astype(float)) for box in boxes]
    np.testing.assert_allclose(overlaps(boxes[0], boxes), expected, rtol=1e-5)
    assert math.isnan(overlaps(f32(1, 1, 1, 1), f32(1, 1, 1, 1)[np.newaxis])[0])


@given(seed=st.integers(0, 2**16), threshold=st.sampled_from([0.1, 0.3, 0.7]), limit=st.sampled_from([-1, 0, 1, 5]))
@settings(max_examples=40, deadline=None)
def test_hard_suppression_is_greedy(seed, threshold, limit):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 40))
    boxes, scores = random_boxes(rng, count, size=20), rng.integers(0, 9, count).astype(np.float32)
    picked = hard_nms(scores, boxes, threshold, limit)
    expected, waiting = [], sorted(range(count), key=lambda index: -scores[index])
    while waiting and len(expected) != limit:
        best = waiting.pop(0)
        expected.append(best)
        waiting = [index for index in waiting if not regions.iou(boxes[best], boxes[index]) >= threshold]
    assert picked.tolist() == expected


def test_best_first_keeps_the_order_of_equal_scores():
    scores = f32(1, 3, 2, 3, 1)
    assert best_first(scores).tolist() == [1, 3, 2, 0, 4]
    assert best_first(scores, 2).tolist() == [1, 3] and best_first(scores, 0).tolist() == []


# --- AXIS_ALIGNED_BBOX_TRANSFORM -----------------------------------------------------------------------------


def transform(ops, rois, deltas, split, images, outputs=None):
    return ops.run(OperationCode.AXIS_ALIGNED_BBOX_TRANSFORM, rois, deltas, split, images, outputs=outputs)[0]


@pytest.mark.parametrize(("count", "classes"), [(11, 3), (1, 1), (0, 2)])
def test_transform_is_its_definition(ops, count, classes):
    rng = np.random.default_rng(2)
    rois, split = random_boxes(rng, count), np.sort(rng.integers(0, 3, count)).astype(np.int32)
    deltas = rng.standard_normal((count, classes * 4)).astype(np.float32)
    images = f32(100, 90, 80, 110, 60, 70).reshape(3, 2)
    expected = regions.transform(rois, deltas, split, images)
    np.testing.assert_allclose(transform(ops, rois, deltas, split, images), expected, rtol=1e-5, atol=1e-4)


def test_transform_quantised_signed_is_unsigned(ops):
    rng = np.random.default_rng(3)
    rois, split = random_boxes(rng, 7), np.zeros(7, np.int32)
    steps = rng.integers(0, 256, (7, 8))
    images = rois16([[100, 90]])
    results = [
        transform(ops, rois16(rois), operand(code, steps - offset, 0.01, 120 - offset), split, images, [ROIS])
        for code, offset in (
            (OperandCode.TENSOR_QUANT8_ASYMM, 0),
            (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 128),
        )
    ]
    assert np.array_equal(*results)
    expected = regions.transform(rois, (steps - 120) * 0.01, split, f32(100, 90).reshape(1, 2)) * 8
    assert np.abs(results[0] - expected).max() < 0.51


def test_transform_clips_infinite_sizes(ops):
    result = transform(ops, f32(1, 1, 2, 2)[None], f32(0, 0, 200, 200)[None], i32(0), f32(10, 20)[None])
    assert result.tolist() == [[0, 0, 20, 10]]


@pytest.mark.parametrize(
    ("rois", "deltas", "split", "words"),
    [
        ((1, 1, 2, 2), (0, 0, 0, 0), 1, "batch_split[0] must be in [0, 1), got 1"),
        ((1, 1, 2, 2), (0, 0, 0, 0), -1, "batch_split[0] must be in [0, 1), got -1"),
        ((3, 1, 2, 2), (0, 0, 0, 0), 0, "rois must have x1 <= x2 and y1 <= y2 in each box"),
        ((1, 1, 2, math.nan), (0, 0, 0, 0), 0, "rois must have x1 <= x2"),
        ((1, 1, 2, 2), (0, 0, 0), 0, "deltas must have 4 columns for each class, got shape [1, 3]"),
        ((1, 1, 2), (0, 0, 0, 0), 0, "rois must have shape [1, 4], got [1, 3]"),
    ],
)
def test_transform_errors(ops, rois, deltas, split, words):
    with pytest.raises(NnapiError) as error:
        transform(ops, f32(*rois)[None], f32(*deltas)[None], i32(split), f32(10, 20)[None])
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


def test_boxes_have_a_fixed_scale(ops):
    with pytest.raises(NnapiError, match=r"image_info must have scale 0.125 and zero point 0"):
        transform(
            ops,
            rois16([[1, 1, 2, 2]]),
            operand(OperandCode.TENSOR_QUANT8_ASYMM, np.zeros((1, 4)), 0.1, 0),
            i32(0),
            operand(OperandCode.TENSOR_QUANT16_ASYMM, [[80, 80]], 0.25),
            [ROIS],
        )


# --- BOX_WITH_NMS_LIMIT --------------------------------------------------------------------------------------

OPTIONS = {"threshold": 0.3, "overlap": 0.4, "sigma": 0.5, "least": 0.2}


def limit(
    ops,
    scores,
    rois,
    split,
    *,
    threshold=0.3,
    most=-1,
    kernel=HARD,
    overlap=0.4,
    sigma=0.5,
    least=0.2,
    types=(F32, F32),
):
    return ops.run(
        OperationCode.BOX_WITH_NMS_LIMIT,
        scores,
        rois,
        split,
        threshold,
        most,
        kernel,
        overlap,
        sigma,
        least,
        outputs=[*types, I32, I32],
    )


@pytest.mark.parametrize("kernel", [HARD, LINEAR, GAUSSIAN])
@pytest.mark.parametrize("most", [-1, 4, 0])
def test_limit_is_its_definition(ops, kernel, most):
    rng = np.random.default_rng(4)
    scores = rng.permutation(31 * 3).reshape(31, 3).astype(np.float32) / 100
    rois, split = random_boxes(rng, 31, 3, size=30).reshape(31, 12), np.repeat([2, 0, 5], [7, 11, 13]).astype(np.int32)
    results = limit(ops, scores, rois, split, kernel=kernel, most=most)
    expected = regions.limit(scores, rois, split, kernel=kernel, most=most, **OPTIONS)
    assert len(results[0]) == len(expected)
    for column, wanted in zip(results, zip(*expected, strict=True), strict=False):
        np.testing.assert_allclose(column, wanted, rtol=1e-5)


@pytest.mark.parametrize("kernel", [HARD, LINEAR, GAUSSIAN])
def test_limit_quantised_signed_is_unsigned(ops, kernel):
    rng = np.random.default_rng(5)
    steps, split = rng.permutation(19 * 3).reshape(19, 3) * 4, np.zeros(19, np.int32)
    rois = random_boxes(rng, 19, 3, size=30).reshape(19, 12)
    results = []
    for code, offset in ((OperandCode.TENSOR_QUANT8_ASYMM, 0), (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 128)):
        scores = operand(code, steps - offset, 0.004, 3 - offset)
        types = (scores.type.with_dimensions(()), ROIS)
        result = limit(ops, scores, rois16(rois), split, kernel=kernel, types=types)
        results.append([result[0].astype(int) + offset, *result[1:]])
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)
    expected = regions.limit(((steps - 3) * 0.004).astype(np.float32), rois, split, kernel=kernel, most=-1, **OPTIONS)
    assert results[0][2].tolist() == [item[2] for item in expected]
    np.testing.assert_allclose(results[0][1] / 8, [item[1] for item in expected])


def test_limit_without_boxes(ops):
    empty = limit(ops, np.zeros((0, 3), np.float32), np.zeros((0, 12), np.float32), np.zeros(0, np.int32))
    assert [array.shape for array in empty] == [(0,), (0, 4), (0,), (0,)]
    low = limit(ops, np.zeros((3, 2), np.float32), np.zeros((3, 8), np.float32), i32(0, 0, 1))
    assert [array.shape for array in low] == [(0,), (0, 4), (0,), (0,)]


def test_limit_computes_once_for_inference_and_reference(ops, monkeypatch):
    calls = []
    monkeypatch.setattr("nnvk.ops.box_with_nms_limit.check_ordered", lambda *_: calls.append(1))
    limit(ops, f32(0, 1)[None], np.zeros((1, 8), np.float32), i32(0))
    assert len(calls) == 1
    limit(ops, f32(0, 1)[None], np.zeros((1, 8), np.float32), i32(0))
    assert len(calls) == 2


def test_limit_waits_for_its_data(ops):
    shapes = ops.infer(
        OperationCode.BOX_WITH_NMS_LIMIT,
        F32.with_dimensions((19, 3)),
        F32.with_dimensions((19, 12)),
        I32.with_dimensions((19,)),
        *(0.3, -1, HARD, 0.4, 1.0, 0.2),
        outputs=[F32, F32, I32, I32],
    )
    assert shapes is None


@pytest.mark.parametrize(
    ("scores", "columns", "options", "words"),
    [
        ((2, 3), 12, {"kernel": 3}, "nms_kernel must be 0 (hard), 1 (linear) or 2 (Gaussian), got 3"),
        ((2, 1), 4, {}, "scores must have at least 2 columns"),
        ((2, 3), 8, {}, "rois must have shape [2, 12], got [2, 8]"),
        ((3, 3), 12, {}, "rois must have shape [3, 12], got [2, 12]"),
        ((6,), 12, {}, "scores must have rank 2, got shape [6]"),
    ],
)
def test_limit_errors(ops, scores, columns, options, words):
    with pytest.raises(NnapiError) as error:
        limit(ops, np.ones(scores, np.float32), np.zeros((2, columns), np.float32), i32(0, 0), **options)
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


# --- GENERATE_PROPOSALS --------------------------------------------------------------------------------------

ANCHORS = f32(-4, -8, 4, 8, -12, -6, 12, 6, -3, -3, 3, 3).reshape(3, 4)

PROPOSALS = {"strides": (8.0, 4.0), "overlap": 0.4, "least": 1.0}


def propose(
    ops,
    scores,
    deltas,
    images,
    *,
    anchors=ANCHORS,
    before=-1,
    after=-1,
    overlap=0.4,
    least=1.0,
    nchw=False,
    types=(F32, F32),
):
    options = (8.0, 4.0, before, after, overlap, least, nchw)
    return ops.run(OperationCode.GENERATE_PROPOSALS, scores, deltas, anchors, images, *options, outputs=[*types, I32])


def feature_map(seed, batches=2, height=3, width=5):
    rng = np.random.default_rng(seed)
    size = (batches, height, width, 3)
    scores = rng.permutation(math.prod(size)).reshape(size).astype(np.float32) / 100
    return scores, (rng.standard_normal((*size[:3], 12)) * 0.3).astype(np.float32)


@pytest.mark.parametrize(("before", "after"), [(-1, -1), (0, 0), (20, -1), (20, 3), (-1, 1)])
@pytest.mark.parametrize("nchw", [False, True])
def test_proposals_are_their_definition(ops, before, after, nchw):
    scores, deltas = feature_map(6)
    images = f32(24, 20, 18, 16).reshape(2, 2)
    expected = regions.propose(scores, deltas, ANCHORS, images, before=before, after=after, **PROPOSALS)
    if nchw:
        scores, deltas = (np.ascontiguousarray(array.transpose(0, 3, 1, 2)) for array in (scores, deltas))
    results = propose(ops, scores, deltas, images, before=before, after=after, nchw=nchw)
    assert len(results[0]) == len(expected) > 0
    for column, wanted in zip(results, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(column, wanted, rtol=1e-5, atol=1e-4)


def test_proposals_quantised_signed_is_unsigned(ops):
    rng = np.random.default_rng(7)
    scores, deltas = rng.permutation(45).reshape(1, 3, 5, 3) * 5, rng.integers(0, 256, (1, 3, 5, 12))
    anchors = operand(OperandCode.TENSOR_QUANT16_SYMM, ANCHORS * 8, 0.125)
    results = []
    for code, offset in ((OperandCode.TENSOR_QUANT8_ASYMM, 0), (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 128)):
        given = operand(code, scores - offset, 0.005, -offset)
        moved = operand(code, deltas - offset, 0.003, 128 - offset)
        types = (given.type.with_dimensions(()), ROIS)
        result = propose(ops, given, moved, rois16([[24, 20]]), anchors=anchors, types=types)
        results.append([result[0].astype(int) + offset, *result[1:]])
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)
    images = f32(24, 20).reshape(1, 2)
    expected = regions.propose(
        (scores * 0.005).astype(np.float32), (deltas - 128) * 0.003, ANCHORS, images, before=-1, after=-1, **PROPOSALS
    )
    np.testing.assert_allclose(results[0][0] * 0.005, [item[0] for item in expected], atol=1e-6)
    assert np.abs(results[0][1] / 8 - [item[1] for item in expected]).max() < 0.07


def test_no_proposals(ops):
    scores, deltas = feature_map(8, batches=0)
    assert [array.shape for array in propose(ops, scores, deltas, np.zeros((0, 2), np.float32))] == [(0,), (0, 4), (0,)]
    scores, deltas = feature_map(8)
    results = propose(ops, scores, deltas, f32(24, 20, 18, 16).reshape(2, 2), least=1000.0)
    assert [array.shape for array in results] == [(0,), (0, 4), (0,)]


def test_proposals_errors(ops):
    scores, deltas = feature_map(9)
    images = f32(24, 20, 18, 16).reshape(2, 2)
    with pytest.raises(NnapiError, match=r"deltas must have shape \[2, 3, 5, 12\], got \[2, 3, 5, 11\]"):
        propose(ops, scores, deltas[..., :11].copy(), images)
    with pytest.raises(NnapiError, match=r"anchors must have x1 <= x2 and y1 <= y2"):
        propose(ops, scores, deltas, images, anchors=-ANCHORS)
    with pytest.raises(NnapiError, match=r"image_info must have shape \[2, 2\], got \[1, 2\]"):
        propose(ops, scores, deltas, images[:1])


# --- DETECTION_POSTPROCESSING --------------------------------------------------------------------------------

DETECTIONS = {
    "scales": (10.0, 8.0, 5.0, 4.0),
    "most": 5,
    "classes": 2,
    "per_class": 3,
    "threshold": 0.3,
    "overlap": 0.4,
}


def detect(
    ops,
    scores,
    deltas,
    anchors,
    *,
    regular=False,
    most=5,
    classes=2,
    per_class=3,
    threshold=0.3,
    overlap=0.4,
    background=False,
):
    options = (10.0, 8.0, 5.0, 4.0, regular, most, classes, per_class, threshold, overlap, background)
    return ops.run(
        OperationCode.DETECTION_POSTPROCESSING, scores, deltas, anchors, *options, outputs=[F32, F32, I32, I32]
    )


def image(seed, batches=2, anchors=17, classes=5, encoding=4):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(batches * anchors * classes).reshape(batches, anchors, classes) / 200
    centres, sizes = rng.uniform(0, 10, (anchors, 2)), rng.uniform(1, 4, (anchors, 2))
    deltas = rng.standard_normal((batches, anchors, encoding))
    return [array.astype(np.float32) for array in (scores, deltas, np.concatenate((centres, sizes), axis=1))]


@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("sizes", [{}, {"encoding": 7}, {"classes": 2}, {"anchors": 1}, {"anchors": 0}])
def test_detections_are_their_definition(ops, regular, background, sizes):
    scores, deltas, anchors = image(10, **sizes)
    found, boxes, classes, counts = detect(ops, scores, deltas, anchors, regular=regular, background=background)
    rows = 5 if regular else 10
    assert found.shape == classes.shape == (2, rows) and boxes.shape == (2, rows, 4)
    for batch in range(2):
        expected = regions.detect(scores[batch], deltas[batch], anchors, regular=regular, **DETECTIONS)
        count = counts[batch]
        assert count == len(expected)
        for row, (score, box, class_) in enumerate(expected):
            assert found[batch, row] == score and classes[batch, row] == class_ - (not background)
            np.testing.assert_allclose(boxes[batch, row], box, rtol=1e-5, atol=1e-5)
        assert not found[batch, count:].any() and not boxes[batch, count:].any() and not classes[batch, count:].any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"most": 0}, "max_detections must be more than 0, got 0"),
        ({"classes": 0}, "max_classes_per_detection must be more than 0"),
        ({"regular": True, "per_class": -1}, "max_detections_per_class must be more than 0, got -1"),
        ({"threshold": -0.5}, "score_threshold must not be negative, got -0.5"),
        ({"overlap": math.nan}, "iou_threshold must not be negative, got nan"),
    ],
)
def test_detection_options_out_of_range(ops, options, words):
    with pytest.raises(NnapiError) as error:
        detect(ops, *image(11), **options)
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


def test_detection_operands_that_do_not_fit(ops):
    scores, deltas, anchors = image(12)
    with pytest.raises(NnapiError, match="deltas must have at least 4 numbers for a box, got 3"):
        detect(ops, scores, deltas[..., :3].copy(), anchors)
    with pytest.raises(NnapiError, match=r"anchors must have shape \[17, 4\], got \[16, 4\]"):
        detect(ops, scores, deltas, anchors[1:].copy())
    with pytest.raises(NnapiError, match="scores must have at least 2 classes"):
        detect(ops, scores[..., :1].copy(), deltas, anchors)


def test_detection_infers_shapes_without_data(ops):
    call = ops.call(
        OperationCode.DETECTION_POSTPROCESSING,
        *(F32.with_dimensions(shape) for shape in ((3, 17, 5), (3, 17, 4), (17, 4))),
        *(10.0, 10.0, 5.0, 5.0, False, 7, 2, 1, 0.0, 0.5, False),
        outputs=[F32, F32, I32, I32],
    )
    assert registry.infer(call) == [(3, 14), (3, 14, 4), (3, 14), (3,)]
