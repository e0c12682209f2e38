"""scripts/wheels.sh, scripts/find_python.sh and scripts/test_wheel_aarch64.sh: arguments, and what is built again.

Stand-ins take the place of Python, pip, build and auditwheel, so nothing is installed or built.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", SCRIPTS / script, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("names", [["cp39-x86_64"], ["native", "cp313-aarch64"], ["cp312-riscv64"]])
def test_unknown_wheels_are_refused(tmp_path: Path, names: list[str]) -> None:
    target = tmp_path / "wheels"
    done = run("wheels.sh", str(target), *names)
    assert done.returncode == 2
    assert f"expected cp310, cp311 or cp312, and x86_64 or aarch64, or native, got {names[-1]}\n" in done.stderr
    assert not target.exists()


def test_wheels_without_a_folder_prints_the_usage() -> None:
    done = run("wheels.sh")
    assert done.returncode == 2
    assert done.stderr.startswith("bash scripts/wheels.sh FOLDER ")


@pytest.mark.parametrize(
    "name",
    [
        "nnvk-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl",
        "nnvk-0.1.0-cp310-cp310-manylinux_2_35_aarch64.whl",
        "numpy-2.0.0-cp311-cp311-manylinux2014_aarch64.whl",
    ],
)
def test_only_wheels_that_can_run_are_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    done = run("test_wheel_aarch64.sh", str(tmp_path / name))
    assert done.returncode == 2
    assert f"expected a wheel for aarch64 and Python 3.11, or 3.12 and later, got {name}\n" in done.stderr


def test_a_missing_wheel_is_named(tmp_path: Path) -> None:
    done = run("test_wheel_aarch64.sh", str(tmp_path / "nnvk-0.1.0-cp311-cp311-manylinux_2_35_aarch64.whl"))
    assert done.returncode == 2
    assert "no such file: " in done.stderr


# `-m venv FOLDER` makes an environment of stand-ins. The source release is the file `source`; a wheel is its name.
PYTHON = """#!/bin/bash
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$STANDINS"/* "$3/bin" ;;
    "-c "*) echo cp311 ;;
    -VV) echo Python ;;
    *) exit "${FITS:-0}" ;;
esac
"""
ENVIRONMENT = {
    "python": 'mkdir -p "$5" && cp source "$5/nnvk-0.1.0.tar.gz"',
    "pip": """[ "$1" = wheel ] || exit 0
        tag=cp311-cp311-linux_$(uname -m)
        for option; do case $option in wheel.tags=*) tag=${option#*=} ;; esac; done
        mkdir -p "$5" && touch "$5/nnvk-0.1.0-$tag.whl" && echo "$tag" >>log""",
    "auditwheel": 'mkdir -p "$3" && name=$(basename "$4") && cp "$4" "$3/${name/linux/manylinux_2_35}"',
    "uv": "exit 1",
}


class Clone:
    """A source tree with the scripts alone, which records the wheels that pip builds in the file `log`."""

    def __init__(self, root: Path) -> None:
        self.root, self.standins = root, root / "standins"
        shutil.copytree(SCRIPTS, root / "scripts")
        (root / "scripts" / "packages.sh").write_text("")
        self.standins.mkdir()
        for name, text in ENVIRONMENT.items():
            self._add(self.standins / name, f"#!/bin/bash\n{text}\n")
        self._add(root / "a-python", PYTHON)
        self.change("first")

    def _add(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def change(self, text: str) -> None:
        (self.root / "source").write_text(text)

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (self.root / "log").write_text("")
        environment = {**os.environ, "PYTHON": str(self.root / "a-python"), "STANDINS": str(self.standins), **variables}
        command = ["bash", f"scripts/{script}", *arguments]
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=60)

    def build(self, *names: str) -> list[str]:
        """The tags of the wheels that a run of scripts/wheels.sh builds."""
        done = self.run("wheels.sh", "dist", *names)
        assert done.returncode == 0, done.stderr
        return (self.root / "log").read_text().split()

    def wheels(self) -> set[str]:
        return {path.name.split("-")[2] for path in (self.root / "dist").glob("*.whl")}


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_a_wheel_of_the_same_source_is_not_built_again(clone: Clone) -> None:
    machine = platform.machine()
    assert clone.build("native") == [f"cp311-cp311-linux_{machine}"]
    assert (clone.root / "dist" / "nnvk-0.1.0.tar.gz").read_text() == "first"
    assert (clone.root / "dist" / f"nnvk-0.1.0-cp311-cp311-manylinux_2_35_{machine}.whl").exists()
    assert clone.build("native") == []
    other = "aarch64" if machine == "x86_64" else "x86_64"
    assert clone.build(f"cp310-{other}", "native") == [f"cp310-cp310-linux_{other}"]
    assert clone.wheels() == {"cp310", "cp311"}


def test_a_change_builds_again_and_removes_wheels_of_the_source_before(clone: Clone) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    clone.build(f"cp310-{other}", "native")
    clone.change("second")
    assert clone.build("native") == [f"cp311-cp311-linux_{platform.machine()}"]
    assert (clone.root / "dist" / "nnvk-0.1.0.tar.gz").read_text() == "second"
    assert clone.wheels() == {"cp311"}


def test_the_python_that_fits_is_found(clone: Clone) -> None:
    assert clone.run("find_python.sh", "cp311").stdout == f"{clone.root / 'a-python'}\n"
    done = clone.run("find_python.sh", "cp310", FITS="1", PATH="/usr/bin:/bin", PYENV_ROOT=str(clone.root))
    assert (done.returncode, done.stdout) == (3, "")
    assert "There is no Python 3.10 with headers, venv and ensurepip here, and uv can't fetch it\n" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["cp313"], ["cp311", "cp312"]], ids=str)
def test_other_tags_print_the_usage(arguments: list[str]) -> None:
    done = run("find_python.sh", *arguments)
    assert (done.returncode, done.stderr) == (2, "bash scripts/find_python.sh TAG\n")
