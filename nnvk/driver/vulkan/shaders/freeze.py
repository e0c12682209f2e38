"""SPIR-V with its specialisation constants frozen and folded.

Drivers get modules with plain constants. Some drivers neither unroll loops whose bounds follow from specialisation
constants nor keep arrays of such sizes in registers (SwiftShader takes up to ten times as long), and every driver has
less to compile. The module does the same as ``spirv-opt --set-spec-const-default-value --freeze-spec-const
--fold-spec-const-op-composite``, for the constants that glslang emits for nnvk's shaders: 32 bits and truth values. It
takes 2 ms for 80 KB, and a process of spirv-opt 55 ms; the shared library of SPIRV-Tools can't. SPIR-V specification,
sections 2.3 and 3.32.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from nnvk.driver.vulkan.shaders.spirv import (
    COMPOSITE,
    COMPOSITE_EXTRACT,
    CONSTANT,
    DECORATE,
    FALSE,
    FUNCTION,
    HEADER_WORDS,
    NULL,
    SPEC_COMPOSITE,
    SPEC_CONSTANT,
    SPEC_FALSE,
    SPEC_OP,
    SPEC_TRUE,
    TRUE,
    TYPE_BOOL,
    fold,
    instructions,
)

_SPEC_ID = 1

Words = Sequence[int]


def freeze(spirv: bytes, specialization: Words) -> bytes:
    """The module with the 32-bit value ``specialization[i]`` instead of the specialisation constant with id i.

    Instructions on these constants are folded too if their operands are words and truth values. Other instructions
    remain, with frozen constants.
    """
    module = array("I", spirv)
    frozen = array("I", module[:HEADER_WORDS])
    spec_ids: dict[int, int] = {}
    bools: set[int] = set()
    words: dict[int, int] = {}
    composites: dict[int, Words] = {}
    for at, opcode, end in instructions(module):
        if opcode == FUNCTION:
            frozen.extend(module[at:])
            break
        length, instruction = end - at, module[at:end]
        if opcode == DECORATE and instruction[2] == _SPEC_ID:
            spec_ids[instruction[1]] = instruction[3]
            continue
        if opcode == TYPE_BOOL:
            bools.add(instruction[1])
        elif opcode in (TRUE, FALSE, CONSTANT, NULL) and length <= 4:
            words[instruction[2]] = instruction[3] if opcode == CONSTANT else int(opcode == TRUE)
        elif opcode in (SPEC_TRUE, SPEC_FALSE, SPEC_CONSTANT):
            default = instruction[3] if opcode == SPEC_CONSTANT else int(opcode == SPEC_TRUE)
            spec_id = spec_ids.get(instruction[2])
            value = default if spec_id is None or spec_id >= len(specialization) else specialization[spec_id]
            instruction = _constant(instruction, value, bools, words)
        elif opcode in (COMPOSITE, SPEC_COMPOSITE):
            composites[instruction[2]] = instruction[3:]
            instruction[0] = length << 16 | COMPOSITE
        elif opcode == SPEC_OP:
            result = _folded(instruction[3], instruction[4:], words, composites)
            if result is not None:
                instruction = _constant(instruction, result, bools, words)
        frozen.extend(instruction)
    return frozen.tobytes()


def _constant(instruction: Words, value: int, bools: set[int], words: dict[int, int]) -> array[int]:
    """OpConstant, OpConstantTrue or OpConstantFalse with the type and id of an instruction."""
    type_, result = instruction[1], instruction[2]
    words[result] = int(bool(value)) if type_ in bools else value & 0xFFFFFFFF
    if type_ in bools:
        return array("I", (3 << 16 | (TRUE if value else FALSE), type_, result))
    return array("I", (4 << 16 | CONSTANT, type_, result, words[result]))


def _folded(opcode: int, operands: Words, words: Mapping[int, int], composites: Mapping[int, Words]) -> int | None:
    """The result of an OpSpecConstantOp; None where it has unknown words, or is not defined."""
    if opcode == COMPOSITE_EXTRACT and len(operands) == 2 and operands[0] in composites:
        return words.get(composites[operands[0]][operands[1]])
    if any(operand not in words for operand in operands):
        return None
    return fold(opcode, [words[operand] for operand in operands])
