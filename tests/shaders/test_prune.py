"""Pruned SPIR-V computes what the module does, without the code that constants leave out."""

from __future__ import annotations

import shutil
import subprocess
from array import array
from pathlib import Path

import numpy as np
import pytest
from valid_spirv import HAS_VALIDATOR, check_valid

from nnvk._native import Device
from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan.shaders.freeze import freeze
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.prune import prune
from nnvk.driver.vulkan.shaders.spirv import (
    BRANCH,
    BRANCH_CONDITIONAL,
    FUNCTION,
    LABEL,
    LOOP_MERGE,
    SWITCH,
    instructions,
)

GLSL = """#version 450
layout(local_size_x = 1) in;
layout(constant_id = 0) const uint KIND = 0u;
layout(set = 0, binding = 0) buffer Dst {{ int dst[]; }};
int twice(int x) {{ return 2 * x; }}
int thrice(int x) {{ return 3 * x; }}
int chosen(int x) {{ {chosen} }}
void main() {{
    dst[1] = chosen(dst[0]) + 7;
}}
"""
BODIES = {
    "if": "int y = x; if (KIND == 1u) y = twice(x); if (KIND == 2u) y = thrice(x); return y;",
    "else": "if (KIND == 1u) return twice(x); else if (KIND == 2u) return thrice(x); else return x;",
    "return": "if (KIND != 1u) return x; return twice(thrice(x));",
    "switch": "switch (KIND) { case 1u: return twice(x); case 2u: x = thrice(x); break; default: x += 9; } return x;",
    "and": "return KIND == 1u && x > 3 && twice(x) > 8 ? 5 : 6;",
    "or": "return (KIND == 1u || x > 3) || thrice(x) == 3 ? 5 : 6;",
    "break": "for (int i = 0; i < 5; ++i) { if (KIND == 1u) break; if (KIND == 2u) continue; x = twice(x); } return x;",
    "loop": "if (KIND == 1u) for (int i = 0; i < x; ++i) x -= thrice(i); return x;",
    "endless": "for (;;) { x = twice(x) + 1; if (KIND == 2u) return x; if (x > 90) break; } return thrice(x);",
    "nested": "if (KIND > 0u) { if (x > 3) { if (KIND == 2u) x = twice(x); else return 4; } else x = 1; } return x;",
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    glslang = shutil.which("glslangValidator")
    if glslang is None:
        pytest.skip("there is no shader compiler")
    folder = tmp_path_factory.mktemp("prune")
    return {name: _compile(glslang, folder, name) for name in BODIES}


def _compile(glslang: str, folder: Path, name: str) -> bytes:
    (folder / "test.comp").write_text(GLSL.format(chosen=BODIES[name]))
    command = [glslang, "-V", "--target-env", "vulkan1.1", "-o", "test.spv", "test.comp"]
    done = subprocess.run(command, cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stdout
    return (folder / "test.spv").read_bytes()


def count(spirv: bytes, *opcodes: int) -> int:
    return sum(opcode in opcodes for _, opcode, _ in instructions(array("I", spirv)))


@pytest.fixture(scope="module")
def device() -> Device:
    devices, reason = find_devices()
    if not devices:
        pytest.skip(reason)
    return devices[0].gpu.native()


def run(device: Device, spirv: bytes, x: int) -> int:
    buffer = device.create_buffer(8, host_visible=True)
    buffer.view().view(np.int32)[0] = x
    program = device.create_program()
    program.dispatch(device.create_algorithm(spirv, [buffer], [], 0), (1, 1, 1), b"")
    program.finish([], [])
    program.run([], [])
    return int(buffer.view().view(np.int32)[1])


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("name", BODIES)
def test_results_stay_the_same(device: Device, compiled: dict[str, bytes], name: str, kind: int) -> None:
    frozen = freeze(compiled[name], [kind])
    pruned = prune(frozen)
    if HAS_VALIDATOR:
        check_valid(pruned, "vulkan1.1")
    assert prune(pruned) == pruned
    for x in (0, 2, 5):
        assert run(device, pruned, x) == run(device, frozen, x)


@pytest.mark.parametrize(
    ("name", "kind", "functions", "branches", "loops"),
    [
        ("if", 0, 2, 0, 0),
        ("if", 2, 3, 0, 0),
        ("return", 0, 2, 0, 0),
        ("return", 1, 4, 0, 0),
        ("switch", 1, 3, 0, 0),
        ("switch", 3, 2, 0, 0),
        ("and", 0, 2, 0, 0),
        ("and", 1, 3, 1, 0),
        ("or", 1, 2, 0, 0),
        ("break", 1, 2, 1, 1),
        ("loop", 0, 2, 0, 0),
        ("loop", 1, 3, 1, 1),
    ],
)
def test_what_is_left(
    compiled: dict[str, bytes], name: str, kind: int, functions: int, branches: int, loops: int
) -> None:
    """`main` and `chosen` are always there."""
    pruned = prune(freeze(compiled[name], [kind]))
    assert count(pruned, FUNCTION) == functions
    assert count(pruned, BRANCH_CONDITIONAL, SWITCH) == branches
    assert count(pruned, LOOP_MERGE) == loops


def test_blocks_come_behind_those_that_branch_to_them() -> None:
    """Only the header of a loop has a branch back to it. `prune` goes through the blocks once, in their order."""
    library = ShaderLibrary()
    for name in library.variants:
        module = array("I", library.named(name).spirv)
        begun, headers, label = set(), set(), 0
        for at, opcode, end in instructions(module):
            if opcode == LABEL:
                label = module[at + 1]
                begun.add(label)
            elif opcode == LOOP_MERGE:
                headers.add(label)
            elif opcode in (BRANCH, BRANCH_CONDITIONAL, SWITCH):
                targets = module[at + 1 : end] if opcode == BRANCH else module[at + 2 : end]
                targets = targets[::2] if opcode == SWITCH else targets[:2]
                assert begun.isdisjoint(set(targets) - headers), name
