"""The command as a whole: help, version, errors."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import nnvk
from nnvk.cli.main import COMMANDS, app
from nnvk.demo.assets import DATA


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"nnvk {nnvk.__version__}\n")


def test_help_lists_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_begins_with_its_summary(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert f"Usage: nnvk {name}" in result.stdout
    command = importlib.import_module(COMMANDS[name].module).command
    assert command.__doc__.splitlines()[0] == COMMANDS[name].summary


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from nnvk.cli.main import app;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "print([name for name in ('tflite', 'PIL', 'nnvk.cli.run') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", code]
    result = subprocess.run(arguments, env=environment, cwd="/", capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["devices", "--nonsense"], ["run"], ["run", "x", "--top", "0"], ["bench", "x", "--runs"]],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("nnvk: ")
    assert result.stderr[6].islower() or result.stderr[6] == "-"


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException, *arguments: str) -> Any:
    def fail() -> None:
        raise error

    monkeypatch.setattr(importlib.import_module("nnvk.cli.devices"), "command", fail)
    return CliRunner().invoke(app, [*arguments, "devices"])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (nnvk.NnapiError(nnvk.ResultCode.OP_FAILED, "the GPU\n  is tired"), "nnvk: the GPU is tired (OP_FAILED)\n"),
        (ValueError("no such thing"), "nnvk: no such thing\n"),
        (FileNotFoundError(2, "No such file or directory", "a.npy"), "nnvk: no such file: a.npy\n"),
        (MemoryError(), "nnvk: not enough memory\n"),
        (MemoryError("3 GiB"), "nnvk: not enough memory: 3 GiB\n"),
        (ModuleNotFoundError("No module named 'tflite'"), "nnvk: No module named 'tflite'\n"),
        (ValueError(), "nnvk: ValueError\n"),
    ],
)
def test_errors_are_one_line(monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str) -> None:
    result = _raise(monkeypatch, error)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", line)


@pytest.mark.parametrize("kind", [ValueError, AssertionError])
def test_a_traceback_does_nothing_to_a_terminal(monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    result = _raise(monkeypatch, kind("a name\x1b]0;\x07\nand\u202e more\ud800"), "--traceback")
    assert result.exit_code == 2
    assert all(line.isprintable() for line in result.stderr.splitlines())
    assert "a name\\x1b]0;\\x07" in result.stderr


def test_traceback_shows_where_an_error_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _raise(monkeypatch, ValueError("no such thing"), "--traceback")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("\nnnvk: no such thing\n")


def test_a_wrong_environment_is_one_line() -> None:
    """test_environment.py has other variables, in this process."""
    command = [sys.executable, "-m", "nnvk.cli", "devices"]
    result = subprocess.run(command, env={**ENVIRONMENT, "NNVK_VLOG": "x"}, cwd="/", capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("nnvk: NNVK_VLOG ")


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _raise(monkeypatch, KeyboardInterrupt())
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "nnvk: interrupted\n")


OPERAND = {"type": "TENSOR_FLOAT32", "dims": [1], "scale": 0, "zero_point": 0, "data": "AAAAAA=="}
RELU = {
    "name": "relu",
    "relaxed": False,
    "expect_failure": False,
    "multinomial_tolerance": 0,
    "main": {
        "operands": [{**OPERAND, "lifetime": "SUBGRAPH_INPUT"}, {**OPERAND, "lifetime": "SUBGRAPH_OUTPUT"}],
        "operations": [{"type": "RELU", "inputs": [0], "outputs": [1]}],
        "inputs": [0],
        "outputs": [1],
    },
    "referenced": [],
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.parametrize("arguments", [["bench", "--runs", "1000000"], ["conformance", "VECTORS", "--jobs", "2"]])
def test_a_command_at_work_ends_with_ctrl_c(arguments: list[str], tmp_path: Path) -> None:
    """The signal goes to the whole group of processes, as from a terminal."""
    if arguments[0] == "bench":
        arguments = [*arguments, str(DATA / "digits_float.tflite")]
    else:
        (tmp_path / "long.json").write_text(json.dumps({"spec": "long", "tests": [RELU] * 5000}))
        arguments = ["conformance", str(tmp_path), *arguments[2:], "--device", "cpu"]
    command = [sys.executable, "-m", "nnvk.cli", *arguments]
    environment = {**ENVIRONMENT, "NNVK_VLOG": "compilation"}
    with subprocess.Popen(
        command,
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline(), "it executes"
        os.killpg(process.pid, signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    logged = [line for line in err.splitlines() if not line.startswith("nnvk.")]
    assert (process.returncode, out, logged) == (130, "", ["nnvk: interrupted"])


SEVERAL = """
import sys
from nnvk.cli.main import app
codes = []
for call in sys.argv[2:]:
    try:
        app(call.split(), prog_name="nnvk")
    except SystemExit as done:
        codes.append(done.code)
with open(sys.argv[1], "w") as file:
    print(*codes, file=file)
"""
"""This script runs several commands, and writes their exit codes to a file."""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(closed: str, tmp_path: Path) -> None:
    """Output to a closed stream is lost, and does not go to a file that has got the stream's descriptor."""
    graph, codes = tmp_path / "graph.dot", tmp_path / "codes"
    # The command that writes a file comes first, while the descriptors are free.
    calls = [f"graph {DATA / 'digits_float.tflite'} --dot {graph}", "devices", "info /absent"]
    given = ["sh", "-c", f'exec "$0" -c "$@" {closed}', sys.executable, SEVERAL, codes, *calls]
    result = subprocess.run(given, env=ENVIRONMENT, cwd="/", capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert codes.read_text() == "0 0 2\n"
    assert ("nnapi-reference" in result.stdout) == (">&-" not in closed.replace("2>&-", ""))
    assert result.stderr == ("" if "2>&-" in closed else "nnvk: no such file: /absent\n")
    assert graph.read_text().startswith("digraph")
    assert graph.read_text().endswith("}\n")


def test_characters_that_the_terminal_has_not(tmp_path: Path) -> None:
    model = tmp_path / "größe犬.tflite"
    shutil.copy(DATA / "digits_float.tflite", model)
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "latin-1"}
    arguments = [sys.executable, "-m", "nnvk.cli", "bench", str(model), "--runs", "1", "--device", "cpu"]
    result = subprocess.run(arguments, env=environment, cwd="/", capture_output=True, check=True)
    assert r"größe\u72ac.tflite".encode("latin-1") in result.stdout


def test_bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _raise(monkeypatch, TypeError("a bug"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("\nnnvk: this is a bug of nnvk, please report it: a bug\n")


def test_python_m_runs_it() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-m", "nnvk.cli", "--version"]
    result = subprocess.run(arguments, env=environment, cwd="/", capture_output=True, text=True, check=True)
    assert result.stdout == f"nnvk {nnvk.__version__}\n"
