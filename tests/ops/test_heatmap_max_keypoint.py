"""HEATMAP_MAX_KEYPOINT."""

import math

import numpy as np
import pytest
import regions as naive

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Operand
from nnvk.types.operand import OperandType

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
F16 = OperandType(OperandCode.TENSOR_FLOAT16)
POINTS = OperandType(OperandCode.TENSOR_QUANT16_ASYMM, (), 0.125, 0)


def heatmaps(boxes=5, size=7, keypoints=3, seed=1):
    return np.random.default_rng(seed).standard_normal((boxes, size, size, keypoints)).astype(np.float32)


def regions(count=5, seed=2):
    corners = np.sort(np.random.default_rng(seed).integers(0, 800, (count, 2, 2)), axis=1) / 8
    return corners.reshape(count, 4).astype(np.float32)


def run(ops, maps, boxes, *, nchw=False, outputs=(F32, F32)):
    return ops.run(OperationCode.HEATMAP_MAX_KEYPOINT, maps, boxes, nchw, outputs=outputs)


@pytest.mark.parametrize(("size", "keypoints"), [(7, 3), (2, 1), (3, 11)])
def test_is_its_definition(ops, size, keypoints):
    maps, boxes = heatmaps(size=size, keypoints=keypoints), regions()
    scores, places = run(ops, maps, boxes)
    expected_scores, expected_places = naive.keypoints(maps, boxes)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(places, expected_places, rtol=1e-4, atol=1e-3)


def test_finds_the_peak_of_a_paraboloid(ops):
    y, x = np.mgrid[:9, :9]
    maps = (4 - 0.3 * (x - 5.25) ** 2 - 0.2 * (y - 2.6) ** 2 + 0.1 * (x - 5.25) * (y - 2.6))[None, :, :, None]
    scores, places = run(ops, maps.astype(np.float32), np.array([[0, 0, 9, 18]], np.float32))
    np.testing.assert_allclose(scores, [[4]], rtol=1e-5)
    np.testing.assert_allclose(places, [[[5.75, 6.2]]], rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, -3.0])
def test_flat_maps_have_their_peak_in_the_first_element(ops, value):
    maps = np.full((1, 4, 4, 1), value, np.float32)
    scores, places = run(ops, maps, np.array([[0, 0, 8, 8]], np.float32))
    assert scores.tolist() == [[value]] and places.tolist() == [[[1.0, 1.0]]]


def test_peaks_move_at_most_one_and_a_half_elements(ops):
    maps = np.zeros((1, 5, 5, 1), np.float32)
    # Nearly a ridge: the expansion's peak is far away.
    maps[0, 1:4, 1:4, 0] = [[0.80, 0.98, 0.60], [0.75, 1.00, 0.99], [0.5, 0.985, 0.97]]
    _, places = run(ops, maps, np.array([[0, 0, 5, 5]], np.float32))
    expected = naive.keypoints(maps, np.array([[0, 0, 5, 5]], np.float32))[1]
    np.testing.assert_allclose(places, expected, rtol=1e-3)
    assert np.abs(places - 2.5).max() <= 1.5001


def test_nchw_is_transposed(ops):
    maps, boxes = heatmaps(), regions()
    nchw = run(ops, np.ascontiguousarray(maps.transpose(0, 3, 1, 2)), boxes, nchw=True)
    for one, other in zip(nchw, run(ops, maps, boxes), strict=True):
        assert np.array_equal(one, other)


def test_quantised_signed_is_unsigned(ops):
    steps, boxes = np.random.default_rng(3).integers(0, 256, (5, 7, 7, 3)), regions()
    rois = Operand(POINTS.with_dimensions((5, 4)), Lifetime.CONSTANT, np.round(boxes * 8).astype(np.uint16))
    results = []
    for code, offset in ((OperandCode.TENSOR_QUANT8_ASYMM, 0), (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 128)):
        dtype = OperandType(code).dtype
        maps = Operand(
            OperandType(code, steps.shape, 0.01, 128 - offset), Lifetime.CONSTANT, (steps - offset).astype(dtype)
        )
        scores, places = run(ops, maps, rois, outputs=(OperandType(code, (), 0.02, 50 - offset), POINTS))
        results.append((scores.astype(int) + offset, places))
    assert np.array_equal(results[0][0], results[1][0]) and np.array_equal(results[0][1], results[1][1])
    scores, places = naive.keypoints((steps - 128) * np.float32(0.01), boxes)
    assert np.abs(results[0][0] - (scores / 0.02 + 50)).max() < 0.51
    assert np.abs(results[0][1] - places * 8).max() < 0.51


def test_float16_rounds_once(ops):
    maps, boxes = heatmaps().astype(np.float16), regions().astype(np.float16)
    results = run(ops, maps, boxes, outputs=(F16, F16))
    expected = run(ops, maps.astype(np.float32), boxes.astype(np.float32))
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(result, wanted.astype(np.float16))


def test_nothing_to_do(ops):
    scores, places = run(ops, heatmaps(boxes=0), regions(0))
    assert scores.shape == (0, 3) and places.shape == (0, 3, 2)


@pytest.mark.parametrize(
    ("shape", "box", "words"),
    [
        ((1, 4, 5, 1), (0, 0, 1, 1), "heatmap must be square and at least 2 x 2, got shape [1, 4, 5, 1]"),
        ((1, 1, 1, 1), (0, 0, 1, 1), "at least 2 x 2"),
        ((1, 4, 4), (0, 0, 1, 1), "heatmap must have rank 4"),
        ((2, 4, 4, 1), (0, 0, 1, 1), "boxes must have shape [2, 4], got [1, 4]"),
        ((1, 4, 4, 1), (2, 0, 1, 1), "boxes must have x1 <= x2 and y1 <= y2 in each box"),
        ((1, 4, 4, 1), (0, 0, 1, math.nan), "boxes must have x1 <= x2"),
    ],
)
def test_operands_that_do_not_fit(ops, shape, box, words):
    with pytest.raises(NnapiError) as error:
        run(ops, np.zeros(shape, np.float32), np.array([box], np.float32))
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason
