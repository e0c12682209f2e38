"""MediaPipe's custom operators, against what their kernels define, and the pools against LiteRT's default delegate."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_net import Net, T, write
from tflite_oracle import compare, delegated, f32

import nnvk
from nnvk.importers.tflite import TfliteImportError, load

SAME, VALID = 1, 2
DEVICES = ("nnapi-reference", "vulkan-0")


def options(**entries: Any) -> bytes:
    """A map with vectors of integers as MediaPipe's files have them."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in entries.items():
            if isinstance(value, list):
                builder.TypedVectorFromElements(name, value)
            elif isinstance(value, int):
                builder.Int(name, value)
            else:
                builder.Float(name, value)
    return bytes(builder.Finish())


def pool(padding: int, strides: tuple[int, int], window: tuple[int, int], activation: int = 0) -> bytes:
    """TfLitePoolParams, from pairs of height and width."""
    return struct.pack("<10i", padding, *strides[::-1], *window[::-1], activation, 0, 0, 0, 0)


def outputs(
    name: str,
    custom: bytes,
    inputs: list[np.ndarray],
    version: int = 2,
    count: int = 1,
    devices: Sequence[str] = DEVICES,
) -> list[np.ndarray]:
    """The outputs of an operator on the devices, which agree."""
    sources = [f32(*array.shape) for array in inputs]
    results = [T() for _ in range(count)]
    net = Net(sources, results)
    net.op(name, sources, results, custom=custom, version=version)
    found = [nnvk.load(write(net), device=device).compute(inputs) for device in devices]
    for one, other in zip(found[0], found[-1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    return found[0]


# --- pools ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [(2, 2), (3, 2), (1, 4), (5, 3)])
def test_pools_and_back_as_the_default_delegate(window: tuple[int, int]) -> None:
    """It has both operators, one behind the other, with strides as large as windows."""
    height, width = window[0] * 2, window[1] * 3
    source, values, places, back = f32(1, height, width, 3), f32(1, 2, 3, 3), f32(1, 2, 3, 3), f32(1, height, width, 3)
    net = Net([source], [back])
    net.op("MaxPoolingWithArgmax2D", [source], [values, places], custom=pool(VALID, window, window))
    net.op("MaxUnpooling2D", [values, places], [back], custom=pool(VALID, window, window))
    compare(write(net), [np.random.default_rng(0).standard_normal((1, height, width, 3)).astype(np.float32)])


def pooled(x: np.ndarray, padding: int, strides: tuple[int, int], window: tuple[int, int]) -> list[np.ndarray]:
    """The maximum of each window and its place, the first of equal ones."""
    sizes = x.shape[1:3]
    if padding == SAME:
        out = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    else:
        out = [(size - tap) // stride + 1 for size, stride, tap in zip(sizes, strides, window, strict=True)]
    whole = [(count - 1) * stride + tap for count, stride, tap in zip(out, strides, window, strict=True)]
    before = [max(0, one - size) // 2 for one, size in zip(whole, sizes, strict=True)]
    values, places = (np.zeros((x.shape[0], *out, x.shape[3]), np.float32) for _ in range(2))
    for n, y, z, channel in np.ndindex(values.shape):
        seen = {}
        for tap in range(math.prod(window)):
            at = y * strides[0] - before[0] + tap // window[1], z * strides[1] - before[1] + tap % window[1]
            if 0 <= at[0] < sizes[0] and 0 <= at[1] < sizes[1]:
                seen[tap] = x[n, at[0], at[1], channel]
        place = max(seen, key=lambda tap: (seen[tap], -tap))
        values[n, y, z, channel], places[n, y, z, channel] = seen[place], place + np.float32(0.1)
    return [values, places]


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("strides", "window"), [((2, 2), (2, 2)), ((1, 2), (3, 2)), ((3, 1), (2, 5))])
def test_places_of_windows_that_overlap(padding: int, strides: tuple[int, int], window: tuple[int, int]) -> None:
    """Equal elements are among these, and windows beyond the edges."""
    x = np.random.default_rng(1).integers(-3, 3, (2, 7, 5, 3)).astype(np.float32)
    found = outputs("MaxPoolingWithArgmax2D", pool(padding, strides, window), [x], count=2)
    for one, other in zip(found, pooled(x, padding, strides, window), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_activation_of_the_pool() -> None:
    x = np.random.default_rng(2).standard_normal((1, 4, 6, 2)).astype(np.float32) * 9
    found = outputs("MaxPoolingWithArgmax2D", pool(VALID, (2, 2), (2, 2), 3), [x], count=2)
    values, places = pooled(x, VALID, (2, 2), (2, 2))
    np.testing.assert_array_equal(found[0], np.clip(values, 0, 6))
    np.testing.assert_array_equal(found[1], places)


@pytest.mark.parametrize("strides", [(2, 3), (1, 2)])
def test_places_that_are_beyond_the_output_count_for_nothing(strides: tuple[int, int]) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 2)).astype(np.float32)
    places = np.random.default_rng(4).integers(0, 20, x.shape).astype(np.float32) + np.float32(0.1)
    (found,) = outputs("MaxUnpooling2D", pool(VALID, strides, (2, 3)), [x, places])
    expected = np.zeros((2, 6, 12, 2), np.float32)
    for n, y, z, channel in np.ndindex(x.shape):
        down, right = divmod(int(places[n, y, z, channel]), 3)
        at = y * strides[0] + down, z * strides[1] + right
        if at[0] < 6 and at[1] < 12:
            expected[n, at[0], at[1], channel] = x[n, y, z, channel]
    np.testing.assert_array_equal(found, expected)


# --- landmarks -----------------------------------------------------------------------------------------------

LANDMARKS = 9
SUBSET = [1, 2, 4, 5, 8]


def turn(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def moved(matrix: np.ndarray) -> np.ndarray:
    """A matrix of three rows and columns, in the place of x and y of four."""
    whole = np.eye(4)
    whole[:2, :2], whole[:2, 3] = matrix[:2, :2], matrix[:2, 2]
    return whole[None]


def level(points: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """The size and the middle of the box around points when they are turned by an angle; the middle is turned back."""
    turned = points @ turn(angle).T
    high, low = turned.max(0), turned.min(0)
    return high - low, turn(-angle) @ ((high + low) / 2)


@pytest.mark.parametrize("target", [0.0, 0.7])
@pytest.mark.parametrize("end", [(3.0, -2.0), (-3.0, 2.5), (0.0, 4.0), (0.0, 0.0)], ids=str)
def test_the_matrix_of_a_part(target: float, end: tuple[float, float]) -> None:
    """Version 2, whose angle is that of C's ``atan2``."""
    points = np.random.default_rng(5).standard_normal((1, LANDMARKS, 3)).astype(np.float32) * 20
    points[0, 6, :2] = points[0, 3, :2] + np.float32(end)
    entries = {"output_width": 16, "output_height": 8, "scale_x": 1.5, "scale_y": 1.25, "subset_idxs": SUBSET}
    custom = options(left_rotation_idx=3, right_rotation_idx=6, target_rotation_radians=target, **entries)
    (found,) = outputs("Landmarks2TransformMatrix", custom, [points])
    # As the delegate sees it.
    (again,) = outputs("Landmarks2TransformMatrix", custom, [points], version=1, devices=DEVICES[:1])
    np.testing.assert_array_equal(again, found)
    apart = points[0, 6, :2] - points[0, 3, :2]
    angle = target - math.atan2(apart[1], apart[0])
    size, middle = level(points[0, SUBSET, :2], angle)
    wanted = np.eye(3)
    wanted[:2, 2] = middle
    wanted[:2, :2] = turn(-angle) @ np.diag(size * [1.5 / 16, 1.25 / 8])
    wanted[:2, 2] += wanted[:2, :2] @ [-8, -4]
    np.testing.assert_allclose(found, moved(wanted), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("end", [(3.0, -2.0), (-3.0, 2.5), (0.0, 4.0), (0.0, -4.0)], ids=str)
def test_the_matrix_of_version_1(end: tuple[float, float]) -> None:
    """Its angle is the arctangent of a ratio; coordinates go from pixels to -1 to 1, and back."""
    points = np.random.default_rng(6).random((1, 1, 1, LANDMARKS * 3)).astype(np.float32) * 100 + 10
    xyz = points.reshape(LANDMARKS, 3)
    xyz[6, :2] = xyz[3, :2] + np.float32(end)
    entries = {"input_hw": [48, 64], "output_hw": [9, 17], "landmarks_range": 192, "bbox_size_multiplier": 1.5}
    rest = {"dimensions": 3, "left_rotation_idx": 3, "right_rotation_idx": 6, "subset": SUBSET}
    (found,) = outputs("Landmarks2TransformMatrix", options(**entries, **rest), [points], version=1)
    with np.errstate(divide="ignore"):
        angle = -float(np.arctan(np.float64(end[1]) / np.float64(end[0])))
    size, middle = level(xyz[SUBSET, :2].astype(np.float64), angle)
    to_part = np.array([[2 / 16, 0, -1], [0, 2 / 8, -1], [0, 0, 1]])
    to_image = np.array([[63 / 2, 0, 63 / 2], [0, 47 / 2, 47 / 2], [0, 0, 1]])
    turned = np.eye(3)
    turned[:2, :2], turned[:2, 2] = turn(-angle), middle / 192 * 2 - 1
    wanted = to_image @ turned @ np.diag([*(size * 1.5 / 192), 1]) @ to_part
    np.testing.assert_allclose(found, moved(wanted), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("version", [1, 2])
def test_landmarks_by_a_matrix(version: int, dimensions: int) -> None:
    rng = np.random.default_rng(7)
    matrix = rng.standard_normal((1, 4, 4)).astype(np.float32)
    shape = (1, 2, 3, 4 * dimensions) if version == 1 else (1, 7, dimensions)
    points = rng.standard_normal(shape).astype(np.float32)
    custom = options(dimensions=dimensions, scale=2.5) if version == 1 else b""
    (found,) = outputs("TransformLandmarks", custom, [points, matrix], version)
    wanted = points.reshape(-1, dimensions).copy()
    shift = matrix[0, :2, 3] * (2.5 if version == 1 else 1)
    wanted[:, :2] = wanted[:, :2] @ matrix[0, :2, :2].T + shift
    np.testing.assert_allclose(found, wanted.reshape(shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("version", [1, 2])
def test_a_part_of_an_image(version: int) -> None:
    """It goes beyond the image, where it is 0 at once."""
    rng = np.random.default_rng(8)
    image = rng.standard_normal((1, 7, 9, 3)).astype(np.float32) + 3
    matrix = np.eye(4, dtype=np.float32)[None].copy()
    matrix[0, :2, :2], matrix[0, :2, 3] = 0.83 * turn(0.4), (1.3, -2.1)
    name = "TransformTensor" if version == 1 else "TransformTensorBilinear"
    custom = options(output_size=[8, 11], mode=0) if version == 1 else options(output_height=8, output_width=11)
    (found,) = outputs(name, custom, [image, matrix], version)
    wanted = np.zeros((1, 8, 11, 3))
    margin = 0.5 if version == 2 else 0.0
    for y, x in np.ndindex(8, 11):
        at = matrix[0, :2, :2].astype(np.float64) @ [x + margin, y + margin] + matrix[0, :2, 3] - margin
        if 0 <= at[0] <= 8 and 0 <= at[1] <= 6:
            left, top = math.floor(at[0]), math.floor(at[1])
            right, low = min(left + 1, 8), min(top + 1, 6)
            share = at[0] - left
            upper, lower = (image[0, row, left] * (1 - share) + image[0, row, right] * share for row in (top, low))
            wanted[0, y, x] = upper * (1 - (at[1] - top)) + lower * (at[1] - top)
    assert (wanted == 0).any()
    assert (wanted != 0).sum() > wanted.size // 4
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_litert_runs_them_with_the_delegate() -> None:
    """It has no kernels for these operators itself."""
    pytest.importorskip("ai_edge_litert")
    points, moved = f32(1, LANDMARKS, 3), f32(1, LANDMARKS, 3)
    matrix = f32(1, 4, 4)
    net = Net([points], [moved])
    entries = {"output_width": 16, "output_height": 8, "scale_x": 1.5, "scale_y": 1.25, "subset_idxs": SUBSET}
    custom = options(left_rotation_idx=3, right_rotation_idx=6, target_rotation_radians=0.0, **entries)
    net.op("Landmarks2TransformMatrix", [points], [matrix], custom=custom, version=2)
    net.op("TransformLandmarks", [points, matrix], [moved], custom=b"", version=2)
    feeds = [np.random.default_rng(9).standard_normal((1, LANDMARKS, 3)).astype(np.float32)]
    data = write(net)
    wanted = nnvk.load(data, device="nnapi-reference").compute(feeds)
    for one, other in zip(delegated(data, feeds)[0], wanted, strict=True):
        np.testing.assert_array_equal(one, other)


# --- what is refused -----------------------------------------------------------------------------------------

MATRIX = {"left_rotation_idx": 0, "right_rotation_idx": 1, "subset_idxs": [2, 3], "output_width": 4, "output_height": 4}
MATRIX_V1 = {
    "left_rotation_idx": 0,
    "right_rotation_idx": 1,
    "subset": [2],
    "input_hw": [4, 4],
    "output_hw": [4, 4],
    "landmarks_range": 4,
    "bbox_size_multiplier": 1.5,
}
IMAGE, POINTS, M = (1, 6, 6, 2), (1, 5, 3), (1, 4, 4)
REFUSED = [
    ("MaxUnpooling2D", b"", [IMAGE, IMAGE], 1, "the options must have 24 bytes, got 0"),
    ("MaxUnpooling2D", pool(7, (2, 2), (2, 2)), [IMAGE, IMAGE], 1, "unknown padding 7"),
    ("MaxUnpooling2D", pool(1, (2, 2), (2, 2), 9), [IMAGE, IMAGE], 1, "unknown activation 9"),
    ("MaxUnpooling2D", pool(1, (0, 2), (2, 3)), [IMAGE, IMAGE], 1, "windows of 2x3 with strides 0x2 must have 1 to"),
    ("MaxUnpooling2D", pool(1, (2, 2), (99, 99)), [IMAGE, IMAGE], 1, "must have 1 to 1024 taps"),
    ("MaxUnpooling2D", pool(1, (2, 2), (2, 2)), [(6, 6, 2), (6, 6, 2)], 1, "the input must have rank 4"),
    ("MaxUnpooling2D", pool(1, (2, 2), (2, 2)), [IMAGE, (1, 6, 6, 1)], 1, "places of shape [1, 6, 6, 1] do not fit"),
    ("MaxUnpooling2D", pool(1, (1, 1), (32, 32)), [(1, 999, 999, 3)] * 2, 1, "an output of 3065859072 elements is too"),
    ("MaxPoolingWithArgmax2D", pool(1, (2, 2), (2, 2)), [(6, 6, 2)], 1, "the input must have rank 4"),
    ("Landmarks2TransformMatrix", options(**MATRIX, scale_x=1, scale_y=1), [POINTS], 3, "version 3 is unknown"),
    ("Landmarks2TransformMatrix", options(**MATRIX, scale_x=1), [POINTS], 2, "the option scale_y is missing"),
    ("Landmarks2TransformMatrix", options(**MATRIX, scale_x=1, scale_y=-1), [POINTS], 2, "scale_y must be above 0"),
    ("Landmarks2TransformMatrix", options(**MATRIX, scale_x=[1, 2], scale_y=1), [POINTS], 2, "must be a number"),
    ("Landmarks2TransformMatrix", options(**MATRIX, scale_x=1, scale_y=1), [(1, 5, 2)], 2, "3 coordinates each"),
    ("Landmarks2TransformMatrix", options(**MATRIX, scale_x=1, scale_y=1), [(2, 5, 3)], 2, "of one image"),
    ("Landmarks2TransformMatrix", options(**MATRIX, scale_x=1, scale_y=1), [(1, 3, 3)], 2, "must be from 0 to 2"),
    (
        "Landmarks2TransformMatrix",
        options(**{**MATRIX, "subset_idxs": 2}, scale_x=1, scale_y=1),
        [POINTS],
        2,
        "the option subset_idxs must be a vector of at most 4096 integers",
    ),
    (
        "Landmarks2TransformMatrix",
        options(**{**MATRIX_V1, "input_hw": [4]}),
        [POINTS],
        1,
        "must have two sizes, got [4]",
    ),
    ("Landmarks2TransformMatrix", options(**{**MATRIX_V1, "output_hw": [1, 4]}), [POINTS], 1, "output_hw must be 2"),
    ("TransformLandmarks", b"", [(1, 5, 4), M], 2, "have 2 or 3 coordinates each, got 4"),
    ("TransformLandmarks", b"", [(2, 5, 2), M], 2, "must be of one image"),
    ("TransformLandmarks", b"", [(1, 5, 2), (4, 4)], 2, "the matrix (input 1) must have shape [1, 4, 4], got [4, 4]"),
    ("TransformLandmarks", b"", [(1, 5, 2), M], 4, "version 4 is unknown"),
    ("TransformTensorBilinear", options(output_height=4, output_width=4), [(2, 6, 6, 2), M], 2, "must be one image"),
    ("TransformTensorBilinear", options(output_height=4, output_width=4), [(6, 6, 2), M], 2, "must have rank 4"),
    ("TransformTensorBilinear", options(output_height=0, output_width=4), [IMAGE, M], 2, "must be above 0, got 0"),
    ("TransformTensor", options(output_size=[0, 4]), [IMAGE, M], 1, "must have two sizes, got [0, 4]"),
    ("TransformTensor", options(output_size=[4, 4]), [IMAGE, M], 0, "version 0 is unknown"),
]


@pytest.mark.parametrize(
    ("name", "custom", "shapes", "version", "reason"),
    REFUSED,
    ids=[f"{name} {reason}" for name, _, _, _, reason in REFUSED],
)
def test_refusals(name: str, custom: bytes, shapes: list[tuple[int, ...]], version: int, reason: str) -> None:
    sources, result = [f32(*shape) for shape in shapes], T()
    results = [result, T()] if name == "MaxPoolingWithArgmax2D" else [result]
    net = Net(sources, [result])
    net.op(name, sources, results, custom=custom, version=version)
    with pytest.raises(TfliteImportError) as raised:
        load(write(net))
    assert f"operator 0 ({name})" in str(raised.value)
    assert reason in str(raised.value)
