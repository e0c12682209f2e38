"""scripts/wheels.sh and scripts/test_wheel_aarch64.sh refuse wrong arguments before they install or build anything."""

from __future__ import annotations

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
