from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import spirv_reflect
from spirv_reflect import Block, PushConstant, SpecConstant, SpirvError, reflect

HEADER = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_KHR_shader_subgroup_arithmetic : require
"""

Compile = Callable[[str], bytes]


@pytest.fixture
def compile_glsl(tmp_path: Path) -> Compile:
    """Compiles the text of a compute shader."""
    glslang = shutil.which("glslangValidator")
    assert glslang, "these tests need glslangValidator"

    def compile_text(text: str) -> bytes:
        source, out = tmp_path / "shader.comp", tmp_path / "shader.spv"
        source.write_text(HEADER + text)
        subprocess.run([glslang, "-V", "--target-env", "vulkan1.1", "-o", str(out), str(source)], check=True)
        return out.read_bytes()

    return compile_text


def test_bindings(compile_glsl: Compile) -> None:
    module = reflect(
        compile_glsl("""
        layout(local_size_x = 1) in;
        layout(binding = 2) writeonly buffer Out { float o[]; };
        layout(binding = 0) readonly buffer In { float i[]; };
        layout(binding = 0) readonly buffer InVec { vec4 v[]; };
        layout(binding = 1) buffer Both { uint count; float b[]; };
        void main() { o[0] = v[0].x + i[0] + b[0]; b[0] = 1; }
        """)
    )
    assert {(b.name, b.binding, b.readonly, b.writeonly) for b in module.blocks} == {
        ("In", 0, True, False),
        ("InVec", 0, True, False),
        ("Both", 1, False, False),
        ("Out", 2, False, True),
    }
    assert [b.binding for b in module.blocks] == [0, 0, 1, 2]
    assert module.entry == "main"


def test_unused_binding_is_seen(compile_glsl: Compile) -> None:
    module = reflect(
        compile_glsl("""
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer A { uint a[]; };
        layout(binding = 1) buffer B { uint b[]; };
        void main() { a[0] = 1; }
        """)
    )
    assert module.blocks[1] == Block("B", 0, 1, False, False)


def test_push_constants(compile_glsl: Compile) -> None:
    module = reflect(
        compile_glsl("""
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer A { float a[]; };
        layout(push_constant) uniform Push { uint a_offset; int shift; layout(offset = 16) float scale; };
        void main() { a[a_offset] = scale * shift; }
        """)
    )
    assert module.push_constants == (
        PushConstant("a_offset", 0, "uint", 4),
        PushConstant("shift", 4, "int", 4),
        PushConstant("scale", 16, "float", 4),
    )
    assert module.push_constant_size == 20


def test_push_constants_are_scalars(compile_glsl: Compile) -> None:
    spirv = compile_glsl("""
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer A { float a[]; };
        layout(push_constant) uniform Push { vec4 colour; };
        void main() { a[0] = colour.x; }
        """)
    with pytest.raises(SpirvError, match="push constant colour"):
        reflect(spirv)


def test_specialisation_constants(compile_glsl: Compile) -> None:
    module = reflect(
        compile_glsl("""
        layout(local_size_x_id = 0, local_size_y = 4, local_size_z_id = 2) in;
        layout(constant_id = 3) const int TILE = -8;
        layout(constant_id = 4) const float SCALE = 0.5;
        layout(constant_id = 5) const bool RELU = true;
        layout(constant_id = 6) const uint COUNT = 4294967295u;
        layout(binding = 0) buffer A { float a[]; };
        void main() { a[0] = TILE * SCALE + (RELU ? COUNT : 0); }
        """)
    )
    assert module.spec_constants == (
        SpecConstant(0, "local_x", "uint", 1),
        SpecConstant(2, "local_z", "uint", 1),
        SpecConstant(3, "TILE", "int", -8),
        SpecConstant(4, "SCALE", "float", 0.5),
        SpecConstant(5, "RELU", "bool", True),
        SpecConstant(6, "COUNT", "uint", 4294967295),
    )
    assert module.local_size == (1, 4, 1)
    assert module.local_size_ids == (0, None, 2)


def test_fixed_local_size(compile_glsl: Compile) -> None:
    module = reflect(
        compile_glsl("""
        layout(local_size_x = 8, local_size_y = 4) in;
        layout(binding = 0) buffer A { float a[]; };
        void main() { a[0] = 1; }
        """)
    )
    assert (module.local_size, module.local_size_ids) == ((8, 4, 1), (None, None, None))


@pytest.mark.parametrize(
    ("declaration", "use", "size"),
    [
        ("shared float s[64];", "s[0]", 256),
        ("shared vec4 s[16]; shared uint t[3];", "s[0].x + t[0]", 268),
        ("const uint N = 4; shared float s[N][N + 1];", "s[0][0]", 80),
        ("layout(constant_id = 3) const int N = 6; shared float s[N * (N + 1)];", "s[0]", 168),
        ("struct Pair { float a; int b; }; shared Pair s[10];", "s[0].a", 80),
    ],
)
def test_shared_memory(compile_glsl: Compile, declaration: str, use: str, size: int) -> None:
    module = reflect(
        compile_glsl(f"""
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer A {{ float a[]; }};
        {declaration}
        void main() {{ a[0] = {use}; }}
        """)
    )
    assert module.shared_memory_bytes == size


@pytest.mark.parametrize(
    ("block", "use", "features"),
    [
        ("float a[];", "a[0] = 1;", set()),
        ("int8_t a[];", "a[0] = int8_t(1);", {"storageBuffer8BitAccess", "shaderInt8"}),
        ("float16_t a[];", "a[0] += float16_t(1);", {"storageBuffer16BitAccess", "shaderFloat16"}),
        ("float a[];", "a[0] = subgroupAdd(a[1]);", {"subgroupBasic", "subgroupArithmetic"}),
        ("int64_t a[];", "a[0] = 1;", {"shaderInt64"}),
    ],
)
def test_features(compile_glsl: Compile, block: str, use: str, features: set[str]) -> None:
    module = reflect(
        compile_glsl(f"""
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer A {{ {block} }};
        void main() {{ {use} }}
        """)
    )
    assert features <= set(module.features)
    assert bool(features) == bool(module.features)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are not"),
        (bytes(23), "23 bytes are not"),
        (bytes(20), "magic number"),
        (struct.pack("<6I", spirv_reflect.MAGIC, 0x10300, 0, 9, 0, 5 << 16), "malformed instruction"),
        (struct.pack("<5I", spirv_reflect.MAGIC, 0x10300, 0, 9, 0), "one compute entry point"),
    ],
)
def test_what_is_not_a_shader_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(SpirvError, match=message):
        reflect(data)


def test_unknown_capability_is_refused(compile_glsl: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    spirv = compile_glsl(
        "layout(local_size_x = 1) in; layout(binding = 0) buffer A { int64_t a[]; }; void main() { a[0] = 1; }"
    )
    known = {number: row for number, row in spirv_reflect.CAPABILITIES.items() if row[0] != "Int64"}
    monkeypatch.setattr(spirv_reflect, "CAPABILITIES", known)
    with pytest.raises(SpirvError, match="capability 11 has no known device feature"):
        reflect(spirv)
