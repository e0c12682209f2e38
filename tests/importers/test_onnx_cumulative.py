"""CumSum, CumProd and Col2Im against onnxruntime, or against what ONNX says where that has none."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op
from onnx_oracle import actual, check

from nnvk.importers.onnx import OnnxImportError, load

F = np.float32


@pytest.mark.parametrize("dtype", [F, np.int32])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("shape", "axis"), [((13,), 0), ((3, 8, 2), 1), ((3, 5), -1), ((2, 1, 3), 1)])
def test_cumulative(shape: tuple[int, ...], axis: int, exclusive: int, reverse: int, dtype: type) -> None:
    x = np.random.default_rng(3).integers(-3, 4, shape).astype(dtype)
    for kind, scan, nothing in (("CumSum", np.cumsum, 0), ("CumProd", np.cumprod, 1)):
        nodes = [op(kind, "x axis", "y", exclusive=exclusive, reverse=reverse)]
        opset = 14 if kind == "CumSum" else 26
        net = model(nodes, {"x": (dtype, shape)}, ["y"], {"axis": np.array(axis)}, opset=opset)
        turned = np.flip(x, axis) if reverse else x
        expected = scan(turned, axis, dtype=dtype)
        if exclusive:
            expected = np.delete(np.insert(expected, 0, nothing, axis), -1, axis)
        expected = np.flip(expected, axis) if reverse else expected
        for device in devices():
            (got,) = actual(load(net.SerializeToString()), {"x": x}, device)
            np.testing.assert_array_equal(got, expected)


COLUMNS = [
    ((2, 12, 12), (5, 6), (2, 3), {"strides": [1, 1], "dilations": [2, 1]}),
    ((1, 30, 4), (5, 7), (2, 5), {"strides": [2, 3], "pads": [0, 1, 0, 0]}),
    ((2, 4, 6), (3, 4), (2, 2), {}),
    ((1, 10, 12), (3, 4, 5), (1, 1, 5), {}),
]


@pytest.mark.parametrize(("shape", "image", "block", "attributes"), COLUMNS)
def test_columns_to_images(
    shape: tuple[int, ...], image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, list[int]]
) -> None:
    x = np.random.default_rng(3).random(shape).astype(F)
    nodes = [op("Col2Im", "x image block", "y", **attributes)]
    net = model(nodes, {"x": (F, shape)}, ["y"], {"image": np.array(image), "block": np.array(block)}, opset=18)
    (expected,) = ReferenceEvaluator(net).run(None, {"x": x})
    for device in devices():
        (got,) = actual(load(net.SerializeToString()), {"x": x}, device)
        np.testing.assert_allclose(got, expected, atol=1e-5)
    check(net, {"x": x}, tolerance=1e-5)


@pytest.mark.parametrize(
    ("image", "block", "message"),
    [
        ((5, 5), (2,), "do not fit together"),
        ((5, 0), (2, 2), "do not fit together"),
        ((2, 2), (3, 3), "are not 0 blocks of 9 elements"),
        ((5, 5), (2, 2), r"columns of shape \[1, 4, 5\] are not 16 blocks of 4 elements"),
    ],
)
def test_columns_that_do_not_fit(image: tuple[int, ...], block: tuple[int, ...], message: str) -> None:
    nodes = [op("Col2Im", "x image block", "y")]
    net = model(nodes, {"x": (F, (1, 4, 5))}, ["y"], {"image": np.array(image), "block": np.array(block)}, opset=18)
    with pytest.raises(OnnxImportError, match=message):
        load(net.SerializeToString())
