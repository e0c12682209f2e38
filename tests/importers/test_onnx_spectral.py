"""DFT and STFT against onnxruntime, and where that has none, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx_net import model, op
from onnx_oracle import actual, check

from nnvk.importers.onnx import OnnxImportError, load

F = np.float32
TOLERANCE = 1e-5


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, shape).astype(F)


def transformed(
    source: np.ndarray, axis: int, length: int | None = None, opset: int = 20, **attributes: int
) -> tuple[Any, dict[str, np.ndarray]]:
    """The model of a DFT, and what goes into it."""
    names, constants = ["x", "-" if length is None else "length"], {}
    if length is not None:
        constants["length"] = np.array(length)
    if opset < 20:
        attributes["axis"] = axis
    else:
        names.append("axis")
        constants["axis"] = np.array(axis)
    nodes = [op("DFT", " ".join(names), "y", **attributes)]
    net = model(nodes, {"x": (source.dtype, source.shape)}, ["y"], constants, opset=opset)
    return net, {"x": source}


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("length", [None, 5, 16])
@pytest.mark.parametrize(("shape", "axis"), [((3, 11, 1), 1), ((2, 7, 5, 2), 1), ((2, 7, 5, 2), 2), ((2, 3, 8, 1), -2)])
def test_transforms(shape: tuple[int, ...], axis: int, length: int | None, opset: int) -> None:
    if opset < 20:
        axis %= len(shape)
    check(*transformed(drawn(*shape), axis, length, opset), tolerance=TOLERANCE)
    check(*transformed(drawn(*shape), axis, length, opset, inverse=1), tolerance=TOLERANCE)
    if shape[-1] == 1:
        check(*transformed(drawn(*shape), axis, length, opset, onesided=1), tolerance=TOLERANCE)


@pytest.mark.parametrize("length", [None, 7, 9, 14])
def test_back_to_real_numbers(length: int | None) -> None:
    source = drawn(2, 6, 3, 2)
    net, feeds = transformed(source, 1, length, inverse=1, onesided=1)
    expected = np.fft.irfft(source[..., 0] + 1j * source[..., 1], length, axis=1)[..., np.newaxis]
    for device in devices():
        (got,) = actual(load(net.SerializeToString()), feeds, device)
        np.testing.assert_allclose(got, expected, atol=TOLERANCE)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("window", "length"), [(None, 16), (16, None), (13, 13)])
def test_short_times(window: int | None, length: int | None, onesided: int) -> None:
    signal, names, constants = drawn(2, 101, 1), ["x", "step", "-", "-"], {"step": np.array(7)}
    if window is not None:
        names[2], constants["window"] = "window", np.hanning(window).astype(F)
    if length is not None:
        names[3], constants["length"] = "length", np.array(length)
    nodes = [op("STFT", " ".join(names), "y", onesided=onesided)]
    check(model(nodes, {"x": (F, signal.shape)}, ["y"], constants, opset=17), {"x": signal}, tolerance=TOLERANCE)


@pytest.mark.parametrize(
    ("shape", "axis", "attributes", "message"),
    [
        ((2, 5, 3), 1, {}, r"an input of shape \[2, 5, 3\] has no signal along axis 1"),
        ((2, 5, 1), 2, {}, "has no signal along axis 2"),
        ((2, 5, 2), 1, {"onesided": 1}, "one-sided, it takes real numbers"),
        ((2, 5, 1), 1, {"onesided": 1, "inverse": 1}, "one-sided, it takes complex numbers"),
    ],
)
def test_errors(shape: tuple[int, ...], axis: int, attributes: dict[str, int], message: str) -> None:
    net, _ = transformed(drawn(*shape), axis, **attributes)
    with pytest.raises(OnnxImportError, match=message):
        load(net.SerializeToString())
