"""The declarations of onnxruntime's interface against its own header.

The header is looked for in the folder that NNVK_ONNXRUNTIME_INCLUDE names, and where Debian's package of it is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

OWN = Path(__file__).parents[2] / "provider"
DECLARED = (OWN / "onnxruntime.h").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^\s*X\((Api|EpApi), (\w+), (\d+),", DECLARED, re.MULTILINE)
STRUCTURES = re.findall(r"^struct (\w+) \{  // (Ort\w+)\n(.*?)^\};", DECLARED, re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"\(\*(\w+)\)\(|^\s*(?:uint32_t|bool) (\w+)\b", re.MULTILINE)
_PLACES = ("/usr/include/onnxruntime", "/usr/include/onnxruntime/core/session", "/usr/include")


def header_folder() -> Path | None:
    """The folder of onnxruntime's header, if there is one."""
    places = [os.environ.get("NNVK_ONNXRUNTIME_INCLUDE", ""), *_PLACES]
    return next((Path(one) for one in places if one and Path(one, "onnxruntime_c_api.h").exists()), None)


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
        "OrtApiBase", "OrtNodeFusionOptions", "OrtNodeComputeInfo", "OrtEp", "OrtEpFactory",
    ]  # fmt: skip
    lines = own_offsets(tmp_path)
    assert "OrtApiBase GetVersionString 8" in lines
    assert len(lines) > 30


def test_numbers_differ_and_grow() -> None:
    for table in ("Api", "EpApi"):
        numbers = [int(number) for of, _, number in ENTRIES if of == table]
        assert numbers == sorted(set(numbers))


def test_the_header_has_the_same(tmp_path: Path) -> None:
    include = header_folder()
    if include is None:
        pytest.skip("needs onnxruntime's header: NNVK_ONNXRUNTIME_INCLUDE names its folder")
    slots = "".join(
        f'std::printf("{table} {name} %zu\\n", offsetof(Ort{table}, {name}) / sizeof(void*));\n'
        for table, name, _ in ENTRIES
    )
    names = {own: theirs for own, theirs, _ in STRUCTURES}
    source = f'#include "onnxruntime_c_api.h"\nint main() {{ {slots} {offsets("", names)} }}'
    found = printed(tmp_path, source, include)
    assert found == [f"{table} {name} {number}" for table, name, number in ENTRIES] + own_offsets(tmp_path)
