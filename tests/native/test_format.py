"""native/kompute/fmt/format.h, which formats Kompute's error messages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HEADERS = Path(__file__).resolve().parents[2] / "native" / "kompute"
PROGRAM = """
#include <cstdint>
#include <iostream>
#include <fmt/format.h>
int main() {
    const uint32_t given = 8, expected = 4294967295u;
    std::cout << fmt::format("{} bytes but expected {} bytes", given, expected);
}
"""


def test_values_take_the_place_of_braces(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no compiler")
    (tmp_path / "main.cpp").write_text(PROGRAM)
    command = [compiler, "-std=c++17", "-Wall", "-Werror", f"-I{HEADERS}", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True, timeout=10)
    assert done.stdout == "8 bytes but expected 4294967295 bytes"
