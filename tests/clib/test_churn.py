"""Many threads that make, use and free objects in every order, under sanitizers, while the server may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from c_library import build, run, sanitizer

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("churn.cpp")
ROUNDS = os.environ.get("NNVK_TEST_ROUNDS", "8")


def test_frees_in_every_order(tmp_path: Path) -> None:
    """Where servers are killed meanwhile, no call hangs or ends in any other way than by DEAD_OBJECT; none is left."""
    program = build(PROGRAM, tmp_path / "churn", sanitizer(tmp_path))
    assert run(program, "6", ROUNDS).endswith(" rounds computed, 0 calls met a dead server\n")
    (tmp_path / "nnvk-server.pids").unlink()
    assert " rounds computed" in run(program, "4", ROUNDS, str(tmp_path / "nnvk-server.pids"))


def test_races(tmp_path: Path) -> None:
    """The library itself under the thread sanitizer, in one program with the test."""
    probe = tmp_path / "probe.cpp"
    probe.write_text("int main() { return 0; }\n")
    compiler = ["c++", "-std=c++17", "-g", "-O1", "-fsanitize=thread"]
    try:
        made = subprocess.run([*compiler, probe, "-o", tmp_path / "probe"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no compiler")
    if made.returncode or subprocess.run([tmp_path / "probe"], capture_output=True, check=False).returncode:
        pytest.skip("there is no thread sanitizer")
    generated = tmp_path / "generated"
    subprocess.run([sys.executable, ROOT / "tools" / "c_api.py", "--out", generated], check=True)
    clib = ROOT / "clib"
    folders = [clib / "src", clib / "include", generated / "src", generated / "include"]
    sources = [*sorted((clib / "src").glob("*.cpp")), generated / "src" / "stubs.cpp", PROGRAM]
    program = tmp_path / "races"
    # The sanitizer's own clone() takes a process that shares the memory for a fork, and breaks the state of both. It
    # has none for glibc's other name.
    defines = ["-D_GNU_SOURCE", "-Dclone=__clone"]
    command = [*compiler, *defines, *(f"-I{folder}" for folder in folders), *sources, "-o", program]
    subprocess.run([*command, "-pthread", "-ldl"], check=True, timeout=250)
    assert run(program, "6", ROUNDS).endswith(" rounds computed, 0 calls met a dead server\n")
