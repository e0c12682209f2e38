"""Vectors out of a checkout: a small stand-in for AOSP's generator makes them, and they run."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import nnvk
from nnvk.cli.main import app
from nnvk.conformance.export_process import _encoded
from nnvk.conformance.vectors import find_cases, read_test

CHECKOUT = Path(__file__).parent / "aosp"
DEVICES = [device.name for device in nnvk.get_devices()]


def command(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in ("conformance", *words)])


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vectors")
    result = command("--export", CHECKOUT, out, f"--json={out.parent / 'export.json'}")
    assert (result.exit_code, result.stderr) == (0, "")
    _, *rows, _, _ = result.stdout.splitlines()
    assert [row.split() for row in rows] == [["V1_0", "2", "6"], ["V1_3", "1", "4"]]
    sets = json.loads((out.parent / "export.json").read_text())["sets"]
    assert sets == {"V1_0": {"add": 3, "relu": 3}, "V1_3": {"more": 4}}
    return out


@pytest.mark.parametrize("device", DEVICES)
def test_they_run(vectors: Path, device: str) -> None:
    result = command(vectors, "--device", device, "--jobs", 0, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert len(report["passed"]) == 10
    names = {"V1_0/relu/relu", "V1_0/relu/relu_again", "V1_0/add/add_wrong_shape", "V1_3/more/more_channels"}
    assert names <= set(report["passed"])


def test_a_wrong_expectation_fails(vectors: Path, tmp_path: Path) -> None:
    """Data arrives: another number is noticed."""
    document = json.loads(gzip.decompress((vectors / "V1_0" / "relu.json.gz").read_bytes()))
    output = document["tests"][0]["main"]["outputs"][0]
    wrong = _encoded("TestBuffer::createFromVector<float>({0, 0, 0, 5})")
    document["tests"][0]["main"]["operands"][output]["data"] = wrong
    (tmp_path / "relu.json").write_text(json.dumps(document))
    result = command(tmp_path, "--device", "cpu", "--jobs", 0)
    assert result.exit_code == 1
    assert "3 tests, 2 passed, 1 failed" in result.stdout


def test_what_is_kept_of_a_test(vectors: Path) -> None:
    tests = {case.name: read_test(case.path, case.index) for case in find_cases([vectors])}
    relaxed = tests["V1_0/add/add_relaxed"]
    assert (relaxed.relaxed, relaxed.expect_failure) == (True, False)
    assert tests["V1_0/add/add_wrong_shape"].expect_failure
    channels = tests["V1_3/more/more_channels"].main.operands[1].type.channel_quant
    assert channels is not None
    assert channels.channel_dim == 0
    np.testing.assert_allclose(channels.scales, (0.1, 0.2), rtol=1e-6)
    assert [operand.ignored for operand in tests["V1_3/more/more_ignored"].outputs()] == [False, True]
    assert len(tests["V1_3/more/more_then"].referenced) == 2
    document = json.loads(gzip.decompress((vectors / "V1_0" / "add.json.gz").read_bytes()))
    assert [test["version"] for test in document["tests"]] == ["V1_0", None, "V1_0"]


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("TestBuffer::createFromVector<float>({1.0f, -2.5e-3f, INFINITY})", np.array([1, -2.5e-3, np.inf], np.float32)),
        ("TestBuffer::createFromVector<_Float16>({1.5f,\n 2.0f})", np.array([1.5, 2], np.float16)),
        ("TestBuffer::createFromVector<bool8>({true, false, 1})", np.array([1, 0, 1], np.uint8)),
        ("TestBuffer::createFromVector<int8_t>({-128, 127})", np.array([-128, 127], np.int8)),
        ("TestBuffer::createFromVector<uint16_t>({65535})", np.array([65535], np.uint16)),
        ("TestBuffer::createFromVector<int32_t>({})", np.array([], np.int32)),
    ],
)
def test_data(text: str, array: np.ndarray) -> None:
    assert _encoded(text) == base64.b64encode(array.tobytes()).decode()


@pytest.mark.parametrize("text", ["", "{1, 2}", "TestBuffer::createFromVector<string>({1})", "createRandom<float>(3)"])
def test_what_is_no_data(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of numbers"):
        _encoded(text)


def test_errors(tmp_path: Path) -> None:
    for words, said in (
        (
            ["--export", tmp_path, tmp_path / "out"],
            f"of AOSP's NeuralNetworks: there is no {tmp_path}/tools",
        ),
        (["--export", CHECKOUT, tmp_path / "a", tmp_path / "b"], "--export takes one PATH"),
    ):
        result = command(*words)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert said in result.stderr
    shutil.copytree(CHECKOUT, tmp_path / "aosp")
    specs = tmp_path / "aosp" / "runtime" / "test" / "specs" / "V1_0"
    (specs / "bad.mod.py").write_text("raise RuntimeError('no such operand')")
    result = command("--export", tmp_path / "aosp", tmp_path / "out")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"AOSP's generator failed on {specs}: RuntimeError: no such operand" in result.stderr
