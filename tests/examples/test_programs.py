"""Programs of others, which know nothing of nnvk: their answers are those without it. They are mostly absent."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "examples" / "programs"
PACKAGES = {"file_types": "magika", "find_speech": "faster_whisper", "read_text": "rapidocr"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)


def test_each_program_is_tested() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_answers_are_those_without_nnvk(name: str) -> None:
    for package in (PACKAGES[name], "onnxruntime"):
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    path = str(PROGRAMS / f"{name}.py")
    plain, done = run(path), run("-m", "nnvk.onnxruntime", path)
    assert (plain.returncode, done.returncode) == (0, 0), done.stderr
    assert plain.stdout
    assert done.stdout == plain.stdout
    assert " on nnvk in 1 part; " in done.stderr
