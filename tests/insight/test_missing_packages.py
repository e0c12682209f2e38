"""Without the packages of the extra `report`, or without a place for their files: nothing is printed in vain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import SEPARATOR, together

from nnvk.demo.assets import DATA

MODEL = str(DATA / "digits_int8.tflite")
REPORT = ["report", MODEL, "--runs", "1", "--out", "x.html"]


@pytest.mark.parametrize(
    ("package", "needing", "other"),
    [
        ("matplotlib", ["compare", MODEL, "--plot", "x.svg"], ["compare", MODEL]),
        ("jinja2", ["graph", MODEL, "--html", "x.html"], ["graph", MODEL, "--dot", "x.dot"]),
    ],
)
def test_one_line_names_the_package_and_the_rest_works(
    package: str, needing: list[str], other: list[str], tmp_path: Path
) -> None:
    python, option, script, calls = together([REPORT, needing, other])
    command = [python, option, f"import sys; sys.modules[{package!r}] = None\n{script}", calls]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"{SEPARATOR}2\n{SEPARATOR}2\n")
    assert done.stdout.endswith(f"{SEPARATOR}0\n")
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all(f"need the {package} package: pip install " in line for line in lines)
    assert not (tmp_path / "x.html").exists() and not (tmp_path / "x.svg").exists()


def test_matplotlib_without_a_cache_is_silent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nnvk.cli", "compare", MODEL, "--plot", str(tmp_path / "x.png")]
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "x.png" / "absent")}
    (tmp_path / "x.png").touch()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "x.png").stat().st_size > 1000
