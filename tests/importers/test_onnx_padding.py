"""Paddings that take away in ONNX, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op
from onnx_oracle import actual, check

from nnvk.importers.onnx import OnnxImportError, load

F, H = np.float32, np.float16


@pytest.mark.parametrize("dtype", [F, H, np.int32, np.bool_])
@pytest.mark.parametrize(
    "pads", [[-5, 4], [4, -5], [-3, 2], [2, -3], [-3, 3], [-4, 5], [2, -4], [-1, 4], [1, -2]], ids=str
)
def test_what_is_left_of_an_axis_that_is_cut_off(pads: list[int], dtype: Any) -> None:
    constants = {"p": np.array([0, *pads[:1], 0, *pads[1:]]), "v": np.array(1, dtype)}
    net = model([op("Pad", "x p v", "y")], {"x": (dtype, [2, 3])}, ["y"], constants)
    check(net, {"x": np.array([[0, 2, 3], [4, 0, 6]]).astype(dtype)}, tolerance=0)


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
@pytest.mark.parametrize("pads", [[-1, 1], [2, -2], [-2, 2], [2, -1]], ids=str)
def test_what_is_left_is_what_pads(pads: list[int], mode: str) -> None:
    net = model([op("Pad", "x p", "y", mode=mode)], {"x": (F, [5])}, ["y"], {"p": np.array(pads)}, opset=19)
    check(net, {"x": np.arange(5, dtype=F)}, tolerance=0)


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
def test_nothing_pads_with_nothing(mode: str) -> None:
    net = model([op("Pad", "x p", "y", mode=mode)], {"x": (F, [3])}, ["y"], {"p": np.array([-3, 5])}, opset=19)
    with pytest.raises(OnnxImportError, match="paddings -3 and 5 leave nothing of axis 0"):
        load(net.SerializeToString())


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "kernel", "stride"), [(4, 1, 4), (5, 1, 5), (8, 1, 4), (5, 2, 5), (11, 2, 7)])
def test_windows_further_apart_than_they_reach(size: int, kernel: int, stride: int, auto: str) -> None:
    """As ONNX's reference has them: onnxruntime leaves out elements before the first window."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((1, 2, size, size)).astype(F)}
    node = op("Conv", "x w", "y", auto_pad=auto, strides=[stride, stride])
    constants = {"w": rng.standard_normal((3, 2, kernel, kernel)).astype(F)}
    net = model([node], {"x": (F, feeds["x"].shape)}, ["y"], constants)
    (wanted,) = ReferenceEvaluator(net).run(None, feeds)
    for device in devices():
        (given,) = actual(load(net.SerializeToString()), feeds, device)
        np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
