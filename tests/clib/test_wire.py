"""Hostile replies to the C library, which is built under sanitizers: it refuses them, and goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNT = int(os.environ.get("NNVK_TEST_SEEDS", "40")) * 500
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def test_hostile_replies(tmp_path: Path) -> None:
    """Replies with wrong counts, descriptors of all kinds, and shared memory that can shrink or is too small."""
    compiler = shutil.which("c++")
    (tmp_path / "probe.cpp").write_text("int main() {}\n")
    probe = [str(compiler), *SANITIZERS, str(tmp_path / "probe.cpp"), "-o", str(tmp_path / "probe")]
    if compiler is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("there is no compiler with sanitizers")
    subprocess.run([sys.executable, ROOT / "tools" / "c_api.py", "--out", tmp_path], check=True)
    clib = ROOT / "clib"
    folders = [f"-I{folder}" for folder in (clib / "src", clib / "include", tmp_path / "src", tmp_path / "include")]
    sources = [Path(__file__).with_name("wire_fuzz.cpp"), clib / "src" / "wire.cpp", clib / "src" / "error.cpp"]
    program = tmp_path / "wire_fuzz"
    options = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    built = subprocess.run(
        [compiler, *options, *SANITIZERS, *folders, *sources, "-o", program], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program, str(COUNT), "1"], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stdout.startswith("0 understood")
