"""Names out of files, whatever they hold, do nothing to a terminal and fill no screen."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tflite_net import Net, T, write

from nnvk.cli import output

EVIL = "\x1b]0;title\x07\x1b[2J\u202egnp.exe\n[red]nnvk: done"
SHOWN = r"\x1b]0;title\x07\x1b[2J\u202egnp.exe\n[red]nnvk: done"
CPU = ["--device", "nnapi-reference"]
MOST = 4000
"""Characters that a command prints of a small model, however long its names are."""


@pytest.fixture(params=[EVIL, EVIL + "x" * 1_000_000], ids=["evil", "long"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def file_of(path: Path, name: str, operator: str = "NEG") -> Path:
    """A model all of whose names are ``name``; of an operator that is not known, that too."""
    net = Net([T("FLOAT32", (1, 2), name=name)], [T("FLOAT32", (1, 2), name=name)])
    custom = {"custom": b""} if operator == name else {}
    net.op(operator, net.inputs, net.outputs, **custom)
    path.write_bytes(write(net, description=name))
    return path


def check(result: Any, *, shown: str = "stdout") -> None:
    """Nothing but lines of characters that are seen, and in them the beginning of the name, escaped."""
    for text in (result.stdout, result.stderr):
        assert all(line.isprintable() for line in text.split("\n"))
        assert len(text) < MOST
    assert SHOWN in getattr(result, shown)


@pytest.mark.parametrize("command", ["info", "run", "compare"])
def test_names_of_tensors(nnvk_command: Any, tmp_path: Path, name: str, command: str) -> None:
    model = file_of(tmp_path / "model.tflite", name)
    np.save(tmp_path / "in.npy", np.ones((1, 2), np.float32))
    given = [] if command == "info" else ["--input", tmp_path / "in.npy"]
    device = ["--devices", CPU[1], CPU[1]] if command == "compare" else CPU
    result = nnvk_command(command, model, *given, *device)
    assert result.exit_code == 0, result.output
    check(result)


def test_names_of_tensors_in_errors(nnvk_command: Any, tmp_path: Path, name: str) -> None:
    model = file_of(tmp_path / "model.tflite", name)
    np.save(tmp_path / "in.npy", np.ones((1, 3), np.float32))
    for given in (["--input", tmp_path / "in.npy"] * 2, ["--input", tmp_path / "in.npy"]):
        result = nnvk_command("run", model, *given, *CPU)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        check(result, shown="stderr")


@pytest.mark.parametrize("command", ["info", "run", "bench"])
def test_names_of_operators_in_errors(nnvk_command: Any, tmp_path: Path, name: str, command: str) -> None:
    result = nnvk_command(command, file_of(tmp_path / "model.tflite", name, operator=name))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 3)
    check(result, shown="stderr")


def test_names_of_files(nnvk_command: Any, tmp_path: Path) -> None:
    model = file_of(tmp_path / EVIL.replace("/", ""), "x")
    for command in ("info", "bench"):
        result = nnvk_command(command, model, *CPU, *(["--runs", 1] if command == "bench" else []))
        assert result.exit_code == 0, result.output
    check(result)
    result = nnvk_command("info", tmp_path / f"absent{EVIL}")
    hint = f"; did you mean '{SHOWN}'?".replace("\\", "\\\\")
    assert result.stderr == f"nnvk: no such file: {tmp_path}/absent{SHOWN}{hint}\n"


def test_names_of_arrays_and_labels(nnvk_command: Any, tmp_path: Path, name: str) -> None:
    model = file_of(tmp_path / "model.tflite", "x")
    np.savez(tmp_path / "in.npz", **{name.replace("\n", "")[:60_000]: np.ones(2)})
    result = nnvk_command("run", model, "--input", tmp_path / "in.npz", *CPU)
    assert result.exit_code == 2
    assert r"found \x1b]0;title\x07" in result.stderr
    assert result.stderr.count("\n") == 1
    np.save(tmp_path / "in.npy", np.ones((1, 2), np.float32))
    (tmp_path / "labels.txt").write_text(f"{name.replace(chr(10), '')}\nother\n")
    arguments = ["--input", tmp_path / "in.npy", "--labels", tmp_path / "labels.txt"]
    result = nnvk_command("run", model, *arguments, *CPU)
    assert result.exit_code == 0
    assert r"\x1b]0;title\x07\x1b[2J\u202egnp.exe" in result.stdout
    assert len(result.stdout) < MOST


def test_names_of_vectors(nnvk_command: Any, tmp_path: Path, name: str) -> None:
    test = {
        "name": name,
        "relaxed": False,
        "expect_failure": False,
        "multinomial_tolerance": 0,
        "main": {"operands": [], "operations": [{"type": name}], "inputs": [], "outputs": []},
        "referenced": [],
    }
    path = tmp_path / "vectors.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"spec": name, "tests": [test]}).encode()))
    report = tmp_path / "report.json"
    result = nnvk_command("conformance", path, *CPU, "--jobs", 0, "--json", report)
    assert result.exit_code == 1
    check(result)
    (failed,) = json.loads(report.read_text())["failed"]
    assert failed == f"{tmp_path.name}/{name}/{name}", "JSON is exact"
    assert all(line.isprintable() for line in report.read_text().split("\n"))


def test_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    monkeypatch.setattr(output, "Console", partial(Console, force_terminal=True, width=100))
    monkeypatch.setenv("TERM", "xterm")
    output.print_table(["name"], [[EVIL]], title=EVIL)
    printed = capsys.readouterr().out
    assert printed.count(SHOWN) == 2
    assert all(line.isprintable() for line in printed.split("\n"))
    with output.progress(EVIL, 1) as advance:
        advance(EVIL)
    with output.working(EVIL):
        pass
    progress = capsys.readouterr().err
    assert "\u202e" not in progress
    assert "\x1b]0;" not in progress
    assert "\\u202e" in progress
