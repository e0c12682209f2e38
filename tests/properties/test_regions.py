"""Operations on regions of images against loops in double precision, and chance against its distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import regions
from drawn import HypothesisDraw
from generators import draw_case, run_case
from generators.build import names
from generators.draw import Case, i32, ints
from generators.draw import given as fixed
from hypothesis import given
from hypothesis import strategies as st

from nnvk.ops.signature import F32, I32
from nnvk.types.codes import OperationCode as Op
from nnvk.types.operand import OperandType

stats = pytest.importorskip("scipy.stats")


def values(case: Case) -> dict[str, object]:
    """The operands by name: arrays, and numbers."""
    arrays = {
        name: np.asarray(arg.data) for name, arg in zip(names(case), case.inputs, strict=True) if arg.data is not None
    }
    return {name: array if array.ndim else array.item() for name, array in arrays.items()}


def nhwc(array: np.ndarray, nchw: bool) -> np.ndarray:
    return np.moveaxis(array, 1, 3) if nchw else array


def _align(v: dict) -> list[np.ndarray]:
    size = v["output_height"], v["output_width"]
    strides = v["height_stride"], v["width_stride"]
    ratios = v["height_sampling_ratio"], v["width_sampling_ratio"]
    sums, counts = regions.align(nhwc(v["input"], v["nchw"]), v["rois"], v["batch_split"], size, strides, ratios)
    return [np.moveaxis(sums / counts, 3, 1) if v["nchw"] else sums / counts]


def _pool(v: dict) -> list[np.ndarray]:
    size = v["output_height"], v["output_width"]
    strides = v["height_stride"], v["width_stride"]
    result = regions.pool(nhwc(v["input"], v["nchw"]), v["rois"], v["batch_split"], size, strides)
    return [np.moveaxis(result, 3, 1) if v["nchw"] else result]


def _transform(v: dict) -> list[np.ndarray]:
    return [regions.transform(v["rois"], v["deltas"], v["batch_split"], v["image_info"])]


def _limit(v: dict) -> list[np.ndarray]:
    rows = regions.limit(
        v["scores"],
        v["rois"],
        v["batch_split"],
        threshold=v["score_threshold"],
        most=v["max_detections"],
        kernel=v["nms_kernel"],
        overlap=v["iou_threshold"],
        sigma=v["sigma"],
        least=v["nms_score_threshold"],
    )
    return _columns(rows, [(), (4,), (), ()])


def _propose(v: dict) -> list[np.ndarray]:
    rows = regions.propose(
        nhwc(v["scores"], v["nchw"]),
        nhwc(v["deltas"], v["nchw"]),
        v["anchors"],
        v["image_info"],
        strides=(v["height_stride"], v["width_stride"]),
        before=v["pre_nms_max"],
        after=v["post_nms_max"],
        overlap=v["iou_threshold"],
        least=v["min_size"],
    )
    return _columns(rows, [(), (4,), ()])


def _columns(rows: list[tuple], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array([row[place] for row in rows]).reshape(len(rows), *shape) for place, shape in enumerate(shapes)]


def _detect(v: dict) -> list[np.ndarray]:
    most = v["max_detections"] * (1 if v["regular_nms"] else v["max_classes_per_detection"])
    batches = len(v["scores"])
    scores, boxes, classes, counts = (np.zeros((batches, *shape)) for shape in ((most,), (most, 4), (most,), ()))
    for batch in range(batches):
        found = regions.detect(
            v["scores"][batch],
            v["deltas"][batch],
            v["anchors"],
            scales=(v["scale_y"], v["scale_x"], v["scale_h"], v["scale_w"]),
            regular=v["regular_nms"],
            most=v["max_detections"],
            classes=v["max_classes_per_detection"],
            per_class=v["max_detections_per_class"],
            threshold=v["score_threshold"],
            overlap=v["iou_threshold"],
        )
        counts[batch] = len(found)
        for row, (score, box, class_) in enumerate(found):
            scores[batch, row], boxes[batch, row] = score, box
            classes[batch, row] = class_ if v["background_in_labels"] else class_ - 1
    return [scores, boxes, classes, counts]


def _keypoints(v: dict) -> list[np.ndarray]:
    return list(regions.keypoints(nhwc(v["heatmap"], v["nchw"]), v["boxes"]))


ORACLES: dict[Op, Callable[[dict], list[np.ndarray]]] = {
    Op.ROI_ALIGN: _align,
    Op.ROI_POOLING: _pool,
    Op.AXIS_ALIGNED_BBOX_TRANSFORM: _transform,
    Op.BOX_WITH_NMS_LIMIT: _limit,
    Op.GENERATE_PROPOSALS: _propose,
    Op.DETECTION_POSTPROCESSING: _detect,
    Op.HEATMAP_MAX_KEYPOINT: _keypoints,
}


@pytest.mark.parametrize("code", ORACLES, ids=lambda code: code.name)
@given(data=st.data())
def test_regions(code: Op, data: st.DataObject) -> None:
    case = draw_case(HypothesisDraw(data), code, F32)
    for got, want in zip(run_case(case), ORACLES[code](values(case)), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@given(data=st.data())
def test_random_multinomial(data: st.DataObject) -> None:
    """How often each class is drawn is what the logits say; a chi-squared test rejects once in a million."""
    draw = HypothesisDraw(data)
    classes = draw.integer(2, 6)
    logits = draw.rng.normal(size=(2, classes)).astype(np.float32)
    seeds = ints(draw.integer(1, 2**31 - 1), draw.integer(0, 2**31 - 1))
    inputs = (fixed(OperandType(F32), logits), i32(3000), seeds)
    (samples,) = run_case(Case(Op.RANDOM_MULTINOMIAL, inputs, (OperandType(I32),)))
    shares = np.exp(logits.astype(float))
    for row, share in zip(samples, shares / shares.sum(axis=1, keepdims=True), strict=True):
        counts = np.bincount(row, minlength=classes)
        assert stats.chisquare(counts, share * len(row)).pvalue > 1e-6
