"""The declarations of onnxruntime's interface against its own header."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ort_header import header_folder

OWN = Path(__file__).parents[2] / "provider"
DECLARED = (OWN / "onnxruntime.h").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^\s*X\((Api|EpApi|ModelEditorApi), (\w+), (\d+),", DECLARED, re.MULTILINE)
STRUCTURES = re.findall(r"^struct (\w+) \{  // (Ort\w+)\n(.*?)^\};", DECLARED, re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"\(\*(\w+)\)\(|^\s*(?:uint32_t|bool) (\w+)\b", re.MULTILINE)
_OF_1_24 = frozenset({"TensorTypeAndShape_HasShape", "CreateHardwareDevice"})
"""The entries that the header of 1.23, which Debian has, lacks."""


def printed(folder: Path, source: str, include: Path) -> list[str]:
    """The lines that a C++ program prints."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    (folder / "program.cpp").write_text(f"#include <cstddef>\n#include <cstdio>\n{source}")
    flags = ["-std=c++17", "-w", f"-I{include}"]
    subprocess.run([compiler, *flags, folder / "program.cpp", "-o", folder / "program"], check=True)
    return subprocess.run([folder / "program"], check=True, capture_output=True, text=True).stdout.splitlines()


def offsets(space: str, names: dict[str, str]) -> str:
    """Statements that print the offsets of the fields of all structures, which have these names in a namespace."""
    return "".join(
        f'std::printf("{theirs} {name} %zu\\n", offsetof({space}{names[own]}, {name}));\n'
        for own, theirs, body in STRUCTURES
        for name in (first or second for first, second in FIELD.findall(body))
    )


def own_offsets(folder: Path) -> list[str]:
    names = {own: own for own, _, _ in STRUCTURES}
    source = f'#include "onnxruntime.h"\nint main() {{ {offsets("nnvk::ort::", names)} }}'
    return printed(folder, source, OWN)


def test_there_are_declarations(tmp_path: Path) -> None:
    assert len(ENTRIES) > 60
    assert [theirs for _, theirs, _ in STRUCTURES] == [
        "OrtApiBase", "OrtAllocator", "OrtDataTransferImpl", "OrtNodeFusionOptions", "OrtNodeComputeInfo", "OrtEp",
        "OrtEpFactory",
    ]  # fmt: skip
    lines = own_offsets(tmp_path)
    assert "OrtApiBase GetVersionString 8" in lines
    assert len(lines) > 30


def test_numbers_differ_and_grow() -> None:
    for table in ("Api", "EpApi", "ModelEditorApi"):
        numbers = [int(number) for of, _, number in ENTRIES if of == table]
        assert numbers == sorted(set(numbers))


def test_the_header_has_the_same(tmp_path: Path) -> None:
    include = header_folder()
    version = re.search(r"#define ORT_API_VERSION (\d+)", (include / "onnxruntime_c_api.h").read_text(encoding="utf-8"))
    assert version is not None
    entries = [one for one in ENTRIES if int(version[1]) >= 24 or one[1] not in _OF_1_24]
    slots = "".join(
        f'std::printf("{table} {name} %zu\\n", offsetof(Ort{table}, {name}) / sizeof(void*));\n'
        for table, name, _ in entries
    )
    names = {own: theirs for own, theirs, _ in STRUCTURES}
    source = f'#include "onnxruntime_c_api.h"\nint main() {{ {slots} {offsets("", names)} }}'
    found = printed(tmp_path, source, include)
    assert found == [f"{table} {name} {number}" for table, name, number in entries] + own_offsets(tmp_path)
