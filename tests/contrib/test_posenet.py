"""The decoder of Coral's PoseNet models finds people that are drawn into its maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_net import Net, T, write
from tflite_oracle import f32

import nnvk
from nnvk.importers.tflite import TfliteImportError, load

HEIGHT, WIDTH, STRIDE = 23, 31, 16
EDGES = "0-1 1-3 0-2 2-4 0-5 5-7 7-9 5-11 11-13 13-15 0-6 6-8 8-10 6-12 12-14 14-16"
PAIRS = [tuple(map(int, edge.split("-"))) for edge in EDGES.split()]
OPTIONS = {"max_detections": 5, "score_threshold": 0.4, "stride": STRIDE, "nms_radius": 20.0}
SHAPES = [(1, HEIGHT, WIDTH, 17), (1, HEIGHT, WIDTH, 34), (1, HEIGHT, WIDTH, 64)]


def person(seed: int, left: int, right: int) -> np.ndarray:
    """Places y and x of 17 keypoints between two columns, apart from each other."""
    rng = np.random.default_rng(seed)
    y = np.linspace(1, HEIGHT - 2, 17) + rng.random(17) * 0.8
    x = rng.uniform(left, right, 17)
    return np.stack([y, x], axis=1).astype(np.float32)


def maps(people: list[np.ndarray], strengths: list[float]) -> list[np.ndarray]:
    """Maps in which each element leads to the nearest person's keypoint."""
    grid = np.stack(np.mgrid[:HEIGHT, :WIDTH], axis=-1).astype(np.float32)
    heat, shorts, mids = (np.zeros(shape[1:], np.float32) for shape in SHAPES)
    for keypoint in range(17):
        distances = np.stack([((grid - one[keypoint]) ** 2).sum(-1) for one in people])
        nearest = distances.argmin(0)
        heat[..., keypoint] = np.take(strengths, nearest) - distances.min(0)
        places = np.stack([one[keypoint] for one in people])[nearest] - grid
        shorts[..., keypoint], shorts[..., 17 + keypoint] = places[..., 0] * STRIDE, places[..., 1] * STRIDE
        for edge, pair in enumerate(PAIRS):
            for first, (parent, child) in ((0, pair), (32, pair[::-1])):
                if parent == keypoint:
                    along = np.stack([one[child] for one in people])[nearest] - grid
                    mids[..., first + edge], mids[..., first + 16 + edge] = (along * STRIDE).transpose(2, 0, 1)
    return [heat[None], shorts[None], mids[None]]


def model(options: dict[str, Any], inputs: list[T]) -> bytes:
    """A model of the operator alone."""
    results = [T(), T(), T(), T()]
    net = Net(inputs, results)
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            (builder.Int if isinstance(value, int) else builder.Float)(name, value)
    net.op("PosenetDecoderOp", inputs, results, custom=bytes(builder.Finish()))
    return write(net)


PEOPLE = [person(0, 2, 12), person(1, 17, 28)]


def found(people: list[np.ndarray], strengths: list[float], **changes: Any) -> tuple[np.ndarray, ...]:
    """Places in elements, scores of keypoints and of people, and their number."""
    loaded = nnvk.load(model({**OPTIONS, **changes}, [f32(*shape) for shape in SHAPES]))
    places, keypoints, scores, count = loaded.compute(maps(people, strengths))
    assert (places.shape[2:], count.shape) == ((17, 2), (1,))
    return places[0] / STRIDE, keypoints[0], scores[0], count


def test_two_people_the_stronger_one_first() -> None:
    places, keypoints, scores, count = found(PEOPLE, [3.0, 5.0])
    assert count == [2]
    np.testing.assert_allclose(places[:2], PEOPLE[::-1], atol=1e-3)
    np.testing.assert_allclose(scores[:2], keypoints[:2].mean(axis=1), rtol=1e-6)
    assert 1 > scores[0] > scores[1] > 0.9
    assert not places[2:].any()
    assert not scores[2:].any()


def test_the_most_people_and_the_least_score() -> None:
    assert found(PEOPLE, [3.0, 5.0], max_detections=1)[0].shape == (1, 17, 2)
    np.testing.assert_allclose(found(PEOPLE, [3.0, 5.0], max_detections=1)[0][0], PEOPLE[1], atol=1e-3)
    places, _, _, count = found(PEOPLE, [-1.0, 5.0])
    assert count == [1]
    np.testing.assert_allclose(places[0], PEOPLE[1], atol=1e-3)
    assert found(PEOPLE, [-3.0, -3.0])[3] == [0]


def test_keypoints_that_two_people_share_count_for_the_better_one() -> None:
    """Those within the radius: the second person keeps the mean of the others, by the number of all."""
    second = PEOPLE[1].copy()
    ends, rest = [3, 4, 9, 10, 15, 16], [0, 1, 2, *range(5, 9), *range(11, 15)]
    second[ends] = PEOPLE[0][ends]
    places, keypoints, scores, count = found([PEOPLE[0], second], [5.0, 3.0])
    assert count == [2]
    np.testing.assert_allclose(places[1], second, atol=1e-3)
    np.testing.assert_allclose(scores[1], keypoints[1, rest].sum() / 17, rtol=1e-6)
    assert scores[0] > scores[1]


def test_maps_of_8_bits_are_read_as_real_numbers() -> None:
    """A quantised PoseNet gives levels; the model behind it is the same."""
    real = maps(PEOPLE, [3.0, 5.0])
    scales = [float(np.abs(one).max()) / 127 for one in real]
    levels = [np.round(one / scale).clip(-128, 127) for one, scale in zip(real, scales, strict=True)]
    inputs = [T("UINT8", shape, scale=scale, zero_point=128) for shape, scale in zip(SHAPES, scales, strict=True)]
    got = nnvk.load(model(OPTIONS, inputs)).compute([(one + 128).astype(np.uint8) for one in levels])
    want = nnvk.load(model(OPTIONS, [f32(*shape) for shape in SHAPES])).compute(
        [(one * np.float32(scale)).astype(np.float32) for one, scale in zip(levels, scales, strict=True)]
    )
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "shapes", "reason"),
    [
        ({"stride": 0}, SHAPES, "the option stride must be above 0, got 0"),
        ({"max_detections": 0}, SHAPES, "the option max_detections must be above 0, got 0"),
        ({"max_detections": 9999}, SHAPES, "the option max_detections must be at most 1024, got 9999"),
        ({}, [(1, 4, 5, 16), *SHAPES[1:]], "the maps must be of one image and have (17, 34, 64) channels"),
        ({}, [SHAPES[0][1:], *SHAPES[1:]], "the maps must be of one image"),
        ({}, [SHAPES[0], (2, *SHAPES[1][1:]), SHAPES[2]], "the maps must be of one image"),
    ],
)
def test_refusals(changes: dict[str, Any], shapes: list[tuple[int, ...]], reason: str) -> None:
    with pytest.raises(TfliteImportError) as raised:
        load(model({**OPTIONS, **changes}, [f32(*shape) for shape in shapes]))
    assert "operator 0 (PosenetDecoderOp)" in str(raised.value)
    assert reason in str(raised.value)


def test_an_option_that_is_missing() -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "nms_radius"}
    with pytest.raises(TfliteImportError, match="the option nms_radius is missing"):
        load(model(options, [f32(*shape) for shape in SHAPES]))
