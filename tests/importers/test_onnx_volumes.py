"""Convolutions and pools of volumes in ONNX, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check

F = np.float32


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 3, 5, 7, 6), (4, 3, 3, 3, 3), {}),
    "batches": ((2, 3, 5, 4, 6), (4, 3, 2, 3, 1), {"pads": [1, 0, 2, 0, 1, 1]}),
    "strides": ((1, 2, 7, 8, 9), (3, 2, 3, 3, 3), {"strides": [2, 3, 1], "pads": [1] * 6}),
    "dilations": ((1, 2, 9, 8, 7), (3, 2, 3, 2, 3), {"dilations": [3, 2, 2], "pads": [2, 1, 0, 1, 0, 2]}),
    "points": ((1, 5, 3, 4, 2), (7, 5, 1, 1, 1), {}),
    "groups": ((2, 6, 4, 5, 5), (4, 3, 3, 3, 3), {"group": 2, "pads": [1] * 6}),
    "depthwise": ((1, 4, 5, 5, 5), (8, 1, 3, 3, 3), {"group": 4, "strides": [2, 1, 2]}),
    "flat depthwise": ((1, 4, 5, 5, 5), (4, 1, 1, 3, 3), {"group": 4}),
    "dilated groups": ((1, 4, 9, 5, 5), (4, 2, 3, 2, 2), {"group": 2, "dilations": [2, 2, 1]}),
    "same": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2, 3]}),
    "same lower": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2, 3]}),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, known: bool) -> None:
    shape, filters, attributes = CONVOLUTIONS[name]
    arrays = {"x": drawn(*shape), "w": drawn(*filters, seed=1), "b": drawn(filters[0], seed=2)}
    inputs = {key: (F, array.shape) for key, array in arrays.items() if key == "x" or not known}
    constants = {key: array for key, array in arrays.items() if key not in inputs}
    nodes = [op("Conv", "x w b", "y", **attributes), op("Conv", "x w", "z", **attributes)]
    check(model(nodes, inputs, ["y", "z"], constants), {key: arrays[key] for key in inputs})


def test_a_batch_normalisation_behind() -> None:
    constants = {
        "w": drawn(4, 3, 2, 2, 2),
        **{key: 1 + np.abs(drawn(4, seed=place)) for place, key in enumerate("smvt")},
    }
    nodes = [op("Conv", "x w", "c"), op("BatchNormalization", "c s t m v", "y"), op("Relu", "y", "z")]
    check(model(nodes, {"x": (F, [1, 3, 4, 5, 6])}, ["z"], constants), {"x": drawn(1, 3, 4, 5, 6)})


def test_steps() -> None:
    constants = {
        **{"s": F(0.05), "z": np.uint8(128), "t": np.linspace(0.01, 0.02, 3, dtype=F), "n": np.zeros(3, np.int8)},
        **{
            "u": F(0.2),
            "o": np.uint8(120),
            "w": np.random.default_rng(0).integers(-9, 9, (3, 2, 2, 2, 2)).astype(np.int8),
        },
    }
    nodes = [
        op("QuantizeLinear", "x s z", "q"),
        op("DequantizeLinear", "q s z", "d"),
        op("DequantizeLinear", "w t n", "e", axis=0),
        op("Conv", "d e", "c"),
        op("QuantizeLinear", "c u o", "y"),
        op("QLinearConv", "q s z w t n u o", "v"),
    ]
    check(model(nodes, {"x": (F, [1, 2, 4, 5, 3])}, ["y", "v"], constants), {"x": drawn(1, 2, 4, 5, 3)}, steps=1)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("pads", [None, [1, 0, 1, 0, 1, 1]])
def test_pools(kind: str, pads: list[int] | None) -> None:
    attributes: dict[str, Any] = {"kernel_shape": [2, 3, 2], "strides": [1, 2, 2], **({"pads": pads} if pads else {})}
    node = op(kind, "x", "y", **({} if kind.startswith("Global") else attributes))
    check(model([node], {"x": (F, [2, 3, 5, 6, 7])}, ["y"]), {"x": drawn(2, 3, 5, 6, 7)})


TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 3, 3, 4, 5), (3, 4, 3, 2, 3), {}),
    "batches": ((2, 3, 3, 4, 2), (3, 4, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 1]}),
    "strides": ((1, 2, 3, 4, 3), (2, 3, 3, 3, 2), {"strides": [2, 3, 2], "pads": [1, 1, 0, 0, 1, 0]}),
    "far": ((1, 2, 3, 2, 2), (2, 3, 2, 1, 2), {"strides": [4, 3, 3], "output_padding": [2, 1, 2]}),
    "dilations": ((1, 2, 3, 4, 3), (2, 3, 3, 2, 2), {"dilations": [2, 3, 2], "strides": [2, 1, 2]}),
    "groups": ((1, 4, 2, 3, 3), (4, 3, 2, 2, 3), {"group": 2, "strides": [2, 1, 1]}),
    "sizes": ((1, 2, 3, 3, 3), (2, 3, 3, 3, 3), {"strides": [2, 2, 2], "output_shape": [6, 5, 6]}),
    "same": ((1, 2, 3, 3, 3), (2, 3, 3, 2, 3), {"strides": [2, 2, 1], "auto_pad": "SAME_UPPER"}),
    "same lower": ((1, 2, 3, 3, 3), (2, 3, 3, 2, 3), {"strides": [2, 2, 1], "auto_pad": "SAME_LOWER"}),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str, known: bool) -> None:
    shape, filters, attributes = TRANSPOSED[name]
    units = filters[1] * attributes.get("group", 1)
    arrays = {"x": drawn(*shape), "w": drawn(*filters, seed=1), "b": drawn(units, seed=2)}
    inputs = {key: (F, array.shape) for key, array in arrays.items() if key == "x" or not known}
    constants = {key: array for key, array in arrays.items() if key not in inputs}
    nodes = [op("ConvTranspose", "x w b", "y", **attributes), op("ConvTranspose", "x w", "z", **attributes)]
    check(model(nodes, inputs, ["y", "z"], constants), {key: arrays[key] for key in inputs})
