"""Frozen SPIR-V computes what the driver's own specialisation does, and nothing is left to specialise."""

from __future__ import annotations

import shutil
import subprocess
from array import array

import numpy as np
import pytest
from valid_spirv import HAS_VALIDATOR, check_valid

from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan import kernels as _kernels  # noqa: F401  (declares the shaders)
from nnvk.driver.vulkan.shaders.declaration import declared_shaders
from nnvk.driver.vulkan.shaders.float_controls import FLOAT_CONTROLS
from nnvk.driver.vulkan.shaders.freeze import freeze
from nnvk.driver.vulkan.shaders.library import ShaderLibrary

EXPRESSIONS = [
    "A + B", "A - B", "A * B", "A / B", "A % B", "-A", "~A", "A & B", "A | B", "A ^ B", "A << 3", "A >> 2",
    "int(U / 7u)", "int(U % 7u)", "int(U >> 3)", "int(U) * 2", "int(uint(A) + U)",
    "int(A < B)", "int(A <= B)", "int(A > B)", "int(A >= B)", "int(A == B)", "int(A != B)",
    "int(U < 9u)", "int(U <= 9u)", "int(U > 9u)", "int(U >= 9u)",
    "int(T && A > B)", "int(T || A > B)", "int(!T)", "T ? A : B", "int(T == (A > B))", "int(T != (A > B))",
    "int(gl_WorkGroupSize.x) * A", "(A > B ? A + 1 : B - 1) / 3",
]  # fmt: skip
GLSL = """#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int A = 5;
layout(constant_id = 2) const int B = 3;
layout(constant_id = 3) const uint U = 20u;
layout(constant_id = 4) const bool T = true;
layout(constant_id = 5) const float F = 1.5;
{constants}
layout(set = 0, binding = 0) buffer Dst {{ int dst[]; }};
void main() {{
    if (gl_LocalInvocationID.x > 0) return;
{stores}
    dst[{count}] = floatBitsToInt(F);
}}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    glslang = shutil.which("glslangValidator")
    if glslang is None:
        pytest.skip("there is no shader compiler")
    folder = tmp_path_factory.mktemp("freeze")
    constants = "\n".join(f"const int C{number} = {text};" for number, text in enumerate(EXPRESSIONS))
    stores = "\n".join(f"    dst[{number}] = C{number};" for number in range(len(EXPRESSIONS)))
    text = GLSL.format(constants=constants, stores=stores, count=len(EXPRESSIONS))
    (folder / "test.comp").write_text(text)
    done = subprocess.run(
        [glslang, "-V", "--target-env", "vulkan1.1", "-o", "test.spv", "test.comp"], cwd=folder, capture_output=True
    )
    assert done.returncode == 0, done.stdout
    return (folder / "test.spv").read_bytes()


def opcodes(spirv: bytes) -> list[int]:
    words, at, found = array("I", spirv), 5, []
    while at < len(words):
        found.append(words[at] & 0xFFFF)
        at += words[at] >> 16
    return found


def run(spirv: bytes, specialization: list[int]) -> np.ndarray:
    devices, reason = find_devices()
    if not devices:
        pytest.skip(reason)
    device = devices[0].gpu.native()
    buffer = device.create_buffer(4 * (len(EXPRESSIONS) + 1), host_visible=True)
    program = device.create_program()
    program.dispatch(device.create_algorithm(spirv, [buffer], specialization, 0), (1, 1, 1), b"")
    program.finish([], [])
    program.run([], [])
    return buffer.view().view(np.int32).copy()


@pytest.mark.parametrize(
    ("a", "b", "u", "t"),
    [(5, 3, 20, True), (-17, 5, 9, False), (7, -2, 2**32 - 1, True), (-8, -3, 0, False), (2**31 - 1, 2, 8, True)],
)
def test_constants_that_follow_from_others(module: bytes, a: int, b: int, u: int, t: bool) -> None:
    words = [4, a & 0xFFFFFFFF, b & 0xFFFFFFFF, u, int(t), int(np.float32(-2.5).view(np.uint32))]
    frozen = freeze(module, words)
    assert not {49, 50, 48, 52} & set(opcodes(frozen)), "OpSpecConstant..., OpSpecConstantOp"
    np.testing.assert_array_equal(run(frozen, []), run(module, words))


def test_constants_that_are_not_given_keep_their_defaults(module: bytes) -> None:
    np.testing.assert_array_equal(run(freeze(module, [1, 9]), []), run(module, [1, 9]))


@pytest.mark.skipif(not HAS_VALIDATOR, reason="the validator of the build is not installed")
@pytest.mark.parametrize(
    ("target", "features"),
    [("vulkan1.1", frozenset()), ("vulkan1.2", FLOAT_CONTROLS)],
    ids=["frozen", "float-controls"],
)
def test_all_variants_stay_valid(target: str, features: frozenset[str]) -> None:
    library = ShaderLibrary()
    for shader in declared_shaders():
        compiled_variants = (variant for variant in shader.variants if variant.name not in library.left_out)
        for variant in {variant.is_native: variant for variant in compiled_variants}.values():
            compiled = library[variant]
            frozen = compiled.frozen(compiled.specialization({}), features, unroll_loops=False)
            assert not {48, 49, 50} & set(opcodes(frozen)), compiled.name
            check_valid(frozen, target)
