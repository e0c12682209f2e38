"""Models out of packages, where these are installed: they run on a Vulkan device and agree with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_oracle import actual, expected

from nnvk.importers.onnx import load

LARGEST = 1e-4
"""Difference, of the range of what comes out."""
RATE = np.array(16000)


@dataclass(frozen=True)
class Case:
    """A file in a package, and how it is run."""

    package: str
    path: str
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    feeds: Mapping[str, np.ndarray] = field(default_factory=dict)


VAD = {"input": (1, 576), "state": (2, 1, 128)}
CASES = (
    Case("basic_pitch", "saved_models/icassp_2022/nmp.onnx"),
    Case("magika", "models/standard_v3_3/model.onnx"),
    Case("nudenet", "320n.onnx", {"images": (1, 3, 320, 320)}),
    Case("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 96, 160)}),
    Case("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 96)}),
    Case("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Case("silero_vad", "data/silero_vad.onnx", VAD, {"sr": RATE}),
    Case("silero_vad", "data/silero_vad_16k_op15.onnx", VAD, feeds={"sr": RATE}),
    Case("silero_vad", "data/silero_vad_op18_ifless.onnx", VAD, feeds={"sr": RATE}),
)


def file_of(case: Case) -> Path:
    """The file, without an import of the package."""
    spec = find_spec(case.package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [Path(folder) / case.path for folder in folders if (Path(folder) / case.path).is_file()]
    if not found:
        pytest.skip(f"{case.package} is not installed")
    return found[0]


def drawn(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Pixels with edges, samples of sound, or numbers of bytes."""
    rng = np.random.default_rng(0)
    if dtype.kind != "f":
        return rng.integers(0, 200, shape).astype(dtype)
    blocks = rng.random([max(1, size // 8) for size in shape])
    for axis, size in enumerate(shape):
        blocks = np.repeat(blocks, -(-size // blocks.shape[axis]), axis).take(range(size), axis)
    return (2 * blocks - 1).astype(dtype)


@pytest.mark.parametrize("case", CASES, ids=[Path(case.path).stem for case in CASES])
def test_model_of_a_package(case: Case) -> None:
    path = file_of(case)
    imported = load(path, shapes=case.shapes, constants=case.constants)
    feeds = {port.name: case.feeds.get(port.name, drawn(port.shape, port.dtype)) for port in imported.inputs}
    wanted = expected(str(path), {**feeds, **case.constants})
    for port, one, other in zip(imported.outputs, actual(imported, feeds, "vulkan-0"), wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), port
        extent = 1.0 if other.min() >= 0 and other.max() <= 1 else float(np.ptp(other))  # of probabilities it is 1
        assert np.abs(one - other).max() <= LARGEST * extent, port
