"""ONNX's MaxPool that tells places, and MaxUnpool, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check

F, I64 = np.float32, np.int64


def drawn(shape: tuple[int, ...], dtype: Any = F) -> np.ndarray:
    """Numbers of which several are equal."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


POOLS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "row": ((2, 3, 11), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "image": ((2, 3, 7, 5), {"kernel_shape": [3, 2]}),
    "strides": ((1, 2, 9, 7), {"kernel_shape": [2, 3], "strides": [3, 2], "pads": [1, 1, 0, 2]}),
    "columns first": ((2, 3, 7, 5), {"kernel_shape": [3, 2], "storage_order": 1, "pads": [1, 0, 1, 1]}),
    "dilations": ((1, 2, 9, 11), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    "rounded up": ((1, 2, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "same": ((1, 2, 8, 7), {"kernel_shape": [3, 2], "strides": [3, 2], "auto_pad": "SAME_UPPER"}),
    "volume": ((2, 2, 5, 4, 7), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 3]}),
    "volume, columns first": ((1, 2, 5, 4, 7), {"kernel_shape": [2, 3, 2], "storage_order": 1}),
    "whole": ((1, 1, 5, 3), {"kernel_shape": [5, 3]}),
}


@pytest.mark.parametrize("name", POOLS)
def test_places_of_the_largest(name: str) -> None:
    shape, attributes = POOLS[name]
    net = model([op("MaxPool", "x", "y i", **attributes)], {"x": (F, shape)}, {"y": F, "i": I64})
    check(net, {"x": drawn(shape)}, tolerance=0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64])
def test_types(dtype: Any) -> None:
    shape = 2, 3, 7, 5
    node = op("MaxPool", "x", "y i", kernel_shape=[3, 2], pads=[1, 0, 1, 1])
    check(model([node], {"x": (dtype, shape)}, {"y": dtype, "i": I64}), {"x": drawn(shape).astype(dtype)}, tolerance=0)


def test_places_alone() -> None:
    node = op("MaxPool", "x", "unread i", kernel_shape=[2, 2])
    net = model([node, op("Add", "i i", "y")], {"x": (F, (1, 2, 5, 4))}, {"y": I64})
    check(net, {"x": drawn((1, 2, 5, 4))})
