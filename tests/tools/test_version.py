"""The version stands in one place, and the package is marked as typed."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nnvk
from nnvk.cli.main import app

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_and_the_command_have_the_same() -> None:
    assert version("nnvk") == nnvk.__version__
    assert CliRunner().invoke(app, ["--version"]).output == f"nnvk {nnvk.__version__}\n"


def test_cmake_reads_it(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake")
    lines = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    reading = re.search(r"^file\(STRINGS .*?^project\([^)]*\)", lines, re.MULTILINE | re.DOTALL)
    assert reading is not None
    script = reading[0].replace("nnvk/__init__.py", str(ROOT / "nnvk/__init__.py")).replace("project(", "message(")
    (tmp_path / "version.cmake").write_text(script)
    command = ["cmake", "-P", str(tmp_path / "version.cmake")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert printed.startswith(f"nnvkVERSION{nnvk.__version__}LANGUAGES")


def test_the_changelog_has_it() -> None:
    assert f"## [{nnvk.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_citation_has_it() -> None:
    assert f"\nversion: {nnvk.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_type_checkers_take_the_annotations() -> None:
    assert files("nnvk").joinpath("py.typed").is_file()
