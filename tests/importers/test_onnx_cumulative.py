"""CumSum, CumProd and Col2Im against onnxruntime, or against what ONNX says where that has none."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx_net import model, op
from onnx_oracle import actual

from nnvk.importers.onnx import load

F = np.float32


@pytest.mark.parametrize("dtype", [F, np.int32])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("shape", "axis"), [((13,), 0), ((3, 8, 2), 1), ((3, 5), -1), ((2, 1, 3), 1)])
def test_cumulative(shape: tuple[int, ...], axis: int, exclusive: int, reverse: int, dtype: type) -> None:
    x = np.random.default_rng(3).integers(-3, 4, shape).astype(dtype)
    nodes = [op("CumSum", "x axis", "y", exclusive=exclusive, reverse=reverse)]
    net = model(nodes, {"x": (dtype, shape)}, ["y"], {"axis": np.array(axis)}, opset=14)
    expected = np.cumsum(np.flip(x, axis) if reverse else x, axis, dtype=dtype)
    if exclusive:
        expected = np.delete(np.insert(expected, 0, 0, axis), -1, axis)
    expected = np.flip(expected, axis) if reverse else expected
    for device in devices():
        (got,) = actual(load(net.SerializeToString()), {"x": x}, device)
        np.testing.assert_array_equal(got, expected)
