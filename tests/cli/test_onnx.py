"""Every command takes .onnx where it takes .tflite."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_net import model, op
from typer.testing import CliRunner

from nnvk.cli.main import app

runner = CliRunner()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nodes = [op("ReduceSum", "x axes", "s", keepdims=0), op("Softmax", "s", "y", axis=-1)]
    net = model(nodes, {"x": (np.float32, ["n", 3, 4]), "axes": (np.int64, [1])}, ["y"])
    found = tmp_path / "net.onnx"
    found.write_bytes(net.SerializeToString())
    return found


def said(*words: object, code: int = 0) -> str:
    done = runner.invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def test_info(path: Path) -> None:
    shown = json.loads(said("info", path, "--constant", "axes=[2]", "--shape", "x=5x3x4", "--json", "-"))
    assert [port["dimensions"] for port in (*shown["inputs"], *shown["outputs"])] == [[5, 3, 4], [5, 3]]
    assert shown["runs_whole"]


def test_run_on_an_array(path: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((1, 3, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "out.npz"
    said("run", path, "--constant", "axes=[1]", "--input", tmp_path / "x.npy", "--output", out)
    sums = np.exp(x.sum(1))
    np.testing.assert_allclose(np.load(out)["0"], sums / sums.sum(-1, keepdims=True), rtol=1e-5)


def test_numbers_of_64_bits(tmp_path: Path) -> None:
    """They are two words in the model, and one number for whoever runs it."""
    path, given, out = tmp_path / "net.onnx", tmp_path / "x.npy", tmp_path / "out.npz"
    path.write_bytes(model([op("Mul", "x x", "y")], {"x": (np.int64, (3,))}, ["y"]).SerializeToString())
    shown = json.loads(said("info", path, "--json", "-"))["outputs"]
    assert [(port["dimensions"], port["type"]) for port in shown] == [([3], "int64")]
    assert "int64 3\n" in said("info", path)
    np.save(given, np.array([100000, -(2**31), 7]))
    said("run", path, "--input", given, "--output", out)
    np.testing.assert_array_equal(np.load(out)["0"], np.array([10**10, 2**62, 49]), strict=True)


def test_bench(path: Path) -> None:
    assert "net.onnx" in said("bench", path, "--constant", "axes=[1]", "--runs", 2)


def test_what_has_to_be_known_is_asked_for(path: Path) -> None:
    done = runner.invoke(app, ["info", str(path)])
    assert done.exit_code == 2
    assert "'axes' is not known at import" in done.output


def test_a_folder(path: Path, tmp_path: Path) -> None:
    shown = json.loads(said("run", path.parent, "--constant", "axes=[1]", "--json", "-"))
    assert "net.onnx" in json.dumps(shown)
    assert "'axes' is not known at import" in said("run", path.parent, code=2)


@pytest.mark.parametrize("command", ["info", "run", "bench", "compare", "report", "plan", "map", "tune"])
def test_every_command_reads_models_alike(command: str) -> None:
    shown = said(command, "--help")
    assert all(option in shown for option in ("--shape", "--constant", "--no-round-hybrid", "--relaxed"))


def test_a_constant_twice(path: Path) -> None:
    said_twice = said("info", path, "--constant", "axes=[1]", "--constant", "axes=[2]", code=2)
    assert "--constant is given twice for 'axes'" in said_twice


def test_a_constant_that_is_none(path: Path) -> None:
    assert "--constant must be NAME=VALUE" in said("info", path, "--constant", "axes", code=2)
