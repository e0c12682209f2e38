"""Every command takes .onnx where it takes .tflite."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper
from onnx_net import model, op
from PIL import Image
from typer.testing import CliRunner

from nnvk.batch import read_results
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


def test_info_lists_every_operator_that_is_missing(tmp_path: Path) -> None:
    kinds = [f"Missing{number}" for number in range(60)]
    nodes = [op(kind, "x", f"y{number}", domain="own") for number, kind in enumerate(kinds)]
    nodes.append(op(kinds[0], "x", "z", domain="own"))
    outputs = [*(f"y{number}" for number in range(60)), "z"]
    path = tmp_path / "net.onnx"
    path.write_bytes(model(nodes, {"x": (np.float32, (2,))}, outputs).SerializeToString())
    head, first, *rest, hint = said("info", path, code=2).splitlines()
    assert head == f"nnvk: NNAPI can't express this model: {path}:"
    assert first == "  operators 0, 60 (own.Missing0, 2 in all): NNAPI has no counterpart of this operator"
    assert [line.split("(own.")[1].split(")")[0] for line in rest] == kinds[1:]
    assert hint == "  nnvk.importers.operator decorates a function in Python that computes such an operator"


def test_run_on_an_array(path: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((1, 3, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "out.npz"
    said("run", path, "--constant", "axes=[1]", "--input", tmp_path / "x.npy", "--out", out)
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
    said("run", path, "--input", given, "--out", out)
    np.testing.assert_array_equal(np.load(out)["0"], np.array([10**10, 2**62, 49]), strict=True)


def test_bench(path: Path) -> None:
    assert "net.onnx" in said("bench", path, "--constant", "axes=[1]", "--runs", 2)


def test_what_has_to_be_known_is_asked_for(path: Path) -> None:
    done = runner.invoke(app, ["plan", str(path)])
    assert done.exit_code == 2
    assert "'axes' is not known at import" in done.output
    assert "Data decide sizes behind these operations" in said("info", path)


def test_a_folder(path: Path, tmp_path: Path) -> None:
    shown = json.loads(said("run", path.parent, "--constant", "axes=[1]", "--json", "-"))
    assert "net.onnx" in json.dumps(shown)
    assert json.loads(said("run", path.parent, "--json", "-"))["models"][0]["partitions"] == 2


@pytest.mark.parametrize("command", ["info", "run", "bench", "compare", "report", "plan", "map", "tune"])
def test_every_command_reads_models_alike(command: str) -> None:
    shown = said(command, "--help")
    assert all(option in shown for option in ("--shape", "--constant", "--no-round-hybrid", "--relaxed"))


def test_a_constant_twice(path: Path) -> None:
    said_twice = said("info", path, "--constant", "axes=[1]", "--constant", "axes=[2]", code=2)
    assert "--constant is given twice for 'axes'" in said_twice


def test_a_constant_that_is_none(path: Path) -> None:
    assert "--constant must be NAME=VALUE" in said("info", path, "--constant", "axes", code=2)


# --- open sizes and images --------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    net = model([op("Mul", "x y", "z")], {"x": (np.float32, ["rows", 4]), "y": (np.float32, ["rows", 4])}, ["z"])
    (tmp_path / "rows.onnx").write_bytes(net.SerializeToString())
    return tmp_path / "rows.onnx"


OPEN = "rows.onnx leaves sizes open, --shape gives others: input 'x' is rowsx4, taken as 1x4; input 'y' is rowsx4, "


def test_open_sizes_are_said(rows: Path, tmp_path: Path) -> None:
    assert "x     float32 1x4  rowsx4, taken as 1x4" in said("info", rows)
    shown = json.loads(said("info", rows, "--json", "-"))
    assert [port["open"] for port in shown["inputs"]] == ["rowsx4"] * 2
    assert OPEN in said("bench", rows, "--runs", 1, "--device", "cpu")
    assert OPEN in said("report", rows, "--runs", 1, "--device", "cpu", "--out", tmp_path / "report.html")
    assert "x: float32 1x4 (open: rowsx4, taken as 1x4)" in (tmp_path / "report.html").read_text()


def test_sizes_are_given_by_their_names(rows: Path, tmp_path: Path) -> None:
    shown = json.loads(said("info", rows, "--shape", "rows=7", "--json", "-"))
    assert [port["dimensions"] for port in (*shown["inputs"], *shown["outputs"])] == [[7, 4]] * 3
    assert "leaves sizes open" not in said("bench", rows, "--shape", "rows=7", "--runs", 1, "--device", "cpu")
    two = model([op("Identity", "x", "y")], {"x": (np.float32, ["a", "b"])}, ["y"])
    (tmp_path / "two.onnx").write_bytes(two.SerializeToString())
    shown = json.loads(said("info", tmp_path / "two.onnx", "--shape", "a=2,b=3", "--json", "-"))
    assert shown["outputs"][0]["dimensions"] == [2, 3]
    assert "did you mean 'rows'?" in said("info", rows, "--shape", "row=7", code=2)


def test_arrays_give_open_sizes(rows: Path, tmp_path: Path) -> None:
    x, y = (np.full((3, 4), value, np.float32) for value in (2, 5))
    np.savez(tmp_path / "in.npz", **{"0": x, "1": y})
    for command in ("run", "compare", "bench"):
        printed = said(command, rows, "--input", tmp_path / "in.npz", *(("--runs", 1) if command == "bench" else ()))
        assert "leaves sizes open" not in printed
    said("run", rows, "--input", tmp_path / "in.npz", "--out", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["0"], x * y)


def test_a_photo_goes_where_channels_come_first(tmp_path: Path) -> None:
    path, photo, out = tmp_path / "net.onnx", tmp_path / "photo.png", tmp_path / "out.npz"
    path.write_bytes(model([op("Identity", "x", "y")], {"x": (np.float32, [1, 3, 4, 6])}, ["y"]).SerializeToString())
    Image.new("RGB", (6, 4), (255, 0, 51)).save(photo)
    printed = said("run", path, "--input", photo, "--out", out)
    assert "note: input 'x': pixels are divided by 255, which is a guess; --mean, --std or --scale change it" in printed
    assert np.load(out)["0"][0, :, 2, 3].tolist() == [1, 0, np.float32(0.2)]
    printed = said("run", path, "--input", photo, "--out", out, "--mean", "0.5", "--std", "0.5", "--scale", "1/255")
    assert "guess" not in printed
    np.testing.assert_allclose(np.load(out)["0"][0, :, 2, 3], [1, -1, -0.6], atol=1e-6)
    for command in ("compare", "bench"):
        words = ["--runs", 1] if command == "bench" else []
        assert "which is a guess" in said(command, path, "--input", photo, *words)
    assert "which is a guess" in said("map", path, photo, "--out", tmp_path / "results")
    assert "in the layout nhwc" in said("run", path, "--input", photo, "--layout", "nhwc", code=2)


def test_rows_may_have_their_own_sizes(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(
        model([op("Neg", "x", "y")], {"x": (np.float32, [1, 3, "height", "width"])}, ["y"]).SerializeToString()
    )
    for side in (3, 5):
        Image.new("RGB", (side, 2 * side), (255, 255, 255)).save(tmp_path / f"{side}.png")
    said("map", path, tmp_path / "3.png", tmp_path / "5.png", "--out", tmp_path / "out", "--device", "cpu")
    shapes = {Path(name).name: outputs[0].shape for name, outputs in read_results(tmp_path / "out")}
    assert shapes == {"3.png": (3, 6, 3), "5.png": (3, 10, 5)}


@pytest.mark.usefixtures("libraries")
def test_bench_says_which_model_needs_inputs(tmp_path: Path) -> None:
    """Only onnxruntime computes texts, and no random ones are made."""
    pytest.importorskip("onnxruntime")
    text, same = (helper.make_tensor_value_info(name, TensorProto.STRING, [1]) for name in "st")
    graph = helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "g", [text], [same])
    paths = [tmp_path / folder / "model.onnx" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path.write_bytes(net.SerializeToString())
    printed = said("bench", *paths, code=2)
    for name in ("a/model.onnx", "b/model.onnx"):
        assert f"nnvk: {name}: input 's' is of type STRING, which has no random values: give inputs" in printed
    printed = said("info", paths[0])
    assert "Identity (# 0): it reads texts or a list, or a tensor whose type" in printed
