"""NON_MAX_SUPPRESSION against plain loops; tests of the importers have it against LiteRT and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops.extension.non_max_suppression import Rule
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import OperandType

NON_MAX_SUPPRESSION = ExtendedOperationCode.NON_MAX_SUPPRESSION
F32, I32 = OperandType(OperandCode.TENSOR_FLOAT32), OperandType(OperandCode.TENSOR_INT32)
OUTPUTS = [I32, F32, I32]


def numbers(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Return the intersection over union of two boxes whose corners are in order."""
    shared = 1.0
    for axis in range(2):
        shared *= max(0.0, min(one[axis + 2], other[axis + 2]) - max(one[axis], other[axis]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared) if min(areas) > 0 else 0.0


def plain(boxes: np.ndarray, scores: np.ndarray, most: int, threshold: float, least: float) -> list[int]:
    """Boxes that are picked of one class."""
    picked: list[int] = []
    for box in sorted(range(len(scores)), key=lambda number: -scores[number]):
        if scores[box] > least and all(overlap(boxes[box], boxes[other]) < threshold for other in picked):
            picked.append(box)
    return picked[:most]


@pytest.mark.parametrize("threshold", [0.2, 0.5])
@pytest.mark.parametrize("most", [0, 3, 40])
def test_each_class_of_each_batch(ops: Any, most: int, threshold: float) -> None:
    rng = np.random.default_rng(3)
    low = rng.random((2, 31, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.1, 0.6, low.shape)], axis=-1).astype(np.float32)
    scores = rng.random((2, 3, 31)).astype(np.float32)
    rows, kept, (count,) = ops.run(
        NON_MAX_SUPPRESSION, boxes, scores, most, numbers(threshold), numbers(0.25), outputs=OUTPUTS
    )
    expected = [
        (batch, class_, box)
        for batch, class_ in np.ndindex(2, 3)
        for box in plain(boxes[batch], scores[batch, class_], most, threshold, 0.25)
    ]
    assert rows.shape == (6 * most, 3)
    assert count == len(expected)
    assert [tuple(row) for row in rows[:count].tolist()] == expected
    assert kept[:count].tolist() == [scores[batch, class_, box] for batch, class_, box in expected]
    assert not rows[count:].any()
    assert not kept[count:].any()


def picks(ops: Any, boxes: object, scores: object, *parameters: Any) -> tuple[list[int], list[float]]:
    given = np.array([boxes], np.float32), np.array([[scores]], np.float32)
    rows, kept, (count,) = ops.run(NON_MAX_SUPPRESSION, *given, *parameters, outputs=OUTPUTS)
    return rows[:count, 2].tolist(), kept[:count].tolist()


HALVES = [[0, 0, 4, 4], [0, 0, 4, 2], [9, 9, 8, 8]]


def test_rules(ops: Any) -> None:
    """The second one overlaps the first by a half."""
    for rule, expected in ((Rule.AT_LEAST, [0, 2]), (Rule.ABOVE, [0, 1, 2])):
        assert picks(ops, HALVES, [3, 2, 1], 5, numbers(0.5), None, int(rule))[0] == expected


def test_boxes_by_their_centres(ops: Any) -> None:
    boxes = [[2, 2, 4, 4], [2, 1, 4, 2], [8.5, 8.5, 1, 1]]
    assert picks(ops, boxes, [3, 2, 1], 5, numbers(0.5), None, int(Rule.AT_LEAST), True)[0] == [0, 2]


def test_scores_decay(ops: Any) -> None:
    """The overlap is a half, so that 1 / e of the second one's score remains."""
    for least, expected in ((0.5, [0, 2, 1]), (0.75, [0, 2])):
        found, scores = picks(ops, HALVES, [3, 2, 1], 5, numbers(1), numbers(least), int(Rule.ABOVE), False, 0.125)
        assert found == expected
        np.testing.assert_allclose(scores, [3, 1, 2 / np.e][: len(expected)], rtol=1e-6)


def test_without_a_least_score_what_is_no_number_comes_last(ops: Any) -> None:
    boxes = [[k, k, k + 1, k + 1] for k in range(5)]
    assert picks(ops, boxes, [np.nan, -np.inf, 2, -3, 2], 9, numbers(0.5))[0] == [2, 4, 3, 1, 0]
    assert picks(ops, boxes, [np.nan, -np.inf, 2, -3, 2], 9, numbers(0.5), numbers(-np.inf))[0] == [2, 4, 3]


def test_the_largest_shapes_are_known_before_the_boxes(ops: Any) -> None:
    boxes, scores = F32.with_dimensions((2, 7, 4)), F32.with_dimensions((2, 3, 7))
    shapes = ops.infer(NON_MAX_SUPPRESSION, boxes, scores, 5, F32.with_dimensions((1,)), outputs=OUTPUTS)
    assert shapes == [(30, 3), (30,), (1,)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((-1, numbers(0.5)), "max_output_size must be 0 or more, got -1"),
        ((1, numbers(0.5, 1)), r"iou_threshold must have shape \[1\], got \[2\]"),
        ((1, numbers(0.5), numbers(0.5, 1)), r"score_threshold must have shape \[1\], got \[2\]"),
        ((1, numbers(0.5), None, 2), "rule must be 0 to 1, got 2"),
        ((1, numbers(0.5), numbers(0), 0, False, -0.5), "sigma must be 0 or more, got -0.5"),
        ((1, numbers(0.5), None, 0, False, 0.5), r"scores that decay \(sigma 0.5\) need a score_threshold"),
    ],
)
def test_errors(ops: Any, parameters: tuple[Any, ...], message: str) -> None:
    boxes, scores = np.zeros((1, 3, 4), np.float32), np.zeros((1, 2, 3), np.float32)
    with pytest.raises(NnapiError, match=f"NON_MAX_SUPPRESSION: {message}") as error:
        ops.infer(NON_MAX_SUPPRESSION, boxes, scores, *parameters, outputs=OUTPUTS)
    assert error.value.code is ResultCode.BAD_DATA
    with pytest.raises(NnapiError, match=r"boxes must have shape \[1, 3, 4\], got \[1, 2, 4\]"):
        ops.infer(NON_MAX_SUPPRESSION, boxes[:, :2], scores, 1, numbers(0), outputs=OUTPUTS)
