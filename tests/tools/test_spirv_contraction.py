"""NoContraction is on each floating-point operation of a module, and on nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from spirv_contraction import forbid_contraction

from nnvk.driver.vulkan.shaders.library import FOLDER

SOURCE = """#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Dst { float dst[]; };
layout(set = 0, binding = 1) buffer Steps { int steps[]; };
float sum_of_products(float a, float b, float c) { return a * b + c; }
void main() {
    precise float kept = dst[0] * dst[1];
    dst[2] = sum_of_products(dst[0], dst[1], -dst[3]) / fma(dst[4], kept, dst[5]);
    dst[3] = dot(vec2(dst[0], dst[1]), mat2(dst[4]) * vec2(dst[5]));
    steps[0] = steps[1] * steps[2] + int(dst[0] < max(dst[1], dst[2]));
}
"""
ARITHMETIC = ("OpFAdd", "OpFMul", "OpFDiv", "OpFNegate", "Fma", "OpDot", "OpMatrixTimesVector")


def disassembled(spirv: bytes, folder: Path) -> list[str]:
    if shutil.which("spirv-dis") is None:
        pytest.skip("there is no disassembler")
    (folder / "module.spv").write_bytes(spirv)
    done = subprocess.run(
        ["spirv-dis", "--raw-id", str(folder / "module.spv")], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def decorated_and_computed(lines: list[str]) -> tuple[set[str], set[str]]:
    """Results with NoContraction, and those of floating-point arithmetic."""
    words = [line.split() for line in lines]
    decorated = {line[1] for line in words if line[:1] == ["OpDecorate"] and "NoContraction" in line}
    computed = {line.split()[0] for line in lines if "= Op" in line and set(ARITHMETIC) & set(line.split())}
    return decorated, computed


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    glslang = shutil.which("glslangValidator")
    if glslang is None:
        pytest.skip("there is no shader compiler")
    folder = tmp_path_factory.mktemp("module")
    (folder / "test.comp").write_text(SOURCE)
    subprocess.run([glslang, "-V", "--target-env", "vulkan1.1", "-o", "test.spv", "test.comp"], cwd=folder, check=True)
    return (folder / "test.spv").read_bytes()


def test_what_precise_reaches_is_little(module: bytes, tmp_path: Path) -> None:
    decorated, computed = decorated_and_computed(disassembled(module, tmp_path))
    assert decorated < computed


def test_every_floating_point_operation_is_decorated(module: bytes, tmp_path: Path) -> None:
    lines = disassembled(forbid_contraction(module), tmp_path)
    decorated, computed = decorated_and_computed(lines)
    assert decorated == computed
    assert {word for line in lines for word in line.split() if word in ARITHMETIC} == set(ARITHMETIC)
    assert sum("NoContraction" in line for line in lines) == len(decorated), "each once"


def test_a_module_that_is_done_stays(module: bytes) -> None:
    done = forbid_contraction(module)
    assert forbid_contraction(done) == done


@pytest.mark.parametrize("name", ["fused_elementwise.f16.long", "unary.gelu.f32", "gemm.f32.shared.none.whole.plain"])
def test_the_shaders_are_made_so(name: str) -> None:
    spirv = (FOLDER / f"{name}.spv").read_bytes()
    assert forbid_contraction(spirv) == spirv
