"""Without the packages of the extra `report`, or without a place for their files: nothing is printed in vain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnvk.demo.assets import DATA

MODEL = str(DATA / "digits_int8.tflite")
CODE = """
import sys
sys.modules[sys.argv.pop(1)] = None
from nnvk.cli.main import app
app(prog_name="nnvk")
"""


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("matplotlib", ["report", MODEL, "--runs", "1", "--out", "x.html"]),
        ("jinja2", ["report", MODEL, "--runs", "1", "--out", "x.html"]),
        ("matplotlib", ["compare", MODEL, "--plot", "x.svg"]),
        ("jinja2", ["graph", MODEL, "--html", "x.html"]),
    ],
)
def test_one_line_names_the_package(package: str, arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, package, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"need the {package} package: pip install " in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("package", "arguments"),
    [("matplotlib", ["compare", MODEL]), ("jinja2", ["graph", MODEL, "--dot", "x.dot"])],
)
def test_the_rest_works(package: str, arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, package, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_matplotlib_without_a_cache_is_silent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nnvk.cli", "compare", MODEL, "--plot", str(tmp_path / "x.png")]
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "x.png" / "absent")}
    (tmp_path / "x.png").touch()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "x.png").stat().st_size > 1000
