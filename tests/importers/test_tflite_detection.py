"""TFLite_Detection_PostProcess against TFLite's own."""

from __future__ import annotations

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_net import Net, T, write
from tflite_oracle import check, compare, f32, q8

from nnvk.importers.tflite import TfliteImportError, load

OPTIONS = {
    "max_detections": 5,
    "max_classes_per_detection": 1,
    "detections_per_class": 3,
    "use_regular_nms": False,
    "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.5,
    "num_classes": 3,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}
ANCHORS = T(
    "FLOAT32", data=np.stack([*np.mgrid[0.2:1:4j, 0.2:1:4j].reshape(2, -1), np.full(16, 0.3), np.full(16, 0.25)], 1)
)


def post_process(options: dict, inputs: list[T], feed: list[np.ndarray], anchors: T = ANCHORS) -> None:
    custom = bytes(flexbuffers.Dumps(options))
    check("TFLite_Detection_PostProcess", [*inputs, anchors], [T() for _ in range(4)], custom=custom, feed=feed)


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("background", [0, 1])
def test_detections(regular: bool, background: int) -> None:
    rng = np.random.default_rng(4)
    scores = rng.random((1, 16, 3 + background)).astype(np.float32)
    feed = [rng.normal(size=(1, 16, 4)).astype(np.float32), scores]
    post_process({**OPTIONS, "use_regular_nms": regular}, [f32(1, 16, 4), f32(*scores.shape)], feed)


def test_detections_of_quantised_boxes() -> None:
    rng = np.random.default_rng(5)
    inputs = [q8(1, 16, 4, type="UINT8", zero_point=128), q8(1, 16, 4, type="UINT8", scale=1 / 256, zero_point=0)]
    feed = [rng.integers(0, 256, (1, 16, 4), dtype=np.uint8) for _ in range(2)]
    anchors = T("UINT8", data=np.round(ANCHORS.data * 100), scale=0.01)
    post_process(OPTIONS, inputs, feed, anchors)


@pytest.mark.parametrize("threshold", [-1e-8, -1e8, -np.inf])
@pytest.mark.parametrize("regular", [False, True])
def test_a_threshold_below_0(regular: bool, threshold: float) -> None:
    """Scores of 0 count too, where it is known that there are none below."""
    rng = np.random.default_rng(6)
    deltas = rng.normal(size=(1, 16, 4)).astype(np.float32)
    logits = np.full((1, 16, 3), -200, np.float32)
    logits[0, :4] = rng.normal(size=(4, 3))
    options = {**OPTIONS, "nms_score_threshold": float(threshold), "use_regular_nms": regular, "max_detections": 4}
    boxes, source, scores, outputs = f32(1, 16, 4), f32(1, 16, 3), f32(1, 16, 3), [T() for _ in range(4)]
    net = Net([boxes, source], outputs)
    net.op("LOGISTIC", [source], scores)
    net.op("TFLite_Detection_PostProcess", [boxes, scores, ANCHORS], outputs, custom=bytes(flexbuffers.Dumps(options)))
    compare(write(net), [deltas, logits])
    steps = rng.permutation(48).reshape(1, 16, 3).astype(np.uint8)
    quantised = [f32(1, 16, 4), q8(1, 16, 3, type="UINT8", scale=1 / 256, zero_point=0)]
    post_process({**options, "max_detections": 3}, quantised, [deltas, steps])


SOFT = {"Beta": 1.0}
JOINED = ("CONCATENATION", "ConcatenationOptions", {"Axis": 2})
CHAINS: dict[str, tuple[list[tuple[str, str | None, dict[str, int | float]]], bool]] = {
    "LOGISTIC": ([("LOGISTIC", None, {})], True),
    "SOFTMAX": ([("SOFTMAX", "SoftmaxOptions", SOFT)], True),
    "a reshape": ([("LOGISTIC", None, {}), ("RESHAPE", None, {})], True),
    "two joined": ([("LOGISTIC", None, {}), ("SOFTMAX", "SoftmaxOptions", SOFT), JOINED], True),
    "others": ([("TANH", None, {})], False),
    "none": ([], False),
    "behind another": ([("LOGISTIC", None, {}), ("NEG", None, {})], False),
    "one joined with others": ([("LOGISTIC", None, {}), ("TANH", None, {}), JOINED], False),
    "others joined with one": ([("TANH", None, {}), ("LOGISTIC", None, {}), JOINED], False),
}


@pytest.mark.parametrize("what", CHAINS)
def test_where_scores_below_0_come_from(what: str) -> None:
    """Those of a few operators are none, however they were moved since."""
    chain, is_known = CHAINS[what]
    boxes, source, outputs = f32(1, 16, 4), f32(1, 16, 3), [T() for _ in range(4)]
    net, made, last = Net([boxes, source], outputs), [], source
    for name, table, options in chain:
        if name == "CONCATENATION":
            last = net.op(name, made, T(), table, **options)
        elif name == "RESHAPE":
            last = net.op(name, [last, T("INT32", data=[1, 16, 3])], T())
        elif name == "NEG":
            last = net.op(name, [last], T())
        else:
            last = net.op(name, [source], T(), table, **options)
        made.append(last)
    classes = 6 if chain and chain[-1] is JOINED else 3
    options = {**OPTIONS, "nms_score_threshold": -1.0, "num_classes": classes}
    net.op("TFLite_Detection_PostProcess", [boxes, last, ANCHORS], outputs, custom=bytes(flexbuffers.Dumps(options)))
    if is_known:
        assert len(load(write(net)).outputs) == 4
        return
    with pytest.raises(TfliteImportError, match="scores \\(input 1\\) that come from other operators than LOGISTIC"):
        load(write(net))


@pytest.mark.parametrize(
    ("kind", "zero_point", "is_from_0"),
    [("UINT8", 0, True), ("UINT8", 1, False), ("INT8", -128, True), ("INT8", 0, False)],
)
def test_levels_of_scores_from_0(kind: str, zero_point: int, is_from_0: bool) -> None:
    options = {**OPTIONS, "nms_score_threshold": -1.0}
    inputs = [f32(1, 16, 4), q8(1, 16, 3, type=kind, scale=1 / 256, zero_point=zero_point), ANCHORS]
    net = Net(inputs[:2], [T() for _ in range(4)])
    net.op("TFLite_Detection_PostProcess", inputs, net.outputs, custom=bytes(flexbuffers.Dumps(options)))
    if is_from_0:
        assert load(write(net)).outputs
    else:
        with pytest.raises(TfliteImportError, match="NNAPI has no score threshold below 0"):
            load(write(net))


@pytest.mark.parametrize("shape", [(16, 3), (1, 1, 16, 3)])
def test_scores_of_another_rank(shape: tuple[int, ...]) -> None:
    with pytest.raises(TfliteImportError) as caught:
        post_process(OPTIONS, [f32(1, 16, 4), f32(*shape)], [])
    assert f"the scores (input 1) must have rank 3, got shape {list(shape)}" in str(caught.value)


def test_a_threshold_below_0_and_scores_that_may_be_too() -> None:
    with pytest.raises(TfliteImportError, match="NNAPI has no score threshold below 0, and scores"):
        post_process({**OPTIONS, "nms_score_threshold": -1.0}, [f32(1, 16, 4), f32(1, 16, 4)], [])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"num_classes": 9}, "4 scores do not fit num_classes 9"),
        ({"num_classes": "many"}, "num_classes must be a number"),
        ({"y_scale": None}, "the option y_scale"),
    ],
)
def test_bad_options_are_named(change: dict, message: str) -> None:
    options = {key: value for key, value in {**OPTIONS, **change}.items() if value is not None}
    with pytest.raises(TfliteImportError, match=message):
        post_process(options, [f32(1, 16, 4), f32(1, 16, 4)], [])


@pytest.mark.parametrize("custom", [b"", b"\x00" * 3, b"\xff" * 40, bytes(range(64))])
def test_damaged_options_are_refused(custom: bytes) -> None:
    with pytest.raises(TfliteImportError):
        check(
            "TFLite_Detection_PostProcess",
            [f32(1, 16, 4), f32(1, 16, 4), ANCHORS],
            [T() for _ in range(4)],
            custom=custom,
        )
