"""The execution modes for floating-point numbers that modules get."""

from __future__ import annotations

from array import array

import pytest

from nnvk.driver.vulkan.shaders.float_controls import FLOAT_CONTROLS, declare_float_controls
from nnvk.driver.vulkan.shaders.spirv import CAPABILITY, ENTRY_POINT, EXECUTION_MODE, FUNCTION, instructions

SHADER, FLOAT16, COOPERATIVE_MATRICES, ROUNDING = 1, 9, 6022, 4467
PRESERVE_SIGNS, ROUND_TO_NEAREST, KEEP_SUBNORMALS = 4461, 4462, 4459


def module(*capabilities: int) -> bytes:
    """A module up to its only function, with these capabilities."""
    words = [0x07230203, 0x10300, 0, 2, 0]
    for capability in capabilities:
        words += [2 << 16 | CAPABILITY, capability]
    words += [5 << 16 | ENTRY_POINT, 5, 1, int.from_bytes(b"main", "little"), 0]
    words += [6 << 16 | EXECUTION_MODE, 1, 17, 1, 1, 1]
    words += [5 << 16 | FUNCTION, 1, 1, 0, 1]
    return array("I", words).tobytes()


def declared(spirv: bytes) -> tuple[list[int], list[tuple[int, int]]]:
    """The capabilities of a module, and its execution modes with their first operands."""
    words = array("I", spirv)
    found = list(instructions(words))
    capabilities = [words[at + 1] for at, opcode, _ in found if opcode == CAPABILITY]
    return capabilities, [(words[at + 2], words[at + 3]) for at, opcode, _ in found if opcode == EXECUTION_MODE]


@pytest.mark.parametrize(
    ("capabilities", "modes"),
    [
        ((SHADER,), {(PRESERVE_SIGNS, 32), (ROUND_TO_NEAREST, 32)}),
        (
            (SHADER, FLOAT16),
            {(PRESERVE_SIGNS, 32), (PRESERVE_SIGNS, 16), (ROUND_TO_NEAREST, 32), (KEEP_SUBNORMALS, 16)},
        ),
        ((SHADER, COOPERATIVE_MATRICES), {(PRESERVE_SIGNS, 32)}),
        (
            (SHADER, FLOAT16, COOPERATIVE_MATRICES),
            {(PRESERVE_SIGNS, 32), (PRESERVE_SIGNS, 16), (KEEP_SUBNORMALS, 16)},
        ),
    ],
    ids=["32 bits", "16 bits", "matrices", "matrices of 16 bits"],
)
def test_modes(capabilities: tuple[int, ...], modes: set[tuple[int, int]]) -> None:
    """Modules with cooperative matrices do not say how they round."""
    now, found = declared(declare_float_controls(module(*capabilities), FLOAT_CONTROLS))
    assert set(found) == {(17, 1), *modes}
    assert (ROUNDING in now) == ((ROUND_TO_NEAREST, 32) in modes)


def test_a_device_without_controls_gets_the_module_as_it_is() -> None:
    assert declare_float_controls(module(SHADER), ()) == module(SHADER)
