"""examples/frigate: the detector takes what Frigate gives it, and gives what Frigate takes."""

from __future__ import annotations

import enum
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

pydantic = pytest.importorskip("pydantic")
onnx = pytest.importorskip("onnx")
model, op = (getattr(pytest.importorskip("onnx_net"), name) for name in ("model", "op"))

FILE = Path(__file__).parents[2] / "examples" / "frigate" / "nnvk_detector.py"
FRAME = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
FOUND = {
    "boxes": np.array([[[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [0, 0, 1, 1], [0, 0, 1, 1]]], np.float32),
    "classes": np.array([[2, 0, 7, 7]], np.float32),
    "scores": np.array([[0.9, 0.5, 0.3, 0.99]], np.float32),
    "count": np.array([3], np.float32),
}
"""Three of these four objects count, and the last of the three has a low score."""


class ModelTypeEnum(str, enum.Enum):
    ssd = "ssd"
    yolox = "yolox"
    yologeneric = "yolo-generic"
    dfine = "dfine"
    rfdetr = "rfdetr"


class DetectionApi:
    def __init__(self, detector_config: Any) -> None:
        self.detector_config = detector_config


class BaseDetectorConfig(pydantic.BaseModel):
    model: Any = None


@pytest.fixture
def detector(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The plug-in, with Frigate's interface around it. Functions that find objects give what they are given."""
    parts: dict[str, dict[str, Any]] = {
        "frigate": {},
        "frigate.detectors": {},
        "frigate.util": {},
        "frigate.detectors.detection_api": {"DetectionApi": DetectionApi},
        "frigate.detectors.detector_config": {"BaseDetectorConfig": BaseDetectorConfig, "ModelTypeEnum": ModelTypeEnum},
        "frigate.util.model": {
            f"post_process_{kind}": lambda *given, kind=kind: (kind, *given) for kind in ("dfine", "rfdetr", "yolo")
        },
    }
    for name, contents in parts.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("nnvk_detector", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "nnvk_detector", module)
    spec.loader.exec_module(module)
    return module


def detect(module: ModuleType, folder: Path, kind: str, made: Any, **options: Any) -> Any:
    """The objects of a frame of 640 x 480 by a model."""
    onnx.save(made, folder / "model.onnx")
    described = SimpleNamespace(path=str(folder / "model.onnx"), model_type=ModelTypeEnum(kind), width=640, height=480)
    config = module.NnvkDetectorConfig(type="nnvk", model=described, **options)
    return module.NnvkDetector(config).detect_raw(FRAME)


def test_objects_of_ssd_are_rows(detector: ModuleType, tmp_path: Path) -> None:
    nodes = [op("ReduceMin", "x", "least", keepdims=0)]  # 0
    nodes += [op("Add", f"found_{name} least", name) for name in FOUND]
    made = model(nodes, {"x": (np.float32, FRAME.shape)}, list(FOUND), {f"found_{k}": v for k, v in FOUND.items()})
    rows = detect(detector, tmp_path, "ssd", made)
    assert (rows.shape, rows.dtype) == ((20, 6), np.float32)
    np.testing.assert_array_equal(rows[:2], np.float32([[2, 0.9, 0.1, 0.2, 0.3, 0.4], [0, 0.5, 0.5, 0.6, 0.7, 0.8]]))
    assert not rows[2:].any()


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_frigate_reads_what_other_models_give(detector: ModuleType, tmp_path: Path, device: str) -> None:
    made = model([op("Neg", "x", "y")], {"x": (np.float32, FRAME.shape)}, ["y"])
    kind, outputs, *size = detect(detector, tmp_path, "yolo-generic", made, device=device)
    assert (kind, size) == ("yolo", [640, 480])
    np.testing.assert_array_equal(outputs, [-FRAME])
    kind, outputs = detect(detector, tmp_path, "rfdetr", made, device=device, relaxed=True)
    assert kind == "rfdetr"
    np.testing.assert_array_equal(outputs, [-FRAME])


def test_dfine_takes_the_size_of_the_frame(detector: ModuleType, tmp_path: Path) -> None:
    inputs = {"images": (np.float32, FRAME.shape), "orig_target_sizes": (np.int64, (1, 2))}
    made = model([op("Neg", "images", "y"), op("Identity", "orig_target_sizes", "size")], inputs, ["y", "size"])
    kind, outputs, *size = detect(detector, tmp_path, "dfine", made)
    assert (kind, size, outputs[1].tolist()) == ("dfine", [640, 480], [[480, 640]])


def test_other_kinds_of_models_are_refused(detector: ModuleType, tmp_path: Path) -> None:
    made = model([op("Neg", "x", "y")], {"x": (np.float32, FRAME.shape)}, ["y"])
    expected = "model_type must be one of ssd, yolo-generic, dfine, rfdetr for nnvk, got yolox"
    with pytest.raises(ValueError, match=expected):
        detect(detector, tmp_path, "yolox", made)
