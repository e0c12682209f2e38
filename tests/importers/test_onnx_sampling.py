"""GridSample against onnxruntime: all modes, beyond all edges."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op
from onnx_oracle import actual, check

from nnvk.importers.onnx import load

F = np.float32
MODES = list(itertools.product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)))


def sampled(
    source: np.ndarray, grid: np.ndarray, opset: int = 20, **attributes: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    """The model of a GridSample, and what goes into it."""
    nodes = [op("GridSample", "x grid", "y", **attributes)]
    net = model(nodes, {"x": (source.dtype, source.shape), "grid": (F, grid.shape)}, ["y"], opset=opset)
    return net, {"x": source, "grid": grid}


def drawn(*shape: int, spread: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(3).uniform(-spread, spread, shape)).astype(F)


@pytest.mark.parametrize(("mode", "padding", "align"), MODES)
def test_images(mode: str, padding: str, align: int) -> None:
    net, feeds = sampled(
        drawn(2, 3, 5, 7), drawn(2, 4, 3, 2, spread=2.5), mode=mode, padding_mode=padding, align_corners=align
    )
    check(net, feeds, tolerance=1e-4)
    if (mode, padding) == ("cubic", "border"):
        return  # ONNX's reference moves the place to the edge; onnxruntime and PyTorch move each element beside it
    (wanted,) = ReferenceEvaluator(net).run(None, feeds)
    for device in devices():
        np.testing.assert_allclose(actual(load(net.SerializeToString()), feeds, device)[0], wanted, atol=1e-4)


@pytest.mark.parametrize(("mode", "padding"), [("nearest", "reflection"), ("linear", "border"), ("linear", "zeros")])
def test_volumes(mode: str, padding: str) -> None:
    net, feeds = sampled(drawn(2, 2, 3, 5, 4), drawn(2, 3, 2, 5, 3, spread=1.5), mode=mode, padding_mode=padding)
    check(net, feeds, tolerance=1e-4)


def test_names_of_the_oldest_version() -> None:
    net, feeds = sampled(drawn(1, 1, 4, 4), drawn(1, 3, 3, 2), opset=16, mode="bicubic")
    check(net, feeds, tolerance=1e-4)


def test_one_element_is_everywhere() -> None:
    net, feeds = sampled(drawn(1, 2, 1, 1), drawn(1, 3, 3, 2, spread=3), padding_mode="border", align_corners=1)
    check(net, feeds)


@pytest.mark.parametrize("device", ["vulkan-0", "nnapi-reference"])
def test_places_that_are_no_numbers_or_far_away_are_zero(device: str) -> None:
    grid = np.array([np.nan, 0, np.inf, 0, 1e30, 0, 0, 0], F).reshape(1, 1, 4, 2)
    net, feeds = sampled(np.full((1, 1, 3, 3), np.inf, F), grid, mode="nearest")
    (y,) = actual(load(net.SerializeToString()), feeds, device)
    np.testing.assert_array_equal(y.reshape(-1), [0, 0, 0, np.inf])
