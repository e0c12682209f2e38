"""The content of a file, or else its name, decides which importer takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tflite_net
from tflite_net import Net, T

from nnvk import NnapiError
from nnvk.importers import formats
from nnvk.importers.tflite import TfliteImportError

pytest.importorskip("onnx")

import numpy as np
from onnx_net import model, op


def tflite() -> bytes:
    net = Net([x := T("FLOAT32", (2,))], [y := T("FLOAT32", (2,))])
    net.op("EXP", [x], [y])
    return tflite_net.write(net)


def own() -> bytes:
    return model([op("Exp", "x", "y")], {"x": (np.float32, ["n", 2])}, ["y"]).SerializeToString()


@pytest.mark.parametrize("name", ["model.tflite", "model.onnx", "model.bin", "model"])
def test_content_tells_the_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for data, suffix in ((tflite(), ".tflite"), (own(), ".onnx")):
        path.write_bytes(data)
        assert formats.format_of(path).suffix == suffix
        assert [one.name for one in formats.load(path).sources[:1]] == [formats.load(path).outputs[0].name]


def test_the_name_tells_it_where_the_content_does_not(tmp_path: Path) -> None:
    for name, said in (("model.onnx", "not an .onnx file"), ("model.x", "not a .tflite file")):
        (tmp_path / name).write_bytes(b"neither")
        with pytest.raises(NnapiError, match=said):
            formats.load(tmp_path / name)


def test_each_takes_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(own())
    assert formats.load(path, shapes={"x": (3, 2)}, round_hybrid=False).inputs[0].shape == (3, 2)
    path.write_bytes(tflite())
    with pytest.raises(NnapiError, match="can't be constants"):
        formats.load(path, constants={"x": [1]})
    path.write_bytes(tflite()[:40])
    with pytest.raises(TfliteImportError):
        formats.load(path)


def test_activations_of_hybrid_operators_are_rounded_by_default(tmp_path: Path) -> None:
    """As TFLite does it, which takes more operations."""
    weights = T("INT8", data=np.arange(24).reshape(4, 6), scale=0.02)
    net = Net([T("FLOAT32", (2, 6))], [T("FLOAT32", (2, 4))])
    net.op(
        "FULLY_CONNECTED", [*net.inputs, weights, T(data=[0.0, 0.0, 0.0, 0.0])], net.outputs, "FullyConnectedOptions"
    )
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite_net.write(net))
    rounded, plain = (len(formats.load(path, **options).sources) for options in ({}, {"round_hybrid": False}))
    assert rounded > plain == 1
