"""ONNX models: against ONNX Runtime, layer by layer, and on many inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx_net import model, op

import nnvk
from nnvk.batch import Task, map_files, read_results
from nnvk.cli.main import app
from nnvk.importers import formats
from nnvk.insight.comparison import compare
from nnvk.insight.engines import OnnxRuntime

SHAPE = (1, 3, 8, 9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A convolution, an addition of what it gives, a pool and a product."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    nodes = [
        op("Conv", "x w b", "conv", name="first", pads=[1, 1, 1, 1]),
        op("Relu", "conv", "relu"),
        op("Add", "relu conv", "sum"),
        op("GlobalAveragePool", "sum", "pool"),
        op("Flatten", "pool", "flat"),
        op("Gemm", "flat v d", "y", name="last", transB=1),
    ]
    constants = {"w": weights(5, 3, 3, 3), "b": weights(5), "v": weights(4, 5), "d": weights(4)}
    onnx.save(model(nodes, {"x": (np.float32, SHAPE)}, ["y"], constants), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("alone", [False, True], ids=["whole", "alone"])
def test_against_onnxruntime(path: Path, alone: bool, subtracts: nnvk.Device) -> None:
    imported = formats.load(path)
    comparison = compare(imported, nnvk.get_devices()[0], OnnxRuntime(path), alone=alone)
    assert not comparison.is_off
    assert {"Conv", "Relu", "Add", "Gemm"} <= {each.layer.operator for each in comparison.inside if each.layer}
    assert "first" in {each.layer.name for each in comparison.inside if each.layer}
    assert len(comparison.outputs) == 1
    wrong = compare(imported, subtracts, OnnxRuntime(path), alone=alone)
    assert wrong.begins is not None
    assert (wrong.begins.operation, wrong.begins.layer.operator) == ("ADD", "Add")
    assert wrong.outputs[0].is_off


def test_the_command(path: Path) -> None:
    def command(*words: Any) -> Any:
        return CliRunner().invoke(app, [str(word) for word in ("compare", path, *words)])

    result = command("--devices", "cpu", "onnxruntime", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["reference"] == "onnxruntime"
    path.write_bytes(path.read_bytes().replace(b"Relu", b"Relx"))
    result = command("--devices", "cpu", "onnxruntime")
    assert result.exit_code == 2
    message, problem, _way_on = result.stderr.splitlines()
    assert message.startswith("nnvk: ")
    assert "Relx" in problem


@pytest.mark.parametrize("batch", [1, 4])
def test_many_inputs(path: Path, tmp_path: Path, batch: int) -> None:
    rows = np.random.default_rng(1).random((7, *SHAPE[1:]), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    devices = nnvk.get_devices()[:1]
    outcome = map_files(Task(path, batch), [tmp_path / "rows.npy"], tmp_path / "out", devices=devices)
    assert (outcome.done, outcome.failures) == (7, ())
    session = onnxruntime.InferenceSession(str(path))
    for (_, (got,)), row in zip(read_results(tmp_path / "out"), rows, strict=True):
        np.testing.assert_allclose(got, session.run(["y"], {"x": row[None]})[0][0], rtol=1e-4, atol=1e-5)
