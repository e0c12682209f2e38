"""RoiAlign in ONNX, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check

F = np.float32
REGIONS = [
    *([0, 0, 9, 9], [1, 2, 4, 7], [2.2, 3.1, 2.5, 3.3], [5, 5, 5, 5], [0, 0, 11, 3.3], [2.2, 1.1, 2.6, 9.5]),
    *([-3, -4, 20, 18], [30, 30, 40, 40], [7, 8, 3, 2], [-0.9, 9.9, 12, 12], [11, 9, 11.9, 9.9]),
]
"""On the map of 10 x 12, then beyond it or turned over."""


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel", None])
@pytest.mark.parametrize("ratio", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", [F, np.float16])
def test_regions(dtype: Any, ratio: int, place: str | None, mode: str) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((2, 3, 10, 12)).astype(dtype),
        "rois": np.array(REGIONS, dtype),
        "batch": np.arange(len(REGIONS)) % 2,
    }
    nodes = []
    for number, (height, width, scale) in enumerate([(3, 2, 1.0), (1, 1, 0.5), (7, 7, 0.25)]):
        sizes = {"output_height": height, "output_width": width, "spatial_scale": scale, "sampling_ratio": ratio}
        moved = {} if place is None else {"coordinate_transformation_mode": place}
        nodes.append(op("RoiAlign", "x rois batch", f"y{number}", mode=mode, **sizes, **moved))
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    outputs = [f"y{number}" for number in range(3)]
    tolerance = 1e-5 if dtype is F else 2e-3
    check(model(nodes, inputs, outputs), feeds, tolerance=tolerance)
    constants = {name: feeds.pop(name) for name in ("rois", "batch")}
    check(model(nodes, {"x": inputs["x"]}, outputs, constants), feeds, tolerance=tolerance)


def test_older_regions_are_not_moved() -> None:
    feeds = {
        "x": np.arange(16, dtype=F).reshape(1, 1, 4, 4),
        "rois": np.array([[0, 0, 3, 2]], F),
        "batch": np.zeros(1, int),
    }
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    check(model([op("RoiAlign", "x rois batch", "y")], inputs, ["y"], opset=10), feeds)
