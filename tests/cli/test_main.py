"""The command as a whole: help, version, errors."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

import nnvk
from nnvk.base import settings
from nnvk.cli.main import COMMANDS, app


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
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException, *arguments: str) -> Any:
    def fail() -> None:
        raise error

    monkeypatch.setattr(importlib.import_module("nnvk.cli.devices"), "command", fail)
    return CliRunner().invoke(app, [*arguments, "devices"])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (nnvk.NnapiError(nnvk.ResultCode.OP_FAILED, "the GPU\n  is tired"), "nnvk: OP_FAILED: the GPU is tired\n"),
        (ValueError("no such thing"), "nnvk: no such thing\n"),
        (FileNotFoundError(2, "No such file or directory", "a.npy"), "nnvk: a.npy: No such file or directory\n"),
        (MemoryError(), "nnvk: not enough memory\n"),
        (MemoryError("3 GiB"), "nnvk: not enough memory: 3 GiB\n"),
        (ModuleNotFoundError("No module named 'tflite'"), "nnvk: No module named 'tflite'\n"),
        (ValueError(), "nnvk: ValueError\n"),
    ],
)
def test_errors_are_one_line(monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str) -> None:
    result = _raise(monkeypatch, error)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", line)


def test_traceback_shows_where_an_error_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ValueError("no such thing")
    assert _raise(monkeypatch, error, "--traceback").exception is error


def test_a_wrong_environment_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_current", None)
    monkeypatch.setenv("NNVK_VALIDATION", "true")
    result = CliRunner().invoke(app, ["devices"])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("nnvk: NNVK_VALIDATION must be 0 or 1")


def test_bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    error = TypeError("a bug")
    assert _raise(monkeypatch, error).exception is error


def test_python_m_runs_it() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-m", "nnvk.cli", "--version"]
    result = subprocess.run(arguments, env=environment, cwd="/", capture_output=True, text=True, check=True)
    assert result.stdout == f"nnvk {nnvk.__version__}\n"
