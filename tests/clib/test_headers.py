"""The headers, and what the library exports."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import c_api
import pytest
from c_library import build

from nnvk.serve.extensions import ALL_FUNCTIONS
from nnvk.serve.functions import FUNCTIONS
from nnvk.serve.installed import INCLUDES, LIBRARY

HEADERS = sorted(path.name for path in (INCLUDES / "android").glob("*.h"))
ANDROID = r"\b(?:ASharedMemory|AHardwareBuffer|_?_android_log)_\w+(?=\()"


def exported() -> set[str]:
    """The names of the library's functions."""
    tool = shutil.which("nm")
    if tool is None:
        pytest.skip("there is no nm")
    listed = subprocess.run([tool, "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}


def declared(header: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, (INCLUDES / "android" / header).read_text()))


def test_there_are_the_functions_of_feature_level_8() -> None:
    assert len(FUNCTIONS) == 69
    assert declared("NeuralNetworks.h", r"\bANeuralNetworks\w+(?=\()") == {row.name for row in FUNCTIONS}


def test_exactly_what_is_declared_is_exported() -> None:
    android = set().union(*(declared(name, ANDROID) for name in ("sharedmem.h", "hardware_buffer.h", "log.h")))
    assert exported() == {row.name for row in ALL_FUNCTIONS} | android


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("suffix", [".c", ".cpp"])
def test_each_header_stands_alone(header: str, suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"alone{suffix}"
    source.write_text(f"#include <android/{header}>\n#include <android/{header}>\nint main(void) {{ return 0; }}\n")
    build(source, tmp_path / "alone")


@pytest.mark.parametrize("suffix", [".c", ".cpp"])
def test_enumerators_have_the_specification_s_numbers(suffix: str, tmp_path: Path) -> None:
    lines = ["#include <android/NeuralNetworks.h>", "int main(void) {"]
    for enum, prefix in c_api.ENUMS:
        lines.append(f"  {enum.__name__} {enum.__name__}_ = ({enum.__name__})0; (void){enum.__name__}_;")
        for name, value in c_api.enumerators(enum, prefix):
            lines.append(f"  {{ char is_right[{name} == {value} ? 1 : -1]; (void)is_right; }}")
    source = tmp_path / f"numbers{suffix}"
    source.write_text("\n".join([*lines, "  return 0;", "}", ""]))
    build(source, tmp_path / "numbers")


@pytest.mark.parametrize(
    "name, value",
    [
        ("TENSOR_QUANT8_ASYMM_SIGNED", 14),
        ("MODEL", 15),
        ("REVERSE", 105),
        ("FUSED_RELU6", 3),
        ("PADDING_VALID", 2),
        ("PREFER_SUSTAINED_SPEED", 2),
        ("DEVICE_ACCELERATOR", 4),
        ("DEAD_OBJECT", 14),
        ("PRIORITY_DEFAULT", 100),
        ("FENCED_DURATION_IN_DRIVER", 3),
        ("FEATURE_LEVEL_8", 1000008),
    ],
)
def test_some_enumerators(name: str, value: int) -> None:
    known = dict(pair for enum, prefix in c_api.ENUMS for pair in c_api.enumerators(enum, prefix))
    assert known[f"ANEURALNETWORKS_{name}"] == value


def test_the_library_needs_the_c_and_the_c_runtime_alone() -> None:
    tool = shutil.which("objdump")
    if tool is None:
        pytest.skip("there is no objdump")
    listed = subprocess.run([tool, "-p", LIBRARY], capture_output=True, text=True, check=True).stdout
    needed = {name.partition(".so")[0] for name in re.findall(r"NEEDED\s+(\S+)", listed)}
    assert needed <= {"libstdc++", "libgcc_s", "libc", "libm", "libdl", "libpthread", "ld-linux-x86-64"}
