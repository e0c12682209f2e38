"""Programs in C and C++ under the address sanitizer: the examples, and one of many threads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from c_library import EXAMPLES, build, run, sanitizer

from nnvk import get_devices


def test_the_c_example(tmp_path: Path) -> None:
    program = build(EXAMPLES / "add.c", tmp_path / "add", sanitizer(tmp_path))
    assert run(program, "1.5", "2.5") == "(0.5 + 1.5) + (0.5 + 2.5) = 5; 0 of 20000 elements are wrong\n"


def test_the_cpp_example(tmp_path: Path) -> None:
    program = build(EXAMPLES / "mobilenet_block.cpp", tmp_path / "block", sanitizer(tmp_path))
    for device in get_devices():
        printed = run(program, device.name)
        assert printed.count(" right") == 4 and "WRONG" not in printed


@pytest.mark.parametrize("threads, rounds", [(8, int(os.environ.get("NNVK_TEST_ROUNDS", "8")))])
def test_many_threads(threads: int, rounds: int, tmp_path: Path) -> None:
    program = build(Path(__file__).with_name("stress.cpp"), tmp_path / "stress", sanitizer(tmp_path))
    run(program, str(threads), str(rounds))
