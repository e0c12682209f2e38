"""The objects that `nnvk.load` takes a model from, and copies of what it returns."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import nnvk
from nnvk.demo.assets import DATA

PATH = DATA / "digits_float.tflite"
CONTENT = PATH.read_bytes()


def relu() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy")
    return helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", [x], [y]))


@pytest.mark.parametrize("source", [bytes, bytearray, memoryview, io.BytesIO], ids=lambda source: source.__name__)
def test_bytes(source: Callable[[bytes], Any], tmp_path: Path) -> None:
    for cache in (True, tmp_path):
        assert nnvk.load(source(CONTENT), device="cpu", cache=cache).inputs[0].name == "image"
    assert len(nnvk.importers.tflite.load(source(CONTENT)).outputs) == 1
    made = relu().SerializeToString()
    assert len(nnvk.importers.onnx.load(source(made)).outputs) == 1


def test_an_open_file() -> None:
    with PATH.open("rb") as file:
        assert nnvk.load(file, device="cpu").inputs[0].name == "image"
    with (DATA / "labels.txt").open() as text, pytest.raises(TypeError, match=r"must be open in binary mode \('rb'\)"):
        nnvk.load(text, device="cpu")  # type: ignore[arg-type]


def test_a_model_of_the_onnx_package() -> None:
    model = nnvk.load(relu(), device="cpu")
    assert np.array_equal(model([[1, -2, 3]]), [[1, 0, 3]])
    with pytest.raises(KeyError, match="no signature 'nosuch', the file has none: call the model itself"):
        model["nosuch"]


def test_a_model_that_is_too_large_for_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Large:
        def SerializeToString(self) -> bytes:
            raise ValueError("exceeds maximum protobuf size of 2GB")

    with pytest.raises(nnvk.NnapiError, match=r"a Large can't be serialised \(exceeds .*\): save it"):
        nnvk.load(Large(), device="cpu")


def test_other_objects() -> None:
    class Module:
        def state_dict(self) -> None:
            pass

    with open(__file__, encoding="utf-8") as file, pytest.raises(TypeError, match="must be open in binary mode"):
        nnvk.load(file, device="cpu")  # type: ignore[arg-type]
    wanted = "a model is read from a path, bytes, a file that is open in binary mode, or an onnx.ModelProto, got "
    for source, got in ((None, "NoneType"), (5, "int"), (Module(), "Module; torch.onnx.export writes an .onnx file")):
        with pytest.raises(TypeError, match=wanted + got):
            nnvk.load(source, device="cpu")  # type: ignore[arg-type]


def test_no_cache_is_a_variable() -> None:
    with pytest.raises(TypeError, match="cache must be True or a path, got False; NNVK_KEEP_PLANS=0 keeps no plans"):
        nnvk.load(PATH, cache=False)  # type: ignore[arg-type]


def test_copies_and_pickles() -> None:
    model = nnvk.load(PATH, device="cpu")
    compilation = model.compilation
    objects = [model, compilation, nnvk.Execution(compilation), nnvk.Burst(compilation), nnvk.get_devices()[0]]
    objects.append(model.start(np.zeros((1, 16, 16, 1), np.float32)))
    for each in objects:
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            name = type(each).__name__
            with pytest.raises(TypeError, match=f"a {name} belongs to its process and devices, and can't be copied"):
                copied(each)
    with pytest.raises(TypeError, match=r"another process calls nnvk\.load"):
        pickle.dumps(model)


def test_modules_of_the_package() -> None:
    script = "import nnvk; print(nnvk.batch.Task, nnvk.importers.tflite.load, nnvk.importers.onnx.load, nnvk.litert)"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert {"batch", "importers"} <= set(dir(nnvk))
    for module in (nnvk, nnvk.importers):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nosuch'"):
            module.nosuch  # noqa: B018
