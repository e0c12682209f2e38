"""The compiled shaders as the driver sees them."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import GPU

from nnvk.check.device import shaders_of
from nnvk.check.model_rows import parse
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.shaders.declaration import declared_shaders
from nnvk.driver.vulkan.shaders.library import FOLDER, CompiledShader, ShaderLibrary

ENTRY = {
    "bindings": [
        {"name": "src", "binding": 0, "readonly": True, "writeonly": False},
        {"name": "dst", "binding": 1, "readonly": False, "writeonly": True},
        {"name": "sum", "binding": 2, "readonly": False, "writeonly": False},
    ],
    "push_constants": [
        {"name": "count", "type": "uint", "offset": 0},
        {"name": "low", "type": "float", "offset": 8},
        {"name": "shift", "type": "int", "offset": 4},
    ],
    "push_constant_size": 12,
    "specialization": [
        {"id": 0, "name": "gl_WorkGroupSize_x", "type": "uint", "default": 1},
        {"id": 3, "name": "WIDE", "type": "bool", "default": False},
        {"id": 5, "name": "FACTOR", "type": "float", "default": 2.0},
    ],
    "local_size_ids": [0, None, None],
    "features": ["shaderInt64"],
    "shared_memory_bytes": None,
}


@pytest.fixture
def shader(tmp_path: Path) -> CompiledShader:
    (tmp_path / "test.spv").write_bytes(b"SPIR-V")
    return CompiledShader("test", ENTRY, tmp_path)


def test_bindings(shader: CompiledShader) -> None:
    assert shader.bindings == ("src", "dst", "sum")
    assert shader.reads == {"src", "sum"}
    assert shader.writes == {"dst", "sum"}
    assert shader.spirv == b"SPIR-V"
    assert shader.shared_memory_bytes == 0


def test_push_constants_are_packed_by_offset(shader: CompiledShader) -> None:
    block = shader.push_constants({"low": -1.5, "count": 7, "shift": -3})
    assert block == struct.pack("<Iif", 7, -3, -1.5)
    with pytest.raises(KeyError, match=r"missing \['shift'\], unknown \['left'\]"):
        shader.push_constants({"low": 0.0, "count": 7, "left": 3})
    with pytest.raises(ValueError, match="shader test: count = -1"):
        shader.push_constants({"low": 0.0, "count": -1, "shift": 0})


def test_specialisation_constants_have_defaults(shader: CompiledShader) -> None:
    two = struct.unpack("<I", struct.pack("<f", 2.0))[0]
    assert shader.specialization({}) == (1, 0, 0, 0, 0, two)
    assert shader.specialization({"local_x": 64, "WIDE": True}) == (64, 0, 0, 1, 0, two)
    with pytest.raises(KeyError, match=r"constants \['NARROW'\], only \['FACTOR', 'WIDE', 'local_x'\]"):
        shader.specialization({"NARROW": True})


def test_only_constants_that_default_to_0_may_be_0(tmp_path: Path) -> None:
    cases = [
        {"id": 1, "name": name, "type": "uint", "default": default} for name, default in (("MODE", 0), ("SIZE", 4))
    ]
    axis = {"id": 0, "name": "gl_WorkGroupSize_x", "type": "uint", "default": 1}
    (tmp_path / "test.spv").write_bytes(b"SPIR-V")
    mode, size = (CompiledShader("test", {**ENTRY, "specialization": [axis, case]}, tmp_path) for case in cases)
    assert mode.local_size((64, 0)) == (64, 1, 1)
    with pytest.raises(ValueError, match="shader test: SIZE = 0"):
        size.local_size((64, 0))


# --- libraries ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the compiled shaders."""
    return Path(shutil.copytree(FOLDER, tmp_path / "spirv"))


def without(folder: Path, *names: str, left_out: dict[str, str]) -> ShaderLibrary:
    """The library of a build that has not compiled these variants."""
    manifest = folder / "manifest.jsonl"
    first, *lines = manifest.read_text().splitlines()
    document = json.loads(first)
    entries = dict(zip(document["variants"], lines, strict=True))
    for name in names:
        del entries[name]
        (folder / f"{name}.spv").unlink()
    document |= {"variants": list(entries), "left_out": document["left_out"] | left_out}
    manifest.write_text("\n".join([json.dumps(document), *entries.values()]))
    return ShaderLibrary(folder)


def shader_named(name: str) -> object:
    return next(shader for shader in declared_shaders() if shader.name == name)


def test_every_declared_variant_is_there() -> None:
    library = ShaderLibrary()
    for shader in declared_shaders():
        assert library.refuse(shader, library.features) is None
        for variant in shader.variants:
            if variant.name in library.left_out:
                assert variant.needs is not None
            else:
                assert library[variant].spirv[:4] == struct.pack("<I", 0x07230203)


def test_the_digest_is_of_the_manifest(folder: Path) -> None:
    assert ShaderLibrary(folder).digest == ShaderLibrary().digest
    manifest = folder / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes().replace(b"{", b"{ ", 1))
    assert ShaderLibrary(folder).digest != ShaderLibrary().digest


def test_shaders_are_refused_by_features() -> None:
    library, gemm = ShaderLibrary(), shader_named("gemm")
    assert library.refuse(gemm, frozenset()) is None, "one of its variants needs none"  # type: ignore[arg-type]
    assert "subgroupShuffle" in library.features


def test_a_variant_that_is_not_compiled_refuses_its_shader(folder: Path) -> None:
    (folder / "fill.spv").unlink()
    library = ShaderLibrary(folder)
    reason = "shader fill is not compiled; run tools/compile_shaders.py"
    assert library.refuse(shader_named("fill"), frozenset()) == reason  # type: ignore[arg-type]
    library = without(folder, "lookup", left_out={})
    reason = library.refuse(shader_named("lookup"), frozenset())  # type: ignore[arg-type]
    assert reason is not None and "shader lookup is not compiled" in reason
    with pytest.raises(KeyError, match="shader variant lookup is not compiled"):
        library.named("lookup")


def test_without_a_manifest_there_is_no_library(folder: Path) -> None:
    (folder / "manifest.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        ShaderLibrary(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"variants": 3}', b'{"variants": ["a"]}', b"\xff"])
def test_a_broken_manifest_is_an_error(folder: Path, content: bytes) -> None:
    (folder / "manifest.jsonl").write_bytes(content)
    with pytest.raises(ValueError):
        ShaderLibrary(folder)


def test_numbers_beyond_float32_are_its_largest(shader: CompiledShader) -> None:
    numbers = {"count": 0, "shift": 0}
    for value, packed in (
        (1e39, 3.4028234663852886e38),
        (-1e300, -3.4028234663852886e38),
        (float("inf"), float("inf")),
    ):
        assert shader.push_constants({"low": value, **numbers}) == struct.pack("<Iif", 0, 0, packed)


@pytest.mark.parametrize("text", ["FULLY_CONNECTED f32[8,64] #f32[64,64] #f32[64] NONE", "SOFTMAX f32[3,64] 1.0f"])
def test_a_variant_that_the_build_left_out_is_not_chosen(folder: Path, text: str) -> None:
    row, whole = parse(text), ShaderLibrary()
    profile = replace(GPU, features=whole.features)
    name, *_ = shaders_of(Planner(profile, whole, "test"), row)
    lacking = without(folder, name, left_out={name: f"{name} needs GL_A"})
    planner = Planner(profile, lacking, "test")
    assert planner.support(row.model) == [None]
    assert name not in shaders_of(planner, row)


def test_a_shader_without_any_variant_refuses_its_operations(folder: Path) -> None:
    library = without(folder, "lookup", left_out={"lookup": "lookup needs GL_A"})
    reason = library.refuse(shader_named("lookup"), library.features)  # type: ignore[arg-type]
    assert reason == "shader lookup was left out of the build: lookup needs GL_A"
