"""ONNX's Resize against onnxruntime: modes, sizes, and scales that are no binary fractions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx_case import Case
from onnx_net import model, op
from onnx_oracle import actual, check, operations

from nnvk.importers.onnx import OnnxImportError, load

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


# --- places and weights ----------------------------------------------------------------------------------------------

KINDS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
SCALES = {
    "up": [1, 1, 2, 3],
    "down": [1, 1, 0.6, 3 / 7],
    "mixed": [1, 1, 1.4, 4 / 7],
    "one row": [1, 1, 0.2, 1],
    "one column": [1, 1, 1.2, 1 / 7],
    "columns": [1, 1, 1, 18 / 7],
    "rows": [1, 1, 1.6, 1],
}
"""Each makes whole sizes of an image of 5 by 7."""
MODES = {
    **{
        f"nearest, {mode}": {"nearest_mode": mode}
        for mode in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    },
    "linear": {"mode": "linear"},
    "cubic": {"mode": "cubic"},
    "cubic, other weights": {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
}


def all_scales(**attributes: Any) -> ModelProto:
    """A node for each of the scales."""
    nodes = [op("Resize", f"x - s{at}", f"y{at}", **attributes) for at in range(len(SCALES))]
    constants = {f"s{at}": np.array(scales, F) for at, scales in enumerate(SCALES.values())}
    outputs = [f"y{at}" for at in range(len(SCALES))]
    return model(nodes, {"x": (F, IMAGE.shape)}, outputs, constants, opset=19)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in MODES
        for kind in KINDS
        if (name, kind) != ("nearest, floor", "half_pixel_symmetric")  # some places are whole but for their rounding
        and (kind != "pytorch_half_pixel" or not name.startswith("cubic"))  # see below
    ],
)
def test_places(name: str, kind: str) -> None:
    net = all_scales(coordinate_transformation_mode=kind, **MODES[name])
    check(net, {"x": IMAGE}, tolerance=1e-5, devices=("nnapi-reference",))


@pytest.mark.parametrize("sizes", [(1, 7), (6, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("name", ["cubic", "cubic, other weights"])
def test_places_of_a_single_element(name: str, sizes: tuple[int, int]) -> None:
    """It is at -0.5 for pytorch_half_pixel, as in ONNX's reference. onnxruntime has 0."""
    node = op("Resize", "x - - n", "y", coordinate_transformation_mode="pytorch_half_pixel", **MODES[name])
    net = model([node], {"x": (F, IMAGE.shape)}, ["y"], {"n": np.array([*IMAGE.shape[:2], *sizes])}, opset=19)
    (wanted,) = ReferenceEvaluator(net).run(None, {"x": IMAGE})
    (got,) = actual(load(net.SerializeToString()), {"x": IMAGE}, "nnapi-reference")
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["half_pixel", "half_pixel_symmetric", "asymmetric"])
@pytest.mark.parametrize("scales", [[1, 1, 1.3, 2.5], [1, 1, 0.71, 0.55], [1, 1, 1.06, 2], [1, 1, 2, 1.1]], ids=str)
def test_scales_that_make_no_whole_sizes(scales: list[float], kind: str) -> None:
    """The scale counts, also where the size stays."""
    node = op("Resize", "x - s", "y", mode="linear", coordinate_transformation_mode=kind)
    net = model([node], {"x": (F, IMAGE.shape)}, ["y"], {"s": np.array(scales, F)}, opset=19)
    check(net, {"x": IMAGE}, devices=("nnapi-reference",))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_smaller_images_without_aliases(mode: str) -> None:
    check(all_scales(mode=mode, antialias=1), {"x": IMAGE}, tolerance=1e-5, devices=("nnapi-reference",))


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [[2, 3], [3, 2], [3]], ids=str)
@pytest.mark.parametrize("sizes", [(4, 9), (9, 4), (10, 14), (11, 3)], ids=str)
def test_sizes_of_some_axes(sizes: tuple[int, int], axes: list[int], policy: str) -> None:
    node = op("Resize", "x - - n", "y", axes=axes, keep_aspect_ratio_policy=policy)
    net = model([node], {"x": (F, IMAGE.shape)}, ["y"], {"n": np.array(sizes[: len(axes)])}, opset=18)
    check(net, {"x": IMAGE}, devices=("nnapi-reference",))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 0.61, 0.5], [1, 1, 1.3, 2.5]], ids=str)
def test_corners_of_sizes_that_are_not_whole(scales: list[float], mode: str) -> None:
    """The whole size counts, as in onnxruntime and PyTorch; ONNX's reference takes the product."""
    node = op("Resize", "x - s", "y", mode=mode, coordinate_transformation_mode="align_corners")
    net = model([node], {"x": (F, IMAGE.shape)}, ["y"], {"s": np.array(scales, F)})
    check(net, {"x": IMAGE}, devices=("nnapi-reference",))


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        *(("nearest", shape) for shape in ((7,), (3, 7), (2, 3, 7), (1, 2, 3, 5, 4))),
        *(("linear", shape) for shape in ((3, 7), (2, 3, 7), (1, 2, 3, 5, 4))),
        ("cubic", (3, 7)),
    ],
    ids=str,
)
def test_ranks(mode: str, shape: tuple[int, ...]) -> None:
    """The last axes are resized."""
    x = np.random.default_rng(1).standard_normal(shape).astype(F)
    scales = np.array([1, 1, 1, 1.5, 2][-len(shape) :], F)
    net = model([op("Resize", "x - s", "y", mode=mode)], {"x": (F, shape)}, ["y"], {"s": scales})
    check(net, {"x": x}, devices=("nnapi-reference",))


FOUR = np.array([1, 1, 2, 2], F)
REFUSED = [
    ({"s": np.array([1, 1, 2], F)}, {}, "there must be scales or sizes for 4 axes, got [1.0, 1.0, 2.0]"),
    ({"s": None}, {}, "there must be scales or sizes for 4 axes, got None"),
    ({"s": None, "n": np.array([1, 2, 9])}, {}, "there must be scales or sizes for 4 axes, got [1, 2, 9]"),
    ({"s": FOUR}, {"axes": [2, 3]}, "there must be scales or sizes for 2 axes, got [1.0, 1.0, 2.0, 2.0]"),
    ({"s": np.array([1, 1, 0, 2], F)}, {}, "scales must be positive, got [1.0, 1.0, 0.0, 2.0]"),
    ({"s": np.array([1, 1, -1, 2], F)}, {}, "scales must be positive, got [1.0, 1.0, -1.0, 2.0]"),
    ({"s": np.array([1, 1, np.inf, 2], F)}, {}, "scales must be positive, got [1.0, 1.0, inf, 2.0]"),
    ({"s": np.array([1, 1, np.nan, 2], F)}, {}, "scales must be positive, got [1.0, 1.0, nan, 2.0]"),
    ({"s": np.array([1, 1, 0.1, 2], F)}, {}, "the sizes must be positive, got [1, 2, 0, 14]"),
    ({"s": None, "n": np.array([1, 2, 0, 9])}, {}, "the sizes must be positive, got [1, 2, 0, 9]"),
    ({"s": FOUR}, {"mode": "area"}, "attribute 'mode' must be nearest, linear or cubic, got 'area'"),
    ({"s": FOUR}, {"nearest_mode": "up"}, "attribute 'nearest_mode' is 'up', which is unknown here"),
    (
        {"s": FOUR},
        {"coordinate_transformation_mode": "whole"},
        "attribute 'coordinate_transformation_mode' is 'whole', which is unknown here",
    ),
    ({"s": FOUR}, {"axes": [2, 3, 4, 1]}, "the axis must be in [-4, 4), got 4"),
]


@pytest.mark.parametrize(("inputs", "attributes", "reason"), REFUSED)
def test_refused(inputs: dict[str, Any], attributes: dict[str, Any], reason: str) -> None:
    case = Case("Resize", {"x": (F, [1, 2, 5, 7]), "r": None, "s": FOUR, "n": None} | inputs, "", attributes, opset=18)
    with pytest.raises(OnnxImportError) as raised:
        case.load()
    assert [problem.reason for problem in raised.value.problems] == [reason]


def test_sizes_that_stay() -> None:
    """Nothing changes then, whatever the scales and the mode are."""
    same = np.array([1, 1, 1.1, 1.1], F)
    case = Case("Resize", {"x": (F, [1, 2, 5, 7]), "r": None, "s": same}, "", {"mode": "area"})
    assert operations(case.load()) == ["RESHAPE"]
