"""ONNX's Resize against onnxruntime: modes, sizes, and scales that are no binary fractions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check, operations

F = np.float32
IMAGE = np.random.default_rng(0).standard_normal((1, 2, 5, 7), F)

RESIZES: dict[str, dict[str, Any]] = {
    "half pixel": {"mode": "linear"},
    "corners": {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    "asymmetric": {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    "nearest": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "nearest half": {"mode": "nearest"},
    "cubic": {"mode": "cubic"},
}


@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize("size", [(10, 14), (7, 5)], ids=["up", "other"])
def test_resize(name: str, size: tuple[int, int]) -> None:
    node = op("Resize", "x - - sizes", "y", **RESIZES[name])
    net = model([node], {"x": (F, [1, 2, 5, 7])}, ["y"], {"sizes": np.array([1, 2, *size])})
    imported = check(net, {"x": IMAGE}, tolerance=1e-4)
    if RESIZES[name]["mode"] == "linear":
        assert operations(imported) == ["RESIZE_BILINEAR"]


REGIONS = {
    "inside": [0, 0, 0.2, 0.3, 1, 1, 0.7, 0.9],
    "above": [0, 0, -0.5, 0.1, 1, 1, 0.6, 0.8],
    "behind": [0, 0, 0.3, 0.4, 1, 1, 1.2, 1.7],
    "around": [0, 0, -0.4, -0.3, 1, 1, 1.6, 1.2],
    "outside": [0, 0, 1.5, 0, 1, 1, 2, 1],
    "upside down": [0, 0, 0.9, 1.3, 1, 1, 0.1, -0.2],
}


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("name", REGIONS)
def test_regions(name: str, mode: str) -> None:
    """Elements that are outside of the input are a number of the node's."""
    attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.5}
    net = model(
        [op("Resize", "x roi - sizes", "y", **attributes)],
        {"x": (F, [1, 2, 5, 7])},
        ["y"],
        {"roi": np.array(REGIONS[name], F), "sizes": np.array([1, 2, 4, 9])},
    )
    check(net, {"x": IMAGE}, tolerance=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8])
def test_regions_of_whole_numbers(dtype: Any, mode: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    constants = {"roi": np.array(REGIONS["behind"], F), "sizes": np.array([1, 2, 4, 9])}
    net = model(
        [op("Resize", "x roi - sizes", "y", **attributes)], {"x": (dtype, [1, 2, 5, 7])}, {"y": dtype}, constants
    )
    check(net, {"x": (IMAGE * 10 + 30).astype(dtype)}, steps=mode == "linear")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_to_the_same_size_changes_nothing(mode: str) -> None:
    """So it is in onnxruntime, whatever the scales are."""
    node = op("Resize", "x - scales", "y", mode=mode)
    net = model(
        [node, op("Neg", "y", "z")], {"x": (F, [1, 1, 5, 7])}, ["z"], {"scales": np.array([1, 1, 1.06, 1.1], F)}
    )
    check(net, {"x": IMAGE[:, :1]}, tolerance=0)


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_resize_by_scales_that_are_no_binary_fractions(mode: str, nearest: str) -> None:
    """Whether a place is whole, or in the middle of two, depends on the type that it is computed in."""
    rng = np.random.default_rng(0)
    scales = [rng.integers(1, 70) / rng.integers(1, 40) for _ in range(25)]
    known = [(26, 64 / 26), (46, 2.153846263885498), (31, 1.3), (5, 1.06), (20, 2 / 7)]
    for size, scale in [*known, *((int(rng.integers(2, 60)), scale) for scale in scales if 0.1 < scale < 4)]:
        if int(F(size) * F(scale)) < 1:
            continue
        node = op("Resize", "x - scales", "y", coordinate_transformation_mode=mode, nearest_mode=nearest)
        net = model([node], {"x": (F, [1, 1, 1, size])}, ["y"], {"scales": np.array([1, 1, 1, scale], F)})
        x = np.arange(size, dtype=F).reshape(1, 1, 1, size)
        check(net, {"x": x}, tolerance=0, devices=["nnapi-reference"])
